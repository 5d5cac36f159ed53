package traces

import (
	"strconv"
	"strings"
	"testing"

	"github.com/geodither/geodither/schemas"
)

func TestParseTimestamp(t *testing.T) {
	for text, want := range map[string]int64{
		"2023-11-14T22:13:20Z":           noon,
		"2023-11-14t22:13:20z":           noon,
		"2023-11-14 22:13:20":            noon,
		"2023-11-14T22:13:20":            noon,
		"2023-11-14 22:13:20+00:00":      noon,
		"2023-11-14T17:13:20-05:00":      noon,
		"2023-11-15T03:43:20+05:30":      noon,
		"2023-11-14T22:13:20.5Z":         noon + 500,
		"2023-11-14T22:13:20.123456789Z": noon + 123,
		"2023-11-14T22:13:20.0019Z":      noon + 1,
		"2024-02-29T00:00:00Z":           1709164800000,
		"1700000000000":                  noon,
		"0":                              0,
		"999999999":                      999999999,
		"10000000000":                    10000000000,
		"-5":                             -5, // for Validate to refuse
	} {
		if got, reason := parseTimestamp([]byte(text)); got != want || reason != "" {
			t.Errorf("%s: got %d %s, want %d", text, got, reason, want)
		}
	}
	for text, want := range map[string]string{
		"1700000000":                reasonSeconds,
		"1000000000":                reasonSeconds,
		"9999999999":                reasonSeconds,
		"":                          reasonTimestamp,
		"1700000000000.5":           reasonTimestamp,
		"1.7e12":                    reasonTimestamp,
		"99999999999999999999":      reasonTimestamp,
		"2023-11-14":                reasonTimestamp,
		"2023-11-14T22:13":          reasonTimestamp,
		"2023-11-14T22:13:60Z":      reasonTimestamp,
		"2023-11-14T24:00:00Z":      reasonTimestamp,
		"2023-13-01T00:00:00Z":      reasonTimestamp,
		"2023-00-01T00:00:00Z":      reasonTimestamp,
		"2023-02-29T00:00:00Z":      reasonTimestamp,
		"2023-04-31T00:00:00Z":      reasonTimestamp,
		"2023-11-14T22:13:20.Z":     reasonTimestamp,
		"2023-11-14T22:13:20,5Z":    reasonTimestamp,
		"2023-11-14T22:13:20+0100":  reasonTimestamp,
		"2023-11-14T22:13:20+24:00": reasonTimestamp,
		"2023-11-14T22:13:20ZZ":     reasonTimestamp,
		"2023/11/14 22:13:20":       reasonTimestamp,
		"2023-11-14_22:13:20":       reasonTimestamp,
		"14.11.2023 22:13:20":       reasonTimestamp,
	} {
		if _, reason := parseTimestamp([]byte(text)); reason != want {
			t.Errorf("%s: got reason %q, want %q", text, reason, want)
		}
	}
}

func TestNames(t *testing.T) {
	var n names
	for i := range 3 * maxNames {
		id := strconv.Itoa(i)
		if got := n.share([]byte(id)); got != id {
			t.Fatalf("got %q, want %q", got, id)
		}
		if len(n) > maxNames {
			t.Fatalf("%d names are kept, want at most %d", len(n), maxNames)
		}
	}
	long := strings.Repeat("x", schemas.MaxUserIDBytes+1)
	before := len(n)
	if got := n.share([]byte(long)); got != long || len(n) != before {
		t.Errorf("a user id that is too long was changed or kept")
	}
	id := []byte("same")
	n.share(id)
	if allocations := testing.AllocsPerRun(100, func() { n.share(id) }); allocations != 0 {
		t.Errorf("a known name costs %v allocations", allocations)
	}
}
