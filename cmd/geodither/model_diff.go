package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// modelDiff is how far one model is from another one.
type modelDiff struct {
	A          string            `json:"a"` // ids
	B          string            `json:"b"`
	Same       bool              `json:"same"`
	Comparable bool              `json:"comparable"` // the same grid and step
	Reason     string            `json:"reason,omitempty"`
	Changes    []string          `json:"changes,omitempty"` // in what the files say of themselves
	Comparison *trial.Comparison `json:"comparison,omitempty"`
}

// diffModels compares two models. Models of different maps or steps are not comparable, which is no
// error. progress may end the comparison.
func diffModels(
	a, b *mobility.Model, progress func(done, total int64) error,
) (s modelDiff, err error) {
	s = modelDiff{
		A: a.ID(), B: b.ID(), Same: a.ID() == b.ID(), Comparable: true, Changes: modelChanges(a, b),
	}
	if s.Same {
		return s, nil
	}
	s.Comparison, err = trial.CompareModels(a, b, trial.FitOptions{
		Seed: fitSeed, Workers: runtime.GOMAXPROCS(0), Progress: progress,
	})
	if errors.Is(err, trial.ErrOtherMap) {
		s.Comparable, s.Reason, err = false, err.Error(), nil
	}
	return s, err
}

// modelChanges says in what the models differ besides their probabilities.
func modelChanges(a, b *mobility.Model) (list []string) {
	differ := func(what string, before, after any) {
		if x, y := fmt.Sprint(before), fmt.Sprint(after); x != y {
			list = append(list, fmt.Sprintf("%s: %s, then %s", what, x, y))
		}
	}
	differ("calendar", a.Calendar, b.Calendar)
	differ("transitions", a.Transitions(), b.Transitions())
	differ("law of gaps", gapsWord(a.Gaps), gapsWord(b.Gaps))
	differ("source", a.Provenance.Source, b.Provenance.Source)
	differ("made by", a.Provenance.Tool, b.Provenance.Tool)
	differ("users", a.Provenance.Report.Users, b.Provenance.Report.Users)
	differ("fixes", a.Provenance.Report.Fixes, b.Provenance.Report.Fixes)
	differ("privacy", privacyWord(a.Provenance.Privacy), privacyWord(b.Provenance.Privacy))
	differ("options", a.Provenance.Options, b.Provenance.Options)
	return list
}

func privacyWord(p *mobility.Privacy) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("ε = %s for %d transitions of a user", p.Epsilon, p.Contribution)
}

// Print prints the comparison for a person.
func (s modelDiff) Print(out io.Writer) error {
	var b strings.Builder
	if s.Same {
		fmt.Fprintf(&b, "the same model, %s\n", s.A)
	} else {
		fmt.Fprintf(&b, "models       %s and %s\n", s.A, s.B)
	}
	for _, change := range s.Changes {
		fmt.Fprintf(&b, "             %s\n", change)
	}
	if !s.Comparable {
		fmt.Fprintf(&b, "             %s\n", s.Reason)
	}
	if c := s.Comparison; c != nil {
		printComparison(&b, c)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func printComparison(b *strings.Builder, c *trial.Comparison) {
	fmt.Fprintf(b, `initial      total variation %.3f
rows         total variation %.3f on average by popularity, %.3f at most; %d rows differ
`, c.Initial, c.RowMean, c.RowWorst, c.Rows)
	fmt.Fprintf(b, "filter       tracks simulated from the first, ε = %g, δ = %g a step\n",
		c.Epsilon, c.Delta)
	runs := report.Table{Columns: []string{"under", "drift, 95 %", "|ΔX|", "estimate", "blind"}}
	for _, run := range []struct {
		name string
		trial.FilterRun
	}{{"the first", c.AofA}, {"the second", c.BofA}} {
		runs.Add(run.name, report.Band{Value: run.Drift, Low: run.DriftLow, High: run.DriftHigh},
			run.SetMean, cli.Metres(run.Estimate), cli.Metres(run.Blind))
	}
	printTable(b, &runs)
	fmt.Fprintf(b, "verdict      %s\n", comparisonVerdict(c))
}

// printTable prints a table below the column of names.
func printTable(b *strings.Builder, t *report.Table) {
	var text strings.Builder
	_ = t.Text(&text) // a builder has no errors
	for line := range strings.Lines(text.String()) {
		fmt.Fprintf(b, "%13s%s", "", line)
	}
}

// comparisonVerdict says what a difference does to releases.
func comparisonVerdict(c *trial.Comparison) string {
	sets := c.BofA.SetMean / max(c.AofA.SetMean, 1)
	switch {
	case c.BofA.Drift > 1.5*c.Delta && c.BofA.DriftLow > c.AofA.DriftHigh:
		return fmt.Sprintf("the second does not know how the first's vehicles move: drift %.3f "+
			"instead of %.3f, |ΔX| × %.2f", c.BofA.Drift, c.AofA.Drift, sets)
	case sets > 1.25:
		return fmt.Sprintf("the second holds more possible: |ΔX| × %.2f, at the same drift", sets)
	case sets < .8:
		return fmt.Sprintf("the second is surer, and rightly: |ΔX| × %.2f, at the same drift", sets)
	}
	return fmt.Sprintf("for releases they are about the same: |ΔX| × %.2f, drift %.3f and %.3f",
		sets, c.AofA.Drift, c.BofA.Drift)
}
