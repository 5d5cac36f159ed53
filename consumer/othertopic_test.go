package consumer

import "testing"

// TestAnotherTopic: static members come back and want another topic, with as many
// partitions. The coordinator has kept their assignments of the first one, and
// asks nobody to share out anew. kfake does ask.
func TestAnotherTopic(t *testing.T) {
	for _, ids := range []string{"a", "abc"} {
		h := newGroupHarness(t, 1)
		processes := make([]*process, len(ids))
		start := func(i int) { processes[i] = h.start(GroupOptions{InstanceID: ids[i : i+1]}) }
		for i := range ids {
			start(i)
		}
		h.settle(1, processes...)
		h.topic += "-other"
		h.ok(CreateTopics(h.Context(), h.client, quick, Topic{Name: h.topic, Partitions: 1, Replication: 1}))
		for i := range ids {
			h.ok(processes[i].Close())
			start(i)
		}
		h.settle(1, processes...)
	}
}
