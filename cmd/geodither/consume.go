package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/schemas"
)

func newConsume(std cli.Streams) *cobra.Command {
	var (
		from    config.TopicFlags
		format  string
		follow  bool
		fromEnd bool
		dead    bool
	)
	cmd := &cobra.Command{
		Use:   "consume {-c FILE | --topic TOPIC}",
		Short: "Read a sanitized topic as JSON lines, CSV, GeoJSON or Parquet",
		Long: `Read the committed records of a sanitized topic as JSON lines, CSV, a GeoJSON FeatureCollection or
one GeoParquet file. All have the names of the schema, and times as RFC 3339 text. Records come in
order within a user. The command ends at the end that the topic had when it started, or with
--follow at Ctrl-C.

With --dead-letters it reads the dead letters: where each refused raw record lies and why it was
refused. A refused record's content is not in it.`,
		Example: `  geodither consume --topic fleet.sanitized --format csv > sanitized.csv
  geodither consume -c geodither.yml --format parquet > sanitized.parquet
  geodither consume -c geodither.yml --follow --from-end
  geodither consume -c geodither.yml --format geojson > sanitized.geojson
  geodither consume -c geodither.yml --dead-letters --format csv`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			topic, err := from.Sanitized(cmd)
			if dead {
				topic, err = from.DeadLetters(cmd)
			}
			if err != nil {
				return err
			}
			codec, err := schemas.NewCodec(topic.Encoding)
			if err != nil {
				return cli.Usage(err)
			}
			buffered := bufio.NewWriter(std.Out)
			newPrinter := files.NewPrinter // one alone: it may begin with a header
			if dead {
				newPrinter = files.NewLetterPrinter
			}
			printer, err := newPrinter(format, buffered, std.Err, codec)
			if err != nil {
				return cli.Usage(err)
			}
			client, err := topic.Connect(cmd.Context())
			if err != nil {
				return err
			}
			source := topics.Tail{
				Client: client, Topic: topic.Name, FromEnd: fromEnd, Follow: follow,
				Made: topic.Made,
			}
			printed, err := consumeTopic(cmd.Context(), source, printer, buffered, std.Err)
			if err == nil && printed == 0 {
				if why := source.Waiting(cmd.Context()); why != "" && !follow {
					fmt.Fprintln(std.Err, why)
				}
				fmt.Fprintln(std.Err, noneConsumed(topic.Name, dead, fromEnd))
			}
			return err
		},
	}
	flags := cmd.Flags()
	from.Register(flags)
	flags.StringVar(&format, "format", "json", "json (one object a line), csv, geojson or parquet")
	flags.BoolVar(&follow, "follow", false, "go on reading until Ctrl-C")
	flags.BoolVar(&fromEnd, "from-end", false, "start at the end instead of the beginning")
	flags.BoolVar(&dead, "dead-letters", false, "read the dead letters")
	return cmd
}

// noneConsumed says that there was no record, which the output may not show.
func noneConsumed(topic string, dead, fromEnd bool) string {
	switch {
	case dead && fromEnd:
		return "there are no new dead letters in " + topic
	case dead:
		return "there are no dead letters in " + topic
	}
	return "no record of " + topic + " is committed yet: is what writes it running? " +
		"--follow waits for some"
}

// quietFor is how long --follow waits for a first record before it says what it waits for.
const quietFor = 3 * time.Second

// consumeTopic prints a topic's records, and returns how many it printed. It leaves complete output
// behind, also when it is interrupted, and none if it fails before the first record: a header alone
// would look like an empty topic.
func consumeTopic(
	ctx context.Context, source topics.Tail, printer files.Printer, buffered *bufio.Writer,
	log io.Writer,
) (printed int, err error) {
	quiet := time.AfterFunc(quietFor, func() {
		if why := source.Waiting(ctx); why != "" && source.Follow {
			fmt.Fprintf(log, "waiting: %s\n", why)
		}
	})
	defer quiet.Stop()
	err = source.Run(ctx, func(_ int32, r consumer.Record) error {
		quiet.Stop()
		if err := printer.Print(r.Value); err != nil {
			return err
		}
		printed++
		if source.Follow {
			return buffered.Flush()
		}
		return nil
	})
	if err != nil && printed == 0 && ctx.Err() == nil {
		return 0, err
	}
	return printed, errors.Join(err, printer.Close(), buffered.Flush())
}
