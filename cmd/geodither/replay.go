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
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
)

type replayFlags struct {
	config  string
	options replay.Options
	dry     bool
	asJSON  bool
}

func newReplay(std cli.Streams) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay -c FILE --output-topic TOPIC",
		Short: "Release a range of the raw topic once more, into another topic",
		Long: `Run a range of the raw topic through the mechanism once more, exactly once, into another topic.
With the same key, model and config the records are those of the first release, byte for byte, and
cost no ε.

If anything else differs, or raw records are missing, this would be a second release of the same
fixes. The command then refuses, says why and what it would cost, and goes on only with
--spend-again. The cost is exact: the ε of all second releases that the published records depend
on, also before --from.

--from and --to are an offset, the same in each partition, or a time, compared with the Kafka
timestamps of the raw records. Records before --from are processed for the states, and not
published. --dry-run prints the plan; its exit code is 1 if the replay would be refused.

After an interruption, run the command again: it goes on where it was. To share the work, start it
several times, each with a state_dir of its own. With smooth or topics.smoothed in the config it
also smooths the output.`,
		Example: `  geodither replay -c geodither.yml --output-topic fleet.again --dry-run
  geodither replay -c geodither.yml --from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z \
    --output-topic fleet.friday`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, std) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.config, "config", "c", "", "config `FILE` of the service")
	flags.Var(&f.options.From, "from",
		"`OFFSET` or time of the first raw record whose result is published; default: the first")
	flags.Var(&f.options.To, "to",
		"`OFFSET` or time of the first raw record to leave out; default: the last processed")
	flags.StringVar(&f.options.Output, "output-topic", "",
		"`TOPIC` to publish to; it is created if it is missing")
	flags.BoolVar(&f.dry, "dry-run", false, "only print the plan")
	flags.BoolVar(&f.asJSON, "json", false, "print the plan, or what was done, as one JSON object")
	flags.BoolVar(&f.options.SpendAgain, "spend-again", false,
		"accept a second release of the same fixes")
	cli.Required(cmd, "config", "output-topic")
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, std cli.Streams) error {
	options, file, err := loadFile(f.config, std)
	if err != nil {
		return err
	}
	if file.Smooths() {
		smoothing, err := file.SmoothingOf(options)
		if err != nil {
			return config.Error(f.config, err)
		}
		smoothing.Smooth.Scheduled = false // no further model will come
		f.options.Smooth = &smoothing.Smooth
		t := smoothing.Topics
		f.options.Taken = []string{t.Sanitized, t.Changelog, t.DeadLetters}
	}
	if _, err := options.Connection.Connect(cmd.Context(), options.Brokers); err != nil {
		return err
	}
	if f.dry {
		return f.plan(cmd, std, options)
	}
	bar := cli.NewProgress(std.Err, nil)
	bar.Phase("working out the cost", nil)
	f.options.Planning = bar.Counter("raw offsets")
	phase := func(name, unit string) func(done, total int64) {
		var begun sync.Once
		return func(done, total int64) {
			begun.Do(func() { bar.Phase(name, nil) }) // at a rate of its own
			bar.Count(done, total, unit)
		}
	}
	f.options.Progress = phase("replaying", "raw offsets")
	f.options.Ending = phase("looking for last records", "offsets")
	f.options.Smoothing = phase("smoothing", "offsets")
	plan, err := replay.Run(cmd.Context(), options, f.options)
	bar.Done()
	switch {
	case err != nil:
		return refused(err)
	case !plan.Done:
		return errors.New("interrupted: the same command goes on where it was")
	}
	return f.print(std.Out, plan)
}

// plan prints the plan, and ends as the replay would begin.
func (f *replayFlags) plan(cmd *cobra.Command, std cli.Streams, options service.Options) error {
	bar := cli.NewProgress(std.Err, nil)
	bar.Phase("working out the cost", nil)
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
		return fmt.Errorf("%w; accept that with --spend-again", err)
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
		switch {
		case plan.ToSmooth > 0:
			fmt.Fprintf(out, "to smooth: %s of %s, by this command without --dry-run\n",
				cli.Quantity(plan.ToSmooth, "offset"), plan.Output)
		case plan.Smoothed != "":
			fmt.Fprintf(out, "smoothed: all of them are in %s\n", plan.Smoothed)
		}
		printUnsmoothed(out, plan)
		if !plan.Identical {
			printCost(out, "spent", plan.Spent)
		}
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
	if plan.Smoothed != "" {
		fmt.Fprintf(out, "smoothed   %s\n", plan.Smoothed)
	}
	printUnsmoothed(out, plan)
	fmt.Fprintf(out, "records    %d to process, %d of them to publish\n", plan.Read, plan.Publish)
	if plan.Identical {
		_, err := fmt.Fprintln(out, "cost       none: these are the first releases again")
		return err
	}
	for _, p := range plan.Partitions {
		for _, why := range p.Differs {
			fmt.Fprintf(out, "differs    partition %d: %s\n", p.Partition, why)
		}
	}
	fmt.Fprintf(out, "release    a second one, at up to ε = %g a release; it needs --spend-again\n",
		plan.Epsilon)
	printCost(out, "cost", plan.Cost)
	if plan.Spent != (replay.Cost{}) {
		printCost(out, "spent", plan.Spent)
	}
	return nil
}

// printUnsmoothed prints why a replay does not smooth, although the config has smooth.
func printUnsmoothed(out io.Writer, plan replay.Plan) {
	if plan.NotSmoothed != "" {
		fmt.Fprintf(out, "not smoothed: %s\n", plan.NotSmoothed)
	}
}

// printCost prints what second releases cost, or have cost by now.
func printCost(out io.Writer, name string, c replay.Cost) {
	fmt.Fprintf(out, "%-10s ε = %g in all over %d users with published records, up to ε = %g for "+
		"one user\n", name, c.Epsilon, c.Users, c.UserMax)
	if c.BeforeFrom > 0 {
		fmt.Fprintf(out, "%-10s ε = %g of that is for releases before --from, "+
			"on which the published records depend\n", "", c.BeforeFrom)
	}
}
