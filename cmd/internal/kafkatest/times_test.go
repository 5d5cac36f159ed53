//go:build kafka

package kafkatest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// TestOldRecordsUnderABound runs on brokers that take no record older than a day by default. Topics
// that geodither makes take the old records of a trace. A topic that refuses them is a failure of
// doctor, and stops the service with the setting's name; with another setting it goes on.
func TestOldRecordsUnderABound(t *testing.T) {
	t.Parallel()
	cluster := private(t, "log.message.timestamp.before.max.ms=86400000")
	h := newHarnessAt(t, cluster.brokers()...)
	w := h.world(1, 3)
	made := w.options("made")
	w.ok(topics.Create(t.Context(), h.client, wire.Options{}, made.Topics))
	w.feed(10)
	r := w.serve(made)
	w.eventually("the made topics have all", func() bool { return w.answered(made) || r.ended() })
	r.stop()
	w.exactlyOnce(made)

	o := w.options("byhand")
	const setting = "message.timestamp.before.max.ms"
	w.ok(admin.CreateTopics(t.Context(), h.client, wire.Options{}, admin.Topic{
		Name: o.Topics.Sanitized, Partitions: 1, Replication: 1,
	}))
	w.ok(topics.Create(t.Context(), h.client, wire.Options{}, o.Topics))
	said := atwork.Details(service.Examine(t.Context(), o, nil, nil), checks.Failure)
	if !strings.Contains(said, o.Topics.Sanitized) || !strings.Contains(said, setting) ||
		strings.Count(said, "\n") != 1 {
		t.Errorf("doctor's failures: %s", said)
	}
	r = w.serve(o)
	err := r.wait()
	t.Log(err)
	if err == nil || !strings.Contains(err.Error(), "raise its "+setting) {
		t.Errorf("the service ended with %v", err)
	}
	w.alter(o.Topics.Sanitized, setting, "9223372036854775807")
	r = w.serve(o)
	w.eventually("it goes on", func() bool { return w.answered(o) || r.ended() })
	r.stop()
	w.exactlyOnce(o)
}

// TestRefusedRecordsAreNamed: an answer that no retry changes names the setting that refuses the
// record.
func TestRefusedRecordsAreNamed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	now := time.Now()
	for name, c := range map[string]struct {
		configs map[string]string
		record  producer.Record
		want    string
	}{
		"old": {
			map[string]string{"message.timestamp.before.max.ms": "3600000"},
			producer.Record{Value: []byte("v"), Timestamp: now.Add(-48 * time.Hour).UnixMilli()},
			"raise its message.timestamp.before.max.ms",
		},
		"ahead": {
			map[string]string{"message.timestamp.after.max.ms": "3600000"},
			producer.Record{Value: []byte("v"), Timestamp: now.Add(48 * time.Hour).UnixMilli()},
			"raise its message.timestamp.after.max.ms",
		},
		"large": {
			map[string]string{"max.message.bytes": "1000"},
			producer.Record{Value: make([]byte, 2000), Timestamp: now.UnixMilli()},
			"raise the topic's max.message.bytes",
		},
		"keyless": {
			map[string]string{"cleanup.policy": "compact"},
			producer.Record{Value: []byte("v"), Timestamp: now.UnixMilli()},
			"cleanup.policy=delete",
		},
	} {
		p := h.transactional(h.client, name, producer.Options{})
		topic := h.topic(name, 1, c.configs)
		_, err := p.Produce(context.WithoutCancel(t.Context()), producer.Batch{
			TopicPartition: producer.TopicPartition{Topic: topic, Partition: 0},
			Records:        []producer.Record{c.record},
		})
		t.Logf("%s: %v", name, err)
		h.is(err, producer.ErrFatal)
		if err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", name, err, c.want)
		}
	}
}
