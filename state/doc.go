// Package state keeps one opaque value for each user and partition in an embedded Pebble database,
// together with the positions of the input and of the changelog that the values belong to.
//
// The store is a cache of a Kafka changelog, so it needs neither a log of its own nor an fsync a
// batch. What is applied stays in memory until a memtable is full, or half a minute has passed, or
// the store is closed. A crash of the process loses that much. But a batch holds values and
// positions together, and a prefix of the batches survives, so the positions say from where the
// changelog has to be replayed. A lost or damaged folder costs time, not data.
//
// A stream processor spends its time on reads, so a cache of bounded size stands in front of Pebble
// and holds the values that were used last.
//
// Files: store.go an open store; partition.go one partition of it, keys and positions; folder.go
// its files; cache.go the cache; purge.go how files forget what was removed; pebble.go, health.go
// how Pebble is set up, and what happens when the disk fails; errors.go what can be wrong.
// FORMAT.md has the layout of every key and value.
package state
