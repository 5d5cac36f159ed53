package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/evaluation/compare"
	"github.com/geodither/geodither/mechanism/mobility"
)

type diffFlags struct {
	json    bool
	compare compare.Options
}

// errDiffer makes the exit code of a comparison that found a difference.
var errDiffer = errors.New("the models differ")

func newModelDiff(std cli.Streams) *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say how far a model is from another one",
		Long: `Say how far model B is from model A: by how much their initial distributions and their rows
differ (total variation, 0 to 1, rows weighted by how popular their cells are), in which
cells most, and what that does: tracks that are simulated from A are released under A and
under B, and drift, location sets and errors are compared. If B drifts far more than A, it
does not know how A's vehicles move.

The exit code is diff's: 0 if they are the same model (the same id, whatever their files and
provenance), 1 if they differ, 2 if one cannot be read.`,
		Example: `  geodither model diff old.avro new.avro
  geodither model diff --delta 0.3 --epsilon 4 --json old.avro new.avro`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name two model files, as in %q", strings.TrimSpace(cli.FirstLine(cmd.Example)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args, std) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	flags.Float64Var(&f.compare.Release.Epsilon, "epsilon", 1, "ε of the simulated releases")
	flags.Float64Var(&f.compare.Release.Delta, "delta", .01, "δ of the simulated releases")
	flags.IntVar(&f.compare.Tracks, "tracks", 60, "simulate this many tracks; 0: none")
	flags.IntVar(&f.compare.Steps, "steps", 60, "steps of each simulated track")
	flags.IntVar(&f.compare.Cells, "cells", 10, "name this many cells in which they differ most")
	flags.Uint64Var(&f.compare.Seed, "seed", 1, "seed of the simulation")
	return cmd
}

// diffSummary is what "model diff" prints.
type diffSummary struct {
	A          string              `json:"a"` // ids
	B          string              `json:"b"`
	Same       bool                `json:"same"`
	Comparable bool                `json:"comparable"` // the same grid and step
	Reason     string              `json:"reason,omitempty"`
	Changes    []string            `json:"changes,omitempty"` // of what the files say of themselves, in words
	Comparison *compare.Comparison `json:"comparison,omitempty"`
}

func (f *diffFlags) run(cmd *cobra.Command, paths []string, std cli.Streams) error {
	if f.compare.Tracks < 0 || f.compare.Steps < 1 || f.compare.Cells < 1 {
		return cli.Usagef("--steps and --cells must be at least 1, and --tracks not negative")
	}
	if f.compare.Tracks == 0 {
		f.compare.Tracks = -1
	}
	if err := f.compare.Release.Validate(); err != nil {
		return cli.Usage(err)
	}
	var models [2]*mobility.Model
	for i, path := range paths {
		var err error
		if models[i], err = mobility.ReadModelFile(path); err != nil {
			return cli.Usage(err) // 2, as diff has it
		}
	}
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()
	bar.Phase("simulating", nil)
	f.compare.Workers = runtime.GOMAXPROCS(0)
	f.compare.Progress = func(done, total int64) error {
		bar.Count(done, total, "")
		return cmd.Context().Err()
	}
	s, err := diffOf(models[0], models[1], f.compare)
	if err != nil {
		return err
	}
	bar.Done()
	if f.json {
		err = json.NewEncoder(std.Out).Encode(s)
	} else {
		err = s.print(std.Out)
	}
	if err == nil && !s.Same {
		return errDiffer
	}
	return err
}

func diffOf(a, b *mobility.Model, o compare.Options) (s diffSummary, err error) {
	s = diffSummary{A: a.ID(), B: b.ID(), Same: a.ID() == b.ID(), Comparable: true, Changes: changes(a, b)}
	if s.Same {
		return s, nil
	}
	s.Comparison, err = compare.Models(a, b, o)
	if errors.Is(err, compare.ErrOtherMap) {
		s.Comparable, s.Reason, err = false, strings.TrimPrefix(err.Error(), "evaluation: "), nil
	}
	return s, err
}

