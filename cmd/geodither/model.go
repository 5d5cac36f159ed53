package main

import (
	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
)

func newModel(std cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Look at mobility models, compare, check and measure them",
		Example: `  geodither model inspect model.avro
  geodither model validate model.avro
  geodither model diff old.avro new.avro`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newModelInspect(std), newModelDiff(std), newModelValidate(std), newModelFit(std))
	return cmd
}
