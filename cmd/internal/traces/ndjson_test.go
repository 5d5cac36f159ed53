package traces

import (
	"strings"
	"testing"
)

func TestNDJSON(t *testing.T) {
	text := strings.Join([]string{
		`{"user_id":"u1","timestamp":1700000000000,"latitude":10.5,"longitude":-20.25}`,
		`{"longitude":2,"latitude":1,"extra":{"a":[1]},"timestamp":"2023-11-14T22:13:20Z",` +
			`"user_id":"u2","accuracy_m":4}` + "\r",
		``,
		`{"user_id":"u1","timestamp":1700000000000,"latitude":10.5}`,
		`{"user_id":"u1","timestamp":1700000000000,"latitude":"10.5","longitude":1}`,
		`{"user_id":"u1","timestamp":1700000000,"latitude":10.5,"longitude":1}`,
		`{"user_id":"u1","timestamp":1700000000000,"latitude":91,"longitude":1}`,
		`{"user_id":"u1",`,
		`[]`,
		strings.Repeat(" ", 1<<17) + `{}`,
		strings.Repeat("{", maxLineBytes+1),
		`{"user_id":"u1","timestamp":1700000000001,"latitude":10.5,"longitude":-20.25}`,
	}, "\n")
	for _, format := range []Format{"", NDJSON} {
		rows, skips, err := fromText(t, text, Options{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		wantRows(t, rows,
			row{"u1", noon, 10.5, -20.25, -1}, row{"u2", noon, 1, 2, 4},
			row{"u1", noon + 1, 10.5, -20.25, -1})
		wantSkips(t, skips, "4:missing_field: longitude", "5:wrong_type: latitude",
			"6:timestamp_in_seconds", "7:latitude_out_of_range",
			"8:malformed", "9:wrong_type", "10:too_large", "11:too_large")
	}
}
