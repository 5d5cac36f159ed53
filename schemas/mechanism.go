package schemas

import (
	"slices"
	"strings"
)

// Notes about the releases of a record, which stand behind the mechanism's name.
const (
	// SecondRelease: the record depends on second releases of fixes which another topic has
	// a release of already. The ε of both add up.
	SecondRelease = "second release"
	// Seeded: the noise came from a seed. Whoever guesses the seed can take it off.
	Seeded = "seeded, not private"
)

const noteSeparator = "; "

// Noted adds a note to the text of Sanitized.Mechanism: "lattice" becomes
// "lattice (second release)", and with another note "lattice (second release; seeded, not
// private)".
func Noted(text, note string) string {
	name := MechanismName(text)
	return name + " (" + strings.Join(append(notes(text), note), noteSeparator) + ")"
}

// MechanismName is the mechanism in a text of Noted, which may have any notes or none.
func MechanismName(text string) string {
	if name, _, ok := cutNotes(text); ok {
		return name
	}
	return text
}

// HasNote reports whether a text of Noted has a note.
func HasNote(text, note string) bool { return slices.Contains(notes(text), note) }

func notes(text string) []string {
	if _, list, ok := cutNotes(text); ok {
		return strings.Split(list, noteSeparator)
	}
	return nil
}

func cutNotes(text string) (name, list string, ok bool) {
	name, list, ok = strings.Cut(text, " (")
	if !ok {
		return text, "", false
	}
	if list, ok = strings.CutSuffix(list, ")"); !ok {
		return text, "", false
	}
	return name, list, true
}
