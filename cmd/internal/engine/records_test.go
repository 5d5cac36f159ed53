package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

const records = "sanitized records were of version 2 and are of version 3"

// TestEarlierRecords holds Earlier to the last program that wrote records of version 2: its
// fingerprints, and the hashes of its records and states, are below. If mechanism.Version or
// mechanism.StateVersion has gone up since, that program's releases cannot be computed any more,
// and neither can these.
func TestEarlierRecords(t *testing.T) {
	for encoding, want := range map[schemas.Encoding]struct{ settings, effects string }{
		schemas.Avro: {
			"d4e87203e11b9f2b8086214ef2bf2bcb" +
				"62133d61b81ba5d0b03b28d1a28fdf9979800bb209a80e85e164c9a753473cb0",
			"fd4ae8161a3db320f2f9f3baba8ddf54a0e326c2d0c5e00db4eb9bd60dc0c700",
		},
		schemas.JSON: {
			"e468c3086b2f3ec8e6cf0b1af827954a" +
				"62133d61b81ba5d0b03b28d1a28fdf9979800bb209a80e85e164c96b53473cb0",
			"e9b8ed795dfbd2747e529e589d1a3f78038018ae55eeefe778b065eff284088a",
		},
	} {
		o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
		o.Release.ReleaseInterval = 3
		o.SanitizedEncoding = encoding
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
	o.Publish.Metric = true
	if _, ok := o.Earlier(); ok {
		t.Error("the factors of a service of before can be computed again")
	}
}

// TestCodebookVersion: what an earlier codebook released cannot be computed again, and is taken for
// nobody's. The fingerprints are those of the last program with version 1 of the codebook, of one
// that wrote records of version 2, and of the last one whose states had no short masses. Those of a
// lattice know nothing of the version.
func TestCodebookVersion(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	o.Release.Mechanism = law.Codebook
	if _, ok := o.Earlier(); ok {
		t.Error("an earlier codebook's records can be computed again")
	}
	const version = "release.mechanism, release.near or the version of the codebook " +
		"or of its states"
	for text, want := range map[string]string{
		"36eafa17a4e4bc8d7ede6e83ec76d706" +
			"63133d61971ba5d0b03b28d1a28fdf3a79800bb209a80e85e164c9a753473cb0dd": version,
		"94bb9dc1cd50fa8957aac47acad853be" +
			"63133d61211ba5d0b03b28d1a28fdf3a79800bb209a80e85e164c9a753473cb0dd": version,
		"879787e3e6dd4f10709bb56ef3c03dd9" +
			"62133d61971ba5d0b03b28d1a28fdf3a79800bb209a80e85e164c9a753473cb0": records + ", " +
			version,
	} {
		earlier, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if o.SameReleases(earlier) {
			t.Errorf("%s: an earlier codebook has the same releases", text)
		}
		if got := o.Differences(earlier); got != want {
			t.Errorf("different: %s, want %s", got, want)
		}
	}
	if !o.SameReleases(o.Fingerprint()) {
		t.Error("a codebook of one version has two fingerprints")
	}
	lattice := o
	lattice.Release.Mechanism = law.Lattice
	if got := lattice.Differences(o.Fingerprint()); got != "release.mechanism" {
		t.Errorf("a lattice differs from a codebook in %s", got)
	}
}

// TestDifferencesFromEarlier: of a service of before, what differs can be named, and its
// partitioner is known.
func TestDifferencesFromEarlier(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	o.Release.Mechanism = law.Lattice
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
