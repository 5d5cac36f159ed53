package traces

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// lane is what one goroutine reads with: the buffers that its files share one after another, and
// the lines that it skipped.
type lane struct {
	source source
	names  names
	skips  Skips
}

// errStopped passes through the formats when the caller wants no more fixes.
var errStopped = errors.New("stopped")

// pass is the reading of one file.
type pass struct {
	*lane
	file    file
	index   int // of the file
	lines   *lines
	yield   func(schemas.Raw, error) bool
	columns map[string]string // see Options
	mapping *mapping.Mapping  // see Options
	latest  int64             // time of a fix, milliseconds since 1970
	owners  *sync.Map         // paths of exports by the person that they are of
}

// next returns the next line that is not empty, or io.EOF after the last. It skips lines that are
// too long.
func (p *pass) next() ([]byte, error) {
	for {
		line, err := p.lines.next()
		switch {
		case errors.Is(err, errTooLong):
			p.skip(p.lines.number, string(schemas.ReasonTooLarge))
		case err != nil:
			return nil, p.failure(err)
		case len(line) > 0:
			return line, nil
		}
	}
}

// each emits what parse makes of one part of the file after another, or skips the part from a line
// on for a reason, until the file or the reading ends.
func (p *pass) each(
	parse func() (fix schemas.Raw, line int, reason string, err error),
) error {
	for {
		fix, line, reason, err := parse()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case reason != "":
			p.skip(line, reason)
		default:
			if err := p.emit(fix, line); err != nil {
				return err
			}
		}
	}
}

// eachLine is each of lines that are not empty.
func (p *pass) eachLine(parse func(line []byte) (fix schemas.Raw, reason string)) error {
	return p.each(func() (fix schemas.Raw, line int, reason string, err error) {
		text, err := p.next()
		if err == nil {
			fix, reason = parse(text)
		}
		return fix, p.lines.number, reason, err
	})
}

// failure adds to an error of reading which file it is and what to do. It returns io.EOF as it is.
func (p *pass) failure(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return p.source.explain(p.file.path, p.lines.number, err)
}

// emit gives a fix to the caller, or skips it if it is not valid.
func (p *pass) emit(fix schemas.Raw, line int) error {
	if reason := p.refusal(fix); reason != "" {
		p.skip(line, reason)
		return nil
	}
	if !p.yield(fix, nil) {
		return errStopped
	}
	return nil
}

// skip counts a bad line.
func (p *pass) skip(line int, reason string) {
	p.skips.Add(p.index, Skip{File: p.file.path, Line: line, Reason: reason})
}

// refusal returns why a fix is not valid, or "" if it is.
func (p *pass) refusal(fix schemas.Raw) string {
	err := fix.Validate()
	switch {
	case err == nil && fix.Timestamp <= schemas.FirstGPSMS:
		return string(schemas.ReasonBeforeGPS)
	case err == nil && fix.Timestamp > p.latest:
		return string(schemas.ReasonTimestampAhead)
	case err == nil:
		return ""
	}
	if rejection, ok := errors.AsType[*schemas.Rejection](err); ok {
		return string(rejection.Reason)
	}
	return string(schemas.ReasonMalformed)
}

// run is the check-ins of one user in successive lines.
type run struct {
	user     string
	checkIns []checkIn
}

// emitRun emits a run, oldest first, and empties it. It reverses the order of check-ins of the
// same second too.
func emitRun(p *pass, r *run) error {
	slices.Reverse(r.checkIns)
	byTime := func(a, b checkIn) int { return cmp.Compare(a.ms, b.ms) }
	if !slices.IsSortedFunc(r.checkIns, byTime) {
		slices.SortStableFunc(r.checkIns, byTime)
	}
	for _, c := range r.checkIns {
		fix := schemas.Raw{
			UserID: r.user, Timestamp: c.ms, Latitude: c.latitude, Longitude: c.longitude,
		}
		if !p.yield(fix, nil) {
			return errStopped
		}
	}
	r.checkIns = r.checkIns[:0]
	return nil
}

// maxCheckIns bounds a user's run of check-ins, which is held in memory (24 bytes each). The
// longest in Gowalla has 2,175.
const maxCheckIns = 1 << 20

// checkIn is a fix of the user whose run is being gathered.
type checkIn struct {
	ms                  int64
	latitude, longitude float64
}
