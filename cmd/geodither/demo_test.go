package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

// demoOnce runs the demo to its end in a temporary folder of its own, which it
// has to leave empty.
func demoOnce(t *testing.T, more ...string) demoReport {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	r := succeed(t, append([]string{"demo", "--once", "--json"}, more...)...)
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	var report demoReport
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(r.out), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"records_in", "records_out", "dead_letters", "users", "releases", "repeats", "late", "location_set_mean",
		"drift_ratio", "rmse_release_m", "rmse_estimate_m", "rmse_blind_m", "events_per_second",
	} {
		if _, ok := fields[name].(float64); !ok {
			t.Errorf("the report's %s is %v, want a number", name, fields[name])
		}
	}
	if strings.Contains(r.err, "\x1b") {
		t.Errorf("escape codes without a terminal: %q", r.err)
	}
	if report.RecordsOut != report.RecordsIn-report.DeadLetters-report.Silent || report.RecordsOut != report.Releases+report.Repeats+report.Predictions {
		t.Errorf("the report does not add up: %+v", report)
	}
	return report
}

func TestDemoOnce(t *testing.T) {
	one := demoOnce(t)
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	if one.RecordsIn != int64(len(fixes))+3 || one.DeadLetters != 3 || one.Users != 8 || one.Late != 0 {
		t.Errorf("the sample's %d fixes and 3 broken records gave %+v", len(fixes), one)
	}
	if one.RMSEEstimateM <= 0 || one.RMSEEstimateM >= one.RMSEReleaseM || one.RMSEEstimateM >= one.RMSEBlindM || one.LocationSetMean < 1 {
		t.Errorf("the estimate should beat the release and the blind one: %+v", one)
	}
	if raceDetector {
		return // one run shows the races there are
	}
	again, two := demoOnce(t, "--seed", "1"), demoOnce(t, "--seed", "2")
	if one.SanitizedSHA256 == two.SanitizedSHA256 {
		t.Error("another seed gives the same records")
	}
	for _, r := range []*demoReport{&one, &again} {
		if r.EventsPerSecond <= 0 || r.BusyMicros <= 0 || r.BusyMicros > 1e6 {
			t.Errorf("%g records/s, %g µs each", r.EventsPerSecond, r.BusyMicros)
		}
		r.EventsPerSecond, r.BusyMicros = 0, 0 // times, which differ
	}
	if one != again {
		t.Errorf("the same seed gives another report: %+v and %+v", one, again)
	}
}

func TestDemoVehicles(t *testing.T) {
	if raceDetector {
		t.Skip("one demo shows the races there are")
	}
	args := []string{"--vehicles", "4", "--mechanism", "knorm", "--epsilon", "8"}
	r, again := demoOnce(t, args...), demoOnce(t, args...)
	if r.Users != 12 || r.RecordsIn < 1536+4*250 || r.Mechanism != "knorm" || r.Epsilon != 8 {
		t.Errorf("4 vehicles beside 8 buses gave %+v", r)
	}
	if r.SanitizedSHA256 != again.SanitizedSHA256 {
		t.Error("the same seed gives other records")
	}
}

// TestDemoRules: with settings that predict, skip and suppress, each fix is still
// accounted for, and no user costs more than the budget.
func TestDemoRules(t *testing.T) {
	if raceDetector {
		t.Skip("one demo shows the races there are")
	}
	r := demoOnce(t, "--interval", "2m", "--budget-lifetime", "40")
	if r.Predictions == 0 || r.Silent == 0 || r.Releases != 8*10 || r.EpsilonSpent != 8*40 {
		t.Errorf("an interval and a budget of ten releases for eight buses gave %+v", r)
	}
	if r := demoOnce(t, "--same-step", "drop"); r.Repeats != 0 || r.Silent == 0 || r.RecordsOut != r.Releases {
		t.Errorf("without further reports of a step: %+v", r)
	}
}

// TestDemoText is the report for a person.
func TestDemoText(t *testing.T) {
	if raceDetector {
		t.Skip("one demo shows the races there are")
	}
	t.Setenv("TMPDIR", t.TempDir())
	out := succeed(t, "demo", "--once").out
	for _, word := range []string{"1536 records in, 1533 out, 3 dead letters: each fix answered exactly once", "consume --brokers 127.0.0.1:", "|ΔX|", "blind", "budget    none: these traces are public", "Σε per user: ", "As fast as it goes: "} {
		if !strings.Contains(out, word) {
			t.Errorf("the report does not say %q:\n%s", word, out)
		}
	}
}

