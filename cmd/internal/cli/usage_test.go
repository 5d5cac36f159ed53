package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A value of the wrong kind is answered with the right one.
func TestWrongValue(t *testing.T) {
	for args, want := range map[string]string{
		"--wait 3":    `--wait "3": write a duration with its unit, such as 30s`,
		"--epsilon x": `--epsilon "x": write a number, such as 0.5`,
		"--runs 1.5":  `--runs "1.5": write a whole number, such as 10`,
		"--seed -1":   `--seed "-1": write a whole number, such as 10`,
	} {
		root := &cobra.Command{
			Use: "geodither", SilenceUsage: true, SilenceErrors: true,
			RunE: func(*cobra.Command, []string) error { return nil },
		}
		root.Flags().Duration("wait", 0, "")
		root.Flags().Float64("epsilon", 0, "")
		root.Flags().Int("runs", 0, "")
		root.Flags().Uint64("seed", 0, "")
		var out bytes.Buffer
		code := Execute(t.Context(), root, strings.Fields(args), Streams{Out: &out, Err: &out})
		if code != ExitUsage || !strings.Contains(out.String(), want) ||
			strings.Contains(out.String(), "strconv") {
			t.Errorf("%s: exit %d, %q instead of %q", args, code, &out, want)
		}
	}
}

// A flag without its value does not take the next flag for it, and no file of that name is made.
func TestFlagAsValue(t *testing.T) {
	for args, want := range map[string]string{
		"--report --seed 3":       "the flag --seed follows it; write --report FILE",
		"--report --seed=3":       "--report has no value: the flag --seed=3 follows it",
		"--report -c x":           "--report has no value: the flag -c follows it",
		"-c --report x":           "--config has no value: the flag --report follows it",
		"--in a --in --seed":      "--in has no value: the flag --seed follows it",
		"--report --sed":          "--report has no value: the flag --sed follows it",
		"--report -cg.yml":        "--report has no value: the flag -cg.yml follows it",
		"--report -1":             "",
		"--report - --in=./--own": "",
	} {
		begun := false
		root := &cobra.Command{
			Use: "geodither", SilenceUsage: true, SilenceErrors: true, Args: NoArgs,
			RunE: func(*cobra.Command, []string) error { begun = true; return nil },
		}
		root.Flags().String("report", "", "`FILE` to write")
		root.Flags().StringP("config", "c", "", "")
		root.Flags().StringArray("in", nil, "")
		root.Flags().Uint64("seed", 0, "")
		var out bytes.Buffer
		code := Execute(t.Context(), root, strings.Fields(args), Streams{Out: &out, Err: &out})
		if begun != (want == "") || !begun && code != ExitUsage ||
			!strings.Contains(out.String(), want) {
			t.Errorf("%s: begun %v, exit %d, %q instead of %q", args, begun, code, &out, want)
		}
	}
}

// A misspelt flag is answered with those of the command that are near it, if there are few.
func TestMisspeltFlag(t *testing.T) {
	for args, want := range map[string]string{
		"--column user_id=a": "unknown flag: --column; did you mean --columns?",
		"--epsilom=3":        "unknown flag: --epsilom; did you mean --epsilon?",
		"--bogus":            "unknown flag: --bogus\n",
		"-x":                 "unknown shorthand flag: 'x' in -x\n",
	} {
		root := &cobra.Command{
			Use: "geodither", SilenceUsage: true, SilenceErrors: true,
			RunE: func(*cobra.Command, []string) error { return nil },
		}
		for _, name := range []string{"columns", "epsilon", "x-ray", "out"} {
			root.Flags().String(name, "", "")
		}
		var out bytes.Buffer
		code := Execute(t.Context(), root, strings.Fields(args), Streams{Out: &out, Err: &out})
		if code != ExitUsage || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit %d, %q instead of %q", args, code, &out, want)
		}
	}
}
