package hours

import (
	"archive/zip"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"time"
)

// ZoneVersion is the release of the IANA time zone database that the package has. It belongs to the
// settings of a service: under other rules other steps may be open.
//
// zoneinfo.zip has the files of lib/time/zoneinfo.zip of Go's source, compressed with "zip -9 -X
// -D". The system's own files and those of the toolchain are never used, because they change with
// the machine.
const ZoneVersion = "2025c"

//go:embed zoneinfo.zip
var zoneinfo string

// Zone returns the rules of a zone of the IANA time zone database.
func Zone(name string) (*time.Location, error) {
	archive, err := zip.NewReader(strings.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		return nil, err
	}
	for _, file := range archive.File {
		if file.Name != name {
			continue
		}
		content, err := file.Open()
		if err != nil {
			return nil, err
		}
		rules, err := io.ReadAll(content)
		if err != nil {
			return nil, err
		}
		return time.LoadLocationFromTZData(name, rules)
	}
	return nil, fmt.Errorf("zone %q is not in the IANA database %s, as Europe/London is", name,
		ZoneVersion)
}
