package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/deploy"
)

func newExplain(std cli.Streams) *cobra.Command {
	var names []string
	for _, r := range deploy.Remedies() {
		names = append(names, r.Name)
	}
	return &cobra.Command{
		Use:   "explain [NAME]",
		Short: "Say what to do about an error, by the name in brackets at its end",
		Long: `Print what an error means and what to do about it. NAME stands in brackets at the end of the error.
Without it, all names are listed.`,
		Example:   "  geodither explain changelog-lost",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) (err error) {
			if len(args) == 1 {
				r, ok := deploy.RemedyOf("(" + strings.Trim(args[0], "()") + ")")
				if !ok {
					return cli.Usagef("no error is named %q: \"geodither explain\" lists all names",
						args[0])
				}
				_, err = fmt.Fprintf(std.Out, "%s\n\n%s\n", r.What, r.Do)
				return err
			}
			for _, r := range deploy.Remedies() {
				what := strings.ReplaceAll(r.What, "\n", " ")
				if _, err = fmt.Fprintf(std.Out, "%-21s %s\n", r.Name, what); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
