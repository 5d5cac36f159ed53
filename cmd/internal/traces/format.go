package traces

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/geodither/geodither/schemas"
)

// Format says how a file writes fixes. The empty format is guessed from the file's name and its
// first line.
type Format string

// The formats.
const (
	// CSV has a header that names, in any order and among other columns, user_id (or user, uid),
	// timestamp (or time, ts), latitude (or lat), longitude (or lon, lng, long) and optionally
	// accuracy_m in metres. A timestamp is in RFC 3339, where a space may replace the T and a
	// missing zone means UTC, or in whole milliseconds since 1970. It is never in seconds.
	CSV Format = "csv"
	// NDJSON has one object a line with the fields of a raw record in JSON: user_id, timestamp
	// (RFC 3339 or milliseconds since 1970), latitude, longitude and optionally accuracy_m.
	NDJSON Format = "ndjson"
	// Geolife is Microsoft's GeoLife 1.3: folders USER/Trajectory of .plt files.
	// The user id is the folder's name.
	Geolife Format = "geolife"
	// Gowalla is SNAP's loc-gowalla_totalCheckins: user, time, latitude,
	// longitude and location id, separated by tabs, a user's newest first.
	Gowalla Format = "gowalla"
)

// named reports whether files of the format name their columns.
func (f Format) named() bool { return f == CSV || f == NDJSON }

// extensions returns the extensions of the format's files.
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

// hasExtension reports whether a name ends in one of some extensions, with or without .gz. It
// ignores case.
func hasExtension(name string, extensions []string) bool {
	name = strings.TrimSuffix(strings.ToLower(name), ".gz")
	return slices.ContainsFunc(extensions, func(extension string) bool {
		return strings.HasSuffix(name, extension)
	})
}

// readFile reads a file in a format or, without one, in the format that it guesses.
func readFile(p *pass, format Format) error {
	if format == "" || format == NDJSON {
		if done, err := readJSON(p); done || err != nil {
			return err
		}
	}
	format, err := formatOf(p, format)
	if errors.Is(err, io.EOF) {
		p.skip(1, reasonEmptyFile)
		return nil
	}
	if err != nil {
		return err
	}
	if len(p.columns) > 0 && !format.named() {
		return fmt.Errorf("%s: a file of %s has no column names", p.file.path, format)
	}
	switch format {
	case NDJSON:
		return readNDJSON(p)
	case Geolife:
		return readGeolife(p)
	case Gowalla:
		return readGowalla(p)
	default:
		return readCSV(p)
	}
}

// formatOf returns the format, which it guesses if there is none, and passes over the empty lines
// at the start of the file. It returns io.EOF if the file has no other lines.
func formatOf(p *pass, format Format) (Format, error) {
	first, err := p.lines.peek()
	for err == nil && len(first) == 0 {
		_, _ = p.lines.next() // the empty line in hand
		first, err = p.lines.peek()
	}
	if err != nil && !errors.Is(err, errTooLong) {
		return "", p.failure(err)
	}
	if format != "" {
		return format, nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: its first line is longer than any format's", p.file.path)
	}
	format = guess(p.file.path, first)
	if format == Geolife && p.file.stdin {
		return "", errGeolifeStdin
	}
	return format, nil
}

// guess returns the format of a file from its name and its first line. If no other format fits it
// returns CSV, whose header then shows whether that is right.
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

// readJSON reads a file whose JSON is of another shape than a raw record's a line, and reports
// whether the file was such a one.
func readJSON(p *pass) (done bool, err error) {
	m := p.mapping
	if m == nil {
		if m, err = guessMapping(p.lines.from); err != nil {
			return false, err
		}
	}
	start := firstLines(p.lines.from, 2)
	document := isDocument(start, m)
	switch {
	case m == nil && document:
		return true, notLines(p.file.path)
	case m == nil, !document && !startsJSON(start) && !isKeyed(start):
		return false, nil
	case len(p.columns) > 0:
		return true, fmt.Errorf("%s: the section input excludes --columns", p.file.path)
	}
	return true, readMapped(p, m, document)
}

var errGeolifeStdin = errors.New("a Geolife file does not name its user: name its folder")

