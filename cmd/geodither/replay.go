package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/pipeline"
)

type replayFlags struct {
	config   string
	from, to string
	options  pipeline.ReplayOptions
	dry      bool
	asJSON   bool
}

func newReplay(std streams) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay -c FILE --output-topic TOPIC",
		Short: "Release a range of the raw topic once more, into another topic",
		Long: `Run a range of the raw topic through the mechanism once more, exactly once, into another
topic, with a group, a changelog and a state folder of its own. It ends by itself. Start
the same command several times, each with its own --state-dir, to share the work; run it
again after an interruption and it goes on where it was.

With the same key, model and config the records are those of the first release, byte for
byte, and cost no ε. If anything differs (settings, raw records that retention has
removed, fixes that the service has not released yet) it would be a second release of the
same fixes: it is refused, says why and what it would cost, and goes on only with
--spend-again. --dry-run prints the plan, writes nothing and creates no topic.

--from and --to are an offset, the same in each partition, or a time such as
2026-11-21T08:00:00Z, compared with the raw records' Kafka timestamps. The record at --from
is in the range, that at --to is not. Without them the range is all that the service has
processed. Whatever came before --from is processed too, for the states, and not published.`,
		Example: `  geodither replay -c geodither.yml --output-topic fleet.again --dry-run
  geodither replay -c geodither.yml --from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z --output-topic fleet.friday`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, std) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.config, "config", "c", "", "config `FILE` of the service")
	flags.StringVar(&f.from, "from", "", "first record to publish the result of: `OFFSET` or time")
	flags.StringVar(&f.to, "to", "", "first record to leave out again: `OFFSET` or time")
	flags.StringVar(&f.options.Output, "output-topic", "", "`TOPIC` to publish to, made if it is missing")
	flags.StringVar(&f.options.Group, "group", "", "consumer `GROUP` of the replay; default: the service's, \".replay.\" and the output topic")
	flags.StringVar(&f.options.StateDir, "state-dir", "", "state `FOLDER` of this instance; default: the service's, \".replay-\" and the output topic")
	flags.BoolVar(&f.dry, "dry-run", false, "only print the plan")
	flags.BoolVar(&f.asJSON, "json", false, "print the plan, or what was done, as one JSON object")
	flags.BoolVar(&f.options.SpendAgain, "spend-again", false, "accept a second release of the same fixes")
	required(cmd, "config", "output-topic")
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, std streams) error {
	var err error
	if f.options.From, err = parseBound("from", f.from); err != nil {
		return err
	}
	if f.options.To, err = parseBound("to", f.to); err != nil {
		return err
	}
	options, err := loadService(cmd.Context(), f.config, std)
	if err != nil {
		return err
	}
	if f.dry {
		plan, err := pipeline.PlanReplay(cmd.Context(), options, f.options)
		if err != nil {
			return err
		}
		return f.print(std.out, plan)
	}
	bar := newProgress(std.err, nil)
	f.options.Progress = bar.records
	plan, err := pipeline.Replay(cmd.Context(), options, f.options)
	bar.done()
	switch {
	case errors.Is(err, pipeline.ErrSpend):
		return fmt.Errorf("%w. If you accept that, repeat it with --spend-again", err)
	case err != nil:
		return err
	case !plan.Done:
		return errors.New("interrupted: run the same command again and it goes on where it was")
	}
	return f.print(std.out, plan)
}

// parseBound reads an offset or a time; empty is neither.
func parseBound(flag, text string) (pipeline.Bound, error) {
	if text == "" {
		return pipeline.Bound{}, nil
	}
	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		return pipeline.Bound{IsOffset: true, Offset: offset}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.IsZero() {
		return pipeline.Bound{}, usagef("--%s %q is neither an offset nor a time: write 1234 or 2026-11-21T08:00:00Z", flag, text)
	}
	return pipeline.Bound{Time: at}, nil
}

// print prints a plan, or what was done.
func (f *replayFlags) print(out io.Writer, plan pipeline.ReplayPlan) error {
	if f.asJSON {
		return json.NewEncoder(out).Encode(plan)
	}
	if plan.Done {
		_, err := fmt.Fprintf(out, "done: the answers to %d raw records are in %s and %s\n", plan.Publish, plan.Output, plan.DeadLetters)
		return err
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
	fmt.Fprintf(out, "output     %s, dead letters %s\nstates     changelog %s, folder %s\ngroup      %s\n",
		plan.Output, plan.DeadLetters, plan.Changelog, plan.StateDir, plan.Group)
	fmt.Fprintf(out, "records    %d to process, %d of them to publish\n", plan.Read, plan.Publish)
	if plan.Identical {
		_, err := fmt.Fprintln(out, "cost       none: byte for byte the first release")
		return err
	}
	for _, p := range plan.Partitions {
		for _, why := range p.Differs {
			fmt.Fprintf(out, "differs    partition %d: %s\n", p.Partition, why)
		}
	}
	_, err := fmt.Fprintf(out, "cost       a second release: up to ε = %g for each of up to %d fixes, %g in all over all users; it needs --spend-again\n",
		plan.Epsilon, plan.Publish, plan.Cost)
	return err
}
