package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/modelview"
	"github.com/geodither/geodither/mechanism"
)

type validateFlags struct {
	json   bool
	strict bool
	delta  float64
}

func newModelValidate(std cli.Streams) *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Say what makes a model unusable or suspicious, and what to do",
		Long: `Check model files. A file is unusable if any of it is damaged or its rows are not
distributions: nothing accepts it. It is suspicious if releases under it will probably
disappoint: cells that cannot be left or reached or where nobody can start, rows that are
too sure of themselves, a step that does not suit the cells, pruning that costs more than
the δ in use, drift above δ on users held out, or a model learned from a few people. Notes
are worth knowing.

The exit code is 0 if every file is usable, 1 if one is not, or with --strict if one is
suspicious.`,
		Example: `  geodither model validate model.avro
  geodither model validate --strict --delta 0.3 models/*.avro`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name the model files to check")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return f.run(args, std) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print a JSON object for each file")
	flags.BoolVar(&f.strict, "strict", false, "fail for suspicious models too")
	flags.Float64Var(&f.delta, "delta", .01, "the δ that releases will have")
	return cmd
}

func (f *validateFlags) run(paths []string, std cli.Streams) error {
	if err := mechanism.ValidateDelta(f.delta); err != nil {
		return cli.Usage(err)
	}
	count := map[string]int{}
	for _, path := range paths {
		v := modelview.Validate(path, f.delta)
		count[v.Verdict]++
		var err error
		if f.json {
			err = json.NewEncoder(std.Out).Encode(v)
		} else {
			err = v.Print(std.Out)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case count[modelview.Unusable] > 0:
		return fmt.Errorf("%d of %d files are unusable", count[modelview.Unusable], len(paths))
	case f.strict && count[modelview.Suspicious] > 0:
		return fmt.Errorf("%d of %d files are suspicious", count[modelview.Suspicious], len(paths))
	}
	return nil
}
