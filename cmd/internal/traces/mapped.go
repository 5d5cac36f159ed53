package traces

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// reasonNoKey: the mapping takes the user from the key, and the line has none before a tab.
const reasonNoKey = "no_key"

// messages reads a file of JSON messages by a mapping.
type messages struct {
	*pass
	reader *mapping.Reader
	owner  []byte // the key of messages without one; nil: there is none
	kept   *run   // nil: fixes are emitted as they come; else they are put in order first
}

// readMapped reads a message a line, or those of a document. What phones export is of one person,
// whom the file's name names. Its segments overlap, so its fixes are kept and put in order.
func readMapped(p *pass, m *mapping.Mapping, document bool) error {
	m = m.ForFiles()
	reader, err := m.NewReader(mapping.Decoders{})
	if err != nil {
		return err
	}
	of := &messages{pass: p, reader: reader}
	if m.Arrays() != nil {
		name, _, _ := strings.Cut(filepath.Base(p.file.path), ".")
		if first, taken := p.owners.LoadOrStore(name, p.file.path); taken && first != p.file.path {
			return fmt.Errorf("%s and %s would be one user, whom the file's name names "+
				"(traces-form)", first, p.file.path)
		}
		of.owner, of.kept = []byte(name), &run{user: name}
	}
	next := of.line
	if document {
		next = newDocument(p, m.Arrays()).next
	}
	for {
		key, value, place, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = of.message(key, value, place)
		}
		if err != nil {
			return err
		}
	}
	if of.kept == nil {
		return nil
	}
	return emitRun(p, of.kept)
}

// line returns the next line, cut into a key and a message as Kafka's own tools print them, with a
// tab between them. A line that begins as JSON has no key.
func (m *messages) line() (key, value []byte, place int, err error) {
	line, err := m.next()
	line = bytes.TrimSpace(line)
	if !startsJSON(line) {
		if before, behind, ok := bytes.Cut(line, []byte("\t")); ok {
			key, line = before, behind
		}
	}
	return key, line, m.lines.number, err
}

// isKeyed reports whether a file begins with a key, a tab and a message.
func isKeyed(start []byte) bool {
	line, _, _ := bytes.Cut(start, []byte{'\n'})
	_, value, ok := bytes.Cut(line, []byte("\t"))
	return ok && startsJSON(bytes.TrimSpace(value))
}

// message emits the fixes of a message, or counts why there is none. place is its line, or its
// number in a document.
func (m *messages) message(key, value []byte, place int) error {
	if key == nil {
		key = m.owner
	}
	if key == nil && m.reader.UserFromKey() {
		m.skip(place, reasonNoKey)
		return nil
	}
	if string(value) == "null" {
		value = nil // a tombstone, as those tools print it
	}
	fixes, err := m.reader.Read(mapping.Record{Key: key, Value: value, Timestamp: -1})
	for _, fix := range fixes {
		switch {
		case fix.Refused != nil:
			m.skip(place, string(fix.Refused.Reason))
		case fix.Skipped != mapping.NoRule:
			m.skip(place, "input: "+m.reader.Rules()[fix.Skipped])
		case err == nil:
			err = m.found(fix.Raw, place)
		}
	}
	return err
}

// found emits a fix, or keeps it.
func (m *messages) found(fix schemas.Raw, place int) error {
	if m.kept == nil {
		return m.emit(fix, place)
	}
	if len(m.kept.checkIns) == maxKept {
		return fmt.Errorf("%s: more than %d fixes of one person: cut the document", m.file.path,
			maxKept)
	}
	m.kept.checkIns = append(m.kept.checkIns, checkIn{fix.Timestamp, fix.Latitude, fix.Longitude})
	return nil
}

// maxKept bounds the fixes of a document that are held in memory, 24 bytes each: 20 years of one
// every two minutes.
const maxKept = 5 << 20
