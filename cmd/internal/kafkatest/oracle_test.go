//go:build kafka

package kafkatest

import (
	"bytes"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/verify"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
)

// line is a record as it is compared.
type line struct {
	key, value string
	timestamp  int64
}

// lines are what a partition of a topic shows.
func (w *world) lines(topic string, partition int32, uncommitted bool) []line {
	w.Helper()
	lines := []line{}
	w.scan(topic, partition, uncommitted, func(r consumer.Record) {
		lines = append(lines, line{string(r.Key), string(r.Value), r.Timestamp})
	})
	return lines
}

// recomputed is what one partition of the raw topic gives without Kafka: its
// records in order through the processor, each user's state in a map.
type recomputed struct {
	out, dead []line
	states    map[string]string
}

func (w *world) recompute(o service.Options, partition int32) recomputed {
	w.Helper()
	p, err := engine.NewProcessor(o.Settings, engine.Partition{
		Topic: o.Topics.Raw, Number: partition, Of: w.partitions,
	})
	w.ok(err)
	w.ok(p.Amend(w.lastMark(o, partition).Amendments, o.Later))
	r := recomputed{out: []line{}, dead: []line{}, states: map[string]string{}}
	w.scan(w.raw, partition, false, func(rec consumer.Record) {
		var fx task.Effects
		w.ok(p.Process(task.Record{
			Offset: rec.Offset, Timestamp: rec.Timestamp, Key: rec.Key, Value: rec.Value,
		}, []byte(r.states[string(rec.Key)]), &fx))
		for _, m := range fx.Output {
			r.out = append(r.out, line{string(m.Key), string(m.Value), m.Timestamp})
		}
		for _, m := range fx.DeadLetters {
			r.dead = append(r.dead, line{string(m.Key), string(m.Value), m.Timestamp})
		}
		if len(fx.State) > 0 {
			r.states[string(rec.Key)] = string(fx.State)
		}
	})
	return r
}

// exactlyOnce holds everything that a service has written against the
// recomputation: committed records are there once, in order and byte for byte; an
// uncommitted reader sees no other release of a fix; the changelog's last state
// of each user is the one that the user has.
func (w *world) exactlyOnce(o service.Options) {
	w.Helper()
	repeated := 0
	for partition := range int32(w.partitions) {
		w.settled(o.Topics.Sanitized, partition)
		want := w.recompute(o, partition)
		w.same(o.Topics.Sanitized, partition, w.lines(o.Topics.Sanitized, partition, false),
			want.out)
		w.same(o.Topics.DeadLetters, partition, w.lines(o.Topics.DeadLetters, partition, false),
			want.dead)
		all := w.lines(o.Topics.Sanitized, partition, true)
		repeated += len(all) - len(want.out)
		for _, l := range all {
			if !slices.Contains(want.out, l) {
				w.Fatalf("an uncommitted reader of %s/%d sees a release that is none",
					o.Topics.Sanitized, partition)
			}
		}
		states := map[string]string{}
		w.scan(o.Topics.Changelog, partition, false, func(r consumer.Record) {
			if !bytes.Equal(r.Key, []byte(task.MarkKey)) {
				states[string(r.Key)] = string(r.Value)
			}
		})
		if len(states) != len(want.states) {
			w.Errorf("%s/%d holds %d states, want %d", o.Topics.Changelog, partition, len(states),
				len(want.states))
		}
		for user, state := range want.states {
			if states[user] != state {
				w.Errorf("%s/%d: a user's state is another one", o.Topics.Changelog, partition)
				break
			}
		}
	}
	w.Logf("%d records fed and answered once; an uncommitted reader sees %d repeated",
		w.fed, repeated)
	w.verified(o)
}

// verified has the project's own verification say the same.
func (w *world) verified(o service.Options) {
	w.Helper()
	report, err := verify.Run(w.Context(), verify.Options{
		Settings: o.Settings, Cluster: o.Cluster, Later: o.Later, TempDir: w.TempDir(),
		Logger: o.Logger,
	})
	w.ok(err)
	for _, p := range report.Partitions {
		for _, v := range p.Violations {
			w.Errorf("state verify, partition %d: %+v", p.Partition, v)
		}
		for _, why := range p.NotVerified {
			w.Errorf("state verify, partition %d: %s", p.Partition, why)
		}
	}
	if !report.Verified {
		w.Error("state verify does not verify")
	}
}

// lastMark is the last mark of a service's changelog; a zero one if there is none.
func (w *world) lastMark(o service.Options, partition int32) (last task.Mark) {
	w.Helper()
	w.scan(o.Topics.Changelog, partition, false, func(r consumer.Record) {
		if bytes.Equal(r.Key, []byte(task.MarkKey)) {
			mark, err := task.DecodeMark(r.Value)
			w.ok(err)
			last = mark.Clone()
		}
	})
	return last
}

// same compares records in order.
func (w *world) same(topic string, partition int32, got, want []line) {
	w.Helper()
	if len(got) != len(want) {
		w.Errorf("%s/%d holds %d records, want %d", topic, partition, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			w.Fatalf("%s/%d: record %d is another one", topic, partition, i)
		}
	}
}
