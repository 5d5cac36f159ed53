package pipeline

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// beforeMidnight is a step of a world's feed eight steps before the day ends.
const beforeMidnight = 98

// nextDay is the key without the day on which a world begins.
func nextDay(tb testing.TB) noise.Key {
	tb.Helper()
	key, err := testKey.From(noise.DayAt(startMS) + 1)
	ok(tb, err)
	return key
}

// TestSettingsOfAdvancedKey: an advanced key is the same key to whoever compares settings.
func TestSettingsOfAdvancedKey(t *testing.T) {
	o := testOptions(t, neighbourModel(t, town, 5000, 4))
	want := o.Settings()
	o.Key = nextDay(t)
	if got := o.Settings(); len(got) == 0 || !bytes.Equal(got, want) {
		t.Errorf("the settings are %x, want %x", got, want)
	}
	if Pseudonym(o.Key, "u") != Pseudonym(testKey, "u") || Pseudonym(testKey.PseudonymsOnly(), "u") != Pseudonym(testKey, "u") {
		t.Error("the pseudonyms of a restricted key are others")
	}
	o.Key = testKey.PseudonymsOnly()
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "pseudonyms only") || o.Settings() != nil {
		t.Errorf("a service takes a key of pseudonyms: %v", err)
	}
	if _, err := NewEngine(o.Model, o.Key, o.Release, o.Publish); err == nil {
		t.Error("an engine takes a key of pseudonyms")
	}
}

// TestSeededRecords: what is published under a seed's key says so, and under the same key from a
// file nothing of the kind.
func TestSeededRecords(t *testing.T) {
	o := testOptions(t, neighbourModel(t, town, 5000, 4))
	for _, c := range []struct {
		key    noise.Key
		want   string
		seeded bool
	}{{noise.KeyFromSeed(1), "lattice (seeded, not private)", true}, {testKey, "lattice", false}} {
		o.Key = c.key
		s := process(t, newTestProcessor(t, o, 0), record(t, 0, sentinel()), nil).sanitized(t, schemas.Avro)
		name, seeded := schemas.MechanismName(s.Mechanism), schemas.HasNote(s.Mechanism, schemas.Seeded)
		if s.Mechanism != c.want || name != "lattice" || seeded != c.seeded {
			t.Errorf("the mechanism is %q, read as %q, seeded %t", s.Mechanism, name, seeded)
		}
	}
}

// TestDestroyedDayIsADeadLetter: it spends nothing, leaves the state as it was, and is counted.
func TestDestroyedDayIsADeadLetter(t *testing.T) {
	o := testOptions(t, neighbourModel(t, town, 1000, 4))
	o.Key = nextDay(t)
	p := newTestProcessor(t, o, 0)
	fix := sentinel()
	got := process(t, p, record(t, 4, fix), nil)
	if letter := got.letter(t, schemas.Avro); letter.Reason != schemas.ReasonKeyDestroyed || letter.Offset != 4 || got.state != nil || len(got.output) > 0 {
		t.Errorf("%+v with %d bytes of state and %d records", letter, len(got.state), len(got.output))
	}
	fix.Timestamp += 24 * 60 * 60 * 1000
	next := process(t, p, record(t, 5, fix), nil)
	if s := next.sanitized(t, schemas.Avro); s.Release != 1 || s.Epsilon != o.Release.Epsilon {
		t.Errorf("the first fix of a day that is there is release %d for ε = %g", s.Release, s.Epsilon)
	}
	var c Counters
	p.tally.commit(&c)
	if n := c.Snapshot(); n.Destroyed != 1 || n.DeadLetters != 1 || n.Releases != 1 || n.Epsilon != o.Release.Epsilon {
		t.Errorf("counted %+v", n)
	}
}

