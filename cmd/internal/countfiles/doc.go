// Package countfiles counts the fixes of files: where a fleet is, by window and zone, under an ε
// for a user's whole day. Windows, caps and noise are those of mechanism/counts, as in the service
// (package counting). What is here alone is the days of a run, the ledger of what a key has
// published, and the choice of zones and windows that are useful to a fleet.
package countfiles
