package schemas

import "strings"

// seededMark ends Sanitized.Mechanism where the noise came from a seed and not from a secret key.
const seededMark = " (seeded, not private)"

// SeededMechanism is the name of a mechanism in records whose noise came from a seed: whoever
// guesses the seed can take it off.
func SeededMechanism(name string) string { return name + seededMark }

// MechanismOf returns the name of the mechanism in Sanitized.Mechanism, and whether the record is
// marked as seeded.
func MechanismOf(published string) (name string, seeded bool) {
	return strings.CutSuffix(published, seededMark)
}
