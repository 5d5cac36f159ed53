// Package wire sends one request to one Kafka broker and reads its answer.
//
// It uses kafka-go's connections, and so its TLS and SASL, but chooses the broker itself, can send
// versions of a request that kafka-go does not know, and can return an answer as bytes. All
// packages that talk to Kafka share it: consumer, consumer/admin, consumer/group and producer.
//
// Files: exchange.go one request and its answer; request.go, answer.go, reader.go what is in both;
// retry.go repeated attempts, and the two questions that most requests begin with: who leads a
// partition, and who coordinates a group; transport.go what a client says of itself and hears of
// throttling; errors.go what can go wrong.
package wire
