package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
)

// TestFlagsNameTheirDefaults: where a flag of 0 stands for a default, its help
// names the one that the mechanism takes, in every command that has it.
func TestFlagsNameTheirDefaults(t *testing.T) {
	defaults := map[string]any{
		"min-cells":   mechanism.DefaultMinCells,
		"subdivision": law.DefaultSubdivision,
		"prune":       "1e-7",
		"max-gap":     mechanism.DefaultMaxGap,
	}
	if mechanism.DefaultPrune != 1e-7 {
		t.Errorf("the help of --prune says 1e-7, the default is %g", mechanism.DefaultPrune)
	}
	seen := 0
	visit(newRoot(cli.Streams{}), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			_, said, ok := strings.Cut(flag.Usage, "; 0: ")
			want, known := defaults[flag.Name]
			if !ok || !known || cmd.Name() == "train" {
				return
			}
			seen++
			if said, _, _ = strings.Cut(said, ","); said != fmt.Sprint(want) {
				t.Errorf("%s --%s: the help says that 0 is %s, it is %v", cmd.CommandPath(), flag.Name, said, want)
			}
		})
	})
	if seen < 8 {
		t.Errorf("only %d such flags were found", seen)
	}
}