// changes says in what the models differ beside their probabilities.
func changes(a, b *mobility.Model) (list []string) {
	differ := func(what string, before, after any) {
		if x, y := fmt.Sprint(before), fmt.Sprint(after); x != y {
			list = append(list, fmt.Sprintf("%s: %s, then %s", what, x, y))
		}
	}
	differ("calendar", a.Calendar, b.Calendar)
	differ("transitions", a.Transitions(), b.Transitions())
	differ("source", a.Provenance.Source, b.Provenance.Source)
	differ("made by", a.Provenance.Tool, b.Provenance.Tool)
	differ("users", a.Provenance.Report.Users, b.Provenance.Report.Users)
	differ("fixes", a.Provenance.Report.Fixes, b.Provenance.Report.Fixes)
	differ("privacy", privacyWord(a.Provenance.Privacy), privacyWord(b.Provenance.Privacy))
	before, after := parameters(a.Provenance.Options), parameters(b.Provenance.Options)
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		differ("option "+name, cmp.Or(before[name], "none"), cmp.Or(after[name], "none"))
	}
	return list
}

func privacyWord(p *mobility.Privacy) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("ε = %s for %d transitions of a user", p.Epsilon, p.Contribution)
}

func (s diffSummary) print(out io.Writer) error {
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

func printComparison(b *strings.Builder, c *compare.Comparison) {
	fmt.Fprintf(b, "initial      total variation %.3f\n", c.Initial)
	fmt.Fprintf(b, "rows         total variation %.3f on average by popularity, %.3f at most; %d rows differ\n", c.RowMean, c.RowWorst, c.Rows)
	if len(c.Cells) > 0 {
		b.WriteString("             cell     centre               variation  popularity  share of the difference\n")
	}
	for _, d := range c.Cells {
		fmt.Fprintf(b, "             %-7d  %9.5f, %9.5f  %9.3f  %10.5f  %.1f %%\n", d.Cell, d.Lat, d.Lon, d.TV, d.Popularity, 100*d.Share)
	}
	if c.AofA == nil {
		return
	}
	fmt.Fprintf(b, "filter       tracks simulated from the first, ε = %g, δ = %g a step\n", c.Epsilon, c.Delta)
	b.WriteString("             under        drift (95 % interval)      |ΔX|  estimate      blind\n")
	for _, run := range []struct {
		name string
		run  *compare.Run
	}{{"the first", c.AofA}, {"the second", c.BofA}} {
		fmt.Fprintf(b, "             %-10s  %.4f (%.4f to %.4f)  %8.1f  %8s   %8s\n", run.name, run.run.Drift, run.run.DriftLow, run.run.DriftHigh, run.run.SetMean,
			cli.Metres(run.run.Estimate), cli.Metres(run.run.Blind))
	}
	fmt.Fprintf(b, "verdict      %s\n", comparisonVerdict(c))
}

// comparisonVerdict says what a difference does to releases.
func comparisonVerdict(c *compare.Comparison) string {
	sets := c.BofA.SetMean / max(c.AofA.SetMean, 1)
	switch {
	case c.BofA.Drift > 1.5*c.Delta && c.BofA.DriftLow > c.AofA.DriftHigh:
		return fmt.Sprintf("the second does not know how the first's vehicles move: drift %.3f instead of %.3f, |ΔX| × %.2f", c.BofA.Drift, c.AofA.Drift, sets)
	case sets > 1.25:
		return fmt.Sprintf("the second holds more possible: |ΔX| × %.2f, at the same drift", sets)
	case sets < .8:
		return fmt.Sprintf("the second is surer, and rightly: |ΔX| × %.2f, at the same drift", sets)
	}
	return fmt.Sprintf("for releases they are about the same: |ΔX| × %.2f, drift %.3f and %.3f", sets, c.AofA.Drift, c.BofA.Drift)
}
