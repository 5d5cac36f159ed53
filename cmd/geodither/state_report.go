package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/inspect"
)

func newStateLedgers(std cli.Streams) *cobra.Command {
	var config, format string
	cmd := &cobra.Command{
		Use:   "report -c FILE",
		Short: "Sum up what all users have spent, without their ids",
		Long: `Sum up the accounts of ε of all users from the changelog: how many there are, how Σε is distributed
over them in the budget's window and in their lifetimes, and how many have no release left.

The report names no user. Of a handful of users it describes single people all the same: keep it on
the trusted side then. The states, which are private, lie in a temporary folder while the command
works. It may run beside the service.`,
		Example: `  geodither state report -c geodither.yml
  geodither state report -c geodither.yml --format json | jq .window.users_at_limit`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return cli.Usagef("--format must be text or json, not %q", format)
			}
			options, err := loadService(cmd.Context(), config, std)
			if err != nil {
				return err
			}
			report, err := inspect.Ledgers(cmd.Context(), inspect.ReportOptions{
				Settings: options.Settings, Cluster: options.Cluster, Logger: options.Logger,
			})
			if err != nil {
				return err
			}
			if format == "json" {
				return json.NewEncoder(std.Out).Encode(report)
			}
			return printLedgers(std.Out, report)
		},
	}
	cmd.Flags().StringVarP(&config, "config", "c", "", "config `FILE` of the service")
	cmd.Flags().StringVar(&format, "format", "text", "`text` or json")
	cli.Required(cmd, "config")
	return cmd
}

func printLedgers(out io.Writer, r inspect.Report) error {
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
	line := func(name string, s inspect.Spending) {
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
