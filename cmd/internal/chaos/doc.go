// Command chaos breaks a running service in every way that a machine can, and
// then proves that nobody could tell:
//
//	go run ./cmd/internal/chaos --records 100000 --faults 20
//
// Three Kafka nodes (deploy/kafka), three instances of "geodither run" and a
// simulated fleet at a steady rate; meanwhile, by a seeded schedule, instances
// and brokers are killed, frozen, stopped and started again, and state folders
// deleted. A read_committed reader of another client library watches all the
// time. At the end the topics are held against each other, and "geodither state
// verify" recomputes everything from the raw topic.
//
// Exit 0: every promise held; 1: one did not, or the run failed; 2: wrong usage.
// What a failed run leaves is kept: its folder and how to repeat it are printed.
//
// Files: main.go the command line; run.go the course of a run; cluster.go,
// instance.go what is broken; feed.go, second.go what is fed, by two kinds of producers;
// faults.go the schedule and what it does; reader.go, kafka.go the independent client;
// ledger.go the checks, budget.go what was spent;
// verify.go the recomputation; plant.go faults that the checks must find;
// report.go the report.
package main
