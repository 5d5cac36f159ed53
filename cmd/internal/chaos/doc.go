// Command chaos breaks a running service in every way that a machine can fail, and then checks
// that no reader of its topics could have noticed:
//
//	go run ./cmd/internal/chaos --records 100000 --faults 20
//
// A run has three Kafka nodes (deploy/kafka), three instances of "geodither run" and a simulated
// fleet that reports at a steady rate. A seeded schedule kills, freezes, stops and restarts
// instances and brokers, and deletes state folders. All the time a read_committed reader of
// another client library watches. At the end the command compares the topics with each other,
// and "geodither state verify" recomputes everything from the raw topic.
//
// With --soak nothing is broken: instances restart in turn under a steady load, and the verdict is
// on what grows (memory, files, goroutines, topics).
//
// The exit code is 0 if every promise held, 1 if one did not or the run failed, and 2 for wrong
// usage. A failed run keeps its folder, and prints where it is and how to repeat the run.
//
//	settings.go   what a run is asked for: topics, the users' budget
//	main.go       the command line and the printed report
//	run.go        the course of a run, and the checks at its end
//	faults.go     the schedule of faults, and how each is carried out
//	processes.go  the cluster and the instances, which the faults break
//	feed.go       the raw topic's producers: the fleet, odd records, a second producer
//	reader.go     the independent client, and the reader that watches
//	ledger.go     what was published for each raw record, and what each user has spent
//	soak.go       --soak: samples in place of hard faults, and the rules by which a soak fails
package main
