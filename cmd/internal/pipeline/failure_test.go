package pipeline

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/producer/partition"
	"github.com/geodither/geodither/state"
)

// fails runs a service that must end by itself, and holds its error against what
// it must say.
func fails(t *testing.T, o Options, want ...string) error {
	t.Helper()
	r := start(t, o, func(s *Service) { s.patience = 200 * time.Millisecond })
	err := r.wait(t)
	if err == nil {
		t.Fatal("the service ends as if all were well")
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q and does not say %q", err, part)
		}
	}
	return err
}

func TestTopicsThatWillNotDo(t *testing.T) {
	w := newWorld(t, 0)
	create := func(topic string, partitions int, configs map[string]string) {
		t.Helper()
		ok(t, admin.CreateTopics(t.Context(), w.client, wire.Options{}, admin.Topic{Name: topic, Partitions: partitions, Configs: configs}))
	}
	compact := map[string]string{"cleanup.policy": "compact"}
	closed := func(group string) Options { // may not create topics
		o := w.options(group)
		o.Topics.Create = false
		return o
	}

	t.Run("other number of partitions", func(t *testing.T) {
		for group, mayCreate := range map[string]bool{"narrow": false, "narrow.create": true} {
			create(group+".out", partitions, nil)
			create(group+".log", partitions, compact)
			create(group+".dead", partitions-1, nil)
			o := w.options(group)
			o.Topics.Create = mayCreate
			err := fails(t, o, group+".dead")
			var other *admin.PartitionsError
			if !errors.As(err, &other) || other.Have != partitions-1 || other.Want != partitions {
				t.Errorf("%s: %v", group, err)
			}
		}
	})
	t.Run("changelog that forgets", func(t *testing.T) {
		for group, policy := range map[string]string{"deleting": "delete", "both": "compact,delete"} {
			for _, mayCreate := range []bool{false, true} {
				create(group+".out", partitions, nil)
				create(group+".log", partitions, map[string]string{"cleanup.policy": policy})
				create(group+".dead", partitions, nil)
				o := w.options(group)
				o.Topics.Create = mayCreate
				err := fails(t, o, group+".log", "cleanup.policy="+policy, "needs compact")
				var config *admin.ConfigError
				if !errors.As(err, &config) {
					t.Errorf("%s: %v", group, err)
				}
			}
		}
	})
	t.Run("created", func(t *testing.T) {
		r := start(t, w.options("made"))
		await(t, "it has its partitions", func() bool { return strings.Contains(r.log.String(), "partitions assigned") }, r)
		r.stop(t)
		ok(t, admin.CheckConfigs(t.Context(), w.client, wire.Options{}, "made.log", compact))
		n, err := admin.CoPartitioned(t.Context(), w.client, wire.Options{}, "raw", "made.out", "made.log", "made.dead")
		if err != nil || n != partitions {
			t.Errorf("%d partitions, %v", n, err)
		}
		again := start(t, closed("made")) // and now that they are there, without the permission
		await(t, "it has its partitions", func() bool { return strings.Contains(again.log.String(), "partitions assigned") }, again)
		again.stop(t)
	})
}

// TestWaitsForTopics: a service that starts before its topics names those that
// are missing, goes on waiting, and works when they are there.
func TestWaitsForTopics(t *testing.T) {
	w := newWorld(t, 0)
	create := func(topic string, configs map[string]string) {
		t.Helper()
		ok(t, admin.CreateTopics(t.Context(), w.client, wire.Options{}, admin.Topic{Name: topic, Partitions: partitions, Configs: configs}))
	}
	create("late.out", nil)
	o := w.options("late")
	o.Topics.Create = false
	r := start(t, o, func(s *Service) { s.patience = 200 * time.Millisecond })
	await(t, "it says that it waits", func() bool { return strings.Contains(r.log.String(), "waiting for Kafka and its topics") }, r)
	for _, part := range []string{"late.dead", "late.log", "topics.create: true", "as many partitions as raw"} {
		if !strings.Contains(r.log.String(), part) {
			t.Errorf("the log does not say %q:\n%s", part, r.log)
		}
	}
	create("late.dead", nil)
	create("late.log", map[string]string{"cleanup.policy": "compact"})
	await(t, "it has its partitions", func() bool { return strings.Contains(r.log.String(), "partitions assigned") }, r)
	r.stop(t)
}

