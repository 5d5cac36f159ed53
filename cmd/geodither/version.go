package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
)

func newVersion(std cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  geodither version",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(std.Out, "geodither %s\n", cmd.Root().Version)
			return err
		},
	}
}
