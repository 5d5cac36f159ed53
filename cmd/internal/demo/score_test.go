package demo

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
)

func TestDemoView(t *testing.T) {
	var out bytes.Buffer
	status := status{answered: .5, report: Report{
		RecordsIn: 12, RecordsOut: 11, DeadLetters: 1, MedianReleaseM: 12_345, MedianBlindM: 700,
	}, latest: "bus at noon"}
	v := newView(&out)
	v.show(status)
	if got := out.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "out 11  releases 0  estimate 0 m  model 700 m") ||
		strings.Contains(got, "\x1b") {
		t.Errorf("a line without a terminal is %q", got)
	}
	out.Reset()
	v.live, v.width = true, func() int { return 80 }
	v.show(status)
	first := out.String()
	v.show(status)
	second := strings.TrimPrefix(out.String(), first)
	if up := fmt.Sprintf("\x1b[%dA", strings.Count(first, "\n")); !strings.HasPrefix(second, up) ||
		strings.TrimPrefix(second, up) != first {
		t.Error("the second frame does not cover the first")
	}
	for _, word := range []string{
		" 50 %", "12.3 km", "700 m", "bus at noon", strings.Repeat("█", 15) + "·",
	} {
		if !strings.Contains(first, word) {
			t.Errorf("the frame does not show %q:\n%s", word, first)
		}
	}
	for _, line := range strings.Split(first, "\n") {
		if n := utf8.RuneCountInString(strings.TrimPrefix(line, "\x1b[2K")); n > 79 {
			t.Errorf("a line of %d columns wraps on a terminal of 80: %q", n, line)
		}
	}
}

// TestDigest: the digest tells apart what plain concatenation would not.
func TestDigest(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range []consumer.Record{
		{Key: []byte("ab"), Value: []byte("c")},
		{Key: []byte("a"), Value: []byte("bc")},
		{Key: []byte("ab"), Value: []byte("c"), Timestamp: 1},
	} {
		d := digest{hash: sha256.New()}
		d.addRecord(r)
		seen[string(d.hash.Sum(nil))] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d digests of 3 records", len(seen))
	}
}

// TestDemoBudget: what limits a vehicle's sum of ε is said, each limit that there is.
func TestDemoBudget(t *testing.T) {
	d := &demo{model: &mobility.Model{Step: time.Minute}}
	for want, b := range map[string]mechanism.Budget{
		"none: ":                                    {},
		"Σε ≤ 8 in any 20 minutes, for each":        {Epsilon: 8, WindowSteps: 20},
		"Σε ≤ 40 for all time, for each":            {Lifetime: 40},
		"Σε ≤ 8 in any 20 minutes, Σε ≤ 40 for all": {Epsilon: 8, WindowSteps: 20, Lifetime: 40},
	} {
		if d.release.Budget = b; !strings.HasPrefix(d.budget(), want) {
			t.Errorf("%+v is %q, want %q", b, d.budget(), want)
		}
	}
}
