package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
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
			printer, err := newPrinter(format, buffered, std.Err, codec, dead)
			if err != nil {
				return cli.Usage(err)
			}
			client, err := connect(cmd.Context(), brokers)
			if err != nil {
				return err
			}
			source := tail{client: client, topic: topic, uncommitted: uncommitted, fromEnd: fromEnd, follow: follow}
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

// printer prints the values of records, and then what closes the output.
type printer struct {
	print func(value []byte) error
	close func() error
}

func newPrinter(format string, out, log io.Writer, codec *schemas.Codec, dead bool) (printer, error) {
	if dead {
		return newLetterPrinter(format, out, codec)
	}
	writer, err := newRecordWriter(format, out)
	if err != nil {
		return printer{}, err
	}
	seeded := int64(0)
	said := func() error {
		if seeded > 0 {
			fmt.Fprintln(log, seededRecords(seeded))
		}
		return writer.close()
	}
	return printer{close: said, print: func(value []byte) error {
		record, err := codec.DecodeSanitized(value)
		if err != nil {
			return fmt.Errorf("%w; is this a sanitized topic, and --encoding right?", err)
		}
		if schemas.HasNote(record.Mechanism, schemas.Seeded) {
			seeded++
		}
		return writer.write(record)
	}}, nil
}

// newLetterPrinter prints dead letters: they have no place on the map.
func newLetterPrinter(format string, out io.Writer, codec *schemas.Codec) (printer, error) {
	rows, lines := csv.NewWriter(out), json.NewEncoder(out)
	write := func(d schemas.DeadLetter) error { return lines.Encode(d) }
	end := func() error { return nil }
	switch format {
	case "json", "ndjson":
	case "csv":
		if err := rows.Write([]string{"topic", "partition", "offset", "reason", "timestamp"}); err != nil {
			return printer{}, err
		}
		write = func(d schemas.DeadLetter) error {
			return rows.Write([]string{
				d.Topic, strconv.FormatInt(int64(d.Partition), 10), strconv.FormatInt(d.Offset, 10),
				string(d.Reason), strconv.FormatInt(d.Timestamp, 10),
			})
		}
		end = func() error {
			rows.Flush()
			return rows.Error()
		}
	default:
		return printer{}, fmt.Errorf("output format %q does not fit dead letters: choose json or csv", format)
	}
	return printer{close: end, print: func(value []byte) error {
		letter, err := codec.DecodeDeadLetter(value)
		if err != nil {
			return fmt.Errorf("%w; is this a dead-letter topic, and --encoding right?", err)
		}
		return write(letter)
	}}, nil
}

// consumeTopic prints a topic's records and leaves complete output behind, also
// when it is interrupted. That there was no record is said on log: the output may
// not show it.
func consumeTopic(ctx context.Context, source tail, printer printer, buffered *bufio.Writer, log io.Writer) error {
	records := 0
	err := source.run(ctx, func(_ int32, r consumer.Record) error {
		records++
		if err := printer.print(r.Value); err != nil {
			return err
		}
		if source.follow {
			return buffered.Flush()
		}
		return nil
	})
	if err == nil && records == 0 {
		fmt.Fprintf(log, "no record of %s is committed yet: is what writes it running? --follow waits for some\n", source.topic)
	}
	return errors.Join(err, printer.close(), buffered.Flush())
}

// recordWriter prints sanitized records in one text format.
type recordWriter interface {
	write(r schemas.Sanitized) error
	close() error
}

func newRecordWriter(format string, out io.Writer) (recordWriter, error) {
	switch format {
	case "json", "ndjson":
		return jsonWriter{json.NewEncoder(out)}, nil
	case "csv":
		w := csvWriter{csv.NewWriter(out)}
		return w, w.Write(csvHeader)
	case "geojson":
		return &geoJSONWriter{out: out}, nil
	}
	return nil, knownFormat(format)
}

// knownFormat refuses a format that newRecordWriter does not know.
func knownFormat(format string) error {
	switch format {
	case "json", "ndjson", "csv", "geojson":
		return nil
	}
	return fmt.Errorf("output format %q is unknown: choose json, csv or geojson", format)
}

type jsonWriter struct{ *json.Encoder }

func (w jsonWriter) write(r schemas.Sanitized) error { return w.Encode(r) }
func (w jsonWriter) close() error                    { return nil }

type csvWriter struct{ *csv.Writer }

var csvHeader = []string{
	"user_id", "timestamp", "latitude", "longitude", "estimate_latitude", "estimate_longitude",
	"radius_m", "epsilon", "delta", "mechanism", "model_id", "step", "release",
	"kind", "factor_200m", "factor_1km", "factor_set",
}

func (w csvWriter) write(r schemas.Sanitized) error {
	return w.Write([]string{
		r.UserID, time.UnixMilli(r.Timestamp).UTC().Format(time.RFC3339Nano),
		degrees(r.Latitude), degrees(r.Longitude), degrees(r.EstimateLatitude), degrees(r.EstimateLongitude),
		strconv.FormatFloat(r.RadiusM, 'f', 1, 64), number(r.Epsilon), number(r.Delta),
		r.Mechanism, r.ModelID, strconv.FormatInt(r.Step, 10), strconv.FormatInt(r.Release, 10),
		r.Kind, factor(r.Factor200M), factor(r.Factor1KM), factor(r.FactorSet),
	})
}

func (w csvWriter) close() error {
	w.Flush()
	return w.Error()
}

// degrees prints seven decimals: a centimetre.
func degrees(x float64) string { return strconv.FormatFloat(x, 'f', 7, 64) }

// factor prints nothing for 0, which is none.
func factor(x float64) string {
	if x == 0 {
		return ""
	}
	return number(x)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// geoJSONWriter writes one FeatureCollection (RFC 7946), a feature a line.
type geoJSONWriter struct {
	out   io.Writer
	begun bool
}

type feature struct {
	Type       string `json:"type"`
	Geometry   point  `json:"geometry"`
	Properties any    `json:"properties"`
}

type point struct {
	Type        string     `json:"type"`
	Coordinates [2]float64 `json:"coordinates"` // longitude first
}

func (w *geoJSONWriter) write(r schemas.Sanitized) error {
	data, err := json.Marshal(feature{
		Type:       "Feature",
		Geometry:   point{Type: "Point", Coordinates: [2]float64{r.EstimateLongitude, r.EstimateLatitude}},
		Properties: r,
	})
	if err != nil {
		return err
	}
	separator := ",\n"
	if !w.begun {
		w.begun, separator = true, geoJSONHead
	}
	_, err = fmt.Fprintf(w.out, "%s%s", separator, data)
	return err
}

const geoJSONHead = `{"type":"FeatureCollection","features":[` + "\n"

func (w *geoJSONWriter) close() error {
	tail := "\n]}\n"
	if !w.begun {
		tail = geoJSONHead + "]}\n"
	}
	_, err := io.WriteString(w.out, tail)
	return err
}
