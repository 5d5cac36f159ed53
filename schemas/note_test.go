package schemas_test

import (
	"testing"

	"github.com/geodither/geodither/schemas"
)

// TestNoted: notes are added to the mechanism's name, and name and notes are had back.
func TestNoted(t *testing.T) {
	second := schemas.Noted("lattice", schemas.SecondRelease)
	both := schemas.Noted(second, schemas.Seeded)
	for _, c := range []struct {
		text, name     string
		second, seeded bool
	}{
		{"lattice", "lattice", false, false},
		{second, "lattice", true, false},
		{schemas.Noted("lattice", schemas.Seeded), "lattice", false, true},
		{both, "lattice", true, true},
		{"lattice (another note, of a later version)", "lattice", false, false},
		{"", "", false, false},
		{"lattice (", "lattice (", false, false},
		{"lattice)", "lattice)", false, false},
	} {
		if got := schemas.MechanismName(c.text); got != c.name {
			t.Errorf("%q names the mechanism %q, want %q", c.text, got, c.name)
		}
		if got := schemas.HasNote(c.text, schemas.SecondRelease); got != c.second {
			t.Errorf("%q is a second release: %t", c.text, got)
		}
		if got := schemas.HasNote(c.text, schemas.Seeded); got != c.seeded {
			t.Errorf("%q is seeded: %t", c.text, got)
		}
	}
	if both != "lattice (second release; seeded, not private)" {
		t.Errorf("two notes read %q", both)
	}
}
