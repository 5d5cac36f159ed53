package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestTimesThatNoClockHas: every command that reads files leaves out a fix of 2080 and one of 1970
// by name, and makes of the rest what it makes without them. An accepted fix of 2080 would make all
// other fixes of its user late.
func TestTimesThatNoClockHas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sound, model := townFiles(t, dir)
	header, rows, _ := strings.Cut(servicetest.TownCSV(servicetest.TownFixes()), "\n")
	at := func(ms int64) string { return fmt.Sprintf("0,%d,10.01,20.01\n", ms) }
	odd := write(t, dir, "odd.csv", header+"\n"+
		at(time.Date(2080, 1, 6, 0, 0, 19, 0, time.UTC).UnixMilli())+
		at(time.Now().Add(time.Hour).UnixMilli())+at(1_000_000)+rows)
	day := time.UnixMilli(servicetest.TownFixes()[0].Timestamp).UTC().Format(time.DateOnly)
	for name, args := range map[string]func(traces, out string) []string{
		"sanitize": func(traces, out string) []string {
			return sanitizeArgs(traces, model, "--seed", "1", "--out", out)
		},
		"train": func(traces, out string) []string { return townTraining(traces, out) },
		"counts": func(traces, out string) []string {
			return []string{
				"counts", "--in", traces, "--from", day, "--to", dayAfter(day), "--epsilon", "1",
				"--per-day", "2", "--zone", "1km", "--box", "10,20,10.05,20.05", "--out", out,
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ends := map[string]string{"sanitize": ".csv", "train": ".avro", "counts": ".csv"}
			one, other := filepath.Join(t.TempDir(), "a"+ends[name]),
				filepath.Join(t.TempDir(), "b"+ends[name])
			want := args(sound, one)
			succeed(t, want...)
			for i := range want {
				want[i] = strings.ReplaceAll(strings.ReplaceAll(want[i], sound, odd), one, other)
			}
			r := succeed(t, want...)
			if name == "sanitize" && read(t, one) != read(t, other) {
				t.Error("the other fixes gave other records")
			}
			for _, part := range []string{"2 timestamp_ahead", "1 before_gps"} {
				if !strings.Contains(r.err, part) {
					t.Errorf("%q is not in %s", part, r.err)
				}
			}
		})
	}
	// The bound is a setting. Without it the fix of 2080 is a fix.
	r := succeed(t, sanitizeArgs(odd, model, append(withConfig(t, "max_ahead: off"), "--seed", "1",
		"--out", filepath.Join(dir, "off.csv"))...)...)
	if strings.Contains(r.err, "timestamp_ahead") || !strings.Contains(r.err, "late") {
		t.Errorf("max_ahead: off: %s", r.err)
	}
}
