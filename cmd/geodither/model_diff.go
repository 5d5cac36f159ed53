package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/modelview"
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
under B by the mechanism lattice, and drift, location sets and errors are compared. If B drifts
far more than A, it does not know how A's vehicles move. That counts for codebook too, which has
no location set to drift from, but the same filter.

The exit code is diff's: 0 if they are the same model (the same id, whatever their files and
provenance), 1 if they differ, 2 if one cannot be read.`,
		Example: `  geodither model diff old.avro new.avro
  geodither model diff --delta 0.3 --epsilon 4 --json old.avro new.avro`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name two model files, as in %q",
					strings.TrimSpace(cli.FirstLine(cmd.Example)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args, std) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	flags.Float64Var(&f.compare.Release.Epsilon, "epsilon", 1, "ε of the simulated releases")
	flags.Float64Var(&f.compare.Release.Delta, "delta", .01, "δ of the simulated releases")
	return cmd
}

func (f *diffFlags) run(cmd *cobra.Command, paths []string, std cli.Streams) error {
	f.compare.Tracks, f.compare.Steps, f.compare.Cells, f.compare.Seed = 60, 60, 10, 1
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
	s, err := modelview.DiffOf(models[0], models[1], f.compare)
	if err != nil {
		return err
	}
	bar.Done()
	if f.json {
		err = json.NewEncoder(std.Out).Encode(s)
	} else {
		err = s.Print(std.Out)
	}
	if err == nil && !s.Same {
		return errDiffer
	}
	return err
}
