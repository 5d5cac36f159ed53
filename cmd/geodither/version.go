package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
)

func newVersion(std cli.Streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and those of the formats it writes",
		Example: "  geodither version\n  geodither version --json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(std.Out).Encode(versions())
			}
			_, err := fmt.Fprintf(std.Out, "geodither %s\n", cmd.Root().Version)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object, with the commit and the "+
		"versions of what is released and stored")
	return cmd
}

// versions are the build, and what has a version of its own: a change of it is in the changelog.
func versions() any {
	return struct {
		cli.Build
		Mechanism int `json:"mechanism_version"` // of all releases
		Codebook  int `json:"codebook_version"`  // of the codebook's placing
		State     int `json:"state_version"`     // of users' states
		Records   int `json:"records_version"`   // of sanitized records
	}{
		cli.ThisBuild(), mechanism.Version, law.CodebookVersion, mechanism.StateVersion,
		engine.RecordsVersion,
	}
}
