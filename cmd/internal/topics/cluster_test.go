package topics

import "testing"

// TestTransactionalID: one for each group, topic and partition, also where the
// names run into each other.
func TestTransactionalID(t *testing.T) {
	id := func(group, raw string, partition int32) string {
		return Cluster{Group: group, Topics: Set{Raw: raw}}.TransactionalID(partition)
	}
	if got := id("fleet", "fleet.raw", 3); got != "fleet/fleet.raw/3" {
		t.Errorf("got %q", got)
	}
	if id("fleet", "eu-raw", 0) == id("fleet-eu", "raw", 0) {
		t.Error("two services share a transactional id and would fence each other forever")
	}
}
