package pipeline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/state"
)

// deleteTopic deletes a topic, and makes it again, empty, if it is told to.
func (w *world) deleteTopic(tb testing.TB, topic string, again bool) {
	tb.Helper()
	res, err := w.client.DeleteTopics(tb.Context(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	ok(tb, errors.Join(err, res.Errors[topic]))
	ok(tb, awaitGone(tb.Context(), w.client, topic))
	if again {
		ok(tb, admin.CreateTopics(tb.Context(), w.client, wire.Options{}, admin.Topic{Name: topic, Partitions: partitions, Configs: topics.Compacted}))
	}
}

// exists reports whether a topic is there.
func (w *world) exists(tb testing.TB, topic string) bool {
	tb.Helper()
	_, err := admin.Partitions(tb.Context(), w.client, wire.Options{}, topic)
	var missing *admin.MissingTopicsError
	if err != nil && !errors.As(err, &missing) {
		tb.Fatal(err)
	}
	return err == nil
}

// TestLostChangelog: a changelog that was deleted, or deleted and made again, is not
// begun anew while the group has offsets or the folder has states. It is written back from
// the folder, and what comes out is what an undisturbed run gives.
func TestLostChangelog(t *testing.T) {
	for name, test := range map[string]struct{ again, create, folder bool }{
		"deleted":                         {false, true, true},
		"deleted, may not be made":        {false, false, true},
		"deleted, no folder":              {false, true, false},
		"made again":                      {true, true, true},
		"made again, no folder":           {true, true, false},
		"made again, with no permissions": {true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 12)
			o := w.options("first")
			w.serve(t, o, 4)
			saved := o.StateDir + ".saved"
			ok(t, os.CopyFS(saved, os.DirFS(o.StateDir)))
			w.deleteTopic(t, o.Topics.Changelog, test.again)
			o.Topics.Create = test.create
			if !test.folder {
				ok(t, os.RemoveAll(o.StateDir))
			}
			out := w.view(t, o.Topics.Sanitized, true)
			published := out.read(t)
			r := start(t, o, func(s *Service) { s.patience = 200 * time.Millisecond })
			err := r.wait(t)
			if !errors.Is(err, task.ErrLost) {
				t.Fatalf("the service ends with %v", err)
			}
			for _, part := range []string{"restore the topic", "rebuild-changelog --from-store", "accept_lost_account: true", "would start every account at 0"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error %q does not say %q", err, part)
				}
			}
			if !test.again && w.exists(t, o.Topics.Changelog) {
				t.Error("the changelog was made again")
			}
			if got := out.read(t); got != published {
				t.Errorf("%d sanitized records have become %d", published, got)
			}
			if aside, err := filepath.Glob(filepath.Join(o.StateDir, "store.aside*")); err != nil || len(aside) > 0 {
				t.Errorf("the good folder was set aside: %v, %v", aside, err)
			}
			found := Diagnose(t.Context(), o)
			if bad := details(found, LevelFailure); !strings.Contains(bad, "account: the changelog is lost") {
				t.Errorf("doctor finds %+v", found)
			}
			if strings.Contains(details(found, LevelOK), o.Topics.Changelog+" is missing") {
				t.Errorf("doctor finds it well that the changelog is missing: %+v", found)
			}

			plan, err := RebuildChangelog(t.Context(), o, []string{saved}, false)
			ok(t, err)
			if plan.Made == test.again || len(plan.Partitions) != partitions {
				t.Errorf("rebuilt as %+v", plan)
			}
			if report := verify(t, o); !report.Verified {
				t.Errorf("what was written back is reported as %+v", report)
			}
			o.Topics.Create = false
			w.serve(t, o, 4)
			w.requireUndisturbed(t, "first")
			if report := verify(t, o); !report.Verified {
				t.Errorf("after it went on: %+v", report)
			}
		})
	}
}

