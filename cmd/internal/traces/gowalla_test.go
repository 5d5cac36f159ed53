package traces

import (
	"fmt"
	"strings"
	"testing"
)

func checkInLine(user, stamp string, lat, lon float64) string {
	return fmt.Sprintf("%s\t%s\t%g\t%g\t22847\n", user, stamp, lat, lon)
}

func TestGowalla(t *testing.T) {
	text := checkInLine("0", "2010-10-19T23:55:27Z", 30.5, -97.25) +
		checkInLine("0", "2010-10-18T22:17:43Z", 31, -98) +
		"0\t2010-10-18T22:17:43Z\t31\n" +
		checkInLine("0", "2010-10-17", 31, -98) +
		checkInLine("0", "2010-10-17T00:00:00Z", 400.1667, -98) +
		checkInLine("0", "2010-10-17T23:42:03Z", 32, -99) +
		checkInLine("7", "2010-06-03T17:45:59Z", 1, 2) + // two of the same second
		checkInLine("7", "2010-06-03T17:45:59Z", 3, 4) +
		checkInLine("9", "2010-01-01T00:00:00Z", 1, 1) + // the wrong way round
		checkInLine("9", "2010-01-02T00:00:00Z", 2, 2)
	want := []row{
		{"0", 1287358923000, 32, -99, -1},
		{"0", 1287440263000, 31, -98, -1},
		{"0", 1287532527000, 30.5, -97.25, -1},
		{"7", 1275587159000, 3, 4, -1},
		{"7", 1275587159000, 1, 2, -1},
		{"9", 1262304000000, 1, 1, -1},
		{"9", 1262390400000, 2, 2, -1},
	}
	for name, content := range map[string]string{"plain": text, "gzip": zip(t, text)} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []Format{"", Gowalla} {
				rows, skips := fromPaths(t, Options{Format: format},
					write(t, t.TempDir(), "checkins.txt", content))
				wantRows(t, rows, want...)
				wantSkips(t, skips, "3:wrong_columns", "4:bad_timestamp", "5:latitude_out_of_range")
			}
		})
	}
}

func TestGowallaRunIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("60 MiB of lines")
	}
	line := checkInLine("0", "2010-10-19T23:55:27Z", 30.5, -97.25)
	text := &repeat{unit: line, left: maxCheckIns + 1}
	r := open(t, []string{Stdin}, text, Options{Format: Gowalla})
	rows, err := drain(r)
	wantError(t, err, ":1048577:", "check-ins of one user")
	wantRows(t, rows)
}

func TestGowallaStopsWithinARun(t *testing.T) {
	text := strings.Repeat(checkInLine("0", "2010-10-19T23:55:27Z", 30.5, -97.25), 3)
	r := open(t, []string{Stdin}, strings.NewReader(text), Options{})
	n := 0
	for range r.Fixes() {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d fixes, want 1", n)
	}
}
