//go:build kafka

package kafkatest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// deleteTopic deletes a topic and waits until the cluster has forgotten it.
func (h *harness) deleteTopic(name string) {
	h.Helper()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics, req.TopicNames, req.TimeoutMillis = append(req.Topics, topic),
		[]string{name}, 30_000
	res, err := req.RequestWith(h.Context(), h.admin)
	h.ok(err)
	h.ok(kerr.ErrorForCode(res.Topics[0].ErrorCode))
	h.eventually("the topic is gone", func() bool {
		_, err := admin.Partitions(h.Context(), h.client, wire.Options{}, name)
		var missing *admin.MissingTopicsError
		return errors.As(err, &missing)
	})
}

// remakeChangelog makes it as somebody would who misses it.
func (w *world) remakeChangelog(o service.Options) {
	w.Helper()
	w.ok(admin.CreateTopics(w.Context(), w.client, wire.Options{}, admin.Topic{
		Name: o.Topics.Changelog, Partitions: w.partitions,
		Configs: map[string]string{"cleanup.policy": "compact"},
	}))
}

// requireLost is the error of a service whose changelog is lost.
func (w *world) requireLost(err error) {
	w.Helper()
	w.Logf("%v", err)
	w.is(err, task.ErrLost)
	for _, part := range []string{
		"(changelog-lost)",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			w.Errorf("the error does not say %q", part)
		}
	}
}

// repairOptions are those of a service, for what mends its changelog.
func repairOptions(o service.Options) account.Options {
	return account.Options{
		Settings: o.Settings, Cluster: o.Cluster, StateDir: o.StateDir, Logger: o.Logger,
	}
}

// TestTheChangelogIsRemadeAtWork deletes the changelog under a service at work and makes it
// again: the service stops and publishes nothing beside the new one.
func TestTheChangelogIsRemadeAtWork(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(2, 10)
	o := w.options("service")
	w.createRaw()
	w.feed(10)
	r := w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	w.deleteTopic(o.Topics.Changelog)
	w.remakeChangelog(o)
	begun := time.Now()
	for !r.ended() && time.Since(begun) < patience {
		w.feed(1)
		time.Sleep(20 * time.Millisecond)
	}
	w.requireLost(r.wait())
	t.Logf("it has ended after %v", since(begun))
	for p := range int32(w.partitions) {
		if got := w.read(o.Topics.Changelog, p, false); len(got) > 0 {
			t.Errorf("partition %d of the new changelog holds %d committed records", p, len(got))
		}
	}
	_, err := account.RebuildChangelog(t.Context(), repairOptions(o), []string{o.StateDir})
	w.ok(err)
	r = w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	w.exactlyOnce(o)
	w.verified(o)
}
