package main

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/statement"
)

func newStatement(std cli.Streams) *cobra.Command {
	var (
		audits []string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "statement -c FILE",
		Short: "State what a service guarantees and what not, for those who approve it",
		Long: `Write one page of Markdown for those who approve a service: what it guarantees to the people whose
fixes it releases, what not, and at which ε. --json writes the same facts in a fixed order, for jq
and for diff with an earlier statement.

Everything follows from the config, the model and this program. It connects to nothing and prints no
secret. It needs the model, and works without the key. A bound on what all records tell about one
moment can take ten seconds; larger maps go without it.

--audit cites what an attack has measured: a report of "geodither audit -c FILE --json" on the same
model and settings.`,
		Example: `  geodither statement -c geodither.yml > statement.md
  geodither audit -c geodither.yml --json > audit.json
  geodither statement -c geodither.yml --audit audit.json --json > statement.json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := cli.NeedConfig(cmd)
			if err != nil {
				return err
			}
			facts, err := statement.New(path, audits, cmd.Context().Err)
			if err != nil {
				return err
			}
			if asJSON {
				lines := json.NewEncoder(std.Out)
				lines.SetIndent("", "  ") // for diff
				lines.SetEscapeHTML(false)
				return lines.Encode(facts)
			}
			return statement.Markdown(std.Out, facts, time.Now())
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&audits, "audit", nil,
		"`REPORT` of \"geodither audit --json\", which the statement then cites; repeatable")
	flags.BoolVar(&asJSON, "json", false, "print the facts as one JSON object")
	return cmd
}
