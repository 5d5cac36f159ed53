package traces

import (
	"bytes"
	"errors"
	"fmt"
)

// Format is how fixes are written in a file. The empty format is guessed, by
// the file's name and its first line.
type Format string

// The formats.
const (
	// CSV has a header that names, in any order and among others, the columns
	// user_id (or user, uid), timestamp (or time, ts), latitude (or lat),
	// longitude (or lon, lng, long) and, if there is one, accuracy_m in metres.
	// Timestamps are RFC 3339, with a space for the T if one likes and UTC if
	// they name no zone, or whole milliseconds since 1970: never seconds.
	CSV Format = "csv"
	// NDJSON has one object a line with the fields of a raw record in JSON:
	// user_id, timestamp (RFC 3339 or milliseconds since 1970), latitude,
	// longitude and, if there is one, accuracy_m.
	NDJSON Format = "ndjson"
	// Geolife is Microsoft's GeoLife 1.3: folders USER/Trajectory of .plt files.
	// The user id is the folder's name.
	Geolife Format = "geolife"
	// Gowalla is SNAP's loc-gowalla_totalCheckins: user, time, latitude,
	// longitude and location id, separated by tabs, a user's newest first.
	Gowalla Format = "gowalla"
)

func (f Format) validate() error {
	switch f {
	case "", CSV, NDJSON, Geolife, Gowalla:
		return nil
	}
	return fmt.Errorf("unknown format %q: use %s, %s, %s or %s, or none to have it guessed",
		string(f), CSV, NDJSON, Geolife, Gowalla)
}

// named reports whether the columns of a format have names in its files.
func (f Format) named() bool { return f == CSV || f == NDJSON }

// extensions returns how the files of a folder are named.
func (f Format) extensions() []string {
	switch f {
	case CSV:
		return []string{".csv"}
	case NDJSON:
		return []string{".ndjson", ".jsonl"}
	case Geolife:
		return []string{".plt"}
	case Gowalla:
		return []string{".txt"}
	}
	return []string{".plt", ".csv", ".ndjson", ".jsonl"}
}

// format returns the format of the file at hand, and passes over empty lines at
// its start; io.EOF if it has no others.
func (p *pass) format() (Format, error) {
	first, err := p.lines.peek()
	for err == nil && len(first) == 0 {
		_, _ = p.lines.next() // the empty line in hand
		first, err = p.lines.peek()
	}
	if err != nil && !errors.Is(err, errTooLong) {
		return "", p.failure(err)
	}
	if p.options.Format != "" {
		return p.options.Format, nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: its first line is longer than any format's: name a file of fixes", p.file.path)
	}
	format := guess(p.file.path, first)
	if format == Geolife && p.file.stdin {
		return "", errGeolifeStdin
	}
	return format, nil
}

// guess returns the format of a file by its name and its first line. What is
// nothing else is taken for CSV, whose header says whether it is.
func guess(path string, first []byte) Format {
	if hasExtension(path, Geolife.extensions()) || bytes.HasPrefix(first, geolifeTitle) {
		return Geolife
	}
	if bytes.HasPrefix(bytes.TrimLeft(first, " \t"), []byte("{")) {
		return NDJSON
	}
	if _, reason := parseCheckIn(first, nil); reason == "" {
		return Gowalla
	}
	return CSV
}

var errGeolifeStdin = errors.New(
	"a Geolife file does not say whose it is, its folder does: name the folder instead of standard input")
