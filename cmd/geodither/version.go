package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
)

func newVersion(std cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit, and the versions of what is released and stored",
		Example: "  geodither version",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := cli.ThisBuild()
			// What has a version of its own: a change of it is in the changelog.
			_, err := fmt.Fprintf(std.Out, "geodither %s\ncommit %s, %s\n"+
				"mechanism %d, codebook %d, users' states %d, sanitized records %d\n",
				b.Version, cmp.Or(b.Revision, "unknown"), b.Go,
				mechanism.Version, law.CodebookVersion, mechanism.StateVersion,
				engine.RecordsVersion)
			return err
		},
	}
}
