package traces

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/geodither/geodither/schemas/mapping"
)

// startsJSON reports whether a text begins as an object or an array.
func startsJSON(text []byte) bool { return len(text) > 0 && (text[0] == '{' || text[0] == '[') }

// firstLines returns the start of a file up to the end of so many lines, or as much as the buffer
// holds, without a byte order mark and blank space before it. It takes nothing from the reader, and
// waits for no more than that.
func firstLines(from *bufio.Reader, count int) []byte {
	for wanted := 1; ; wanted = max(wanted+1, from.Buffered()) {
		start, err := from.Peek(wanted)
		text := bytes.TrimLeft(bytes.TrimPrefix(start, byteOrderMark), " \t\r\n")
		if err != nil || bytes.Count(text, []byte{'\n'}) >= count {
			return text
		}
	}
}

// isDocument reports whether a file that begins so is JSON over several lines, in place of one
// object a line: its first line is only the beginning of a value, and the second one is no value.
// An array is a document of its elements, unless a mapping reads several fixes of one message.
func isDocument(start []byte, m *mapping.Mapping) bool {
	first, rest, hasMore := bytes.Cut(start, []byte{'\n'})
	second, _, _ := bytes.Cut(rest, []byte{'\n'})
	whole := json.Valid(first)
	switch {
	case !startsJSON(first):
		return false
	case first[0] == '[':
		return !whole || m == nil || !m.Several() || m.Arrays() != nil
	case m != nil && holdsAny(first, m.Arrays()):
		return true
	case whole || !hasMore || json.Valid(second) && startsJSON(second):
		return false
	}
	// A line that is wrong in itself is no beginning.
	err := json.NewDecoder(bytes.NewReader(first)).Decode(new(json.RawMessage))
	return errors.Is(err, io.ErrUnexpectedEOF)
}

// holdsAny reports whether a JSON text names one of some members.
func holdsAny(text []byte, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return bytes.Contains(text, []byte(`"`+name+`"`))
	})
}

// ofTimeline are members by which an export of Google's Timeline is seen.
var ofTimeline = []string{
	"latitudeE7", "semanticSegments", "rawSignals", "timelinePath", "topCandidate",
}

// guessMapping returns the preset of a JSON document without a mapping, by what its start holds.
func guessMapping(from *bufio.Reader) (*mapping.Mapping, error) {
	if !startsJSON(firstLines(from, 1)) {
		return nil, nil
	}
	start, _ := from.Peek(from.Buffered())
	if !holdsAny(start, ofTimeline) {
		return nil, nil
	}
	return mapping.New(mapping.Options{Preset: mapping.GoogleTimeline})
}

// notLines says in one sentence that a file is JSON of another shape.
func notLines(path string) error {
	return fmt.Errorf("%s: this is one JSON document, not one object a line (traces-form)", path)
}

// document reads the messages of a file of JSON over several lines: the elements of an array, or
// values one behind another. Of an object it reads the elements of some members, if these are
// named, and passes over the others. A message is at most maxLineBytes long.
type document struct {
	*pass
	from   *bounded
	json   *json.Decoder
	arrays []string
	list   bool // the file is an array
	open   int  // arrays and objects that the next message is in
	number int  // of the last message, from 1
	found  bool // there was an array of messages
}

func newDocument(p *pass, arrays []string) *document {
	if start, _ := p.lines.from.Peek(len(byteOrderMark)); bytes.Equal(start, byteOrderMark) {
		_, _ = p.lines.from.Discard(len(start))
	}
	d := &document{pass: p, arrays: arrays, from: &bounded{from: p.lines.from}}
	d.json = json.NewDecoder(d.from)
	d.list = bytes.HasPrefix(firstLines(p.lines.from, 1), []byte{'['})
	d.found = d.list || arrays == nil
	return d
}

// next returns a message, or io.EOF after the last.
func (d *document) next() (key, value []byte, place int, err error) {
	var message json.RawMessage
	for message == nil && err == nil {
		d.from.left = maxLineBytes
		message, err = d.step()
	}
	if errors.Is(err, io.EOF) && d.open > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, nil, 0, d.explain(err)
	}
	d.number++
	return nil, message, d.number, nil
}

// step returns the next message, or nothing after it has gone on by a bracket or a member.
func (d *document) step() (message json.RawMessage, err error) {
	inArray := d.open > 0 && (d.list || d.open == 2)
	switch {
	case d.open > 0 && !d.json.More():
		d.open--
		_, err = d.json.Token() // the bracket
	case inArray, !d.list && d.arrays == nil:
		err = d.json.Decode(&message)
	case d.open == 0:
		if _, err = d.json.Token(); err == nil {
			d.open = 1
		}
	default:
		err = d.member()
	}
	return message, err
}

// member goes into the array of a member that is wanted, and passes over another one.
func (d *document) member() error {
	name, err := d.json.Token()
	if err != nil {
		return err
	}
	text, _ := name.(string)
	for depth := 0; ; {
		d.from.left = maxLineBytes
		token, err := d.json.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('['):
			if depth == 0 && slices.Contains(d.arrays, text) {
				d.open, d.found = 2, true
				return nil
			}
			depth++
		case json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// explain says what is wrong with a document, and behind which message.
func (d *document) explain(err error) error {
	_, malformed := errors.AsType[*json.SyntaxError](err)
	switch {
	case errors.Is(err, io.EOF) && d.found:
		return err
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: the JSON document has none of the members %s", d.file.path,
			strings.Join(d.arrays, ", "))
	case errors.Is(err, errTooLong):
		return fmt.Errorf("%s: behind message %d is one of more than %d bytes (traces-form)",
			d.file.path, d.number, maxLineBytes)
	case malformed, errors.Is(err, io.ErrUnexpectedEOF) && !d.source.zipped:
		return fmt.Errorf("%s: the JSON document is malformed or cut short behind message %d",
			d.file.path, d.number)
	}
	return d.failure(err)
}

// bounded passes so many bytes on and then fails.
type bounded struct {
	from io.Reader
	left int
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errTooLong
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
