package traces

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLineBytes bounds a line, and a CSV record over several lines: far above
// any honest one, and what a file that is none of ours may cost.
const maxLineBytes = 1 << 20

// errTooLong stands for a line of more than maxLineBytes. It was read past: the
// next call gives the line behind it.
var errTooLong = errors.New("line too long")

var byteOrderMark = []byte("\xef\xbb\xbf")

// lines reads lines of bounded length.
type lines struct {
	from   *bufio.Reader
	number int    // of the line that next returned last, from 1
	long   []byte // a line that is longer than from's buffer
	held   bool   // the line in hand is to be returned again
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

// next returns a line without its end, LF or CRLF, and the first line without a
// byte order mark; io.EOF after the last. The line is valid until the next
// call. A reader's error hides the part of a line before it: a file that is cut
// short must not yield half a number.
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

// readLong gathers a line that began with start and did not end in the buffer.
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
