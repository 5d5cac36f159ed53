package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/schemas/registry"
)

func newSchemas(std cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schemas",
		Short: "Register the records' schemas in a schema registry, or check them",
		Example: `  geodither schemas check -c geodither.yml
  geodither schemas register -c geodither.yml`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var topics struct{ config, sanitized, letters string }
	add := func(use, short, long string, each schemaWork) {
		sub := &cobra.Command{
			Use: use + " -c FILE", Short: short, Long: long,
			Example: "  geodither schemas " + use + " -c geodither.yml",
			Args:    cli.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return eachSchema(cmd.Context(), std, topics.config, topics.sanitized,
					topics.letters, each)
			},
		}
		flags := sub.Flags()
		flags.StringVarP(&topics.config, "config", "c", "", "config `FILE` (YAML)")
		flags.StringVar(&topics.sanitized, "topic", "",
			"`TOPIC` of sanitized records, in place of the config's, such as that of a replay")
		flags.StringVar(&topics.letters, "dead-letters", "",
			"`TOPIC` of dead letters, in place of the config's")
		cli.Required(sub, "config")
		cmd.AddCommand(sub)
	}
	add("check", "Check the schemas at the registry, and change nothing",
		`Ask the schema registry of a config whether it has the schemas of sanitized records and of
dead letters, in the subjects TOPIC-value. Where it has not, ask whether it would take them: they
have to be compatible with the versions that the subject has.

The exit code is 1 if a schema would be refused, or the registry could not be asked.`,
		checkSchema)
	add("register", "Register the schemas where they are missing",
		`Make the schemas of sanitized records and of dead letters versions of the subjects
TOPIC-value in the schema registry of a config, where they are none yet. "geodither run" needs them
there with encoding.sanitized: avro_registry, and makes them itself where the registry lets it.`,
		registerSchema)
	return cmd
}

// schemaWork does something about one schema, and says in words what has come of it.
type schemaWork func(context.Context, *registry.Client, service.Schema) (string, error)

// eachSchema prints what has come of each schema.
func eachSchema(
	ctx context.Context, std cli.Streams, path, sanitized, letters string, each schemaWork,
) error {
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
	list, err := file.Schemas(sanitized, letters)
	if err != nil {
		return config.Error(path, err)
	}
	var errs []error
	for _, schema := range list {
		words, err := each(ctx, client, schema)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", schema.Subject, err))
			continue
		}
		fmt.Fprintf(std.Out, "%s: %s\n", schema.Subject, words)
	}
	return errors.Join(errs...)
}

func checkSchema(
	ctx context.Context, client *registry.Client, schema service.Schema,
) (string, error) {
	found, err := client.Find(ctx, schema.Subject, schema.Text)
	if err == nil {
		return registeredWords("is registered", found), nil
	}
	if !errors.Is(err, registry.ErrMissing) {
		return "", err
	}
	ok, words, err := client.Compatible(ctx, schema.Subject, schema.Text)
	switch {
	case errors.Is(err, registry.ErrMissing):
		return "is not registered; schemas register would make the subject", nil
	case err != nil:
		return "", err
	case !ok:
		return "", fmt.Errorf("the registry would refuse the schema, because it is not compatible "+
			"with the subject's versions: write to another topic (%s)", strings.Join(words, "; "))
	}
	return "is not registered, and would be taken; schemas register does that", nil
}

func registerSchema(
	ctx context.Context, client *registry.Client, schema service.Schema,
) (string, error) {
	found, err := client.Find(ctx, schema.Subject, schema.Text)
	if err == nil {
		return registeredWords("was registered already", found), nil
	}
	if !errors.Is(err, registry.ErrMissing) {
		return "", err
	}
	found, err = client.Register(ctx, schema.Subject, schema.Text)
	return registeredWords("registered", found), err
}

func registeredWords(what string, r registry.Registered) string {
	return fmt.Sprintf("%s, id %d, version %d", what, r.ID, r.Version)
}