// TestAdvanceTheKey: a service that is stopped, gets the key without the past day and is started
// again goes on without a question; what it published until then can be verified and replayed with
// the older key and not with the newer.
func TestAdvanceTheKey(t *testing.T) {
	w := newWorld(t, 8)
	w.step = beforeMidnight
	o := w.options("first")
	w.serve(t, o, 12)
	older := o
	o.Key = nextDay(t)
	w.serve(t, o, 4)
	if report := verify(t, older); !report.Verified {
		t.Errorf("with the older key: %+v", report)
	}
	report := verify(t, o)
	for _, p := range report.Partitions {
		text := strings.Join(p.NotVerified, "; ")
		if p.Verified || p.ViolationCount > 0 || !strings.Contains(text, "this key begins at "+o.Key.FirstDay().String()) || p.From != -1 {
			t.Errorf("with the newer key partition %d: %+v", p.Partition, p)
		}
	}
	for _, again := range []bool{false, true} {
		_, err := PlanReplay(t.Context(), o, ReplayOptions{Output: "gone", SpendAgain: again})
		if !errors.Is(err, noise.ErrDestroyed) || !strings.Contains(err.Error(), o.Key.FirstDay().String()) {
			t.Errorf("spend again %t: planned, %v", again, err)
		}
		if _, err := Replay(t.Context(), o, ReplayOptions{Output: "gone", SpendAgain: again}); !errors.Is(err, noise.ErrDestroyed) {
			t.Errorf("spend again %t: replayed, %v", again, err)
		}
	}
	first := w.answers(t, "first")
	first.read(t)
	plan := replay(t, older, ReplayOptions{Output: "again"})
	if !plan.Identical {
		t.Errorf("with the older key the replay is another release: %+v", plan.Partitions)
	}
	requireSame(t, first.out, w.replayed(t, plan).out)

	// A vehicle that comes late from the destroyed day is refused, and the others are as before.
	late := sentinel()
	late.UserID, late.Timestamp = "vehicle-of-yesterday", startMS
	rec := record(t, 0, late)
	w.send(t, producer.Record{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp})
	w.serve(t, o, 1)
	first.read(t)
	refused := 0
	for _, lines := range first.dead.lines {
		for _, l := range lines {
			letter, err := newTestCodec(t, schemas.Avro).DecodeDeadLetter([]byte(l.value))
			ok(t, err)
			if letter.Reason == schemas.ReasonKeyDestroyed {
				refused++
			}
		}
	}
	if refused != 1 {
		t.Errorf("%d fixes were refused for their day, want 1", refused)
	}
	// The older key would release it now, so it is no longer the key of what was published.
	requireOlder(t, older)
}

// requireOlder: with a key that has days which the service's had not, nothing passes for the first
// release.
func requireOlder(t *testing.T, older Options) {
	t.Helper()
	text := ""
	for _, p := range verify(t, older).Partitions {
		if p.ViolationCount > 0 {
			t.Errorf("with the older key partition %d has violations: %+v", p.Partition, p)
		}
		text += strings.Join(p.NotVerified, "; ")
	}
	if !strings.Contains(text, "still has them") {
		t.Errorf("with the older key it is not said why it does not verify: %q", text)
	}
	if plan, err := PlanReplay(t.Context(), older, ReplayOptions{Output: "older"}); err != nil || plan.Identical {
		t.Errorf("with the older key the replay is said to be the first release: %v", err)
	}
	if _, err := Replay(t.Context(), older, ReplayOptions{Output: "older"}); !errors.Is(err, ErrSpend) {
		t.Errorf("with the older key it is replayed: %v", err)
	}
}

// TestBegunUnderAnAdvancedKey: of a service that never had the day, all is as it should be, under
// its own key.
func TestBegunUnderAnAdvancedKey(t *testing.T) {
	w := newWorld(t, 8)
	w.step = beforeMidnight
	o := w.options("first")
	o.Key = nextDay(t)
	w.serve(t, o, 16)
	if n := o.Counters.Snapshot(); n.Destroyed == 0 || n.Releases == 0 || n.Epsilon != float64(n.Releases) {
		t.Fatalf("counted %+v", n)
	}
	if report := verify(t, o); !report.Verified {
		t.Errorf("%+v", report)
	}
	first := w.answers(t, "first")
	first.read(t)
	plan := replay(t, o, ReplayOptions{Output: "again"})
	if !plan.Identical {
		t.Errorf("the replay is another release: %+v", plan.Partitions)
	}
	requireSame(t, first.out, w.replayed(t, plan).out)
	requireSame(t, first.dead, w.replayed(t, plan).dead)
	whole := o
	whole.Key = testKey
	requireOlder(t, whole)
}
