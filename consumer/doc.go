// Package consumer reads from Kafka: a partition's committed records, a group's
// assignments and committed offsets, and what topics there are.
//
// Everything takes a *kafka.Client, of which it uses the address and the
// transport: TLS, SASL and the time to dial are set on the transport, once, by
// its owner.
//
// kafka-go delivers aborted records to read_committed readers, skips corrupt
// batches that follow a good one, and does not tell where a compacted batch
// ends. So Fetcher sends kafka-go's fetch request over kafka-go's connections,
// and reads the answer itself. Its consumer group cannot be a static member. So
// Group speaks the group's protocol itself; DESIGN.md says how.
//
// Files: fetcher.go one partition; filter.go what read_committed lets through;
// batch.go record batches; wire.go the fields of an answer; group.go,
// generation.go a membership and what it gives; member.go its life; join.go the
// way in and the signs of life; assign.go who gets what; groupprotocol.go,
// groupwire.go what members and coordinator say; offsets.go committed offsets
// and partition bounds; topics.go, topicids.go topics; errors.go what can go
// wrong; exchange.go, retry.go one request.
package consumer
