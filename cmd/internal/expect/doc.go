// Package expect says what releases are worth: how far they and the estimates are from the truth,
// by which factor they tell places apart, and what they cost. [Simulate] finds it out on tracks
// that move as the model says, before there is any data; "sanitize" prints the same of real ones.
package expect
