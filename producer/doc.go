// Package producer writes to Kafka exactly once.
//
// Transactional is the producer of one worker: everything it sends between two
// calls of Commit, to however many partitions, becomes visible together with
// the consumer offsets it carries, or not at all. Idempotent is the producer of
// a feeder: no transaction, but a retry doubles nothing.
//
// Both take a *kafka.Client, of which they use the address and the transport:
// TLS, SASL, the client id and the time to dial are set on the transport, once,
// by its owner. They run on kafka-go's connections and messages, except where
// kafka-go cannot do it: its record encoder writes no producer id, so that the
// batches are encoded here (see encoder) and sent as raw record sets.
//
// Files: record.go the types; encode.go record batches; murmur2.go which
// partition a key belongs to; errors.go what can go wrong, by what to do next;
// exchange.go, call.go one request, with coordinator cache and retries; send.go,
// leaders.go batches to partition leaders; transactional.go the state machine,
// enlist.go what it tells the coordinators; idempotent.go the feeder's producer.
// DESIGN.md has each crash point.
package producer
