// Package expect computes what releases are worth: how far they and the estimates are from the
// truth, by which factor they distinguish places, and what they cost. [Simulate] computes it on
// tracks that move as the model says, before there is any data; "sanitize" prints the same for real
// tracks. [Describe] says what the model holds, and how well it fits.
package expect
