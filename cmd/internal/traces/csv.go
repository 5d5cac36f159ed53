package traces

import (
	"errors"
	"fmt"
	"io"

	"github.com/geodither/geodither/schemas"
)

// readCSV reads records as RFC 4180 has them, under a header.
func (p *pass) readCSV() error {
	var rec record
	start, reason, err := p.nextRecord(&rec)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return p.skip(1, reasonEmptyFile)
		}
		return err
	}
	if reason != "" {
		return fmt.Errorf("%s:%d: the header is no CSV: expected column names such as %s",
			p.file.path, start, expectedColumns(wantedNames(p.options.Columns)))
	}
	head, err := parseHeader(rec.fields, p.options.Columns)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", p.file.path, start, err)
	}
	for {
		start, reason, err := p.nextRecord(&rec)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var fix schemas.Raw
		if reason == "" {
			fix, reason = head.parse(rec.fields, &p.names)
		}
		if reason != "" {
			err = p.skip(start, reason)
		} else {
			err = p.emit(fix, start)
		}
		if err != nil {
			return err
		}
	}
}

// maxRecordLines bounds a record over several lines: what is lost, as one
// skip, to a quote that is never closed.
const maxRecordLines = 100

// nextRecord reads a record and returns the line it starts in; io.EOF after the
// last. A quoted field may hold line ends. A record is dropped with a reason if
// its quotes are wrong; the next one starts in the line behind it.
func (p *pass) nextRecord(rec *record) (start int, reason string, err error) {
	line, err := p.next()
	if err != nil {
		return 0, "", err
	}
	start = p.lines.number
	result := rec.parse(line)
	if result == quotesOpen {
		rec.joined = append(rec.joined[:0], line...)
	}
	for count := 1; result == quotesOpen; count++ {
		line, err := p.lines.next()
		if errors.Is(err, io.EOF) || errors.Is(err, errTooLong) {
			return start, reasonQuotes, nil
		}
		if err != nil {
			return 0, "", p.failure(err)
		}
		if count == maxRecordLines || len(rec.joined)+len(line) >= maxLineBytes {
			return start, reasonQuotes, nil
		}
		rec.joined = append(append(rec.joined, '\n'), line...)
		result = rec.parse(rec.joined)
	}
	if result == quotesBad {
		return start, reasonQuotes, nil
	}
	return start, "", nil
}
