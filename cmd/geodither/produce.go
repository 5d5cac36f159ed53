package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

type produceFlags struct {
	to         config.TopicFlags
	partitions int
	rate       float64
	input      cli.InputFlags
	simulation simulationFlags
}

// simulationFlags describe a fleet that moves by a model.
type simulationFlags struct {
	vehicles int
	model    string
	steps    int
}

func (s *simulationFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&s.vehicles, "simulate", 0, "simulate this many `VEHICLES` that move by --model")
	flags.StringVar(&s.model, "model", "", "model `FILE` for --simulate")
	flags.IntVar(&s.steps, "steps", 0,
		"simulate this many steps, ending now; 0: live, until Ctrl-C")
}

func newProduce(std cli.Streams) *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use:   "produce {-c FILE | --topic TOPIC} {PATH... | --simulate VEHICLES --model FILE}",
		Short: "Feed a raw topic from trace files or a simulated fleet",
		Long: `Feed a raw topic from trace files, or from a simulated fleet that moves by a model.

Records are keyed by user id, and go to the partitions that Kafka's Java client would choose. A
retry inside one run doubles nothing. A Kafka record's timestamp is the time of producing.`,
		Example: `  geodither produce --topic fleet.raw --create 4 --in traces.csv
  geodither produce -c geodither.yml --in traces.csv
  geodither produce --topic fleet.raw --simulate 500 --model model.avro --steps 60
  geodither produce --topic fleet.raw --simulate 500 --model model.avro     # live, until Ctrl-C`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args, std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags)
	f.input.RegisterColumns(flags)
	f.to.Register(flags)
	flags.IntVar(&f.partitions, "create", 0,
		"make the topic with this many `PARTITIONS` if it is missing")
	flags.Float64Var(&f.rate, "rate", 0, "records per second at most; 0: as fast as it goes")
	f.simulation.register(flags)
	return cmd
}

func (f *produceFlags) run(cmd *cobra.Command, args []string, std cli.Streams) error {
	ctx := cmd.Context()
	if !(f.rate >= 0) || f.partitions < 0 { // so written, no NaN passes either
		return cli.Usagef("--rate and --create must not be negative")
	}
	topic, err := f.to.Raw(cmd)
	if err != nil {
		return err
	}
	codec, err := schemas.NewCodec(topic.Encoding)
	if err != nil {
		return cli.Usage(err)
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	source, files, err := f.source(reading, args, std.In)
	if err != nil {
		return err
	}
	client, err := topic.Connect(ctx)
	if err != nil {
		return err
	}
	feeder, err := fleet.NewFeeder(ctx, client, topic.Name, f.partitions, codec)
	if err != nil {
		return err
	}
	feeder.Rate = f.rate
	var progress func() (done, total int64)
	skips := new(traces.Skips)
	if files != nil {
		progress, skips = files.Progress, files.Skips()
	}
	fixes, ended := fleet.Read(reading, source)
	err = feeder.All(ctx, fixes, cli.NewProgress(std.Err, progress))
	stop() // where feeding failed the source has not ended
	<-ended
	if nothing := skips.Nothing(feeder.Sent()); err == nil && nothing != nil {
		return nothing
	}
	if skips.Total > 0 {
		fmt.Fprintln(std.Err, skips)
	}
	fmt.Fprintf(std.Err, "produced %d records to %s (%d partitions)\n",
		feeder.Sent(), topic.Name, feeder.Partitions())
	if files == nil && f.simulation.steps == 0 && ctx.Err() != nil {
		return nil // a live simulation ends in no other way
	}
	return err
}

// source opens what the flags name: files, or a simulated fleet. The end of the context ends the
// reading, too.
func (f *produceFlags) source(
	ctx context.Context, args []string, stdin io.Reader,
) (iter.Seq2[schemas.Raw, error], *traces.Reader, error) {
	s, files := f.simulation, len(f.input.Paths)+len(args) > 0
	switch {
	case s.vehicles < 0 || s.steps < 0:
		return nil, nil, cli.Usagef("--simulate and --steps must not be negative")
	case s.vehicles == 0 && (s.model != "" || s.steps > 0):
		return nil, nil, cli.Usagef("--model and --steps belong to --simulate VEHICLES")
	case s.vehicles == 0:
		reader, err := f.input.Open(ctx, args, stdin)
		if err != nil {
			return nil, nil, err
		}
		return reader.Fixes(), reader, nil
	case files:
		return nil, nil, cli.Usagef("--in and --simulate exclude each other")
	case s.model == "":
		return nil, nil, cli.Usagef("--simulate needs a --model")
	}
	model, err := mobility.ReadModelFile(s.model)
	if err != nil {
		return nil, nil, err
	}
	return fleet.New(model, s.vehicles, 1).Fixes(ctx, s.steps, time.Now()), nil, nil
}
