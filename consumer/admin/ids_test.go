package admin

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// TestTopicIDs: a topic that is deleted and created again has another id.
func TestTopicIDs(t *testing.T) {
	h := wiretest.OwnTopic(t)
	create := func() {
		t.Helper()
		h.OK(CreateTopics(t.Context(), h.Client, wiretest.Quick,
			Topic{Name: h.Topic, Partitions: 2, Replication: 1}))
	}
	create()
	read := func() [16]byte {
		t.Helper()
		ids, err := TopicIDs(t.Context(), h.Client, wiretest.Quick, h.Topic)
		h.OK(err)
		if len(ids) != 1 || ids[h.Topic] == [16]byte{} {
			t.Fatalf("ids %v", ids)
		}
		return ids[h.Topic]
	}
	first := read()
	if again := read(); again != first {
		t.Errorf("one topic has the ids %x and %x", first, again)
	}
	_, err := TopicIDs(t.Context(), h.Client, wiretest.Quick, h.Topic+"-b", h.Topic, h.Topic+"-a")
	var missing *MissingTopicsError
	if !errors.As(err, &missing) ||
		!slices.Equal(missing.Topics, []string{h.Topic + "-a", h.Topic + "-b"}) {
		t.Errorf("missing topics: %v", err)
	}
	if ids, err := TopicIDs(t.Context(), h.Client, wiretest.Quick); err != nil || len(ids) != 0 {
		t.Errorf("no topic: %v, %v", ids, err)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(h.Topic)
	req.Topics, req.TopicNames, req.TimeoutMillis = append(req.Topics, topic), []string{h.Topic},
		5000
	_, err = req.RequestWith(t.Context(), h.Franz())
	h.OK(err)
	h.Within("the deletion", func() bool {
		_, err := TopicIDs(t.Context(), h.Client, wiretest.Quick, h.Topic)
		return errors.As(err, &missing)
	})
	create()
	if again := read(); again == first {
		t.Errorf("the topic that was created again still has the id %x", again)
	}
}

func TestTopicIDsAreReadWhole(t *testing.T) {
	for size := range 40 {
		if err := readTopicIDs("test", make([]byte, size), map[string][16]byte{}); size < 12 &&
			!errors.Is(err, wire.ErrTemporary) {
			t.Errorf("an answer of %d bytes: %v", size, err)
		}
	}
}
