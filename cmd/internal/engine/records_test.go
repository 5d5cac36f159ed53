package engine

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

// TestEarlierRecords holds Earlier to the last program that wrote records of version 2: its
// fingerprints, and the hashes of its records and states, are below. If mechanism.Version or
// mechanism.StateVersion has gone up since, that program's releases cannot be computed any more,
// and neither can these.
func TestEarlierRecords(t *testing.T) {
	for encoding, want := range map[schemas.Encoding]struct{ settings, effects string }{
		schemas.Avro: {
			"a1ab1d512989812690c3ff7c14623b6f" +
				"62133d61b81ba5d0b03b28d1a28fdf9979800bb209a80e85e127c9a753473cb0",
			"fa160fdcc25157b4285560db62e35594322d6371d42d22c19ecc23e8611674ba",
		},
		schemas.JSON: {
			"0a21dcea15747753e780738ebaaf5bfe" +
				"62133d61b81ba5d0b03b28d1a28fdf9979800bb209a80e85e127c96b53473cb0",
			"ea31081441edb71aace0d5d9c389b8c53304e1c1e75ced792d09e5e679f251f8",
		},
	} {
		o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
		o.Release.ReleaseInterval = 3
		o.Publish.Metric, o.SanitizedEncoding = true, encoding
		earlier, ok := o.Earlier()
		if got := fmt.Sprintf("%x", earlier.Fingerprint()); got != want.settings || !ok {
			t.Errorf("%s: fingerprint %s, %t, want %s", encoding, got, ok, want.settings)
		}
		hash, kinds := sha256.New(), map[string]int{}
		p := newTestProcessor(t, earlier, 0)
		for _, e := range reports(t, p, 0, 60, 70, 120, 180, 190, 400) {
			for _, m := range e.Output {
				hash.Write(m.Value)
			}
			hash.Write(e.State)
			kinds[e.Sanitized(t, encoding).Kind]++
		}
		if got := fmt.Sprintf("%x", hash.Sum(nil)); got != want.effects {
			t.Errorf("%s: the hash of records and states is %s, want %s", encoding, got,
				want.effects)
		}
		if len(kinds) != 3 {
			t.Errorf("want records of each kind, got %v", kinds)
		}
	}
}

// TestSameReleases: the version of records and publish.release change no release, all else may.
func TestSameReleases(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	o.Release.Mechanism = law.Lattice // what the earlier default was
	earlier, _ := o.Earlier()
	bare, other, pseudonym := o, o, o
	bare.Publish.OmitRelease = true
	other.Release.Epsilon *= 2
	pseudonym.Publish.User = UserPseudonym
	for name, c := range map[string]struct {
		own, first Settings
		same       bool
	}{
		"itself":                  {o, o, true},
		"of before":               {o, earlier, true},
		"without releases":        {o, bare, true},
		"with releases":           {bare, o, true},
		"of before, now without":  {bare, earlier, true},
		"another ε":               {o, other, false},
		"another ε, of before":    {other, earlier, false},
		"with a pseudonym before": {o, pseudonym, false},
	} {
		if got := c.own.SameReleases(c.first.Fingerprint()); got != c.same {
			t.Errorf("%s: %t", name, got)
		}
	}
	if o.SameReleases(nil) || (Settings{}).SameReleases(nil) {
		t.Error("no fingerprint has the same releases")
	}
	if _, ok := bare.Earlier(); ok {
		t.Error("a service of before left releases out")
	}
}

// TestDifferencesFromEarlier: of a service of before, what differs can be named, and its
// partitioner is known.
func TestDifferencesFromEarlier(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	o.Release.Mechanism = law.Lattice
	const records = "sanitized records were of version 2 and are of version 3"
	earlier, _ := o.Earlier()
	if got := o.Differences(earlier.Fingerprint()); got != records {
		t.Errorf("%q, want %q", got, records)
	}
	earlier.Release.Epsilon *= 2
	earlier.Partitioner = CRC32
	got := o.Differences(earlier.Fingerprint())
	if !strings.HasPrefix(got, records+", ") || !strings.Contains(got, "release.epsilon") ||
		!strings.Contains(got, "topics.partitioner") || strings.Contains(got, "release.delta") {
		t.Errorf("%q", got)
	}
	o.Publish.OmitRelease = true
	if got := o.PartitionerOf(earlier.Fingerprint()); got != CRC32 {
		t.Errorf("the partitioner was %q", got)
	}
	if got := o.Differences(earlier.Fingerprint()); !strings.HasPrefix(got, records) {
		t.Errorf("%q", got)
	}
	o.Records = RecordsBefore
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "have the release") {
		t.Errorf("records of version 2 without releases: %v", err)
	}
	o.Records = 1
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "no version 1") {
		t.Errorf("version 1: %v", err)
	}
}
