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

// counting counts the bytes that are read from a file, and stops when the context ends.
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

// file is one file to be read.
type file struct {
	path    string
	size    int64
	stdin   bool
	regular bool // not a pipe or a device: its size is known
}

// source holds the buffers that the files of a goroutine share one after another: Geolife has
// 18,670 small files.
type source struct {
	closer   io.Closer
	packed   *bufio.Reader // the file as stored on the disk
	unzip    *gzip.Reader
	unpacked *bufio.Reader // what unzip returns
	zipped   bool
	lines    lines
}

// open opens f and returns its lines, unpacked if its content is gzip. It adds the bytes that it
// reads to done.
func (s *source) open(ctx context.Context, f file, stdin io.Reader,
	done *atomic.Int64,
) (*lines, error) {
	in, closer, err := openFile(ctx, f, stdin)
	if err != nil {
		return nil, err
	}
	s.closer, s.zipped = closer, false
	from := &counting{ctx: ctx, from: in, n: done}
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

// openFile returns a file's bytes, and what closes it, which is nil for standard input.
func openFile(ctx context.Context, f file, stdin io.Reader) (io.Reader, io.Closer, error) {
	if f.stdin {
		return &interruptible{ctx: ctx, from: stdin}, nil, nil
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
	// For a shorter file Peek returns all of it, with io.EOF.
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

// explain adds to an error of reading after which line it came and what to do.
func (s *source) explain(path string, line int, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err // the file is not at fault
	case s.zipped && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)):
		return fmt.Errorf("%s: the gzip data is cut short after line %d: %w", path, line,
			io.ErrUnexpectedEOF)
	case s.zipped:
		return fmt.Errorf("%s: the gzip data is damaged after line %d: %w", path, line, err)
	}
	return fmt.Errorf("%s: reading failed after line %d: %w", path, line, err)
}

var gzipMagic = []byte{0x1f, 0x8b}

// foreign are the first bytes of contents that users often give by mistake.
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

// interruptible is a reader whose Read returns when the context ends, even while the reader below
// it waits for a terminal or a quiet pipe.
type interruptible struct {
	ctx  context.Context //nolint:containedctx // io.Reader has no other place for it
	from io.Reader
	buf  []byte
}

func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.buf) < len(p) {
		r.buf = make([]byte, len(p))
	}
	type result struct {
		n   int
		err error
	}
	// The goroutine has memory of its own, because p belongs to the caller once Read returns.
	// After an interruption the goroutine keeps r.buf.
	buf, done := r.buf[:len(p)], make(chan result, 1)
	go func() {
		n, err := r.from.Read(buf)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, buf[:got.n]), got.err
	case <-r.ctx.Done():
		r.buf = nil
		return 0, r.ctx.Err()
	}
}

// openPipe opens a file whose opening may wait for a writer, such as a named pipe.
func openPipe(ctx context.Context, path string) (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		file, err := os.Open(path)
		opened <- result{file, err}
	}()
	select {
	case got := <-opened:
		return got.file, got.err
	case <-ctx.Done():
		go func() {
			if late := <-opened; late.err == nil {
				_ = late.file.Close() // nothing was read from it
			}
		}()
		return nil, ctx.Err()
	}
}

// maxLineBytes bounds a line, and a CSV record over several lines. It is far above any honest
// one, and bounds the memory that a foreign file can cost.
const maxLineBytes = 1 << 20

// errTooLong stands for a line of more than maxLineBytes, which was passed over: the next call
// returns the line after it.
var errTooLong = errors.New("line too long")

var byteOrderMark = []byte("\xef\xbb\xbf")

// lines reads lines of bounded length.
type lines struct {
	from   *bufio.Reader
	number int    // of the line that next returned last, from 1
	long   []byte // a line that is longer than from's buffer
	held   bool   // next has to return the same line again
	line   []byte
	err    error
}

func (l *lines) reset(from *bufio.Reader) { *l = lines{from: from, long: l.long[:0]} }

// peek returns what next will return.
func (l *lines) peek() ([]byte, error) {
	line, err := l.next()
	l.held = true
	return line, err
}

// next returns a line without its end, LF or CRLF, and the first line without a byte order mark.
// It returns io.EOF after the last. The line is valid until the next call. At a reader's error the
// part of a line before it is dropped: a file that is cut short must not yield half a number.
func (l *lines) next() ([]byte, error) {
	if l.held {
		l.held = false
		return l.line, l.err
	}
	l.line, l.err = l.read()
	return l.line, l.err
}

func (l *lines) read() ([]byte, error) {
	line, err := l.from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.readLong(line)
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errTooLong) {
		return nil, err
	}
	if err != nil && len(line) == 0 && errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	l.number++
	if errors.Is(err, errTooLong) {
		return nil, err
	}
	if l.number == 1 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'}), nil
}

// readLong collects a line that starts with start and does not end in the buffer.
func (l *lines) readLong(start []byte) ([]byte, error) {
	l.long = append(l.long[:0], start...)
	tooLong := false
	for {
		part, err := l.from.ReadSlice('\n')
		if tooLong = tooLong || len(l.long)+len(part) > maxLineBytes; !tooLong {
			l.long = append(l.long, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case tooLong:
			return nil, errTooLong
		}
		return l.long, err
	}
}
