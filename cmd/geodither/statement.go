package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/statement"
)

func newStatement(std cli.Streams) *cobra.Command {
	var (
		config, format, diff string
		audits               []string
		simulate             bool
	)
	cmd := &cobra.Command{
		Use:   "statement -c FILE",
		Short: "State what a service guarantees and what not, for those who approve it",
		Long: `State in plain words and numbers what a service guarantees to the people whose fixes it releases,
and what it does not: the privacy unit, ε and the budget, the mechanism and its proof, what is not
protected, the key, retention and erasure. Everything follows from the config, the model and this
program, so make the statement again whenever one of them changes. It connects to nothing and
prints no secret. It needs the model, and works without the key.

  yaml  a data sheet in the fields of OpenDP's deployments registry. What geodither cannot know
        is null, with a comment that says who knows
  md    text blocks for a data protection impact assessment: description, necessity, risks,
        measures, and what is to be filled in

--audit adds what an attack has measured: a report of "geodither audit -c FILE --json" on the same
model and settings. --simulate adds the error to expect, which "geodither doctor" works out too,
what an observer learns of a home in 1, 7, 30 and 90 nights, and a bound on what all records tell
about one moment. It takes a minute or two on the sample's map, and longer on larger ones.

--diff shows only what differs from an earlier statement: "-" was there, "+" is there now. It
does not compare what you filled in there. It compares what --audit and --simulate add if both
statements have it. Simulated figures that differ are shown and do not count. The exit code is then
0 if nothing else differs, 1 if something does, and 2 if they could not be compared.`,
		Example: `  geodither statement -c geodither.yml --format md > statement.md
  geodither audit -c geodither.yml --json > audit.json
  geodither statement -c geodither.yml --audit audit.json > statement.yml
  geodither statement -c geodither.yml --diff statement.yml`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if diff != "" {
				defer func() { err = trouble(err) }()
			}
			switch {
			case format != "yaml" && format != "md":
				return cli.Usagef("--format must be yaml or md, not %q", format)
			case format == "md" && diff != "":
				return cli.Usagef("--diff compares statements in YAML and has an output of its " +
					"own: leave --format md out")
			}
			sheet, err := statement.New(config, time.Now())
			if err != nil {
				return err
			}
			for _, path := range audits {
				if err := sheet.AddAudit(path); err != nil {
					return err
				}
			}
			if simulate {
				bar := cli.NewProgress(std.Err, nil)
				err := sheet.Simulate(cmd.Context(), std.Tracks, simulating(cmd.Context(), bar))
				bar.Done()
				if err != nil {
					return err
				}
			}
			return writeStatement(std.Out, format, diff, sheet)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&config, "config", "c", "", "config `FILE` of the service")
	flags.StringVar(&format, "format", "yaml", "`yaml` or md")
	flags.StringArrayVar(&audits, "audit", nil,
		"`REPORT` of \"geodither audit --json\", which the statement then cites; repeatable")
	flags.BoolVar(&simulate, "simulate", false,
		"also state which error to expect, by simulated tracks")
	flags.StringVar(&diff, "diff", "", "earlier `STATEMENT` in YAML: write only what differs")
	cli.Required(cmd, "config")
	return cmd
}

// errDiffers gives the exit code 1 to a difference.
var errDiffers = errors.New("the statements differ")

// trouble gives the exit code 2 to all other errors of a comparison.
func trouble(err error) error {
	if err == nil || errors.Is(err, errDiffers) {
		return err
	}
	return cli.Usage(err)
}

// writeStatement writes a statement, or what differs from an earlier one.
func writeStatement(out io.Writer, format, earlier string, sheet *statement.Sheet) error {
	switch {
	case earlier != "":
		return diffStatement(out, earlier, sheet)
	case format == "md":
		return statement.Markdown(out, sheet)
	}
	return statement.YAML(out, sheet)
}

// diffStatement writes what differs from a statement in a file.
func diffStatement(out io.Writer, path string, sheet *statement.Sheet) error {
	earlier, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	differences, err := statement.Diff(out, earlier, sheet)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case differences > 0:
		return errDiffers
	}
	return nil
}
