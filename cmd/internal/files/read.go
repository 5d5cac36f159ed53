package files

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/geodither/geodither/schemas"
)

// nameFile says what to do about a file that holds something else.
const nameFile = `name a file of "geodither sanitize" or "geodither consume"`

// parquetMagic is how a Parquet file begins.
const parquetMagic = "PAR1"

// Source reads sanitized records one after another and calls each with a record and its place in
// the input, which errors name.
type Source func(ctx context.Context, each func(schemas.Sanitized, string) error) error

// Records reads a file of "sanitize" or "consume": CSV or JSON lines, plain or gzip. It calls read,
// if that is not nil, with the number of bytes that it has read since the last call.
func Records(path string, stdin io.Reader, read func(int)) Source {
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
		if start, _ := plain.Peek(len(parquetMagic)); string(start) == parquetMagic {
			return fmt.Errorf("%s is a Parquet file; CSV or JSON is read: %s", name,
				nameFile+" in one of these formats")
		}
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
			return fmt.Errorf("%s: %w: this is no sanitized record", where, err)
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

// csvLayout says where the columns are in a file.
type csvLayout struct {
	at []int // of each of columns; -1: the file has it not
}

// layoutOf finds the columns by the header of a file. It returns the name of a missing one.
func layoutOf(header []string) (l csvLayout, missing string) {
	for _, c := range columns {
		at := slices.Index(header, c.name)
		if at < 0 && !c.optional {
			return l, c.name
		}
		l.at = append(l.at, at)
	}
	const lat, lon = "release_latitude", "release_longitude"
	switch has := func(name string) bool { return slices.Contains(header, name) }; {
	case has(lat) && !has(lon):
		return l, lon
	case has(lon) && !has(lat):
		return l, lat
	}
	return l, ""
}

// parse reads a row. It returns the name of the first wrong column, or nothing.
func (l csvLayout) parse(row []string) (r schemas.Sanitized, bad string) {
	for i, c := range columns {
		if at := l.at[i]; at >= 0 && !c.read(&r, row[at]) {
			return r, c.name
		}
	}
	switch {
	case r.ReleaseLatitude.Known && !r.ReleaseLongitude.Known:
		return r, "release_longitude"
	case r.ReleaseLongitude.Known && !r.ReleaseLatitude.Known:
		return r, "release_latitude"
	}
	return r, ""
}

func readCSV(name string, in io.Reader, each func(schemas.Sanitized, string) error) error {
	rows := csv.NewReader(in)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return fmt.Errorf("%s: the first line is no CSV header: %s", name, nameFile)
	}
	layout, missing := layoutOf(header)
	if missing != "" {
		return fmt.Errorf("%s:1: there is no column %q of sanitized records", name, missing)
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		line, _ := rows.FieldPos(0)
		where := name + ":" + strconv.Itoa(line)
		if err != nil {
			return fmt.Errorf("%s: the line is no CSV of %d columns", where, len(header))
		}
		record, bad := layout.parse(row)
		if bad != "" {
			return fmt.Errorf("%s: column %s cannot be read", where, bad)
		}
		if err := each(record, where); err != nil {
			return err
		}
	}
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
			return 0, fmt.Errorf("%s is a folder: name files", path)
		}
		known = known && info.Mode().IsRegular()
		total += info.Size()
	}
	if !known {
		total = 0
	}
	return total, nil
}
