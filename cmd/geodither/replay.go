package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
)

type replayFlags struct {
	options replay.Options
	dry     bool
	asJSON  bool
}

func newReplay(std cli.Streams) *cobra.Command {
	var (
		f      replayFlags
		accept acceptances
	)
	cmd := &cobra.Command{
		Use:   "replay -c FILE --output-topic TOPIC",
		Short: "Release a range of the raw topic once more, into another topic",
		Long: `Run a range of the raw topic through the mechanism once more, exactly once, into another topic.
With the same key, model and config the records are those of the first release, byte for byte, and
cost no ε.

If anything else differs, or raw records are missing, this would be a second release of the same
fixes. The command then refuses, says why and what it would cost, and goes on only with
--accept=second-release. The config bounds the cost: by its lifetime budget, or else by its budget,
which start at 0 in a replay. Without a budget nothing bounds it.

--from and --to are a time, compared with the Kafka timestamps of the raw records, or an offset, the
same in each partition. Records before --from are processed for the states, and not
published. --dry-run prints the plan; its exit code is 1 if the replay would be refused.

After an interruption, run the command again: it goes on where it was. To share the work, start it
several times, each with a state_dir of its own.`,
		Example: `  geodither replay -c geodither.yml --output-topic fleet.again --dry-run
  geodither replay -c geodither.yml --from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z \
    --output-topic fleet.friday`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.options.SpendAgain = accept["second-release"]
			return f.run(cmd, std)
		},
	}
	flags := cmd.Flags()
	flags.Var(&f.options.From, "from",
		"`TIME`, day or offset of the first raw record whose result is published; default: the "+
			"first")
	flags.Var(&f.options.To, "to",
		"`TIME`, day or offset of the first raw record to leave out; default: after the last "+
			"processed")
	flags.StringVar(&f.options.Output, "output-topic", "",
		"`TOPIC` to publish to; it is created if it is missing")
	flags.BoolVar(&f.dry, "dry-run", false, "only print the plan")
	flags.BoolVar(&f.asJSON, "json", false, "print the plan, or what was done, as one JSON object")
	accept = acceptFlag(cmd, "go on, by `NAME`: second-release, with one of the same fixes",
		"second-release")
	cli.Required(cmd, "output-topic")
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, std cli.Streams) error {
	if err := topics.CheckRange(f.options.From, f.options.To); err != nil {
		return err
	}
	options, err := loadService(cmd, std)
	if err != nil {
		return err
	}
	if f.dry {
		return f.plan(cmd, std, options)
	}
	bar := cli.NewProgress(std.Err, nil)
	bar.Phase("comparing states", nil)
	f.options.Planning = bar.Counter("raw offsets")
	var begun sync.Once
	f.options.Progress = func(done, total int64) {
		begun.Do(func() { bar.Phase("replaying", nil) }) // at a rate of its own
		bar.Count(done, total, "raw offsets")
	}
	plan, err := replay.Run(cmd.Context(), options, f.options)
	bar.Done()
	switch {
	case err != nil:
		return refused(err)
	case !plan.Done:
		fmt.Fprintln(std.Err, "the same command goes on where it was")
		return cmd.Context().Err()
	}
	return f.print(std.Out, plan)
}

// plan prints the plan, and ends as the replay would begin.
func (f *replayFlags) plan(cmd *cobra.Command, std cli.Streams, options service.Options) error {
	bar := cli.NewProgress(std.Err, nil)
	bar.Phase("comparing states", nil)
	f.options.Planning = bar.Counter("raw offsets")
	plan, err := replay.NewPlan(cmd.Context(), options, f.options)
	bar.Done()
	if err != nil {
		return err
	}
	if err := f.print(std.Out, plan); err != nil {
		return err
	}
	return refused(plan.Refusal(f.options))
}

// refused says what to do about a second release.
func refused(err error) error {
	if errors.Is(err, replay.ErrSpend) {
		return fmt.Errorf("%w; accept that with --accept=second-release", err)
	}
	return err
}

// print prints a plan, or what was done.
func (f *replayFlags) print(out io.Writer, plan replay.Plan) error {
	if f.asJSON {
		return json.NewEncoder(out).Encode(plan)
	}
	if plan.Done {
		fmt.Fprintf(out, "done: the answers to the raw records are in %s and %s\n",
			plan.Output, plan.DeadLetters)
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "partition\tprocess from\tpublish from\tto\tcommitted\t")
	for _, p := range plan.Partitions {
		committed := "-"
		if p.Committed >= 0 {
			committed = strconv.FormatInt(p.Committed, 10)
		}
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%s\t\n", p.Partition, p.Origin, p.From, p.To, committed)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "output     %s, dead letters %s\nstates     changelog %s, folder %s\n"+
		"group      %s\n", plan.Output, plan.DeadLetters, plan.Changelog, plan.StateDir, plan.Group)
	if plan.Identical {
		_, err := fmt.Fprintln(out, "cost       none: these are the first releases again")
		return err
	}
	for _, p := range plan.Partitions {
		for _, why := range p.Differs {
			fmt.Fprintf(out, "differs    partition %d: %s\n", p.Partition, why)
		}
	}
	_, err := fmt.Fprintf(out, "release    a second one; it needs --accept=second-release\n"+
		"cost       %v\n", plan.Cost)
	return err
}
