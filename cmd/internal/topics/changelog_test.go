package topics_test

import (
	"context"
	"net"
	"strings"
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

// watched is a connection that calls before with the kind of each request.
type watched struct {
	kafka.RoundTripper
	before func(protocol.ApiKey)
}

// RoundTrip implements kafka.RoundTripper.
func (w watched) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (
	kafka.Response, error,
) {
	w.before(req.ApiKey())
	return w.RoundTripper.RoundTrip(ctx, addr, req)
}

// TestLastMarkAsksOnce: once a mark is found, the partition's bounds are not asked for again.
func TestLastMarkAsksOnce(t *testing.T) {
	w := servicetest.NewCompacted(t)
	w.Put(t, "log", task.MarkKey, task.AppendMark(nil, task.Mark{Input: 1}))
	client, asked := *w.Client, 0
	client.Transport = watched{w.Client.Transport, func(kind protocol.ApiKey) {
		if kind == protocol.ListOffsets {
			asked++
		}
	}}
	open(t, &client)
	once := asked
	_, found, err := topics.LastMark(t.Context(), &client, "log", 0)
	if again := asked - once; err != nil || !found || once == 0 || again != once {
		t.Errorf("%t, %v: bounds are asked for %d times, want %d", found, err, again, once)
	}
}

func open(t *testing.T, client *kafka.Client) *topics.Reader {
	t.Helper()
	r, err := topics.Open(t.Context(), client, "log", 0, consumer.FetcherOptions{})
	servicetest.OK(t, err)
	return r
}

// read returns the last value of each key that a reader has not visited yet.
func read(t *testing.T, r *topics.Reader) (map[string]string, error) {
	t.Helper()
	last := map[string]string{}
	err := r.Entries(t.Context(), func(e task.Entry) error {
		last[string(e.Key)] = string(e.Value)
		return nil
	})
	return last, err
}

// TestEntriesAreCleaned: a value that the cleaner removes for the sake of a newer one behind the
// end is not missed, in the first call and in a later one, however short the topic is.
func TestEntriesAreCleaned(t *testing.T) {
	w := servicetest.NewCompacted(t)
	w.Put(t, "log", "a", []byte("one"))
	w.Put(t, "log", "b", []byte("one"))
	got, err := read(t, open(t, w.Cleaned(t, "log", "a", []byte("two"))))
	if err != nil || got["a"] != "two" || got["b"] != "one" {
		t.Errorf("the first call has seen %v, %v", got, err)
	}
	r := open(t, w.Cleaned(t, "log", "a", []byte("three")))
	if some, err := r.AnyEntry(t.Context()); err != nil || !some {
		t.Errorf("the partition holds a record: %t, %v", some, err)
	}
}

// TestEntriesAreTruncated: records that are deleted before they were visited are an error, as is a
// topic that is made again. Records that are deleted after that are not.
func TestEntriesAreTruncated(t *testing.T) {
	w := servicetest.NewCompacted(t)
	r := open(t, w.Client)
	if got, err := read(t, r); err != nil || got["first"] != "-" {
		t.Fatalf("read %v, %v", got, err)
	}
	w.DeleteRecords(t, "log", 0, 1)
	w.Put(t, "log", "a", []byte("one"))
	if got, err := read(t, r); err != nil || got["a"] != "one" || len(got) != 1 {
		t.Errorf("after visited records were deleted: %v, %v", got, err)
	}
	w.Put(t, "log", "b", []byte("one"))
	w.Put(t, "log", "c", []byte("one"))
	w.DeleteRecords(t, "log", 0, 3)
	if got, err := read(t, r); err == nil ||
		!strings.Contains(err.Error(), "lost the records before offset 3") {
		t.Errorf("b was deleted: %v, %v", got, err)
	}
	w.DeleteTopic(t, "log", true)
	if got, err := read(t, r); err == nil ||
		!strings.Contains(err.Error(), "lost the records from offset 0 on") {
		t.Errorf("the topic was made again: %v, %v", got, err)
	}
}

// TestEntriesOfTopicMadeAgain: a topic that is made again is not taken for the one that was read,
// however long it is: between two calls, during the first pass, and during the last.
func TestEntriesOfTopicMadeAgain(t *testing.T) {
	for during := range 3 {
		w := servicetest.NewCompacted(t)
		again := func() {
			w.DeleteTopic(t, "log", true)
			w.Write(t, true, "log", 0,
				servicetest.Line{Key: "a", Value: "new", Timestamp: servicetest.StartMS})
		}
		client, fetches := *w.Client, 0
		client.Transport = watched{w.Client.Transport, func(kind protocol.ApiKey) {
			if kind != protocol.Fetch {
				return
			}
			switch fetches++; {
			case fetches == during:
				again()
			case fetches < during:
				w.Put(t, "log", "more", []byte("-")) // there is another pass
			}
		}}
		r := open(t, &client)
		got, err := read(t, r)
		if during == 0 {
			servicetest.OK(t, err)
			again()
			got, err = read(t, r)
		}
		if err == nil || !strings.Contains(err.Error(), "deleted and made again") {
			t.Errorf("during pass %d: read %v, %v", during, got, err)
		}
	}
}
