package engine

import (
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/law"
)

// TestSameReleases: publish.release changes no release, all else may.
func TestSameReleases(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	bare, other, pseudonym := o, o, o
	bare.Publish.OmitRelease = true
	other.Release.Epsilon *= 2
	pseudonym.Publish.User = UserPseudonym
	for name, c := range map[string]struct {
		own, first Settings
		same       bool
	}{
		"itself":                  {o, o, true},
		"without releases":        {o, bare, true},
		"with releases":           {bare, o, true},
		"another ε":               {o, other, false},
		"another ε, without":      {bare, other, false},
		"with a pseudonym before": {o, pseudonym, false},
	} {
		if got := c.own.SameReleases(c.first.Fingerprint()); got != c.same {
			t.Errorf("%s: %t", name, got)
		}
	}
	if o.SameReleases(nil) || (Settings{}).SameReleases(nil) {
		t.Error("no fingerprint has the same releases")
	}
}

// TestCodebookVersion: under a codebook its version is among the settings; a lattice does not know
// it. A fingerprint of another length says nothing of its settings.
func TestCodebookVersion(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	o.Release.Mechanism = law.Codebook
	lattice := o
	lattice.Release.Mechanism = law.Lattice
	const version = "release.mechanism or the version of the codebook " +
		"or of its states"
	if got := o.Differences(lattice.Fingerprint()); got != version {
		t.Errorf("a codebook differs from a lattice in %s", got)
	}
	if got := lattice.Differences(o.Fingerprint()); got != "release.mechanism" {
		t.Errorf("a lattice differs from a codebook in %s", got)
	}
	short := o.Fingerprint()[:settingsSize+4]
	if got := o.Differences(short); got != "another version of geodither wrote them, so what "+
		"differs cannot be named" {
		t.Errorf("a fingerprint of another length: %s", got)
	}
}
