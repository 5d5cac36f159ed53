package topics_test

import (
	"context"
	"net"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
)

// TestLastMarkIsCleaned: a mark that the cleaner removes for the sake of a newer one behind the end
// does not leave a partition without one.
func TestLastMarkIsCleaned(t *testing.T) {
	w := servicetest.NewCompacted(t)
	w.Put(t, "log", task.MarkKey, task.AppendMark(nil, task.Mark{Input: 1}))
	client := w.Cleaned(t, "log", task.MarkKey, task.AppendMark(nil, task.Mark{Input: 2}))
	mark, found, err := topics.LastMark(t.Context(), client, "log", 0)
	if err != nil || !found || mark.Input != 2 {
		t.Errorf("the last mark is %+v, %t, %v", mark, found, err)
	}
}

// boundsAsked counts the requests for bounds of partitions.
type boundsAsked struct {
	kafka.RoundTripper
	n int
}

// RoundTrip implements kafka.RoundTripper.
func (b *boundsAsked) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (
	kafka.Response, error,
) {
	if req.ApiKey() == protocol.ListOffsets {
		b.n++
	}
	return b.RoundTripper.RoundTrip(ctx, addr, req)
}

// TestLastMarkAsksOnce: once a mark is found, the partition's bounds are not asked for again.
func TestLastMarkAsksOnce(t *testing.T) {
	w := servicetest.NewCompacted(t)
	w.Put(t, "log", task.MarkKey, task.AppendMark(nil, task.Mark{Input: 1}))
	client, asked := *w.Client, &boundsAsked{RoundTripper: w.Client.Transport}
	client.Transport = asked
	_, err := topics.Open(t.Context(), &client, "log", 0, consumer.FetcherOptions{})
	servicetest.OK(t, err)
	once := asked.n
	_, found, err := topics.LastMark(t.Context(), &client, "log", 0)
	if again := asked.n - once; err != nil || !found || once == 0 || again != once {
		t.Errorf("%t, %v: bounds are asked for %d times, want %d", found, err, again, once)
	}
}

// TestAnyCompactedIsCleaned: a partition whose only record the cleaner removes for the sake of a
// newer one behind the end is not called empty.
func TestAnyCompactedIsCleaned(t *testing.T) {
	w := servicetest.NewCompacted(t)
	w.Put(t, "log", "user", []byte("state"))
	client := w.Cleaned(t, "log", "user", []byte("newer state"))
	r, err := topics.Open(t.Context(), client, "log", 0, consumer.FetcherOptions{})
	servicetest.OK(t, err)
	r.First++
	if some, err := r.AnyCompacted(t.Context()); err != nil || !some {
		t.Errorf("it holds a record: %t, %v", some, err)
	}
}
