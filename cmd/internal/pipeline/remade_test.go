package pipeline

import (
	"errors"
	"testing"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// TestRawTopicIsRemade: a raw topic that is deleted and made anew under a service
// at work ends it. Going on at the old offset would leave the new records before
// it out, for ever.
func TestRawTopicIsRemade(t *testing.T) {
	w := newWorld(t, 10)
	for range 4 {
		w.feed(t)
	}
	o := w.options("service")
	a := w.answers(t, "service")
	r := start(t, o)
	await(t, "everything is answered", func() bool { return a.read(t) >= w.fed }, r)
	res, err := w.client.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{"raw"}})
	ok(t, errors.Join(err, res.Errors["raw"]))
	await(t, "the topic is gone", func() bool {
		return admin.CreateTopics(t.Context(), w.client, wire.Options{}, admin.Topic{Name: "raw", Partitions: partitions}) == nil
	})
	if err := r.wait(t); !errors.Is(err, task.ErrSource) {
		t.Errorf("the service ended with %v", err)
	}
}
