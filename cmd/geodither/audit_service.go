package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"

	serviceaudit "github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/mechanism/mobility"
)

// auditSettings are the flags that a config takes the place of.
var auditSettings = []string{"model", "mechanism", "epsilon", "delta", "subdivision", "min-cells", "min-radius"}

// service returns the settings that are audited: those of a config, or those of the flags.
func (f *auditFlags) service() (serviceaudit.Settings, error) {
	if f.config != "" {
		return f.ofConfig()
	}
	if f.model == "" {
		return serviceaudit.Settings{}, cli.Usagef("name a config with -c, or a model with --model")
	}
	var err error
	f.release.MinRadiusKM, err = cli.Kilometres("--min-radius", f.minRadius)
	if err := errors.Join(f.release.Validate(), err); err != nil {
		return serviceaudit.Settings{}, cli.Usage(err)
	}
	model, err := mobility.ReadModelFile(f.model)
	return serviceaudit.Settings{Model: model, Release: f.release}, err
}

// ofConfig reads what an audit needs of a service's config. It leaves the key alone.
func (f *auditFlags) ofConfig() (serviceaudit.Settings, error) {
	file, err := config.Read(f.config)
	if err != nil {
		return serviceaudit.Settings{}, cli.Usagef("config %s: %w", f.config, err)
	}
	chosen, err := config.Models{Model: file.Model, Models: file.Models}.Read()
	if err != nil {
		return serviceaudit.Settings{}, cli.Usagef("config %s: %w", f.config, err)
	}
	s := serviceaudit.Settings{
		Model: chosen.Model, Publish: file.Publish.Options(),
		Input:    pipeline.Input{Outside: file.Input.Outside, Late: file.Input.Late},
		Encoding: file.Encoding.Sanitized,
	}
	if s.Release, err = file.Release.Options(s.Model); err == nil {
		err = errors.Join(s.Release.Validate(), s.Publish.Validate(), s.Input.Validate())
	}
	if err != nil {
		return s, cli.Usagef("config %s: %w", f.config, err)
	}
	return s, nil
}

// attackService audits the code that "run" and "sanitize" use.
func (f *auditFlags) attackService(ctx context.Context, s serviceaudit.Settings, std cli.Streams) (*serviceaudit.Report, error) {
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()
	return serviceaudit.Run(serviceaudit.Engine, s, serviceaudit.Options{
		Sizes: serviceaudit.SizesFor(int64(f.draws)), Seed: f.seed, Confidence: halfOf(f.confidence),
		Workers: runtime.GOMAXPROCS(0), Progress: bar.Reporter(ctx, "records"),
	})
}

// serviceFindings are the failed checks, in words.
func serviceFindings(r *serviceaudit.Report) []string {
	var findings []string
	for _, c := range r.Checks {
		if c.Failures > 0 {
			findings = append(findings, fmt.Sprintf("the service fails the check %q, %d times in %d trials: %s",
				c.Name, c.Failures, c.Trials, strings.Join(c.Details, "; ")))
		}
	}
	return findings
}

// printService prints one line a check: what was looked at, and what that would have found.
func printService(out io.Writer, r *serviceaudit.Report, epsilon float64) error {
	fmt.Fprintf(out, "\nservice      %d raw records were fed to the code that \"run\" and \"sanitize\" use; "+
		"%d statistical tests, all together at confidence %.6g\n", r.Records, r.Tests, r.Confidence)
	fmt.Fprintf(out, "true ε       at least %.4f with confidence %.6g, from %d right guesses and %d wrong ones "+
		"at these records; stated is %g\n\n",
		r.Bound, r.AttackConfidence, r.Hits, r.Misses, epsilon)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		verdict := "passed"
		if c.Failures > 0 {
			verdict = "FAILED"
		}
		fmt.Fprintf(table, "%s\t%s\t%d trials\t%s\n", c.Name, verdict, c.Trials, c.Says)
		fmt.Fprintf(table, "\t\t\twould find: %s\n", c.Power)
	}
	return table.Flush()
}
