package group

import (
	"testing"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// TestAnotherTopic: static members come back and want another topic, with as many
// partitions. The coordinator has kept their assignments of the first one, and
// asks nobody to share them out again. kfake does ask.
func TestAnotherTopic(t *testing.T) {
	for _, ids := range []string{"a", "abc"} {
		h := newHarness(t, 1)
		processes := make([]*process, len(ids))
		start := func(i int) { processes[i] = h.start(Options{InstanceID: ids[i : i+1]}) }
		for i := range ids {
			start(i)
		}
		h.settle(1, processes...)
		h.Topic += "-other"
		h.OK(admin.CreateTopics(h.Context(), h.Client, wiretest.Quick,
			admin.Topic{Name: h.Topic, Partitions: 1, Replication: 1}))
		for i := range ids {
			h.OK(processes[i].Close())
			start(i)
		}
		h.settle(1, processes...)
	}
}
