package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/service"
)

func newStateReset(std cli.Streams, asJSON *bool) *cobra.Command {
	var (
		dry, everything bool
		accept          acceptances
	)
	cmd := &cobra.Command{
		Use:   "reset -c FILE",
		Short: "Remove the local state folder; it is restored from the changelog",
		Long: `Remove the local state folder. The next start restores it from the changelog, so the command first
checks that the changelog has everything that the folder has. --accept=lost-account removes the
folder without that check, and with it what each user has spent.

--everything also removes the group's offsets and all states in the changelog, so that processing
starts again at the first raw record. That releases every fix that the topic still holds a second
time: with the same key, settings and records the releases are the same, and otherwise they cost
their ε again. If the topic has lost its first records, use a new key, or noise may be used twice.
This cannot be undone, so it needs --accept=second-release, and every instance stopped. Remove the
folders of other instances with --accept=lost-account before their next start. To release a range
once more beside what is there, use "geodither replay".`,
		Example: `  geodither state reset -c geodither.yml --dry-run
  geodither state reset -c geodither.yml --everything --accept=second-release --dry-run`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spend, discard := accept["second-release"], accept["lost-account"]
			if spend && !everything {
				return cli.Usagef("--accept=second-release belongs to --everything")
			}
			if !everything {
				options, err := loadLocal(cmd, std)
				if err != nil {
					return err
				}
				found, err := account.ResetFolder(cmd.Context(),
					repairOptions(options, dry, discard))
				if err != nil {
					return kept(err)
				}
				write := func(out io.Writer, r account.Reset) error {
					return printFolder(out, r, dry)
				}
				return show(std.Out, found, nil, *asJSON, write)
			}
			options, err := loadService(cmd, std)
			if err != nil {
				return err
			}
			plan, err := account.ResetEverything(cmd.Context(),
				repairOptions(options, dry || !spend, discard))
			if err != nil {
				return kept(err)
			}
			if !spend && !dry {
				return fmt.Errorf(
					"nothing was removed: %s; accept that with --accept=second-release", cost(plan))
			}
			return show(std.Out, plan, nil, *asJSON, func(out io.Writer, r account.Reset) error {
				return printEverything(out, r, dry)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&dry, "dry-run", false, "only say what would be removed")
	flags.BoolVar(&everything, "everything", false,
		"also remove the group's offsets and the changelog's states")
	accept = acceptFlag(cmd, "go on, by `NAME`: second-release, of all fixes, with --everything; "+
		"lost-account, where the folder may be the only copy of the users' accounts",
		"second-release", "lost-account")
	return cmd
}

// repairOptions are a service's, for what removes or writes back its states.
func repairOptions(o service.Options, dry, discard bool) account.Options {
	return account.Options{
		Settings: o.Settings, Cluster: o.Cluster, StateDir: o.StateDir,
		MaxBatchBytes: o.MaxBatchBytes, DryRun: dry, Discard: discard, Logger: o.Logger,
	}
}

// kept says of a folder that may be the only copy of something how it can be removed all
// the same.
func kept(err error) error {
	if !errors.Is(err, account.ErrOnlyCopy) {
		return err
	}
	return fmt.Errorf(
		"nothing was removed: %w; to give the accounts up: --accept=lost-account", err)
}

// cost says what a second release of everything costs.
func cost(r account.Reset) string {
	return fmt.Sprintf("the raw topic holds %d records, and each fix among them would be "+
		"released a second time, at up to ε = %g each, %g in all over all users", r.Fixes,
		r.Epsilon, float64(r.Fixes)*r.Epsilon)
}

func printFolder(out io.Writer, r account.Reset, dry bool) error {
	did := "removed"
	if dry {
		did = "would remove"
	}
	line := fmt.Sprintf("%s %s in %s, %.1f MB; ", did, strings.Join(r.Names, ", "), r.Folder,
		float64(r.Bytes)/1e6)
	switch {
	case len(r.Names) == 0:
		line = fmt.Sprintf("%s holds no store: nothing to remove\n", r.Folder)
	case r.Restorable:
		line += "the changelog was looked at and has every committed state\n"
	default:
		line += "nobody looked whether the changelog has its states\n"
	}
	if len(r.Aside) > 0 {
		line += fmt.Sprintf("%s stays: it was set aside and may be the only copy of an account "+
			"(--accept=lost-account removes it too)\n", strings.Join(r.Aside, ", "))
	}
	if dry && r.InUse {
		line += "an instance uses it now: stop that one first\n"
	}
	_, err := io.WriteString(out, line)
	return err
}

func printEverything(out io.Writer, r account.Reset, dry bool) error {
	did := "removed"
	if dry {
		did = "would remove"
	}
	_, err := fmt.Fprintf(out, "%s the offsets of group %s and all states in %s: %s\n",
		did, r.Group, r.Changelog, cost(r))
	err = errors.Join(err, printFolder(out, r, dry))
	if err != nil || dry {
		return err
	}
	_, err = fmt.Fprintln(out, "if other instances have state folders: run \"geodither state "+
		"reset --accept=lost-account\" with the config of each before it starts again\nthe next "+
		"start needs --accept=lost-account, once: the output topics show "+
		"that there were accounts, and all of them begin at 0")
	return err
}
