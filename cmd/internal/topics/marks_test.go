package topics_test

import (
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// TestLastMarkIsCleaned: a mark that the cleaner removes for the sake of a newer one behind the end
// does not leave a partition without one.
func TestLastMarkIsCleaned(t *testing.T) {
	w := servicetest.NewWorld(t, 1)
	servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
		admin.Topic{Name: "log", Partitions: 1, Configs: topics.Compacted}))
	w.Put(t, "log", "first", []byte("-")) // the broker's log begins at its first record
	w.Put(t, "log", task.MarkKey, task.AppendMark(nil, task.Mark{Input: 1}))
	client := w.Cleaned(t, "log", task.MarkKey, task.AppendMark(nil, task.Mark{Input: 2}))
	mark, found, err := topics.LastMark(t.Context(), client, "log", 0)
	if err != nil || !found || mark.Input != 2 {
		t.Errorf("the last mark is %+v, %t, %v", mark, found, err)
	}
}