// TestDemoInterrupted: Ctrl-C ends the live view well, and leaves nothing
// behind; the report does not claim what it did not verify. What was to run to
// its end has failed.
func TestDemoInterrupted(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	b := start(t, nil, "demo", "--speed", "1000")
	eventually(t, "a line of the view", func() bool { return strings.Contains(b.out.String(), "  releases ") })
	if code := b.stop(t); code != cli.ExitDone {
		t.Errorf("exit %d: %s", code, b.log)
	}
	if out := b.out.String(); strings.Contains(out, "exactly once") || !strings.Contains(out, "interrupted") {
		t.Errorf("the report of an interrupted demo:\n%s", out)
	}
	b = start(t, nil, "demo", "--once", "--json", "--speed", "10")
	eventually(t, "the beginning", func() bool { return strings.Contains(b.log.String(), "consume --brokers") })
	if code := b.stop(t); code != cli.ExitFailed || b.out.String() != "" || !strings.Contains(b.log.String(), "interrupted") {
		t.Errorf("exit %d, output %q, %s", code, b.out, b.log)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestDemoPort: a port that is taken is an error that says what to do.
func TestDemoPort(t *testing.T) {
	_, port, _ := strings.Cut(startBroker(t), ":")
	t.Setenv("TMPDIR", t.TempDir())
	if r := call(t, "demo", "--port", port); r.code != cli.ExitFailed || !strings.Contains(r.err, "choose another") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

func TestDemoView(t *testing.T) {
	var out bytes.Buffer
	status := demoStatus{fed: .5, report: demoReport{RecordsIn: 12, RecordsOut: 11, DeadLetters: 1, RMSEReleaseM: 12_345, RMSEBlindM: 700}, latest: "bus at noon"}
	v := newDemoView(&out)
	v.show(status)
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "in 12  out 11  dead 1") || strings.Contains(got, "\x1b") {
		t.Errorf("a line without a terminal is %q", got)
	}
	out.Reset()
	v.live, v.width = true, func() int { return 80 }
	v.show(status)
	first := out.String()
	v.show(status)
	second := strings.TrimPrefix(out.String(), first)
	if up := fmt.Sprintf("\x1b[%dA", strings.Count(first, "\n")); !strings.HasPrefix(second, up) || strings.TrimPrefix(second, up) != first {
		t.Error("the second frame does not cover the first")
	}
	for _, word := range []string{" 50 %", "12.3 km", "700 m", "bus at noon", strings.Repeat("█", 15) + "·"} {
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
	fixes := town()[:30]
	last := len(fixes) - 1
	for _, c := range []struct {
		name   string
		feed   func(b *board)
		want   string // "" for no error
		silent int64  // fixes that the service says it left without a record
	}{
		{name: "one in silence", feed: func(b *board) { b.answer(without(fixes, 3)...) }, silent: 1},
		{name: "the last in silence", feed: func(b *board) { b.answer(fixes[:last]...) }, silent: 1},
		{name: "one double, one said to be in silence", feed: func(b *board) { b.answer(fixes...) }, want: "30 records were fed in, but 31", silent: 1},
		{name: "all answered", feed: func(b *board) { b.answer(fixes...) }, want: ""},
		{name: "one late", feed: func(b *board) { b.answer(without(fixes, 3)...); b.refuse(schemas.ReasonLate, 1) }, want: ""},
		{name: "last one late", feed: func(b *board) { b.answer(fixes[:last]...); b.refuse(schemas.ReasonLate, 1) }, want: ""},
		{name: "one missing", feed: func(b *board) { b.answer(without(fixes, 3)...) }, want: "30 records were fed in, but 29 were answered"},
		{name: "the last missing", feed: func(b *board) { b.answer(fixes[:last]...) }, want: "but 29 were answered"},
		{name: "one refused for another reason", feed: func(b *board) {
			b.answer(without(fixes, 3)...)
			b.refuse(schemas.ReasonKeyMismatch, 1)
		}, want: "1 fixes have no sanitized record, but 0 dead letters say late and 0 were to have none"},
		{name: "one double", feed: func(b *board) { b.answer(append(slices.Clone(fixes), fixes[last])...) }, want: "a record too many"},
		{name: "one double, one missing", feed: func(b *board) { b.answer(append(slices.Clone(fixes[:last]), fixes[last-1])...) }, want: "a record too many"},
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
		{name: "garbage", feed: func(b *board) { b.note(b.sanitized(0, consumer.Record{Value: []byte("garbage")})) }, want: "record refused"},
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
	sample, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	model, err := fleet.SampleModel(sample)
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
			UserID: f.UserID, Timestamp: f.Timestamp, Epsilon: 1, Delta: .01, Mechanism: law.PIM, ModelID: strings.Repeat("0", 16), Release: 1,
		})
		if err != nil {
			b.t.Fatal(err)
		}
		b.note(b.sanitized(0, consumer.Record{Key: []byte(f.UserID), Value: value}))
	}
}

func (b *board) refuse(reason schemas.Reason, offset int64) {
	b.t.Helper()
	value, err := b.codec.AppendDeadLetter(nil, schemas.DeadLetter{Topic: "raw", Offset: offset, Reason: reason})
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

func TestMetres(t *testing.T) {
	for m, want := range map[float64]string{0: "0 m", 999.6: "1000 m", 10_000: "10.0 km", 123_456: "123.5 km"} {
		if got := cli.Metres(m); got != want {
			t.Errorf("%g is %q, want %q", m, got, want)
		}
	}
}

// TestDemoBudget: what limits a vehicle's sum of ε is said, each limit that there is.
func TestDemoBudget(t *testing.T) {
	d := &demo{model: townModel(t)}
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
