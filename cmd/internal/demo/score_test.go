package demo

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

func TestDemoView(t *testing.T) {
	var out bytes.Buffer
	status := status{fed: .5, report: Report{
		RecordsIn: 12, RecordsOut: 11, DeadLetters: 1, RMSEReleaseM: 12_345, RMSEBlindM: 700,
	}, latest: "bus at noon"}
	v := newView(&out)
	v.show(status)
	if got := out.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "in 12  out 11  dead 1") || strings.Contains(got, "\x1b") {
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

// TestScoreboard plants what must not pass: a missing record, a double one, one
// too many, and dead letters that do not explain what is missing.
func TestScoreboard(t *testing.T) {
	fixes := sample(t)[:30]
	last := len(fixes) - 1
	for _, c := range []struct {
		name   string
		feed   func(b *board)
		want   string // "" for no error
		silent int64  // fixes that the service says it left without a record
	}{
		{
			name: "one in silence", feed: func(b *board) { b.answer(without(fixes, 3)...) },
			silent: 1,
		},
		{
			name: "the last in silence", feed: func(b *board) { b.answer(fixes[:last]...) },
			silent: 1,
		},
		{
			name: "one double, one said to be in silence",
			feed: func(b *board) { b.answer(fixes...) }, want: "30 records were fed in, but 31",
			silent: 1,
		},
		{name: "all answered", feed: func(b *board) { b.answer(fixes...) }, want: ""},
		{name: "one late", feed: func(b *board) {
			b.answer(without(fixes, 3)...)
			b.refuse(schemas.ReasonLate, 1)
		}, want: ""},
		{
			name: "last one late",
			feed: func(b *board) { b.answer(fixes[:last]...); b.refuse(schemas.ReasonLate, 1) },
			want: "",
		},
		{
			name: "one missing", feed: func(b *board) { b.answer(without(fixes, 3)...) },
			want: "30 records were fed in, but 29 were answered",
		},
		{
			name: "the last missing", feed: func(b *board) { b.answer(fixes[:last]...) },
			want: "but 29 were answered",
		},
		{name: "one refused for another reason", feed: func(b *board) {
			b.answer(without(fixes, 3)...)
			b.refuse(schemas.ReasonKeyMismatch, 1)
		}, want: "1 fixes have no sanitized record, but 0 dead letters say late and 0 were " +
			"to have none"},
		{
			name: "one double",
			feed: func(b *board) { b.answer(append(slices.Clone(fixes), fixes[last])...) },
			want: "a record too many",
		},
		{
			name: "one double, one missing",
			feed: func(b *board) { b.answer(append(slices.Clone(fixes[:last]), fixes[last-1])...) },
			want: "a record too many",
		},
		{name: "two swapped", feed: func(b *board) {
			swapped := without(fixes, 3)
			b.answer(append(swapped, fixes[3])...)
		}, want: "a record too many"},
		{name: "of nobody", feed: func(b *board) {
			stranger := fixes[0]
			stranger.UserID = "stranger"
			b.answer(append(slices.Clone(fixes[:last]), stranger)...)
		}, want: "a record too many"},
		{name: "a dead letter twice", feed: func(b *board) {
			b.answer(fixes[:last]...)
			b.refuse(schemas.ReasonLate, 1)
			b.refuse(schemas.ReasonLate, 1)
		}, want: "offset 1"},
		{name: "garbage", feed: func(b *board) {
			b.note(b.sanitized(0, consumer.Record{Value: []byte("garbage")}))
		}, want: "record refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBoard(t, fixes)
			c.feed(b)
			b.note(b.verify(int64(len(fixes)), c.silent))
			switch {
			case c.want == "" && b.err != nil:
				t.Errorf("%v", b.err)
			case c.want != "" && (b.err == nil || !strings.Contains(b.err.Error(), c.want)):
				t.Errorf("it says %v, want %q", b.err, c.want)
			}
		})
	}
}

// board is a scoreboard that keeps the first error it gives.
type board struct {
	*scoreboard
	t   *testing.T
	err error
}

func newBoard(t *testing.T, fixes []schemas.Raw) *board {
	t.Helper()
	model, err := fleet.SampleModel(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := newScoreboard(model, nil, fixes)
	if err != nil {
		t.Fatal(err)
	}
	return &board{scoreboard: s, t: t}
}

func (b *board) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

// answer books a sanitized record for each fix.
func (b *board) answer(fixes ...schemas.Raw) {
	b.t.Helper()
	for _, f := range fixes {
		value, err := b.codec.AppendSanitized(nil, schemas.Sanitized{
			UserID: f.UserID, Timestamp: f.Timestamp, Epsilon: 1, Delta: .01, Mechanism: law.PIM,
			ModelID: strings.Repeat("0", 16), Release: 1,
			ReleaseLatitude: schemas.Some(53.4), ReleaseLongitude: schemas.Some(-2.9),
		})
		if err != nil {
			b.t.Fatal(err)
		}
		b.note(b.sanitized(0, consumer.Record{Key: []byte(f.UserID), Value: value}))
	}
}

func (b *board) refuse(reason schemas.Reason, offset int64) {
	b.t.Helper()
	value, err := b.codec.AppendDeadLetter(nil, schemas.DeadLetter{
		Topic: "raw", Offset: offset, Reason: reason,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.note(b.deadLetter(0, consumer.Record{Value: value}))
}

// without leaves one fix out.
func without(fixes []schemas.Raw, i int) []schemas.Raw {
	return slices.Delete(slices.Clone(fixes), i, i+1)
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
		d.add(r)
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
		"none: ":                                  {},
		"Σε ≤ 8 in any 20m0s, for each":           {Epsilon: 8, WindowSteps: 20},
		"Σε ≤ 40 for all time, for each":          {Lifetime: 40},
		"Σε ≤ 8 in any 20m0s, Σε ≤ 40 for all ti": {Epsilon: 8, WindowSteps: 20, Lifetime: 40},
	} {
		if d.release.Budget = b; !strings.HasPrefix(d.budget(), want) {
			t.Errorf("%+v is %q, want %q", b, d.budget(), want)
		}
	}
}

func sample(t *testing.T) []schemas.Raw {
	t.Helper()
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	return fixes
}
