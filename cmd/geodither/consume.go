package main

import (
	"bufio"
	"cmp"
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

type consumeFlags struct {
	from                  config.TopicFlags
	out, format           string
	user                  string
	limit                 int
	follow, fromEnd, dead bool
	others                bool // there are records of other users
}

func newConsume(std cli.Streams) *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume {-c FILE | --topic TOPIC}",
		Short: "Read a sanitized topic as JSON lines, CSV, GeoJSON or Parquet",
		Long: `Read the committed records of a sanitized topic as JSON lines, CSV, a GeoJSON FeatureCollection or
one GeoParquet file. All have the names of the schema, and times as RFC 3339 text. Records come in
order within a user. The command ends where the topic ended at its start, or with --follow at
Ctrl-C. A file appears when it is complete.

With --dead-letters: where each refused raw record lies, and why, without its content.`,
		Example: `  geodither consume -c geodither.yml --out sanitized.parquet
  geodither consume --topic fleet.sanitized --user bus-7 --limit 10
  geodither consume -c geodither.yml --follow --from-end
  geodither consume -c geodither.yml --dead-letters --format csv`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, std) },
	}
	flags := cmd.Flags()
	f.from.Register(flags)
	flags.StringVar(&f.out, "out", "-",
		"`FILE` to write: .csv, .ndjson, .geojson or .parquet; - is standard output")
	flags.StringVar(&f.format, "format", "",
		"`NAME`: json (one object a line), csv, geojson or parquet; default: by the ending of "+
			"--out, and json on standard output")
	flags.StringVar(&f.user, "user", "", "read the records of this user `ID` alone")
	flags.IntVar(&f.limit, "limit", 0, "`NUMBER` of records to read at most; 0: all")
	flags.BoolVar(&f.follow, "follow", false, "go on reading until Ctrl-C")
	flags.BoolVar(&f.fromEnd, "from-end", false, "with --follow: read new records only")
	flags.BoolVar(&f.dead, "dead-letters", false, "read the dead letters")
	cli.Values(cmd, "format", "json", "csv", "geojson", "parquet")
	return cmd
}

func (f *consumeFlags) run(cmd *cobra.Command, std cli.Streams) error {
	if err := f.complete(std.Out); err != nil {
		return err
	}
	topic, err := f.from.Sanitized(cmd)
	if f.dead {
		topic, err = f.from.DeadLetters(cmd)
	}
	if err != nil {
		return err
	}
	codec, err := schemas.NewCodec(topic.Encoding)
	if err != nil {
		return cli.Usage(err)
	}
	file, err := files.CreateOrStdout(f.out, std.Out)
	if err != nil {
		return err
	}
	source := topics.Tail{Topic: topic.Name, FromEnd: f.fromEnd, Follow: f.follow, Made: topic.Made}
	bar := cli.NewProgress(std.Err, nil)
	printed, err := f.read(cmd.Context(), topic, &source, codec, file, bar, std.Err)
	bar.Done()
	if err != nil {
		return errors.Join(err, file.Discard())
	}
	if printed == 0 && !f.follow {
		if why := source.Waiting(cmd.Context(), f.others); why != "" {
			fmt.Fprintln(std.Err, why)
		}
		fmt.Fprintln(std.Err, f.noneConsumed(topic.Name))
	}
	if err := file.Close(); err != nil {
		return err
	}
	files.Wrote(std.Err, f.out, cli.Quantity(int64(printed), "record"))
	return nil
}

// complete refuses what cannot be written, and chooses the format.
func (f *consumeFlags) complete(stdout io.Writer) (err error) {
	switch {
	case f.limit < 0:
		return cli.Usagef("--limit must not be negative")
	case f.fromEnd && !f.follow:
		return cli.Usagef("--from-end alone reads nothing: add --follow to wait for new records")
	case f.user != "" && f.dead:
		return cli.Usagef("--user: dead letters name no user")
	case f.format == "" && f.out == "-":
		f.format = "json"
	case f.format == "":
		if f.format, err = files.FormatOf(f.out); err != nil {
			return err
		}
	}
	if _, terminal := cli.Terminal(stdout); terminal && f.out == "-" && f.format == "parquet" {
		return cli.Usagef("a terminal cannot show Parquet: write it with --out FILE.parquet")
	}
	return nil
}

// noneConsumed says that there was no record, which the output may not show.
func (f *consumeFlags) noneConsumed(topic string) string {
	switch {
	case f.dead:
		return "there are no dead letters in " + topic
	case f.user != "":
		return "there is no record of this user in " + topic
	}
	return "no record of " + topic + " is committed yet: is what writes it running?"
}

// quietFor is how long --follow waits for a first record before it says what it waits for.
const quietFor = 3 * time.Second

// ofAnother reports whether a record is of another user than --user names. A value that cannot be
// decoded is the printer's to explain.
func (f *consumeFlags) ofAnother(codec *schemas.Codec, value []byte) bool {
	if f.user == "" {
		return false
	}
	record, err := codec.DecodeSanitized(value)
	return err == nil && record.UserID != f.user
}

// errEnough ends the reading at the limit.
var errEnough = errors.New("that is as many as were asked for")

// read prints a topic's records, and returns how many it printed. It leaves complete output behind,
// also when it is interrupted, and none if it fails before the first record: a header alone would
// look like an empty topic.
func (f *consumeFlags) read(
	ctx context.Context, topic config.Topic, source *topics.Tail, codec *schemas.Codec,
	out *files.File, bar *cli.Progress, log io.Writer,
) (printed int, err error) {
	buffered := bufio.NewWriter(out) // beside the file's own: it can still be thrown away
	newPrinter := files.NewPrinter   // one alone: it may begin with a header
	if f.dead {
		newPrinter = files.NewLetterPrinter
	}
	printer, err := newPrinter(f.format, buffered, log, codec)
	if err != nil {
		return 0, cli.Usage(err)
	}
	if source.Client, err = topic.Connect(ctx); err != nil {
		return 0, err
	}
	quiet := time.AfterFunc(quietFor, func() {
		if why := source.Waiting(ctx, false); why != "" && source.Follow {
			fmt.Fprintf(log, "waiting for records until Ctrl-C: %s\n", why)
		}
	})
	defer quiet.Stop()
	err = source.Run(ctx, func(_ int32, r consumer.Record) error {
		quiet.Stop()
		if f.ofAnother(codec, r.Value) {
			f.others = true
			return nil
		}
		if err := printer.Print(r.Value); err != nil {
			return err
		}
		printed++
		if f.out != "-" {
			bar.Show(int64(printed))
		}
		if printed == f.limit {
			return errEnough
		}
		if source.Follow {
			return errors.Join(buffered.Flush(), out.Flush())
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err != nil && printed == 0 && ctx.Err() == nil {
		return 0, err
	}
	closed, flushed := printer.Close(), buffered.Flush() // they may repeat the error
	return printed, cmp.Or(err, closed, flushed)
}
