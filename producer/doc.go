// Package producer writes to Kafka exactly once.
//
// Transactional is the producer of one worker. Everything that it sends between two calls of
// Commit, to any number of partitions, becomes visible together with the consumer offsets that it
// carries, or not at all. Idempotent is the producer of a feeder. It has no transactions, but a
// retry doubles nothing.
//
// Both take a *kafka.Client, of which they use the address and the transport: TLS, SASL, the client
// id and the time to dial are set on the transport, once, by its owner. Requests go through
// consumer/wire. kafka-go's record encoder writes no producer id, so the batches are encoded here
// (see encoder) and sent as raw record sets.
//
// Files: record.go the types; encode.go record batches; errors.go what can go wrong, by what to do
// next; call.go one request, with a cache of coordinators and retries; send.go batches to partition
// leaders; transactional.go, idempotent.go the two producers. DESIGN.md has each crash point.
// The idempotent producer spreads keys as Java clients do; the engine knows other ways.
package producer
