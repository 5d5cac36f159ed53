package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/cli"
)

func newStateInspect(std cli.Streams, asJSON *bool) *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "inspect -c FILE [--user ID]",
		Short: "Print the state of one user, or what all users have spent",
		Long: `Print the state of one user from the changelog: last step, releases and Σε, last release,
estimate and radius, and the size of the posterior. The command looks into every partition. A user
can have a state in more than one if producers do not agree on the partition of a user, and an
account that was kept by an erasure in another one after a change of the partitioner. Such a user
has spent ε in each of them, and the last line has the sum.

Without --user, sum up the accounts of ε of all users: how many there are, how Σε is distributed
over them in the budget's window and in their lifetimes, and how many have no release left. No user
is named.

What the command prints is private: keep it on the trusted side. A state is a function of the
user's past releases and the model, but it is not published. Sums over a handful of users
describe people.`,
		Example: `  geodither state inspect -c geodither.yml --user bus-7
  geodither state inspect -c geodither.yml --json | jq .window.users_at_limit`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := !cmd.Flags().Changed("user")
			if !all && user == "" {
				return cli.Usagef("--user must name a user")
			}
			options, err := loadService(cmd, std)
			if err != nil {
				return err
			}
			of := account.Options{Settings: options.Settings, Cluster: options.Cluster}
			if all {
				found, err := account.Accounts(cmd.Context(), of)
				return show(std.Out, found, err, *asJSON, printAccounts)
			}
			found, err := account.User(cmd.Context(), of, user)
			return show(std.Out, found, err, *asJSON, printStates)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&user, "user", "",
		"`ID` of the user in the raw records; without it, all users")
	return cmd
}

// show prints what was found, unless it was not.
func show[T any](out io.Writer, found T, err error, asJSON bool,
	text func(io.Writer, T) error,
) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return json.NewEncoder(out).Encode(found)
	}
	return text(out, found)
}

// printStates prints a user's state in each partition that has one.
func printStates(out io.Writer, first account.State) error {
	err := printState(out, first)
	for _, s := range first.Elsewhere {
		fmt.Fprintln(out)
		err = printState(out, s)
	}
	for _, k := range first.Kept {
		_, err = fmt.Fprintf(out, "\nkept         %s\n", k)
	}
	accounts := 1 + len(first.Elsewhere) + len(first.Kept)
	if accounts == 1 {
		return err
	}
	fmt.Fprintf(
		out,
		"\nwarning      the user has accounts in %d partitions, each with a budget of "+
			"its own: ε %s are spent in all",
		accounts,
		cli.Sum(first.EpsilonSpentAll),
	)
	if first.EpsilonWindowAll != nil {
		fmt.Fprintf(out, ", %s of them in the window up to the last step",
			cli.Sum(*first.EpsilonWindowAll))
	}
	_, err = fmt.Fprintln(out, ".\n             Have every producer use one partitioner, and set "+
		"topics.partitioner to it")
	return err
}

func printState(out io.Writer, s account.State) error {
	fmt.Fprintf(out, "private      what follows is not published; keep it on the trusted side\n")
	fmt.Fprintf(out, "user         %s\n", s.User)
	fmt.Fprintf(out, "found in     partition %d, changelog, offset %d, %d bytes\n", s.Partition,
		s.Offset, s.Bytes)
	fmt.Fprintf(out, "last step    the one that starts at %s (number %d)\n",
		s.StepTime.Format(time.RFC3339), s.Step)
	if s.PublishedAs != s.User {
		fmt.Fprintf(out, "published as %s\n", s.PublishedAs)
	}
	fmt.Fprintf(out, "releases     %d, Σε %s spent in all\n", s.Releases, cli.Sum(s.EpsilonSpent))
	if s.EpsilonWindow != nil {
		fmt.Fprintf(out, "budget       Σε %s of that in the window that ends with the last step\n",
			cli.Sum(*s.EpsilonWindow))
	}
	fmt.Fprintf(out, "model        %s\n", s.ModelID)
	if s.Estimate == nil {
		fmt.Fprintf(out, "places       of another map than that of the config's model: not shown\n")
	} else {
		if s.LastRelease != nil {
			fmt.Fprintf(out, "last release %.7f, %.7f\n", s.LastRelease.Latitude,
				s.LastRelease.Longitude)
		}
		fmt.Fprintf(out, "estimate     %.7f, %.7f, within %.0f m with probability 95 %%\n",
			s.Estimate.Latitude, s.Estimate.Longitude, s.RadiusM)
		fmt.Fprintf(out, "ellipse      1σ is %.0f m at %.0f° from north, and %.0f m across\n",
			s.SigmaMajorM, s.AzimuthDeg, s.SigmaMinorM)
	}
	_, err := fmt.Fprintf(out, "posterior    the user may be in %d cells (entropy %.1f bits)\n",
		s.Cells, s.EntropyBits)
	return err
}

// printAccounts prints how Σε is distributed over users.
func printAccounts(out io.Writer, r account.Report) error {
	fmt.Fprintf(out, "group %s, settings %.8s, %s\n", r.Group, r.Settings,
		r.Time.Format(time.RFC3339))
	fmt.Fprintf(out, "%s with a state, ε = %g a release\n", cli.Quantity(r.Users, "user"),
		r.EpsilonPerRelease)
	if r.ErasedAccounts > 0 {
		fmt.Fprintf(out, "%s of erased users, not counted below\n",
			cli.Quantity(r.ErasedAccounts, "account"))
	}
	for _, p := range r.OtherSettings {
		fmt.Fprintf(out, "partition %d was last written under other settings\n", p)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "Σε\thalf up to\t90 % up to\t99 % up to\tmost\tmean\tlimit\tat the limit\t")
	line := func(name string, s account.Spending) {
		limit, at := "none", ""
		if s.Limit != nil {
			limit, at = cli.Sum(*s.Limit), fmt.Sprint(s.AtLimit)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, cli.Sum(s.P50),
			cli.Sum(s.P90), cli.Sum(s.P99), cli.Sum(s.Max), cli.Sum(s.Mean), limit, at)
	}
	if r.Window != nil {
		line(fmt.Sprintf("in %v up to the last step",
			time.Duration(r.WindowSeconds*float64(time.Second))), *r.Window)
	}
	line("in all", r.Lifetime)
	return table.Flush()
}
