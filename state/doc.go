// Package state keeps one opaque value per user and partition in an embedded
// Pebble database, together with the positions of the input and of the
// changelog that the values belong to.
//
// The store is a cache of a Kafka changelog. So it needs no fsync: a crash may
// lose the last writes, but a batch holds values and positions together, and
// what survives is a prefix of the batches; the positions then say from where
// the changelog has to be replayed. A lost or damaged folder costs time, not
// data.
//
// Reads are what a stream processor spends its time on, so a cache of bounded
// size stands in front of Pebble and holds the values that were used last.
//
// FORMAT.md has the layout of every key and value.
package state
