package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/deploy"
	"github.com/geodither/geodither/schemas"
)

func newExplain(std cli.Streams) *cobra.Command {
	all := deploy.Remedies()
	for _, e := range schemas.Explanations() {
		r := deploy.Remedy{Name: string(e.Kind), What: e.Found}
		if e.Cause != "" {
			r.Do = "Likely cause: " + e.Cause
		}
		all = append(all, r)
	}
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	return &cobra.Command{
		Use:   "explain [NAME]",
		Short: "Say what an error or a reason means, by its name",
		Long: `Print what an error means and what to do, by the name in brackets at its end; or the likely cause of
a dead letter or a skipped line, by its reason. Without NAME, all names are listed.`,
		Example:   "  geodither explain changelog-lost",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) (err error) {
			if len(args) == 1 {
				name, _, _ := strings.Cut(strings.Trim(args[0], "()"), ":") // a field may follow
				at := slices.Index(names, name)
				if at < 0 {
					return cli.Usagef("nothing is named %q: \"geodither explain\" lists all names",
						args[0])
				}
				_, err = fmt.Fprintln(std.Out, strings.TrimSpace(all[at].What+"\n\n"+all[at].Do))
				return err
			}
			for _, r := range all {
				what := strings.ReplaceAll(r.What, "\n", " ")
				if _, err = fmt.Fprintf(std.Out, "%-22s %s\n", r.Name, what); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
