//go:build kafka

package kafkatest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/repair"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/group"
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
		"restore the topic", "rebuild-changelog", "accept_lost_account",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			w.Errorf("the error does not say %q", part)
		}
	}
}

// repairOptions are those of a service, for what mends its changelog.
func repairOptions(o service.Options) repair.Options {
	return repair.Options{
		Settings: o.Settings, Cluster: o.Cluster, StateDir: o.StateDir, Logger: o.Logger,
	}
}

// TestTheChangelogIsDeleted deletes the changelog of a service that has stopped: it is not
// made again, with and without the state folder. Written back from the folder, everything
// goes on as if nothing had happened.
func TestTheChangelogIsDeleted(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(2, 10)
	o := w.options("service")
	w.createRaw()
	w.feed(10)
	r := w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	saved := o.StateDir + ".saved"
	w.ok(os.CopyFS(saved, os.DirFS(o.StateDir)))
	w.deleteTopic(o.Topics.Changelog)
	w.feed(2)

	w.requireLost(w.serve(o).wait())
	w.ok(os.RemoveAll(o.StateDir))
	w.requireLost(w.serve(o).wait())
	w.remakeChangelog(o)
	w.requireLost(w.serve(o).wait())
	o.StateDir = saved
	w.requireLost(w.serve(o).wait())

	plan, err := repair.RebuildChangelog(t.Context(), repairOptions(o), []string{saved})
	w.ok(err)
	t.Logf("%+v", plan)
	r = w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	w.exactlyOnce(o)
	w.verified(o)
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
	_, err := repair.RebuildChangelog(t.Context(), repairOptions(o), []string{o.StateDir})
	w.ok(err)
	r = w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	w.exactlyOnce(o)
	w.verified(o)
}

// TestOtherSettingsBeside starts a second instance under other settings, dynamic and
// static: it stops and names them, and the first goes on. After a clean stop a static
// instance may come back under others at once.
func TestOtherSettingsBeside(t *testing.T) {
	t.Parallel()
	for _, static := range []bool{false, true} {
		name := "dynamic"
		if static {
			name = "static"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t).world(2, 10)
			o := w.options("service")
			other := o
			other.StateDir, other.Counters = o.StateDir+".other", new(engine.Counters)
			other.Release.Epsilon = 2
			if static {
				o.InstanceID, other.InstanceID = "one", "two"
			}
			w.createRaw()
			w.feed(10)
			first := w.serve(o)
			w.eventually("all is answered", func() bool { return w.answered(o) })
			err := w.serve(other).wait()
			t.Logf("%v", err)
			var differ *group.SettingsError
			if !errors.As(err, &differ) || !strings.Contains(err.Error(), "release.epsilon") {
				t.Errorf("the second instance ends with %v", err)
			}
			if n := other.Counters.Snapshot().RecordsIn; n != 0 {
				t.Errorf("it has processed %d records", n)
			}
			w.feed(5)
			w.eventually("all is answered", func() bool { return w.answered(o) })
			first.stop()
			w.exactlyOnce(o)

			changed := o // the same instance, other settings
			changed.Release.Epsilon = 2
			w.feed(5)
			again := w.serve(changed)
			w.eventually("all is answered", func() bool { return w.answered(o) || again.ended() })
			again.stop()
		})
	}
}
