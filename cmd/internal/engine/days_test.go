package engine

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// TestSettingsOfAdvancedKey: an advanced key is the same key where settings are compared.
func TestSettingsOfAdvancedKey(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	want, whole := o.Fingerprint(), o
	o.Key = servicetest.NextDay(t)
	if got := whole.DifferencesInGroup(o.GroupFingerprint()); got !=
		"key_file: it has noise from another day on" {
		t.Errorf("beside the older key: %q", got)
	}
	if got := o.Fingerprint(); len(got) == 0 || !bytes.Equal(got, want) {
		t.Errorf("the settings are %x, want %x", got, want)
	}
	if Pseudonym(o.Key, "u") != Pseudonym(servicetest.Key, "u") ||
		Pseudonym(servicetest.Key.PseudonymsOnly(), "u") != Pseudonym(servicetest.Key, "u") {
		t.Error("the pseudonyms of a restricted key are others")
	}
	o.Key = servicetest.Key.PseudonymsOnly()
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "key of pseudonyms") ||
		o.Fingerprint() != nil {
		t.Errorf("a service takes a key of pseudonyms: %v", err)
	}
	if _, err := New(o); err == nil {
		t.Error("an engine takes a key of pseudonyms")
	}
}

// TestSeededRecords: what is published under a seed's key is marked, and under the same key from a
// file nothing of the kind.
func TestSeededRecords(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	for _, c := range []struct {
		key    noise.Key
		want   string
		seeded bool
	}{
		{noise.KeyFromSeed(1), "lattice (seeded, not private)", true},
		{servicetest.Key, "lattice", false},
	} {
		o.Key = c.key
		s := servicetest.Process(t, newTestProcessor(t, o, 0),
			servicetest.Record(t, 0, servicetest.Sentinel()), nil).Sanitized(t, schemas.Avro)
		name, seeded := schemas.MechanismName(s.Mechanism),
			schemas.HasNote(s.Mechanism, schemas.Seeded)
		if s.Mechanism != c.want || name != "lattice" || seeded != c.seeded {
			t.Errorf("the mechanism is %q, read as %q, seeded %t", s.Mechanism, name, seeded)
		}
	}
}

// TestDestroyedDayIsADeadLetter: it spends nothing, leaves the state as it was, and is counted.
func TestDestroyedDayIsADeadLetter(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	o.Key = servicetest.NextDay(t)
	p := newTestProcessor(t, o, 0)
	fix := servicetest.Sentinel()
	got := servicetest.Process(t, p, servicetest.Record(t, 4, fix), nil)
	if letter := got.Letter(t, schemas.Avro); letter.Reason != schemas.ReasonKeyDestroyed ||
		letter.Offset != 4 || got.State != nil || len(got.Output) > 0 {
		t.Errorf("%+v with %d bytes of state and %d records",
			letter, len(got.State), len(got.Output))
	}
	fix.Timestamp += 24 * 60 * 60 * 1000
	next := servicetest.Process(t, p, servicetest.Record(t, 5, fix), nil)
	if s := next.Sanitized(t, schemas.Avro); s.Release != 1 || s.Epsilon != o.Release.Epsilon {
		t.Errorf("the first fix of a day that is there is release %d for ε = %g",
			s.Release, s.Epsilon)
	}
	if n, _ := p.Take(); n.Destroyed != 1 || n.DeadLetters != 1 || n.Releases != 1 ||
		n.Epsilon != o.Release.Epsilon {
		t.Errorf("counted %+v", n)
	}
}

// TestRefusedDays: what was added is there, in whatever order, and nothing else.
func TestRefusedDays(t *testing.T) {
	var r Offsets
	for _, offset := range []int64{3, 4, 5, 9, 20, 21, 7} {
		r.Add(offset)
	}
	r.Sort()
	for offset := range int64(30) {
		if want := slices.Contains([]int64{3, 4, 5, 7, 9, 20, 21}, offset); r.Has(offset) != want {
			t.Errorf("offset %d: %t", offset, !want)
		}
	}
	if (*Offsets)(nil).Has(3) || len(r.runs) != 4 {
		t.Errorf("%d runs", len(r.runs))
	}
}
