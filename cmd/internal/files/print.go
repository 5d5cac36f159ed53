package files

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/schemas"
)

// Printer prints the encoded values of a topic's records.
type Printer struct {
	print func(value []byte) error
	close func() error
}

// Print decodes a value and prints it.
func (p Printer) Print(value []byte) error { return p.print(value) }

// Close prints what completes the output.
func (p Printer) Close() error { return p.close() }

// NewPrinter returns a printer of sanitized records. At its end it says on log how many of them
// protect nobody.
func NewPrinter(format string, out, log io.Writer, codec *schemas.Codec) (Printer, error) {
	writer, err := NewWriter(format, out)
	if err != nil {
		return Printer{}, err
	}
	seeded := int64(0)
	end := func() error {
		if seeded > 0 {
			fmt.Fprintln(log, SeededWords(seeded))
		}
		return writer.Close()
	}
	return Printer{close: end, print: func(value []byte) error {
		record, err := codec.DecodeSanitized(value)
		if err != nil {
			if _, other := codec.DecodeDeadLetter(value); other == nil {
				return errors.New("this is a topic of dead letters (--dead-letters)")
			}
			return fmt.Errorf(
				"%w; is this a sanitized topic?", err)
		}
		if schemas.HasNote(record.Mechanism, schemas.Seeded) {
			seeded++
		}
		return writer.Write(record)
	}}, nil
}

// SeededWords says what the mark in so many records means to their readers.
func SeededWords(n int64) string {
	return cli.Quantity(n, "record") + ` marked "seeded, not private": ` +
		"anybody who guesses the seed takes the noise off; no ε holds for them"
}

// NewLetterPrinter returns a printer of dead letters, as csv or json: they have no place on a map.
// At its end it says on log how many there are of each reason.
func NewLetterPrinter(
	format string, out, log io.Writer, codec *schemas.Codec,
) (Printer, error) {
	lines, err := schemas.NewCodec(schemas.JSONText)
	if err != nil {
		return Printer{}, err
	}
	rows := csv.NewWriter(out)
	write := func(d schemas.DeadLetter) error {
		line, err := lines.AppendDeadLetter(nil, d)
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		return err
	}
	end := func() error { return nil }
	switch format {
	case "json", "ndjson":
	case "csv":
		if err := rows.Write(
			[]string{"topic", "partition", "offset", "reason", "timestamp"}); err != nil {
			return Printer{}, err
		}
		write = func(d schemas.DeadLetter) error {
			at := "" // there is none
			if d.Timestamp >= 0 {
				at = Time(d.Timestamp)
			}
			return rows.Write([]string{
				d.Topic, strconv.FormatInt(int64(d.Partition), 10), strconv.FormatInt(d.Offset, 10),
				string(d.Reason), at,
			})
		}
		end = func() error {
			rows.Flush()
			return rows.Error()
		}
	default:
		return Printer{}, fmt.Errorf("output format %q: dead letters are json or csv", format)
	}
	counts := map[schemas.Reason]int64{}
	return Printer{close: func() error {
		sayCounts(log, counts)
		return end()
	}, print: func(value []byte) error {
		letter, err := codec.DecodeDeadLetter(value)
		if err != nil {
			return fmt.Errorf(
				"%w; is this a dead-letter topic?", err)
		}
		counts[letter.Reason]++
		return write(letter)
	}}, nil
}

// sayCounts says how many dead letters there are of each reason, the most frequent one first.
func sayCounts(log io.Writer, counts map[schemas.Reason]int64) {
	order := slices.SortedFunc(maps.Keys(counts), func(a, b schemas.Reason) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for _, reason := range order {
		fmt.Fprintf(log, "%s: %s\n", cli.Quantity(counts[reason], "dead letter"), reason)
	}
}
