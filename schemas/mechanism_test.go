package schemas_test

import (
	"testing"

	"github.com/geodither/geodither/schemas"
)

// TestNoted: a note is added to the mechanism's name, and the name is had back from it.
func TestNoted(t *testing.T) {
	for text, name := range map[string]string{
		schemas.Noted("lattice", ""):                    "lattice",
		schemas.Noted("lattice", schemas.SecondRelease): "lattice",
		"lattice (another note, of a later version)":    "lattice",
		"": "", "lattice (": "lattice (", "lattice)": "lattice)",
	} {
		if got := schemas.MechanismName(text); got != name {
			t.Errorf("%q names the mechanism %q, want %q", text, got, name)
		}
	}
	if got := schemas.Noted("pim", schemas.SecondRelease); got != "pim (second release)" {
		t.Errorf("the note reads %q", got)
	}
}
