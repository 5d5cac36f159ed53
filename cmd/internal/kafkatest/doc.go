// Package kafkatest holds the tests that need a real Apache Kafka: what the
// other packages promise about it, shown on it. They carry the build tag kafka,
// so that "make test" does not compile them and nothing has to be skipped; run
// them with "make test-kafka".
//
// GEODITHER_BROKERS names the brokers (host:port,...), GEODITHER_KAFKA_DIR the
// folder of deploy/kafka/kafka.sh that they were started in, for the tests that
// stop one of them. Tests that need a cluster in a state of its own (fresh, down,
// with other settings) start one in a temporary folder with the same script.
//
// What was seen of Kafka on the way (versions, error codes, delays) is logged
// with -v. Delays are logged and never asserted: only the order of events is.
package kafkatest
