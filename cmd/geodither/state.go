package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/verify"
)

func newState(std cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Prove, look at, or reset what a service has made of its raw topic",
		Example: `  geodither state verify -c geodither.yml
  geodither state inspect -c geodither.yml --user bus-7
  geodither state inspect -c geodither.yml
  geodither state reset -c geodither.yml --dry-run
  geodither state rebuild-changelog -c geodither.yml --dry-run`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var asJSON bool
	cmd.PersistentFlags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.AddCommand(newStateVerify(std, &asJSON), newStateInspect(std, &asJSON),
		newStateReset(std, &asJSON), newStateRebuild(std, &asJSON))
	return cmd
}

func newStateVerify(std cli.Streams, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify -c FILE",
		Short: "Recompute everything from the raw topic and compare",
		Long: `Recompute from the raw topic what the service has committed, and compare: sanitized records and
dead letters byte for byte and in order, none missing and none twice; each user's state; and the
offset of the group. Where the config has counts, compare every published window too.

It needs the service's own config with the same key, writes nothing to Kafka, and may run beside
the service. The recomputed states, which are private, lie in a temporary folder while it works.

After an accepted loss of the account and after a reset of everything the command finds
differences, because states and releases started again. After a change of settings it compares only
what the current settings can give.

Exit code 0 means that everything was verified and is equal; 1, that something differs or could not
be compared. The report names offsets, never a user or a place.`,
		Example: `  geodither state verify -c geodither.yml
  geodither state verify -c geodither.yml --json | jq .verified`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := cli.NeedConfig(cmd)
			if err != nil {
				return err
			}
			bar := cli.NewProgress(std.Err, nil)
			defer bar.Done()
			report, err := verifyAll(cmd.Context(), path, bar, std)
			bar.Done()
			if err != nil {
				return err
			}
			if *asJSON {
				err = json.NewEncoder(std.Out).Encode(report)
			} else {
				err = printReport(std.Out, report)
			}
			if err != nil {
				return err
			}
			return verdict(report)
		},
	}
	return cmd
}

// verifyAll verifies what the services of a config have published.
func verifyAll(ctx context.Context, path string, bar *cli.Progress, std cli.Streams) (
	report verify.Report, err error,
) {
	file, err := config.Read(path)
	if err != nil {
		return report, err
	}
	report.Verified = true
	if !file.CountsAlone() {
		bar.Phase("reading the model", nil)
		options, read, err := loadFile(path, std)
		if err == nil {
			file = read // with its model
			_, err = options.Connection.Connect(ctx, options.Brokers)
		}
		if err != nil {
			return report, err
		}
		bar.Phase("verifying", nil)
		report, err = verify.Run(ctx, verify.Options{
			Settings: options.Settings, Cluster: options.Cluster,
			Progress: bar.Counter("raw records"), Logger: options.Logger,
		})
		if err != nil {
			return report, err
		}
	}
	if !file.CountsUsers() {
		return report, nil
	}
	n, err := file.Counting()
	if err != nil {
		return report, config.Error(path, err)
	}
	if err := n.Windows.Connection.Refused(ctx, n.Windows.Brokers); err != nil {
		return report, err
	}
	bar.Phase("counting again", nil)
	counts, err := verify.Counts(ctx,
		verify.CountsOptions{Windows: n.Windows, Totals: n.Totals, Count: n.Count})
	report.Counts, report.Verified = &counts, report.Verified && counts.Verified
	return report, err
}

