package traces

import (
	"fmt"
	"strings"
	"testing"

	"github.com/geodither/geodither/schemas/mapping"
)

const (
	records = `{ "locations": [
 { "latitudeE7": 534471850, "longitudeE7": -29179900, "timestamp": "2026-01-26T17:41:00.123Z" },
 { "latitudeE7": 534431850, "longitudeE7": -29279900, "timestamp": "2026-01-26T17:31:00.123Z" }
] }`
	android = `{
  "semanticSegments": [ { "startTime": "2026-01-26T17:00:00.000+00:00",
    "timelinePath": [ { "point": "53.4471°, -2.9179°", "time": "2026-01-26T17:41:00.000+00:00" } ] }
],
  "userLocationProfile": { "frequentPlaces": [ { "placeLocation": "53.0°, -2.0°" } ] },
  "rawSignals": [ { "position": { "LatLng": "53.4431°, -2.9279°",
    "timestamp": "2026-01-26T17:40:00.000+00:00" } } ]
}`
	ios = `[ {
  "startTime" : "2026-01-26T17:40:00.000+00:00",
  "timelinePath" : [ { "point" : "geo:53.4471,-2.9179", "durationMinutesOffsetFromStartTime" : "3" }
]
} ]`
	moment = 1769449260000 // 2026-01-26T17:41:00Z
	minute = 60_000
)

func mapped(tb testing.TB, o mapping.Options) Options {
	tb.Helper()
	m, err := mapping.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return Options{Mapping: m}
}

// What phones export is read as it is, with and without its preset, in the order of time. The
// file's name is the person.
func TestPhoneExports(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string][]row{
		"jane.json": {
			{"jane", moment + 123 - 10*minute, 53.443185, -2.92799, -1},
			{"jane", moment + 123, 53.447185, -2.91799, -1},
		},
		"anne.timeline.json": {
			{"anne", moment - minute, 53.4431, -2.9279, -1},
			{"anne", moment, 53.4471, -2.9179, -1},
		},
		"mary.json": {{"mary", moment + 2*minute, 53.4471, -2.9179, -1}},
	} {
		text := map[string]string{"jane": records, "anne": android, "mary": ios}[want[0].user]
		for _, form := range []string{
			text, "\ufeff\n" + text, strings.ReplaceAll(text, "\n", ""), zip(t, text),
		} {
			path := write(t, dir, name, form)
			for _, o := range []Options{{}, mapped(t,
				mapping.Options{Preset: mapping.GoogleTimeline})} {
				rows, skips := fromPaths(t, o, path)
				wantRows(t, rows, want...)
				wantSkips(t, skips)
			}
		}
	}
}

// Two exports of one name would make two people one.
func TestExportsOfOneName(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	paths := []string{write(t, one, "Timeline.json", ios), write(t, other, "Timeline.json", ios)}
	r, err := Open(t.Context(), paths, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range r.Fixes() {
		if err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "would be one user") {
		t.Errorf("the error is %v", err)
	}
}

// A message a line is read as the service reads it from a topic, with its key before a tab or in
// the part of the message that has the same id.
func TestMappedLines(t *testing.T) {
	const position = `"position":{"valid":%t,"fixTime":"2026-01-26T17:41:00.000+00:00",` +
		`"latitude":53.4,"longitude":-2.9}`
	fix := fmt.Sprintf(position, true)
	text := strings.Join([]string{
		"{" + fix + `,"device":{"id":17}}`, "{" + fmt.Sprintf(position, false) + "}",
		"{" + fix + "}",
		"", "{" + fix,
	}, "\n")
	rows, skips, err := fromText(t, text, mapped(t, mapping.Options{Preset: mapping.Traccar}))
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, rows, row{"17", moment, 53.4, -2.9, -1})
	wantSkips(
		t,
		skips,
		"2:input: position.valid is true",
		"3:missing_field: user_id",
		"5:malformed",
	)
	keyed := "18\t{\"lat\":53.4,\"lon\":-2.9,\"at\":1769449260}\nnull\n{\"lat\":1}\n18\tnull\n"
	rows, skips, err = fromText(t, keyed, mapped(t, mapping.Options{
		User: mapping.User{From: mapping.FromKey}, Latitude: "lat", Longitude: "lon",
		Timestamp: mapping.Time{Path: "at", Unit: "s"}, Key: mapping.KeyString,
	}))
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, rows, row{"18", moment, 53.4, -2.9, -1})
	wantSkips(t, skips, "2:no_key", "3:no_key", "4:input: tombstone")
}

// JSON over several lines is read message by message: the elements of an array, or one value behind
// another. Without a mapping one sentence says what is wrong, not one count a line.
func TestDocuments(t *testing.T) {
	o := mapped(t, mapping.Options{
		User: mapping.User{Path: "v"}, Latitude: "at.latE7", Longitude: "at.lonE7",
		Timestamp: mapping.Time{Path: "t", Unit: "s"},
	})
	const one = "{\n \"v\": \"a\",\n \"t\": 1769449260,\n \"at\": " +
		"{\"latE7\": 534000000, \"lonE7\": -29000000}\n}"
	const bad = "{\n \"v\": \"a\"\n}"
	want := row{"a", moment, 53.4, -2.9, -1}
	for _, text := range []string{
		"[\n" + one + ",\n" + bad + "," + one + "]", one + "\n" + bad + "\n" + one,
		"[" + strings.ReplaceAll(one+","+bad+","+one, "\n", "") + "]",
	} {
		rows, skips, err := fromText(t, text, o)
		if err != nil {
			t.Fatal(err)
		}
		wantRows(t, rows, want, want)
		wantSkips(t, skips, "2:missing_field: timestamp")
		_, _, err = fromText(t, text, Options{})
		wantError(t, err, "standard input: this is one JSON document, not one object a line")
		if strings.Contains(err.Error(), "53") {
			t.Errorf("the error repeats the file: %v", err)
		}
	}
	long := "[" + one + ",{\"x\":\n\"" + strings.Repeat("x", 2*maxLineBytes) + "\"}]"
	for text, words := range map[string]string{
		"[" + one + ",\n" + one[:40]: "malformed or cut short behind message 1",
		"[" + one + " x\n]":          "malformed or cut short behind message 1",
		long:                         "behind message 1 is one of more than",
	} {
		_, _, err := fromText(t, text, o)
		wantError(t, err, words)
	}
	_, _, err := fromText(t, "{\n\"a\":[{\"latitudeE7\":1}]\n}", Options{})
	wantError(t, err, "none of the members locations, semanticSegments, rawSignals")
}
