package traces

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/geodither/geodither/schemas"
)

// maxCheckIns bounds a user's run of check-ins, which is held in memory (24
// bytes each). The most in Gowalla is 2,175.
const maxCheckIns = 1 << 20

// checkIn is a fix of the user whose run is being gathered.
type checkIn struct {
	ms                  int64
	latitude, longitude float64
}

// run is the check-ins of one user in lines that follow each other.
type run struct {
	user     string
	checkIns []checkIn
}

// readGowalla reads check-ins, a user's newest first, and hands on each user's
// oldest first.
func (p *pass) readGowalla() error {
	var gathered run
	for {
		line, err := p.next()
		if errors.Is(err, io.EOF) {
			return p.emitRun(&gathered)
		}
		if err != nil {
			return err
		}
		fix, reason := parseCheckIn(line, &p.names)
		if reason == "" {
			reason = refusal(fix)
		}
		if reason != "" {
			if err := p.skip(p.lines.number, reason); err != nil {
				return err
			}
			continue
		}
		if fix.UserID != gathered.user {
			if err := p.emitRun(&gathered); err != nil {
				return err
			}
			gathered.user = fix.UserID
		}
		if len(gathered.checkIns) == maxCheckIns {
			return fmt.Errorf("%s:%d: more than %d check-ins of one user: cut the file, or give it as CSV in order of time",
				p.file.path, p.lines.number, maxCheckIns)
		}
		gathered.checkIns = append(gathered.checkIns, checkIn{fix.Timestamp, fix.Latitude, fix.Longitude})
	}
}

// emitRun hands on a run, oldest first, and empties it. Check-ins of the same
// second come in the opposite order of the file, like all others.
func (p *pass) emitRun(r *run) error {
	slices.Reverse(r.checkIns)
	byTime := func(a, b checkIn) int { return cmp.Compare(a.ms, b.ms) }
	if !slices.IsSortedFunc(r.checkIns, byTime) {
		slices.SortStableFunc(r.checkIns, byTime)
	}
	for _, c := range r.checkIns {
		fix := schemas.Raw{UserID: r.user, Timestamp: c.ms, Latitude: c.latitude, Longitude: c.longitude}
		if !p.yield(fix, nil) {
			return errStopped
		}
	}
	r.checkIns = r.checkIns[:0]
	return nil
}

// parseCheckIn reads user, time, latitude, longitude and location id, separated
// by tabs. The location id is not used.
func parseCheckIn(line []byte, shared *names) (fix schemas.Raw, reason string) {
	var fields [5][]byte
	if !split(fields[:], line, '\t') {
		return schemas.Raw{}, reasonColumns
	}
	var ok bool
	if fix.Timestamp, ok = parseTime(fields[1]); !ok {
		return schemas.Raw{}, reasonTimestamp
	}
	if fix.Latitude, ok = parseNumber(fields[2]); !ok {
		return schemas.Raw{}, reasonNumber
	}
	if fix.Longitude, ok = parseNumber(fields[3]); !ok {
		return schemas.Raw{}, reasonNumber
	}
	fix.UserID = shared.share(fields[0])
	return fix, ""
}