// printReport prints a line for each partition, and below what is wrong.
func printReport(out io.Writer, report verify.Report) error {
	if report.Partitions != nil {
		if err := printPartitions(out, report); err != nil {
			return err
		}
	}
	if c := report.Counts; c != nil {
		fmt.Fprintf(out, "counts: %d windows, %d records, aborted or open %d\n", c.Windows,
			c.Records, c.NotCommitted)
		for _, reason := range slices.Sorted(maps.Keys(c.Refused)) {
			fmt.Fprintf(out, "counts: %d fixes do not count, %s\n", c.Refused[reason], reason)
		}
		for _, v := range c.Violations {
			fmt.Fprintf(out, "counts, offset %d: %s: %s\n", v.Offset, v.Kind, v.Detail)
		}
		if more := c.ViolationCount - int64(len(c.Violations)); more > 0 {
			fmt.Fprintf(out, "counts: %d more violations\n", more)
		}
		for _, why := range c.NotVerified {
			fmt.Fprintf(out, "counts, not verified: %s\n", why)
		}
	}
	_, err := fmt.Fprintln(out, conclusion(report))
	return err
}

// conclusion is the last line of a report.
func conclusion(report verify.Report) string {
	var compared, violations int64
	for _, p := range report.Partitions {
		compared += p.Equal
		violations += p.ViolationCount
	}
	if c := report.Counts; c != nil {
		compared += c.Records
		violations += c.ViolationCount
	}
	switch {
	case violations > 0:
		return fmt.Sprintf("different: %s; see above",
			cli.Quantity(violations, "violation"))
	case report.Verified && report.Partitions == nil:
		return "verified: counts are what the raw topic gives"
	case report.Verified:
		return "verified: committed output, dead letters, states and offsets are what the raw " +
			"topic gives"
	case compared == 0:
		return "not verified: nothing could be compared; see above"
	}
	return fmt.Sprintf("partly verified: %s are what the raw topic gives; see above what cannot "+
		"be compared", cli.Quantity(compared, "committed record"))
}

func printPartitions(out io.Writer, report verify.Report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "partition\tprocessed\tsanitized\tdead letters\tusers\taborted or "+
		"open\tverdict\t")
	for _, p := range report.Partitions {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%s\t\n",
			p.Partition, p.Raw, p.Sanitized, p.DeadLetters, p.Users, p.NotCommitted, outcomeOf(p))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var unprocessed int64
	for _, p := range report.Partitions {
		unprocessed += p.Unprocessed
	}
	if unprocessed > 0 {
		fmt.Fprintf(out, "%d raw records are not processed yet and are not judged\n", unprocessed)
	}
	for _, p := range report.Partitions {
		if p.RefusedPlaces > 0 {
			fmt.Fprintf(out, "partition %d: %s before the last change of settings were refused "+
				"for their partition, as dead letters show\n", p.Partition,
				cli.Quantity(p.RefusedPlaces, "raw record"))
		}
		for _, v := range p.Violations {
			fmt.Fprintf(out, "partition %d, offset %d: %s: %s\n",
				p.Partition, v.Offset, v.Kind, v.Detail)
		}
		if more := p.ViolationCount - int64(len(p.Violations)); more > 0 {
			fmt.Fprintf(out, "partition %d: %d more violations\n", p.Partition, more)
		}
		for _, why := range p.NotVerified {
			fmt.Fprintf(out, "partition %d, not verified: %s\n", p.Partition, why)
		}
	}
	return nil
}

func outcomeOf(p verify.PartitionReport) string {
	switch {
	case p.ViolationCount > 0:
		return "different"
	case !p.Verified:
		return "not verified"
	}
	return "equal"
}

// verdict is the error of a report that does not say verified.
func verdict(report verify.Report) error {
	if report.Verified {
		return nil
	}
	var different, open []string
	for _, p := range report.Partitions {
		switch {
		case p.ViolationCount > 0:
			different = append(different, fmt.Sprint(p.Partition))
		case !p.Verified:
			open = append(open, fmt.Sprint("partition ", p.Partition))
		}
	}
	switch c := report.Counts; {
	case len(different) > 0:
		return fmt.Errorf("violations in partition %s (verify-differs)",
			strings.Join(different, ", "))
	case c != nil && c.ViolationCount > 0:
		return errors.New("the counts differ from what the raw topic gives (counts-differ)")
	case c != nil && !c.Verified:
		open = append(open, "counts")
	}
	return fmt.Errorf("not everything could be verified, in %s: the report says why",
		strings.Join(open, ", "))
}
