package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/deploy"
)

func newConfig(std cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a config without a broker, show it with its defaults, or begin a new one",
		Example: `  geodither config example > geodither.yml
  geodither config lint -c geodither.yml`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newConfigLint(std),
		onConfig(&cobra.Command{
			Use:   "show -c FILE",
			Short: "Print a config with all defaults in it",
			Long: `Print a config as the service understands it, with variables of the environment
and all defaults in it. Secrets are redacted. The output is a config again, without the secrets.`,
			Example: "  geodither config show -c geodither.yml",
		}, func(_ context.Context, path string) error {
			text, err := config.Show(path)
			if err == nil {
				_, err = io.WriteString(std.Out, text)
			}
			return err
		}),
		&cobra.Command{
			Use:   "schema",
			Short: "Print the JSON Schema of a config, for editors and for checks",
			Long: `Print the JSON Schema of a config (draft 2020-12). An editor with a YAML language
server completes and explains keys by it, if the config begins with a line such as

  # yaml-language-server: $schema=geodither.schema.json`,
			Example: "  geodither config schema > geodither.schema.json",
			Args:    cli.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				schema, err := config.Schema()
				if err == nil {
					_, err = fmt.Fprintf(std.Out, "%s\n", schema)
				}
				return err
			},
		},
		&cobra.Command{
			Use:   "example [ENVIRONMENT]",
			Short: "Print a config to start from",
			Long: `Print a config to start from: a complete one that explains every key, or a short
one for an environment, which is one of

  ` + strings.Join(deploy.Environments(), ", "),
			Example: `  geodither config example > geodither.yml
  geodither config example msk > geodither.yml`,
			ValidArgs: deploy.Environments(),
			Args: func(_ *cobra.Command, args []string) error {
				if len(args) > 1 {
					return cli.Usagef("name one environment at most, not %q", args)
				}
				return nil
			},
			RunE: func(_ *cobra.Command, args []string) error {
				text := deploy.Example
				if len(args) == 1 {
					var ok bool
					if text, ok = deploy.ExampleFor(args[0]); !ok {
						return cli.Usagef("there is no example %q: choose one of %s", args[0],
							strings.Join(deploy.Environments(), ", "))
					}
				}
				_, err := io.WriteString(std.Out, text)
				return err
			},
		},
	)
	return cmd
}

// onConfig completes a command that takes a config and nothing else.
func onConfig(
	cmd *cobra.Command, do func(ctx context.Context, path string) error,
) *cobra.Command {
	cmd.Args = cli.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		path, err := cli.NeedConfig(cmd)
		if err != nil {
			return err
		}
		return do(cmd.Context(), path)
	}
	return cmd
}

func newConfigLint(std cli.Streams) *cobra.Command {
	var asJSON bool
	cmd := onConfig(&cobra.Command{
		Use:   "lint -c FILE",
		Short: "Check a config by its text and its files, without a broker",
		Long: `Check a config as "geodither run" does before it connects, and warn of settings
that are seldom meant. Files and variables that are not here are not checked: a config can be
checked where the service does not run. The exit code is 2 if the service would not start with it.`,
		Example: "  geodither config lint -c geodither.yml",
	}, func(_ context.Context, path string) error {
		_, warnings, err := config.Lint(path)
		if err != nil {
			return err // the errors are to be mended first
		}
		return show(std.Out, linted{path, append([]string{}, warnings...)},
			nil, asJSON, func(out io.Writer, l linted) error { return l.print(out) })
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// linted are the warnings of a config without errors.
type linted struct {
	Config   string   `json:"config"`
	Warnings []string `json:"warnings"`
}

func (l linted) print(out io.Writer) error {
	for _, text := range l.Warnings {
		if _, err := fmt.Fprintf(out, "warning  %s\n", text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "ok       %s: no errors, %s\n", l.Config,
		cli.Quantity(int64(len(l.Warnings)), "warning"))
	return err
}
