package schemas

import "strings"

// SecondRelease is the note of a record that depends on second releases of fixes which
// another topic has a release of already: the ε of both add up.
const SecondRelease = "second release"

// Noted is the text of Sanitized.Mechanism for a mechanism and a note about its releases,
// "lattice (second release)". Without a note it is the mechanism's name.
func Noted(mechanism, note string) string {
	if note == "" {
		return mechanism
	}
	return mechanism + " (" + note + ")"
}

// MechanismName is the mechanism in a text of Noted, which may have any note or none.
func MechanismName(text string) string {
	if name, _, ok := strings.Cut(text, " ("); ok && strings.HasSuffix(text, ")") {
		return name
	}
	return text
}
