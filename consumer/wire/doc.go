// Package wire sends one request to one Kafka broker and reads its answer.
//
// It uses kafka-go's connections, and so its TLS and SASL, but chooses the broker itself, can
// speak versions of a request that kafka-go does not know, and can return an answer as bytes.
// The packages that talk to Kafka share it.
//
// Files: exchange.go one request over a connection; request.go retries, metadata, coordinators;
// fields.go the fields of requests and answers; errors.go what can go wrong.
package wire