// TestWaitsForBroker: nobody listens at the address; the service says so, and
// works when somebody does. Asked to stop before, it stops.
func TestWaitsForBroker(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	addr, port := listener.Addr().String(), listener.Addr().(*net.TCPAddr).Port
	ok(t, listener.Close())
	for _, comes := range []bool{false, true} {
		o := testOptions(t, neighbourModel(t, town, 5000, 4))
		o.Brokers, o.Topics.Create, o.Topics.Partitions = []string{addr}, comes, partitions
		r := start(t, o, func(s *Service) { s.patience = 200 * time.Millisecond })
		await(t, "it says that it waits", func() bool {
			return strings.Contains(r.log.String(), `level=WARN msg="waiting for Kafka and its topics"`) && strings.Contains(r.log.String(), addr)
		}, r)
		if comes {
			broker, err := devbroker.Start(devbroker.Options{Port: port})
			ok(t, err)
			defer broker.Close()
			await(t, "it has its partitions", func() bool { return strings.Contains(r.log.String(), "partitions assigned") }, r)
		}
		r.stop(t)
	}
}

// TestSecondInstanceOnOneFolder is refused, and the first goes on.
func TestSecondInstanceOnOneFolder(t *testing.T) {
	w := newWorld(t, 5)
	published := w.answers(t, "one")
	first := start(t, w.options("one"))
	await(t, "it works", func() bool { return strings.Contains(first.log.String(), "partitions assigned") }, first)
	err := fails(t, w.options("one"), "in use by another instance", "a state folder of its own", w.options("one").StateDir)
	if !errors.Is(err, state.ErrLocked) {
		t.Errorf("the error is %v", err)
	}
	w.feed(t)
	await(t, "the first has answered", func() bool { return published.read(t) >= w.fed }, first)
	first.stop(t)
}

// TestFatalErrorEndsTheService: a state in the changelog that cannot be read ends
// the service with an error that names the place and nobody. Another partition's
// records are answered or not; the bad record's is not.
func TestFatalErrorEndsTheService(t *testing.T) {
	w := newWorld(t, 0)
	published := w.answers(t, "bad")
	fix := sentinel()
	rec := record(t, 0, fix)
	p := partition.Murmur2(rec.Key, partitions)
	_, err := w.feeder.Produce(t.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{Topic: "bad.log", Partition: p},
		Records: []producer.Record{
			{Key: rec.Key, Value: []byte("\x01\x03 no state"), Timestamp: startMS},
			{Key: []byte(task.MarkKey), Value: task.AppendMark(nil, task.Mark{}), Timestamp: startMS},
		},
	})
	ok(t, err)
	w.send(t, producer.Record{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp})
	r := start(t, w.options("bad"))
	err = r.wait(t)
	if !errors.Is(err, mechanism.ErrState) || task.RemedyOf(err) != task.Fatal {
		t.Fatalf("the error is %v", err)
	}
	if !strings.Contains(err.Error(), "raw/") || !strings.Contains(err.Error(), "offset 0") {
		t.Errorf("the error %q does not name the place", err)
	}
	secrets := append(coordinateSecrets(fix, w.model.Grid), userSecrets(fix.UserID)...)
	secrets = append(secrets, payloadSecrets(rec.Value, nil)...)
	requireNoLeak(t, "the error", []byte(err.Error()), secrets)
	requireNoLeak(t, "the log", r.log.bytes(), secrets)
	if n := published.read(t); n != 0 {
		t.Errorf("%d records are published", n)
	}
}

// TestSettingsChangedAfterAKill: the last owner of a partition ran with another
// ε and did not stop cleanly. Going on would show readers of uncommitted records
// two releases of a fix, so the service stops, unless it was told to accept that.
func TestSettingsChangedAfterAKill(t *testing.T) {
	w := newWorld(t, 3)
	published := w.answers(t, "changed")
	o := w.options("changed")
	before := o
	before.Release.Epsilon *= 2
	for p := range int32(partitions) {
		_, err := w.feeder.Produce(t.Context(), producer.Batch{
			TopicPartition: producer.TopicPartition{Topic: "changed.log", Partition: p},
			Records: []producer.Record{{
				Key:       []byte(task.MarkKey),
				Value:     task.AppendMark(nil, task.Mark{Open: true, Settings: before.Fingerprint()}),
				Timestamp: startMS,
			}},
		})
		ok(t, err)
	}
	w.feed(t)
	err := fails(t, o, "accept_settings", "What differs: release.epsilon")
	if !errors.Is(err, task.ErrSettings) {
		t.Errorf("the error is %v", err)
	}
	if n := published.read(t); n != 0 {
		t.Errorf("%d records are published", n)
	}
	o.AcceptSettings = true
	r := start(t, o)
	await(t, "everything is answered", func() bool { return published.read(t) >= w.fed }, r)
	r.stop(t)
	r = start(t, before) // after a clean stop any settings will do
	w.feed(t)
	await(t, "everything is answered", func() bool { return published.read(t) >= w.fed }, r)
	r.stop(t)
}
