package modelfit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/modelview"
	"github.com/geodither/geodither/mechanism/evaluation/fit"
)

// Print prints what was found, and writes the files that the options ask for. What cannot be
// written is printed all the same.
func (r Result) Print(o Options, std cli.Streams) error {
	if r.Skips.Total > 0 {
		fmt.Fprintln(std.Err, &r.Skips)
	}
	if r.Selection != nil {
		return printSelection(std.Out, *r.Selection, o.Release.Delta)
	}
	var text strings.Builder
	modelview.PrintFit(&text, r.Fit, fit.Verdict(*r.Fit))
	_, err := io.WriteString(std.Out, text.String())
	if err = errors.Join(err, r.write(o)); err != nil && o.Write {
		err = fmt.Errorf("%w (the fit is in the model's file all the same: \"geodither model "+
			"inspect\" prints it)", err)
	}
	return err
}

// write writes the report and the plot: figures over all users, and nothing else.
func (r Result) write(o Options) error {
	if o.JSON != "" {
		data, err := json.MarshalIndent(r.Fit, "", "  ")
		if err != nil {
			return err
		}
		if err := files.WriteWhole(o.JSON, append(data, '\n')); err != nil {
			return err
		}
	}
	if o.Plot == "" {
		return nil
	}
	return modelview.PlotFit(r.Fit, o.Plot)
}

// printSelection prints the table of candidates, and the flag of the chosen one.
func printSelection(out io.Writer, s fit.Selection, delta float64) error {
	var b strings.Builder
	fmt.Fprintf(&b,
		"candidates, each measured on users that its models were not trained on (δ = %g):\n"+
			"  radius backoff user cap   jumps   ln prior        behind   drift   |ΔX|  estimate\n",
		delta)
	for _, c := range s.Candidates {
		mark := " "
		if c.Chosen {
			mark = "*"
		}
		o := c.Options
		fmt.Fprintf(&b, "%s %6d %7g %8d %7.4f %10.3f %6.3f ±%.3f %7.4f %6.0f %6.2f km\n",
			mark, o.KernelRadius, o.Backoff, o.UserCap, max(o.Jumps, 0), c.LogPrior, c.Behind,
			c.Error, c.Drift, c.SetMean,
			c.EstimateM/1000)
	}
	chosen := gather.SmoothingOf(s.Options)
	fmt.Fprintf(&b, "--smoothing %s\n", chosen.String())
	_, err := io.WriteString(out, b.String())
	return err
}
