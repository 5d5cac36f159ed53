package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/schemas/registry"
)

func newSchemas(std cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schemas",
		Short:   "Register the records' schemas in a schema registry",
		Example: `  geodither schemas register -c geodither.yml`,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var asJSON bool
	register := onConfig(&cobra.Command{
		Use:   "register -c FILE",
		Short: "Register the schemas where they are missing",
		Long: `Register the schemas of sanitized records, dead letters and counts in the schema registry of a
config, as subjects TOPIC-value. "geodither run" makes them itself where the registry lets it.`,
		Example: "  geodither schemas register -c geodither.yml",
	}, func(ctx context.Context, path string) error {
		return registerSchemas(ctx, std, path, asJSON)
	})
	register.Flags().BoolVar(&asJSON, "json", false, "print one JSON list")
	cmd.AddCommand(register)
	return cmd
}

// registerSchemas registers what is missing, and prints what has come of each schema.
func registerSchemas(ctx context.Context, std cli.Streams, path string, asJSON bool) error {
	file, err := config.Read(path)
	if err != nil {
		return err
	}
	client, err := file.Registry.Client()
	if err == nil && client == nil {
		err = errors.New("registry.url: name the schema registry")
	}
	if err != nil {
		return config.Error(path, err)
	}
	list, err := file.Schemas()
	if err != nil {
		return config.Error(path, err)
	}
	type registered struct {
		Subject string `json:"subject"`
		ID      int    `json:"id"`
		Version int    `json:"version"`
		New     bool   `json:"new"`
	}
	done, errs := []registered{}, []error{}
	for _, schema := range list {
		what := "was registered already"
		found, err := client.Find(ctx, schema.Subject, schema.Text)
		if errors.Is(err, registry.ErrMissing) {
			what = "registered"
			found, err = client.Register(ctx, schema.Subject, schema.Text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", schema.Subject, err))
			continue
		}
		done = append(done, registered{
			schema.Subject, int(found.ID), found.Version, what == "registered",
		})
		if !asJSON {
			fmt.Fprintf(std.Out, "%s: %s, id %d, version %d\n", schema.Subject, what, found.ID,
				found.Version)
		}
	}
	if asJSON {
		errs = append(errs, json.NewEncoder(std.Out).Encode(done))
	}
	return errors.Join(errs...)
}