// readNDJSON reads raw records as the service reads them from a topic in JSON, so that the
// service accepts what passes here.
func readNDJSON(p *pass) error {
	codec, err := schemas.NewCodec(schemas.JSON)
	if err == nil && len(p.columns) > 0 {
		codec, err = codec.RenameRaw(p.columns)
	}
	if err != nil {
		return err
	}
	return p.eachLine(func(line []byte) (schemas.Raw, string) { return parseObject(codec, line) })
}

func parseObject(codec *schemas.Codec, line []byte) (fix schemas.Raw, reason string) {
	fix, err := codec.DecodeRaw(line)
	if rejection, ok := errors.AsType[*schemas.Rejection](err); ok {
		return schemas.Raw{}, string(rejection.Reason)
	}
	if err != nil {
		return schemas.Raw{}, string(schemas.ReasonMalformed)
	}
	return fix, secondsReason(fix.Timestamp)
}

// trajectory is the folder that holds a Geolife user's files.
const trajectory = "Trajectory"

// geolifeTitle opens every .plt file of Geolife.
var geolifeTitle = []byte("Geolife trajectory")

// geolifeHeader is the number of lines before the points, the title included.
const geolifeHeader = 6

// readGeolife reads a .plt file of Geolife 1.3 (user guide, section 3): six
// lines, then points as
//
//	latitude,longitude,0,altitude in feet or -777,days since 1899-12-30,date,time
//
// with times in GMT.
func readGeolife(p *pass) error {
	user, err := geolifeUser(p.file.path)
	if err != nil {
		return err
	}
	title, err := p.next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	begin := p.lines.number
	if !bytes.HasPrefix(title, geolifeTitle) {
		// A .plt file of another program: its columns mean something else.
		p.skip(begin, reasonNoGeolife)
		return nil
	}
	for p.lines.number < begin+geolifeHeader-1 {
		if _, err := p.lines.next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return p.failure(err)
		}
	}
	return p.eachLine(func(line []byte) (schemas.Raw, string) {
		fix, reason := parsePoint(line)
		fix.UserID = user
		return fix, reason
	})
}

// geolifeUser returns the user of a .plt file: the name of the folder above Trajectory or, for a
// file that was moved elsewhere, of the file's own folder.
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
	if reason = parsePlace(&fix, fields[0], fields[1]); reason != "" {
		return schemas.Raw{}, reason
	}
	var memory [32]byte
	if len(fields[5])+1+len(fields[6]) > len(memory) {
		return schemas.Raw{}, reasonTimestamp
	}
	at := append(append(append(memory[:0], fields[5]...), ' '), fields[6]...)
	var ok bool
	if fix.Timestamp, ok = parseTime(at); !ok || len(at) != len("2006-01-02 15:04:05") {
		return schemas.Raw{}, reasonTimestamp
	}
	return fix, ""
}

// split cuts a line into exactly len(fields) fields. It returns false if the line has another
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

// readGowalla reads check-ins, of which each user's newest comes first, and emits each user's
// oldest first.
func readGowalla(p *pass) error {
	var gathered run
	for {
		line, err := p.next()
		if errors.Is(err, io.EOF) {
			return emitRun(p, &gathered)
		}
		if err != nil {
			return err
		}
		fix, reason := parseCheckIn(line, &p.names)
		if reason == "" {
			reason = p.refusal(fix)
		}
		if reason != "" {
			p.skip(p.lines.number, reason)
			continue
		}
		if fix.UserID != gathered.user {
			if err := emitRun(p, &gathered); err != nil {
				return err
			}
			gathered.user = fix.UserID
		}
		if len(gathered.checkIns) == maxCheckIns {
			return fmt.Errorf("%s:%d: more than %d check-ins of one user: cut the file",
				p.file.path, p.lines.number, maxCheckIns)
		}
		gathered.checkIns = append(gathered.checkIns, checkIn{
			fix.Timestamp, fix.Latitude, fix.Longitude,
		})
	}
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
	if reason = parsePlace(&fix, fields[2], fields[3]); reason != "" {
		return schemas.Raw{}, reason
	}
	fix.UserID = shared.share(fields[0])
	return fix, ""
}
