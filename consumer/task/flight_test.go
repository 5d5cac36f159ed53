package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// slowly is a broker that takes its time. It looks at what it is to write until the commit is
// definite, so that the race detector sees who else does.
type slowly struct {
	idleTxn
	t        *testing.T
	calls    chan struct{} // one at a time
	produced []Message
	log      int64   // where the changelog ends
	ends     []int64 // that were committed
}

var errSlow = errors.New("no answer")

func (x *slowly) enter() func() {
	select {
	case x.calls <- struct{}{}:
	default:
		x.t.Error("two calls at a time")
	}
	time.Sleep(5 * time.Millisecond)
	return func() { <-x.calls }
}

func (x *slowly) Produce(_ context.Context, out Outputs) (int64, error) {
	var before []Message
	for _, m := range out.Output {
		before = append(before, clone(m))
	}
	defer x.enter()()
	for i, m := range out.Output {
		if !bytes.Equal(m.Key, before[i].Key) || !bytes.Equal(m.Value, before[i].Value) {
			x.t.Errorf("a message has become %q=%q while it was written", m.Key, m.Value)
		}
	}
	x.produced = append(x.produced, before...)
	x.log += int64(len(out.Changelog))
	return x.log, nil
}

func (x *slowly) Commit(_ context.Context, next int64) (int64, error) {
	defer x.enter()()
	x.ends = append(x.ends, next)
	return x.log, nil
}

// counting is an input of single records, one at each fetch, and then none.
type counting struct {
	endless
	end int64
}

func (l *counting) Fetch(_ context.Context, offset int64, wait time.Duration) (Batch, error) {
	if offset == l.end {
		time.Sleep(wait)
		l.cancel()
		return Batch{Next: offset, StableEnd: offset}, nil
	}
	key := fmt.Appendf(nil, "user%d", offset%3)
	return Batch{Records: []Record{{Offset: offset, Key: key}}, Next: offset + 1}, nil
}

// TestFlight runs the task with a goroutine beside it. What it makes of a thousand records is what
// it would make one at a time, and the time that it takes is that of the broker or of the
// processor, whichever is longer, and not of both.
func TestFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const records, step, each = 1000, time.Millisecond, 10
		x := &slowly{t: t, calls: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		log := &counting{endless{cancel: cancel}, records}
		store := mapStore{}
		process := processFunc(func(rec Record, state []byte, fx *Effects) error {
			time.Sleep(step)
			fx.State = fmt.Appendf(nil, "%s%d,", state, rec.Offset)
			fx.Output = append(fx.Output, Message{Key: rec.Key, Value: fx.State})
			return nil
		})
		task, err := New(Dependencies{
			Input: log, Changelog: log, Transactions: x, Store: store, Processor: process,
		}, Options{MaxRecords: each, MaxInterval: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		task.state, task.opened, task.safe = Running, true, none
		begun := time.Now()
		if err := task.consume(ctx, context.WithoutCancel(ctx)); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begun) - besideWait // the last fetch
		const atOnce, inTurn = records * step, 2 * records * step
		if took < atOnce || took > atOnce+(inTurn-atOnce)/10 {
			t.Errorf("%d records took %v: about %v if a commit is waited for beside the next "+
				"records, %v if not", records, took, atOnce, inTurn)
		}
		want := map[string]string{}
		for i, m := range x.produced {
			key := fmt.Sprintf("user%d", i%3)
			if want[key] += fmt.Sprintf("%d,", i); string(m.Value) != want[key] {
				t.Fatalf("output %d is %.40q, want %.40q", i, m.Value, want[key])
			}
		}
		if len(x.produced) != records || len(x.ends) < records/each ||
			store["user0"] != want["user0"] {
			t.Errorf("%d outputs, %d commits, the store has %.40q", len(x.produced), len(x.ends),
				store["user0"])
		}
	})
}

// hesitant is a broker that wants the first commit once more.
type hesitant struct {
	idleTxn
	commits []time.Time
}

func (x *hesitant) Commit(context.Context, int64) (int64, error) {
	x.commits = append(x.commits, time.Now())
	if len(x.commits) == 1 {
		return 0, WithRemedy(errSlow, Retry)
	}
	return 0, nil
}

// TestFlightIsRepeatedSoon: a commit that is to be repeated does not wait for records to come.
func TestFlightIsRepeatedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &hesitant{}
		ctx, cancel := context.WithCancel(t.Context())
		process := processFunc(func(_ Record, _ []byte, fx *Effects) error {
			fx.State = []byte("x")
			return nil
		})
		log := &counting{endless{cancel: cancel}, 1}
		task, err := New(Dependencies{
			Input: log, Changelog: log, Transactions: x, Store: mapStore{}, Processor: process,
		}, Options{MaxRecords: 1, MaxInterval: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		task.state, task.opened, task.safe = Running, true, none
		if err := task.consume(ctx, context.WithoutCancel(ctx)); err != nil {
			t.Fatal(err)
		}
		if len(x.commits) < 2 || x.commits[1].Sub(x.commits[0]) > 10*time.Second {
			t.Errorf("commits at %v: the second one has waited for max_interval", x.commits)
		}
	})
}

// mapStore is a store in memory.
type mapStore map[string]string

func (mapStore) Reserved(string, func(key, value []byte) error) error { return nil }
func (mapStore) After([]byte, func(key, value []byte) error) error    { return nil }

func (mapStore) Positions() (p Positions, found bool, err error) { return p, false, nil }
func (mapStore) Wipe() error                                     { return nil }

func (s mapStore) Get(key []byte) ([]byte, error) { return []byte(s[string(key)]), nil }

func (s mapStore) Apply(changes []Change, _ Positions) error {
	for _, c := range changes {
		s[string(c.Key)] = string(c.Value)
	}
	return nil
}
