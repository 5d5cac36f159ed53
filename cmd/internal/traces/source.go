package traces

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

const bufferBytes = 64 << 10

// counting counts the bytes that are read from a file, until the context ends.
type counting struct {
	ctx  context.Context //nolint:containedctx // io.Reader has no other place for it
	from io.Reader
	n    *atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.from.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// source holds the buffers that all files of a goroutine share, one after
// another: Geolife has 18,670 small ones.
type source struct {
	closer   io.Closer
	packed   *bufio.Reader // the file as it lies on the disk
	unzip    *gzip.Reader
	unpacked *bufio.Reader // what unzip returns
	zipped   bool
	lines    lines
}

// open opens f and returns its lines, unpacked if its content is gzip.
func (r *Reader) open(ctx context.Context, l *lane, f file) (*lines, error) {
	s := &l.source
	in, closer, err := r.openFile(ctx, f)
	if err != nil {
		return nil, err
	}
	s.closer, s.zipped = closer, false
	from := &counting{ctx: ctx, from: in, n: &r.done}
	if s.packed == nil {
		s.packed = bufio.NewReaderSize(from, bufferBytes)
	} else {
		s.packed.Reset(from)
	}
	if err := s.unpack(f.path); err != nil {
		_ = s.close()
		return nil, err
	}
	return &s.lines, nil
}

// openFile returns a file's bytes, and what closes it: nil for standard input.
func (r *Reader) openFile(ctx context.Context, f file) (io.Reader, io.Closer, error) {
	if f.stdin {
		return &interruptible{ctx: ctx, from: r.stdin}, nil, nil
	}
	if f.regular {
		opened, err := os.Open(f.path)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: give read permission or leave the file out", err)
		}
		return opened, opened, nil
	}
	opened, err := openPipe(ctx, f.path)
	if err != nil {
		return nil, nil, err
	}
	return &interruptible{ctx: ctx, from: opened}, opened, nil
}

func (s *source) unpack(path string) error {
	// Of a shorter file Peek returns what there is, with io.EOF.
	start, err := s.packed.Peek(maxMagic)
	if err != nil && !errors.Is(err, io.EOF) {
		return s.explain(path, 0, err)
	}
	if !bytes.HasPrefix(start, gzipMagic) {
		if err := refuseForeign(path, start); err != nil {
			return err
		}
		s.lines.reset(s.packed)
		return nil
	}
	s.zipped = true
	if s.unzip == nil {
		s.unzip = new(gzip.Reader)
	}
	if err := s.unzip.Reset(s.packed); err != nil {
		return s.explain(path, 0, err)
	}
	if s.unpacked == nil {
		s.unpacked = bufio.NewReaderSize(s.unzip, bufferBytes)
	} else {
		s.unpacked.Reset(s.unzip)
	}
	start, err = s.unpacked.Peek(maxMagic)
	if err != nil && !errors.Is(err, io.EOF) {
		return s.explain(path, 0, err)
	}
	s.lines.reset(s.unpacked)
	return refuseForeign(path, start)
}

func (s *source) close() error {
	if s.closer == nil {
		return nil
	}
	return s.closer.Close()
}

// explain says what to do about an error of reading after a line.
func (s *source) explain(path string, line int, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err // it is no fault of the file
	case s.zipped && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)):
		return fmt.Errorf("%s: the gzip data is cut short after line %d: copy or download the file again: %w",
			path, line, io.ErrUnexpectedEOF)
	case s.zipped:
		return fmt.Errorf("%s: the gzip data is damaged after line %d: copy or download the file again: %w",
			path, line, err)
	}
	return fmt.Errorf("%s: reading failed after line %d: check the disk and try again: %w", path, line, err)
}

var gzipMagic = []byte{0x1f, 0x8b}

// foreign are contents that are often given by mistake, by their first bytes.
var foreign = []struct{ magic, is string }{
	{"PK\x03\x04", "a zip archive: unpack it first"},
	{"\x28\xb5\x2f\xfd", "packed with zstd: unpack it or pack it with gzip"},
	{"\xfd7zXZ", "packed with xz: unpack it or pack it with gzip"},
	{"BZh", "packed with bzip2: unpack it or pack it with gzip"},
	{"\x1f\x8b", "packed with gzip twice: unpack it once"},
	{"PAR1", "Parquet: export it as CSV"},
	{"SQLite", "a SQLite database: export a table as CSV"},
	{"\xff\xfe", "text in UTF-16: save it as UTF-8"},
	{"\xfe\xff", "text in UTF-16: save it as UTF-8"},
}

// maxMagic is the longest of the first bytes above.
const maxMagic = 6

func refuseForeign(path string, start []byte) error {
	for _, f := range foreign {
		if bytes.HasPrefix(start, []byte(f.magic)) {
			return fmt.Errorf("%s is %s", path, f.is)
		}
	}
	return nil
}