// TestUndecidedIsNotLost: a changelog whose only records are of a transaction that is not
// decided there yet is not called empty. Right after a commit the marker may still be on its
// way. Once the transaction is aborted it is empty.
func TestUndecidedIsNotLost(t *testing.T) {
	w := newWorld(t, 12)
	o := w.options("first").WithDefaults()
	ok(t, topics.Create(t.Context(), w.client, wire.Options{}, o.Topics))
	check := &lossCheck{client: w.client, o: o}
	require := func(want bool, when string) {
		t.Helper()
		holds, err := check.holds(t.Context(), 0)
		ok(t, err)
		if holds != want {
			t.Errorf("%s it holds something: %t", when, holds)
		}
	}
	require(false, "new,")
	tx, err := producer.NewTransactional(w.client, "test/undecided", producer.Options{})
	ok(t, err)
	ok(t, tx.Init(t.Context()))
	_, err = tx.Produce(t.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{Topic: o.Topics.Changelog},
		Records:        []producer.Record{{Key: []byte("a"), Value: []byte("b"), Timestamp: startMS}},
	})
	ok(t, err)
	require(true, "with an open transaction,")
	ok(t, tx.Abort(t.Context()))
	require(false, "after the abort,")
	w.write(t, true, o.Topics.Changelog, 0, line{key: "a", value: "b", timestamp: startMS})
	require(true, "after a commit,")
}

// TestAcceptedLoss: who says so goes on without the account, once, and no fix is
// answered twice or left out.
func TestAcceptedLoss(t *testing.T) {
	w := newWorld(t, 12)
	o := w.options("first")
	w.serve(t, o, 4)
	w.deleteTopic(t, o.Topics.Changelog, false)
	accepting := o
	accepting.AcceptLost = true
	if bad := details(Diagnose(t.Context(), accepting), LevelFailure); bad != "" {
		t.Errorf("doctor finds %s", bad)
	}
	w.serve(t, accepting, 2)
	if said := details(Diagnose(t.Context(), accepting), LevelWarning); !strings.Contains(said, "take it out") {
		t.Errorf("doctor finds nothing in accept_lost_account: %s", said)
	}
	w.serve(t, o, 2) // the permission was for one start
	if a := w.answers(t, "first"); a.read(t) != w.fed {
		t.Errorf("%d records have %d answers", w.fed, a.read(t))
	}
}

// TestAcceptedLossKeepsTheStore: a changelog that was emptied has the same id, so the state
// folder is not set aside at the start. Who accepts the loss finds a copy of it all the same.
func TestAcceptedLossKeepsTheStore(t *testing.T) {
	w := newWorld(t, 12)
	o := w.options("first")
	w.serve(t, o, 3)
	for p := range int32(partitions) {
		w.deleteRecords(t, o.Topics.Changelog, p, -1)
	}
	if err := fails(t, o, "the changelog is empty"); !errors.Is(err, task.ErrLost) {
		t.Errorf("the service ends with %v", err)
	}
	o.AcceptLost = true
	w.serve(t, o, 1)
	copies, err := filepath.Glob(filepath.Join(o.StateDir, "store.aside-*"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("there are the copies %v, %v", copies, err)
	}
	dir := o.StateDir + ".kept"
	ok(t, os.CopyFS(filepath.Join(dir, "store"), os.DirFS(copies[0])))
	store, err := state.Open(dir, state.Options{ReadOnly: true})
	ok(t, err)
	kept := 0
	for p := range int32(partitions) {
		ok(t, store.Partition(p).Iterate(func(_, _ []byte) error { kept++; return nil }))
	}
	ok(t, store.Close())
	if kept != 12 {
		t.Errorf("the copy has %d states, want 12", kept)
	}
}

// TestAcceptedLossNeedsAnOffset: with the group's offsets gone too, going on would release
// everything again.
func TestAcceptedLossNeedsAnOffset(t *testing.T) {
	w := newWorld(t, 12)
	o := w.options("first")
	w.serve(t, o, 2)
	w.deleteTopic(t, o.Topics.Changelog, false)
	ok(t, deleteGroup(t.Context(), w.client, o.Group))
	o.AcceptLost = true
	if err := fails(t, o, "set its offset to"); !errors.Is(err, task.ErrLost) {
		t.Errorf("the service ends with %v", err)
	}
	o.AcceptLost = false
	if err := fails(t, o, "the state folder", "accept_lost_account"); !errors.Is(err, task.ErrLost) {
		t.Errorf("the service ends with %v", err)
	}
	plan, err := RebuildChangelog(t.Context(), o, []string{o.StateDir}, false)
	ok(t, err)
	for _, p := range plan.Partitions {
		if !p.NoOffset {
			t.Errorf("rebuilt as %+v", p)
		}
	}
	w.serve(t, o, 2)
	w.requireUndisturbed(t, "first")
}

// TestChangelogIsRemadeAtWork: a changelog that is deleted under a service, or deleted and
// made again, stops it, at work and idle, and nothing is published beside the new one.
func TestChangelogIsRemadeAtWork(t *testing.T) {
	for name, test := range map[string]struct {
		again, fed bool
		every      time.Duration
	}{
		"deleted, idle":       {false, false, 20 * time.Millisecond},
		"made again, idle":    {true, false, 20 * time.Millisecond},
		"made again, at work": {true, true, time.Hour}, // the task alone sees it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 12)
			for range 4 {
				w.feed(t)
			}
			o := w.options("first")
			a := w.answers(t, o.Group)
			r := start(t, o, func(s *Service) { s.changelogEvery = test.every })
			await(t, "everything is answered", func() bool { return a.read(t) >= w.fed }, r)
			w.deleteTopic(t, o.Topics.Changelog, test.again)
			before := w.fed
			if test.fed {
				w.feed(t)
			}
			if err := r.wait(t); !errors.Is(err, task.ErrLost) || !strings.Contains(err.Error(), "rebuild-changelog") {
				t.Fatalf("the service ends with %v", err)
			}
			if got := a.read(t); got != before {
				t.Errorf("%d answers have become %d", before, got)
			}
			_, err := RebuildChangelog(t.Context(), o, []string{o.StateDir}, false)
			ok(t, err)
			w.serve(t, o, 2)
			w.requireUndisturbed(t, "first")
		})
	}
}

