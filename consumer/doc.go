// Package consumer reads records from Kafka, one partition at a time, and a group's committed
// offsets.
//
// kafka-go delivers aborted records to read_committed readers, skips corrupt batches that follow
// a good one, and does not tell where a compacted batch ends. So Fetcher sends kafka-go's fetch
// request over kafka-go's connections, and decodes the answer itself.
//
// Functions and types take a *kafka.Client, of which they use the address and the transport: TLS,
// SASL and the time to dial are set on the transport, once, by its owner.
//
// The packages below depend on each other in one direction:
//
//	consumer ─────► wire ◄───── producer
//	group ► admin ───┘
//
// consumer/wire sends a request and reads the answer; consumer/admin knows topics and their
// configuration; consumer/group is a member of a consumer group. consumer/task, which imports
// none of them, is the transaction loop of one partition.
//
// Files: fetcher.go one partition, and what read_committed lets through; batch.go record batches;
// offsets.go committed offsets and a partition's bounds; errors.go damaged and missing data.
package consumer
