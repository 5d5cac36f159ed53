package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	serviceaudit "github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/cmd/internal/cli"
)

// service returns the settings that are audited. It leaves the key and users' own models alone.
func (f *auditFlags) service(flags *pflag.FlagSet) (s serviceaudit.Settings, err error) {
	c, err := f.settings.File(flags)
	if err != nil {
		return s, err
	}
	if f.model != "" {
		c.Model, c.Models = f.model, ""
	}
	if c.Model == "" && c.Models == "" {
		return s, cli.Usagef("name a config with -c, or a model with --model")
	}
	c.Personal = ""
	chosen, err := c.Chosen()
	if err != nil {
		return s, f.settings.FileError(err)
	}
	s = serviceaudit.Settings{
		Model: chosen.Model, Publish: c.Publish.Options(), Input: c.Input.Options(),
		Encoding: c.Encoding.Sanitized,
	}
	s.Release, err = c.Release.Options(s.Model)
	return s, f.settings.Error(errors.Join(err, s.Release.Validate(), s.Publish.Validate(), s.Input.Validate()))
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
