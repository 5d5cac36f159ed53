package countfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSpentOfOverlaps: a day that overlaps another one in part costs a user twice its ε there,
// because the cap may let later windows take the place of those that fall away. That holds for the
// edges of 31 days too, but not where clocks change.
func TestSpentOfOverlaps(t *testing.T) {
	t.Parallel()
	const hour = int64(time.Hour / time.Millisecond)
	day := func(edition string, from, length int64) string {
		return ledgerLine{
			startMS: from, endMS: from + hour, dayStartMS: from, dayEndMS: from + length,
			edition: edition, zones: "z", epsilon: "1", perDay: "4",
			digest: strings.Repeat("ab", 32),
		}.String()
	}
	utc := func(n int) (lines []string) {
		for i := range n {
			lines = append(lines, day("1", int64(i)*24*hour, 24*hour))
		}
		return lines
	}
	short := append(utc(20), day("1", 20*24*hour, 23*hour)) // as in spring
	for i := 21; i < 40; i++ {
		short = append(short, day("1", int64(i)*24*hour-hour, 24*hour))
	}
	for name, c := range map[string]struct {
		lines      []string
		day, month float64
	}{
		"days of one clock":      {utc(40), 1, 31},
		"clocks change":          {short, 1, 31},
		"the same days again":    {append(utc(2), day("2", 0, 24*hour)), 2, 3},
		"a day of another clock": {append(utc(2), day("2", 9*hour, 24*hour)), 5, 4},
	} {
		key := filepath.Join(t.TempDir(), "noise.key")
		text := fmt.Sprintln(ledgerHead) + strings.Join(c.lines, "\n") + "\n"
		if err := os.WriteFile(key+ledgerExtension, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Spent(key)
		if err != nil || got.MostInADay != c.day || got.MostIn31 != c.month {
			t.Errorf("%s: %+v, %v, want %g in a day and %g in 31", name, got, err, c.day, c.month)
		}
	}
}

// TestOverlappingDaysAgain: where clocks go back at midnight, days of one publication overlap. The
// same run adds nothing, and another one is refused.
func TestOverlappingDaysAgain(t *testing.T) {
	t.Parallel()
	const hour = int64(time.Hour / time.Millisecond)
	var days []ledgerLine
	for i := range int64(3) {
		from := i * 24 * hour
		days = append(days, ledgerLine{
			startMS: from, endMS: from + 25*hour, dayStartMS: from, dayEndMS: from + 25*hour,
			edition: "1", zones: "z", epsilon: "1", perDay: "4", days: 3, period: "p",
			digest: strings.Repeat("ab", 32),
		})
	}
	l := &ledger{lines: days}
	if err := l.add(days); err != nil || l.added != 0 {
		t.Errorf("the same days: %d added, %v", l.added, err)
	}
	other := days[1]
	other.period = "q"
	if err := l.add([]ledgerLine{other}); err == nil {
		t.Error("another period of the same days is not refused")
	}
}
