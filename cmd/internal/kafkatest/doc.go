// Package kafkatest holds the tests that need a real Apache Kafka: they check what the other
// packages promise about it. They have the build tag kafka, so "make test" does not compile them
// and no test has to be skipped. Run them with "make test-kafka".
//
// GEODITHER_BROKERS names the brokers (host:port,...). GEODITHER_KAFKA_DIR is the folder in which
// deploy/kafka/kafka.sh started them, for the tests that stop one of them. Tests that need a
// cluster in a particular state (fresh, down, with other settings) start one in a temporary folder
// with the same script.
//
// With -v the tests log what they observe of Kafka: versions, error codes and delays. They never
// assert a delay, only the order of events.
package kafkatest
