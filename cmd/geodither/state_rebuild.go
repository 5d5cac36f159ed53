package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/cli"
)

func newStateRebuild(std cli.Streams, asJSON *bool) *cobra.Command {
	var (
		dry bool
		to  account.Where
	)
	cmd := &cobra.Command{
		Use:   "rebuild-changelog -c FILE [--from TIME | FOLDER...]",
		Short: "Write a lost changelog, or its lost end, back from intact state folders",
		Long: `Write a changelog that was deleted, made again, or has lost its end, back from the state folders of
the service's instances. It holds every user's account of ε.

Stop all instances first, and name the state folder of each; without any, the command takes the
state_dir of the config. It takes the states at the group's offset, or else the newest. If these
lag behind, the service processes the raw records in between again and publishes nothing of that:
the raw topic must still hold them, and settings and key must be those of then. A folder that is
older than an erasure brings the person back: erase again before you start the service. Prove the
result with "geodither state verify".

With --from, carry the accounts over to another raw topic: on a cluster to which a mirror has copied
the topics, or in place of one that was made again. topics.changelog names the copy, which must be
whole. TIME says at which raw records the service goes on: a time, earliest, or committed (the
group's offset). Stop the old service with SIGTERM and let the mirror finish first: two at a time
give each user two budgets, and no command can see that.`,
		Example: `  geodither state rebuild-changelog -c geodither.yml --dry-run
  geodither state rebuild-changelog -c geodither.yml state-1 state-2
  geodither state verify -c geodither.yml
  geodither state rebuild-changelog -c new-cluster.yml --from 2026-11-21T08:00:00Z --dry-run`,
		RunE: func(cmd *cobra.Command, folders []string) error {
			options, err := loadService(cmd, std)
			if err != nil {
				return err
			}
			repair := repairOptions(options, dry, false)
			if to != (account.Where{}) {
				if len(folders) > 0 {
					return cli.Usagef("--from takes no folders")
				}
				move, err := account.MoveChangelog(cmd.Context(), repair, to)
				if err != nil {
					return err
				}
				return show(std.Out, move, nil, *asJSON, func(out io.Writer, m account.Move) error {
					return printMove(out, m, dry)
				})
			}
			if len(folders) == 0 {
				folders = []string{options.StateDir}
			}
			plan, err := account.RebuildChangelog(cmd.Context(), repair, folders)
			if err != nil {
				return err
			}
			return show(std.Out, plan, nil, *asJSON, func(out io.Writer, r account.Rebuild) error {
				return printRebuild(out, r, dry)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&dry, "dry-run", false, "only say what would be written")
	flags.Var(&to, "from", "go on with another raw topic at this `TIME` or day in it, or at an "+
		"offset, earliest or committed")
	return cmd
}

// printMove prints a line for each partition, what all users have spent, and what to do next.
func printMove(out io.Writer, m account.Move, dry bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "partition\tgoes on at raw offset\tended at\tthe last instance")
	for _, p := range m.Partitions {
		ended := "stopped cleanly"
		if p.Open {
			ended = "was killed, or the copy lacks its end"
		}
		if p.Empty {
			fmt.Fprintf(table, "%d\t%d\t\tnothing was processed\n", p.Number, p.Input)
			continue
		}
		fmt.Fprintf(table, "%d\t%d\t%d\t%s\n", p.Number, p.Input, p.Was, ended)
	}
	if err := errors.Join(table.Flush(), printAccounts(out, m.Accounts)); err != nil {
		return err
	}
	did, next := "carried over", "Stop the mirror of this topic before you start the service."
	if dry {
		did, next = "would be carried over", "Nothing was written. Compare the sums with those of "+
			"\"geodither state inspect\" on the old cluster."
	}
	_, err := fmt.Fprintf(out, "%s %s. %s\n", m.Changelog, did, next)
	return err
}

// rebuildNote says what becomes of the group's offset, and of records that are processed again.
func rebuildNote(p account.RebuiltPartition) string {
	note := ""
	if p.NoOffset {
		note = " (the group had no offset, and gets this one)"
	}
	if p.Published > 0 {
		note += fmt.Sprintf(" (the service processes up to %d again, and publishes nothing of it)",
			p.Published)
	}
	return note
}

// printRebuild prints a line for each partition, and what to do next.
func printRebuild(out io.Writer, plan account.Rebuild, dry bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "partition\tusers\tup to raw offset\tfrom")
	for _, p := range plan.Partitions {
		switch {
		case p.Kept:
			fmt.Fprintf(table, "%d\t\t\tleft as it is: it has its marks\n", p.Number)
		case p.Folder == "" && p.From == "":
			fmt.Fprintf(table, "%d\t\t\tnothing was processed\n", p.Number)
		case p.From != "":
			fmt.Fprintf(table, "%d\t\t%d\t%s%s\n", p.Number, p.Input, p.From, rebuildNote(p))
		default:
			fmt.Fprintf(table, "%d\t%d\t%d\t%s%s\n", p.Number, p.Users, p.Input, p.Folder,
				rebuildNote(p))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	did, next := "written to", "Now run \"geodither state verify\": it proves the states. If a "+
		"folder is older than an erasure, erase again. Then start the service."
	if dry {
		did, next = "this would be written to", "Nothing was written."
	}
	if plan.Made {
		did += " the new topic"
	}
	_, err := fmt.Fprintf(out, "%s %s. %s\n", did, plan.Changelog, next)
	return err
}
