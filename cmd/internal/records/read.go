package records

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

	"github.com/geodither/geodither/schemas"
)

// nameFile says what to do about a file that holds something else.
const nameFile = `name a file of "geodither sanitize" or "geodither consume"`

// Source reads sanitized records one after another and calls each with a record and its place in
// the input, which errors name.
type Source func(ctx context.Context, each func(schemas.Sanitized, string) error) error

// File reads a file of "sanitize" or "consume": CSV or JSON lines, plain or gzip. It calls read, if
// that is not nil, with the number of bytes that it has read since the last call.
func File(path string, stdin io.Reader, read func(int)) Source {
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
		plain, err := unzipped(tellingReader{in, read})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		first, err := firstByte(plain)
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s: the file is empty: %s", name, nameFile)
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case first == '{':
			return readLines(name, plain, each)
		}
		return readCSV(name, plain, each)
	}
}

// unzipped reads plain text, and what gzip makes of it.
func unzipped(in io.Reader) (*bufio.Reader, error) {
	const size = 1 << 16
	buffered := bufio.NewReaderSize(in, size)
	if magic, _ := buffered.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return buffered, nil
	}
	text, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(text, size), nil
}

// firstByte skips blank space and returns the byte behind it, which is still to be read.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.Peek(1)
		if err != nil {
			return 0, err
		}
		if b[0] != '\n' && b[0] != '\r' && b[0] != ' ' {
			return b[0], nil
		}
		_, _ = in.Discard(1)
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

func readLines(name string, in *bufio.Reader, each func(schemas.Sanitized, string) error) error {
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
			return fmt.Errorf("%s: %w: this is no sanitized record as "+
				"\"geodither sanitize --out FILE.ndjson\" writes it", where, err)
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

// columns are the columns of a CSV file that are read.
var columns = header[:14] // up to kind

func readCSV(name string, in io.Reader, each func(schemas.Sanitized, string) error) error {
	rows := csv.NewReader(in)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return fmt.Errorf("%s: the first line is no CSV header: %s", name, nameFile)
	}
	at := make([]int, len(columns))
	for i, column := range columns {
		if at[i] = slices.Index(header, column); at[i] < 0 {
			return fmt.Errorf("%s:1: there is no column %q: name a file of sanitized records, as "+
				"\"geodither sanitize\" or \"geodither consume --format csv\" writes it",
				name, column)
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
			return fmt.Errorf("%s: the line is no CSV of %d columns, as the header has: "+
				"repair or remove it", where, len(header))
		}
		for i, column := range at {
			fields[i] = row[column]
		}
		record, bad := parse(fields)
		if bad != "" {
			return fmt.Errorf("%s: column %s cannot be read: "+
				"this is no sanitized record as \"geodither sanitize\" writes it", where, bad)
		}
		if err := each(record, where); err != nil {
			return err
		}
	}
}

// parse reads the fields of columns. It returns the name of the first wrong one, or nothing.
func parse(fields []string) (r schemas.Sanitized, bad string) {
	r.UserID, r.Mechanism, r.ModelID, r.Kind = fields[0], fields[9], fields[10], fields[13]
	if r.UserID == "" {
		return r, columns[0]
	}
	at, err := time.Parse(time.RFC3339Nano, fields[1])
	if err != nil {
		return r, columns[1]
	}
	r.Timestamp = at.UnixMilli()
	for i, to := range []*float64{
		&r.Latitude, &r.Longitude, &r.EstimateLatitude, &r.EstimateLongitude,
		&r.RadiusM, &r.Epsilon, &r.Delta,
	} {
		if *to, err = strconv.ParseFloat(fields[2+i], 64); err != nil ||
			math.IsNaN(*to) || math.IsInf(*to, 0) {
			return r, columns[2+i]
		}
	}
	for i, to := range []*int64{&r.Step, &r.Release} {
		if *to, err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			return r, columns[11+i]
		}
	}
	return r, ""
}

// Sizes returns how many bytes the files have together; 0 if that is not known, as for standard
// input and pipes.
func Sizes(paths []string) (total int64, err error) {
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
