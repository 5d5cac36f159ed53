package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/records"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/schemas"
)

func newConsume(std cli.Streams) *cobra.Command {
	var (
		brokers     []string
		topic       string
		format      string
		encoding    string
		follow      bool
		fromEnd     bool
		uncommitted bool
		dead        bool
	)
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "Read a sanitized topic as JSON lines, CSV or GeoJSON",
		Long: `Read a sanitized topic, committed records only, and print it as JSON lines, CSV or a
GeoJSON FeatureCollection (a point for each estimate, with the release, the radius and
the rest as properties). Records come in order within a user. It ends at what was the
end of the topic when it began, or goes on until Ctrl-C with --follow.

With --dead-letters it reads a dead-letter topic instead: where each refused raw record
lies, and why it was refused. Its content is not in it.`,
		Example: `  geodither consume --brokers localhost:9092 --topic fleet.sanitized --format csv > sanitized.csv
  geodither consume --brokers localhost:9092 --topic fleet.sanitized --follow --from-end
  geodither consume --brokers localhost:9092 --topic geodither-dead-letters --dead-letters --format csv`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			codec, err := schemas.NewCodec(schemas.Encoding(encoding))
			if err != nil {
				return cli.Usage(err)
			}
			buffered := bufio.NewWriter(std.Out)
			printer, err := records.NewPrinter(format, buffered, std.Err, codec)
			if dead {
				printer, err = records.NewLetterPrinter(format, buffered, codec)
			}
			if err != nil {
				return cli.Usage(err)
			}
			client, err := kafkaconn.Connect(cmd.Context(), brokers)
			if err != nil {
				return err
			}
			source := topics.Tail{Client: client, Topic: topic, Uncommitted: uncommitted, FromEnd: fromEnd, Follow: follow}
			return consumeTopic(cmd.Context(), source, printer, buffered, std.Err)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&brokers, "brokers", []string{"localhost:9092"}, "Kafka brokers, `HOST:PORT,...`")
	flags.StringVar(&topic, "topic", "", "sanitized topic to read")
	flags.StringVar(&format, "format", "json", "json (one object a line), csv or geojson")
	flags.StringVar(&encoding, "encoding", string(schemas.Avro), "encoding of the topic: avro or json")
	flags.BoolVar(&follow, "follow", false, "go on reading until Ctrl-C")
	flags.BoolVar(&fromEnd, "from-end", false, "begin at the end instead of the beginning")
	flags.BoolVar(&uncommitted, "read-uncommitted", false, "also read records of open and aborted transactions")
	flags.BoolVar(&dead, "dead-letters", false, "the topic is one of dead letters")
	cli.Required(cmd, "topic")
	return cmd
}

// consumeTopic prints a topic's records and leaves complete output behind, also
// when it is interrupted. That there was no record is said on log: the output may
// not show it.
func consumeTopic(ctx context.Context, source topics.Tail, printer records.Printer, buffered *bufio.Writer, log io.Writer) error {
	read := 0
	err := source.Run(ctx, func(_ int32, r consumer.Record) error {
		read++
		if err := printer.Print(r.Value); err != nil {
			return err
		}
		if source.Follow {
			return buffered.Flush()
		}
		return nil
	})
	if err == nil && read == 0 {
		fmt.Fprintf(log, "no record of %s is committed yet: is what writes it running? --follow waits for some\n", source.Topic)
	}
	return errors.Join(err, printer.Close(), buffered.Flush())
}
