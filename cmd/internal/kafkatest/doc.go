// Package kafkatest holds the tests that need a real Apache Kafka: they check what the other
// packages promise about it. They have the build tag kafka, so "make test" does not compile them
// and no test has to be skipped. Run them with "make test-kafka".
//
// GEODITHER_BROKERS names the brokers (host:port,...). GEODITHER_KAFKA_DIR is the folder in which
// deploy/kafka/kafka.sh started them, for the tests that stop one of them. Tests that need a
// cluster in a particular state (fresh, down, with other settings) start one in a temporary folder
// with the same script.
//
// TestChaos ("make chaos") and TestSoak ("make soak") have flags and clusters of their own:
//
//	chaos_test.go        the course of a run, and the checks at its end
//	chaosreport_test.go  what a run is asked for, and its printed report
//	faults_test.go       the schedule of faults, and how each is carried out
//	instances_test.go    the instances, which the faults break
//	oddfeed_test.go      the raw topic's producers: the fleet, odd records, a second producer
//	witness_test.go      the independent client, and the reader that watches
//	counted_test.go      a test by itself: the services that count, killed and frozen
//	ledger_test.go       what was published for each raw record, and what each user has spent
//	soak_test.go         samples in place of hard faults, and the rules by which a soak fails
//
// With -v the tests log what they observe of Kafka: versions, error codes and delays. They never
// assert a delay, only the order of events.
package kafkatest
