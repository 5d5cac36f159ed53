package partition_test

import (
	"fmt"

	"github.com/geodither/geodither/producer/partition"
)

// Records of a key go to the partition that Kafka's Java client chooses.
func ExampleMurmur2() {
	fmt.Println(partition.Murmur2([]byte("bus-7"), 12))
	// Output: 1
}
