// Package partition says to which partition of a topic Kafka's clients write a record with a
// key. It is arithmetic on the key's bytes and needs no Kafka: a user's state and budget
// belong to one partition, so the code that charges them asks too.
package partition
