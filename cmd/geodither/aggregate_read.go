package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
)

// sanitizedSource reads sanitized records one after another. Its errors say where.
type sanitizedSource func(ctx context.Context, each func(schemas.Sanitized, string) error) error

// located is a record with its place in the input, which is in no error a location
// of anybody.
type located struct {
	record schemas.Sanitized
	where  string
}

// merged reads sources at the same time and gives their records in the order of
// their steps, as far as each source has them so: records of one source keep
// their order. The same sources give the same order, however fast each of them is.
func merged(ctx context.Context, sources []sanitizedSource, each func(schemas.Sanitized, string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	channels, failures := make([]chan located, len(sources)), make([]error, len(sources))
	for i, source := range sources {
		const ahead = 256
		channels[i] = make(chan located, ahead)
		go func() {
			defer close(channels[i])
			failures[i] = source(ctx, func(r schemas.Sanitized, where string) error {
				select {
				case channels[i] <- located{r, where}:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}()
	}
	heads := make([]*located, len(sources))
	next := func(i int) error {
		select {
		case head, ok := <-channels[i]:
			heads[i] = &head
			if !ok {
				heads[i] = nil
				return failures[i]
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for i := range sources {
		if err := next(i); err != nil {
			return err
		}
	}
	for {
		first := -1
		for i, head := range heads {
			if head != nil && (first < 0 || head.record.Step < heads[first].record.Step) {
				first = i
			}
		}
		if first < 0 {
			return nil
		}
		if err := each(heads[first].record, heads[first].where); err != nil {
			return fmt.Errorf("%s: %w", heads[first].where, err)
		}
		if err := next(first); err != nil {
			return err
		}
	}
}

// topicSources are a topic's partitions, up to their ends of now. It notes in split
// where each user's records lie.
func topicSources(ctx context.Context, client *kafka.Client, topic string, encoding schemas.Encoding, split *splitUsers) ([]sanitizedSource, error) {
	counts, err := admin.Partitions(ctx, client, wire.Options{}, topic)
	if err != nil {
		return nil, err
	}
	var sources []sanitizedSource
	for p := range int32(counts[topic]) {
		codec, err := schemas.NewCodec(encoding)
		if err != nil {
			return nil, cli.Usage(err)
		}
		sources = append(sources, func(ctx context.Context, each func(schemas.Sanitized, string) error) error {
			return tail{client: client, topic: topic}.partition(ctx, p, func(r consumer.Record) error {
				where := fmt.Sprintf("%s/%d at offset %d", topic, p, r.Offset)
				record, err := codec.DecodeSanitized(r.Value)
				if err != nil {
					return fmt.Errorf("%s: %w; is this a sanitized topic, and --encoding right?", where, err)
				}
				split.lies(record.UserID, p)
				return each(record, where)
			})
		})
	}
	return sources, nil
}

// fileSource reads a file of "sanitize" or "consume": CSV or JSON lines, plain or
// gzip. read, if not nil, is told how many bytes more are read.
func fileSource(path string, stdin io.Reader, read func(int)) sanitizedSource {
	return func(_ context.Context, each func(schemas.Sanitized, string) error) error {
		name, in := path, stdin
		if path == "-" {
			name = "standard input"
		} else {
			file, err := os.Open(path)
			if err != nil {
				return fmt.Errorf("%w: check the path", err)
			}
			defer file.Close()
			in = file
		}
		buffered := bufio.NewReaderSize(tellingReader{in, read}, 1<<16)
		if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
			unzipped, err := gzip.NewReader(buffered)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			buffered = bufio.NewReaderSize(unzipped, 1<<16)
		}
		for {
			b, err := buffered.Peek(1)
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("%s: the file is empty: name a file of \"geodither sanitize\" or \"geodither consume\"", name)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if b[0] != '\n' && b[0] != '\r' && b[0] != ' ' {
				if b[0] == '{' {
					return readSanitizedLines(name, buffered, each)
				}
				return readSanitizedCSV(name, buffered, each)
			}
			_, _ = buffered.Discard(1)
		}
	}
}

type tellingReader struct {
	io.Reader
	read func(int)
}

func (t tellingReader) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if t.read != nil {
		t.read(n)
	}
	return n, err
}

func readSanitizedLines(name string, in *bufio.Reader, each func(schemas.Sanitized, string) error) error {
	codec, err := schemas.NewCodec(schemas.JSON)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, schemas.MaxRecordBytes)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		where := name + ":" + strconv.Itoa(n)
		record, err := codec.DecodeSanitized(lines.Bytes())
		if err != nil {
			return fmt.Errorf("%s: %w: this is no sanitized record as \"geodither sanitize --out-format json\" writes it", where, err)
		}
		if err := each(record, where); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// sanitizedColumns are the columns of CSV that are read.
var sanitizedColumns = csvHeader[:14] // up to kind

func readSanitizedCSV(name string, in io.Reader, each func(schemas.Sanitized, string) error) error {
	rows := csv.NewReader(in)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return fmt.Errorf("%s: the first line is no CSV header: name a file of \"geodither sanitize\" or \"geodither consume\"", name)
	}
	at := make([]int, len(sanitizedColumns))
	for i, column := range sanitizedColumns {
		if at[i] = slices.Index(header, column); at[i] < 0 {
			return fmt.Errorf("%s:1: there is no column %q: name a file of sanitized records, as \"geodither sanitize\" or \"geodither consume --format csv\" writes it", name, column)
		}
	}
	fields := make([]string, len(at))
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		line, _ := rows.FieldPos(0)
		where := name + ":" + strconv.Itoa(line)
		if err != nil {
			return fmt.Errorf("%s: the line is no CSV of %d columns, as the header has: repair or remove it", where, len(header))
		}
		for i, column := range at {
			fields[i] = row[column]
		}
		record, bad := parseSanitized(fields)
		if bad != "" {
			return fmt.Errorf("%s: column %s cannot be read: this is no sanitized record as \"geodither sanitize\" writes it", where, bad)
		}
		if err := each(record, where); err != nil {
			return err
		}
	}
}

// parseSanitized reads the fields of sanitizedColumns and returns the name of the
// first that is wrong, if one is.
func parseSanitized(fields []string) (r schemas.Sanitized, bad string) {
	r.UserID, r.Mechanism, r.ModelID, r.Kind = fields[0], fields[9], fields[10], fields[13]
	if r.UserID == "" {
		return r, sanitizedColumns[0]
	}
	at, err := time.Parse(time.RFC3339Nano, fields[1])
	if err != nil {
		return r, sanitizedColumns[1]
	}
	r.Timestamp = at.UnixMilli()
	for i, to := range []*float64{&r.Latitude, &r.Longitude, &r.EstimateLatitude, &r.EstimateLongitude, &r.RadiusM, &r.Epsilon, &r.Delta} {
		if *to, err = strconv.ParseFloat(fields[2+i], 64); err != nil || math.IsNaN(*to) || math.IsInf(*to, 0) {
			return r, sanitizedColumns[2+i]
		}
	}
	for i, to := range []*int64{&r.Step, &r.Release} {
		if *to, err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			return r, sanitizedColumns[11+i]
		}
	}
	return r, ""
}

func sizesOf(paths []string) (total int64, err error) {
	known := true
	for _, path := range paths {
		if path == "-" {
			known = false
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return 0, fmt.Errorf("%w: check the path", err)
		}
		if info.IsDir() {
			return 0, fmt.Errorf("%s is a folder: name files of sanitized records", path)
		}
		known = known && info.Mode().IsRegular()
		total += info.Size()
	}
	if !known {
		total = 0
	}
	return total, nil
}
