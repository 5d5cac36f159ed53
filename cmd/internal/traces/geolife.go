package traces

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/geodither/geodither/schemas"
)

// geolifeTitle opens every .plt file of Geolife.
var geolifeTitle = []byte("Geolife trajectory")

// geolifeHeader is how many lines stand before the points, from the title on.
const geolifeHeader = 6

// readGeolife reads a .plt file of Geolife 1.3 (user guide, section 3): six
// lines, then points as
//
//	latitude,longitude,0,altitude in feet or -777,days since 1899-12-30,date,time
//
// with times in GMT.
func (p *pass) readGeolife() error {
	user, err := geolifeUser(p.file.path)
	if err != nil {
		return err
	}
	for title := 0; ; {
		line, err := p.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		number := p.lines.number
		if title == 0 {
			if !bytes.HasPrefix(line, geolifeTitle) {
				// Another program's .plt: its columns mean something else.
				return p.skip(number, reasonNoGeolife)
			}
			title = number
		}
		if number < title+geolifeHeader {
			continue
		}
		fix, reason := parsePoint(line)
		fix.UserID = user
		if reason != "" {
			err = p.skip(p.lines.number, reason)
		} else {
			err = p.emit(fix, p.lines.number)
		}
		if err != nil {
			return err
		}
	}
}

// geolifeUser returns whose a .plt file is: the name of the folder above
// Trajectory or, for a file that was moved elsewhere, of its own folder.
func geolifeUser(path string) (string, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	folder := filepath.Dir(whole)
	if strings.EqualFold(filepath.Base(folder), trajectory) {
		folder = filepath.Dir(folder)
	}
	return filepath.Base(folder), nil
}

// parsePoint reads a line of a .plt file into a fix without a user.
func parsePoint(line []byte) (fix schemas.Raw, reason string) {
	var fields [7][]byte
	if !split(fields[:], line, ',') {
		return schemas.Raw{}, reasonColumns
	}
	var ok bool
	if fix.Latitude, ok = parseNumber(fields[0]); !ok {
		return schemas.Raw{}, reasonNumber
	}
	if fix.Longitude, ok = parseNumber(fields[1]); !ok {
		return schemas.Raw{}, reasonNumber
	}
	day, ok := parseDate(fields[5])
	if !ok {
		return schemas.Raw{}, reasonTimestamp
	}
	clock, ok := parseClock(fields[6])
	if !ok {
		return schemas.Raw{}, reasonTimestamp
	}
	fix.Timestamp = day + clock
	return fix, ""
}

// split cuts line into exactly len(fields) fields; false if it has another
// number of them.
func split(fields [][]byte, line []byte, separator byte) bool {
	for i := range fields {
		end := bytes.IndexByte(line, separator)
		if last := i == len(fields)-1; last != (end < 0) {
			return false
		} else if last {
			end = len(line)
		}
		fields[i] = bytes.TrimSpace(line[:end])
		line = line[min(end+1, len(line)):]
	}
	return true
}
