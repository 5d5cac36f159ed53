// Package topics knows the four topics of a service in Kafka: where they are (Cluster), how they
// are made (Create), and how their partitions are read between two offsets (Reader), to the end or
// on and on (Tail), and up to the last mark of a changelog (LastMark).
package topics
