// Package consumer reads from Kafka: a partition's committed records, a group's
// assignments and committed offsets, and what topics there are.
//
// Everything takes a *kafka.Client, of which it uses the address and the
// transport: TLS, SASL, the client id and the time to dial are set on the
// transport, once, by its owner (Group derives its own connections from it).
//
// kafka-go delivers aborted records to read_committed readers, skips corrupt
// batches that follow a good one, and does not tell where a compacted batch
// ends. So Fetcher sends kafka-go's fetch request over kafka-go's connections,
// and reads the answer itself.
//
// Files: fetcher.go one partition; filter.go what read_committed lets through;
// batch.go record batches; wire.go the fields of an answer; group.go
// assignments; offsets.go committed offsets and partition bounds; topics.go
// topics; errors.go what can go wrong; exchange.go, retry.go one request.
package consumer