// TestChangelogIsToDelete: a policy under which the changelog would forget stops the
// service before the broker begins to.
func TestChangelogIsToDelete(t *testing.T) {
	w := newWorld(t, 4)
	o := w.options("first")
	w.serve(t, o, 2)
	r := start(t, o, func(s *Service) { s.changelogEvery = 20 * time.Millisecond })
	await(t, "it works", func() bool { return strings.Contains(r.log.String(), "state restored") }, r)
	w.alter(t, o.Topics.Changelog, "cleanup.policy", "compact,delete")
	var config *admin.ConfigError
	if err := r.wait(t); !errors.As(err, &config) || !strings.Contains(err.Error(), "account of ε") {
		t.Errorf("the service ends with %v", err)
	}
}

// alter sets a topic's setting.
func (w *world) alter(tb testing.TB, topic, name, value string) {
	tb.Helper()
	admin, err := kgo.NewClient(kgo.SeedBrokers(w.addr))
	ok(tb, err)
	defer admin.Close()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = name, &value
	resource.Configs = append(resource.Configs, config)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	_, err = req.RequestWith(context.WithoutCancel(tb.Context()), admin)
	ok(tb, err)
}

// TestSanitizedTopicIsRemade: no account is in the sanitized topic. The service goes on
// into the new one, and what it publishes there is what it would have published.
func TestSanitizedTopicIsRemade(t *testing.T) {
	w := newWorld(t, 6)
	o := w.options("first")
	w.serve(t, o, 3)
	w.deleteTopic(t, o.Topics.Sanitized, false)
	w.feed(t)
	r := start(t, o)
	ends := func() (n int64) {
		for p := range int32(partitions) {
			f, err := consumer.NewFetcher(w.client, "raw", p, consumer.FetcherOptions{})
			ok(t, err)
			_, end, err := f.Bounds(t.Context())
			ok(t, err)
			n += end
		}
		return n
	}()
	await(t, "everything is processed", func() bool {
		var n int64
		for p := range int32(partitions) {
			at, _, err := consumer.Committed(t.Context(), w.client, wire.Options{}, o.Group, "raw", p)
			ok(t, err)
			n += at
		}
		return n == ends
	}, r)
	r.stop(t)
	undisturbed := w.options("undisturbed")
	w.serve(t, undisturbed, 0)
	want, got := w.view(t, undisturbed.Topics.Sanitized, false), w.view(t, o.Topics.Sanitized, false)
	want.read(t)
	got.read(t)
	for p := range want.lines {
		n := len(got.lines[p])
		if n == 0 || n >= len(want.lines[p]) {
			t.Fatalf("partition %d: %d records of %d", p, n, len(want.lines[p]))
		}
		for i, line := range got.lines[p] {
			if line != want.lines[p][len(want.lines[p])-n+i] {
				t.Fatalf("partition %d: record %d is another one", p, i)
			}
		}
	}
}
