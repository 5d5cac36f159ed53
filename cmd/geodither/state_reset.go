package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/pipeline"
)

func newStateReset(std streams) *cobra.Command {
	var (
		config                 string
		dry, everything, spend bool
	)
	cmd := &cobra.Command{
		Use:   "reset -c FILE",
		Short: "Remove the local state folder; it is restored from the changelog",
		Long: `Remove the local state folder. It is a cache of the changelog: nothing is lost, and the
next start restores it. It refuses while an instance has the folder open; a dry run
only says so.

With --everything it also removes the group's offsets and all states from the changelog,
so that processing starts anew at the first record of the raw topic. That releases every
fix that the topic still holds a second time, behind the first releases in the same
sanitized topic. With the same key and settings the releases are the same ones; with
others they are new ones and cost their ε again. As it cannot be undone it needs
--spend-again, and every instance stopped. Other instances set their own folders aside at
their next start. To release a range once more beside what is there, use replay.`,
		Example: `  geodither state reset -c geodither.yml --dry-run
  geodither state reset -c geodither.yml --everything --spend-again --dry-run`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if spend && !everything {
				return usagef("--spend-again belongs to --everything; the local folder alone costs nothing")
			}
			if !everything {
				options, err := loadLocal(cmd.Context(), config, std)
				if err != nil {
					return err
				}
				found, err := pipeline.ResetState(options, dry)
				if err != nil {
					return err
				}
				return printFolder(std.out, found, dry)
			}
			options, err := loadService(cmd.Context(), config, std)
			if err != nil {
				return err
			}
			plan, err := pipeline.ResetEverything(cmd.Context(), options, dry || !spend)
			if err != nil {
				return err
			}
			if !spend && !dry {
				return fmt.Errorf("nothing was removed: %s. If that is what you want, repeat it with --spend-again", cost(plan))
			}
			return printEverything(std.out, plan, dry)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&config, "config", "c", "", "config `FILE` of the service")
	flags.BoolVar(&dry, "dry-run", false, "only say what would be removed")
	flags.BoolVar(&everything, "everything", false, "also remove the group's offsets and the changelog's states")
	flags.BoolVar(&spend, "spend-again", false, "with --everything: accept a second release of all fixes")
	required(cmd, "config")
	return cmd
}

// cost says what a second release of everything costs.
func cost(r pipeline.Reset) string {
	return fmt.Sprintf("the raw topic holds %d records, and each fix among them would be released a second time, at up to ε = %g each, "+
		"%g in all over all users", r.Fixes, r.Epsilon, float64(r.Fixes)*r.Epsilon)
}

func printFolder(out io.Writer, r pipeline.Reset, dry bool) error {
	did := "removed"
	if dry {
		did = "would remove"
	}
	line := fmt.Sprintf("%s %s in %s, %.1f MB; the changelog has every committed state\n", did, strings.Join(r.Names, ", "), r.Folder, float64(r.Bytes)/1e6)
	if len(r.Names) == 0 {
		line = fmt.Sprintf("%s holds no store: nothing to remove\n", r.Folder)
	}
	if dry && r.InUse {
		line += "an instance uses it now: stop that one first\n"
	}
	_, err := io.WriteString(out, line)
	return err
}

func printEverything(out io.Writer, r pipeline.Reset, dry bool) error {
	did := "removed"
	if dry {
		did = "would remove"
	}
	_, err := fmt.Fprintf(out, "%s the offsets of group %s and all states in %s: %s\n", did, r.Group, r.Changelog, cost(r))
	return errors.Join(printFolder(out, r, dry), err)
}
