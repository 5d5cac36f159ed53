package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/cli"
)

func newStateRebuild(std cli.Streams) *cobra.Command {
	var (
		config string
		dry    bool
	)
	cmd := &cobra.Command{
		Use:   "rebuild-changelog -c FILE [FOLDER...]",
		Short: "Write a lost changelog back from intact state folders",
		Long: `Write a changelog that was deleted, emptied or made again back from the state folders of the
service's instances. The changelog holds every user's state and account of ε. A state folder is a
copy of the partitions that its instance had.

Stop all instances first, and name the state folder of every instance. Without any, the command
takes the state_dir of the config. For each partition it takes the folder whose states are those at
the committed offset of the group. If there is none it refuses: older states leave out what users
have spent since. It also refuses while the group has members. A missing topic is created.

States also lag if their instance was killed: it had not written what it applied in the half minute
before. If no folder has newer ones, and the raw topic still holds the records from their offset on,
set the offset of the group in that partition back to it and run this again. Then start the service
with the settings and the key that were in force. It makes the same records once more, byte for
byte, at no cost of ε; they come twice in the sanitized topic.

Partitions that have their marks already stay as they are, so the command can be repeated. It reads
the store/ of a folder. To use one that was set aside, move its store.aside-N to store/ in a folder
of its own.

The command cannot tell whether a folder is older than an erasure ("geodither erase"). Such a folder
brings the person back: do not use it, or erase again before you start the service.

Prove what was written with "geodither state verify" before you start the service again.`,
		Example: `  geodither state rebuild-changelog -c geodither.yml --dry-run
  geodither state rebuild-changelog -c geodither.yml state-1 state-2
  geodither state verify -c geodither.yml`,
		RunE: func(cmd *cobra.Command, folders []string) error {
			options, err := loadService(cmd.Context(), config, std)
			if err != nil {
				return err
			}
			if len(folders) == 0 {
				folders = []string{options.StateDir}
			}
			plan, err := account.RebuildChangelog(cmd.Context(),
				repairOptions(options, dry, false), folders)
			if err != nil {
				return err
			}
			return printRebuild(std.Out, plan, dry)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&config, "config", "c", "", "config `FILE` of the service")
	flags.BoolVar(&dry, "dry-run", false, "only say what would be written")
	cli.Required(cmd, "config")
	return cmd
}

// printRebuild prints a line for each partition, and what to do next.
func printRebuild(out io.Writer, plan account.Rebuild, dry bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "partition\tusers\tup to raw offset\tfrom")
	for _, p := range plan.Partitions {
		switch {
		case p.Kept:
			fmt.Fprintf(table, "%d\t\t\tleft as it is: it has its marks\n", p.Number)
		case p.Folder == "":
			fmt.Fprintf(table, "%d\t\t\tnothing was processed\n", p.Number)
		case p.NoOffset:
			fmt.Fprintf(table, "%d\t%d\t%d\t%s (the group had no offset, and gets this one)\n",
				p.Number, p.Users, p.Input, p.Folder)
		default:
			fmt.Fprintf(table, "%d\t%d\t%d\t%s\n", p.Number, p.Users, p.Input, p.Folder)
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
