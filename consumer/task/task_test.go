package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRemedy(t *testing.T) {
	base := errors.New("base")
	if WithRemedy(nil, Fatal) != nil || RemedyOf(nil) != Unmarked || RemedyOf(base) != Unmarked {
		t.Error("no error and no mark must stay so")
	}
	err := WithRemedy(fmt.Errorf("outer: %w", WithRemedy(base, Retry)), Leave)
	if RemedyOf(fmt.Errorf("wrapped: %w", err)) != Leave {
		t.Errorf("remedy is %v, want the outermost mark", RemedyOf(err))
	}
	if !errors.Is(err, base) {
		t.Error("errors.Is does not see through a mark")
	}
	if RemedyOf(otherwise(err, Fatal)) != Leave || RemedyOf(otherwise(base, Fatal)) != Fatal ||
		otherwise(nil, Fatal) != nil {
		t.Error("otherwise must mark what is unmarked, and only that")
	}
	for r, want := range []string{"unmarked", "retry", "rebuild", "leave", "fatal", "unknown"} {
		if got := Remedy(r).String(); got != want {
			t.Errorf("remedy %d prints %q, want %q", r, got, want)
		}
	}
}

// TestOverlay holds the overlay against a map, over several transactions.
func TestOverlay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	o := newOverlay()
	for range 20 {
		want := map[string]string{}
		size := 0
		for range rng.IntN(2000) {
			key := fmt.Sprint(rng.IntN(900))
			value := strings.Repeat(fmt.Sprint(rng.IntN(10)), rng.IntN(200))
			if rng.IntN(50) == 0 {
				value = strings.Repeat("x", chunkSize+rng.IntN(100))
			}
			if old, ok := want[key]; ok {
				size -= len(key) + len(old)
			}
			size += len(key) + len(value)
			want[key] = value
			o.put([]byte(key), []byte(value), value == "", 7)
		}
		got := map[string]string{}
		for i := range o.entries {
			e := &o.entries[i]
			got[string(e.key)] = string(e.value)
			if v, found := o.get(e.key); !found || string(v) != string(e.value) ||
				e.forgotten != (len(v) == 0) || e.timestamp != 7 {
				t.Fatalf("get %q is %.20q, %v", e.key, v, found)
			}
		}
		if !maps.Equal(got, want) || len(got) != len(o.entries) {
			t.Fatalf("%d entries, want %d", len(o.entries), len(want))
		}
		if o.bytes != size {
			t.Fatalf("counted %d bytes, want %d", o.bytes, size)
		}
		if _, found := o.get([]byte("absent")); found {
			t.Fatal("found what was never put")
		}
		o.reset()
		if len(o.entries) != 0 || o.bytes != 0 {
			t.Fatal("reset leaves something behind")
		}
	}
}

// TestOverlayKeepsNull: a null key or value of a message is not an empty one.
func TestOverlayKeepsNull(t *testing.T) {
	o := newOverlay()
	ms := o.send(nil, []Message{{}, {Key: []byte{}, Value: []byte{}}})
	if ms[0].Key != nil || ms[0].Value != nil || ms[1].Key == nil || ms[1].Value == nil {
		t.Errorf("got %#v", ms)
	}
}

// TestNoAllocation: processing and committing allocate nothing for a record in
// steady state. The bound leaves room for the closures of one commit.
func TestNoAllocation(t *testing.T) {
	log := &endless{batch: make([]Record, 500)}
	value := []byte("0123456789012345678901234567890123456789")
	for i := range log.batch {
		log.batch[i] = Record{Key: fmt.Appendf(nil, "user%d", i%100), Value: value}
	}
	var fxState []byte
	process := processFunc(func(rec Record, _ []byte, fx *Effects) error {
		fxState = append(fxState[:0], rec.Value...)
		fx.State = fxState
		fx.Output = append(fx.Output, Message{Key: rec.Key, Value: rec.Value})
		return nil
	})
	task, err := New(Dependencies{
		Input: log, Changelog: log, Transactions: idleTxn{},
		Store: emptyStore{}, Processor: process,
	}, Options{MaxRecords: 250})
	if err != nil {
		t.Fatal(err)
	}
	task.state = Running
	allocs := testing.AllocsPerRun(20, func() {
		ctx, cancel := context.WithCancel(t.Context())
		log.left, log.cancel = 4, cancel
		if err := task.consume(ctx, ctx); err != nil {
			t.Fatal(err)
		}
	})
	if perRecord := allocs / (4 * 500); perRecord > 0.05 {
		t.Errorf("%.3f allocations a record, %v in all", perRecord, allocs)
	}
}

type endless struct {
	batch  []Record
	left   int
	cancel context.CancelFunc
}

func (l *endless) Fetch(_ context.Context, offset int64, _ time.Duration) (Batch, error) {
	if l.left--; l.left <= 0 {
		l.cancel()
	}
	for i := range l.batch {
		l.batch[i].Offset = offset + int64(i)
	}
	return Batch{Records: l.batch, Next: offset + int64(len(l.batch))}, nil
}
func (l *endless) Bounds(context.Context) (int64, int64, error) { return 0, 0, nil }

type idleTxn struct{}

func (idleTxn) Fence(context.Context) error                    { return nil }
func (idleTxn) Committed(context.Context) (int64, bool, error) { return 0, false, nil }
func (idleTxn) Produce(_ context.Context, out Outputs) (int64, error) {
	return int64(len(out.Changelog)), nil
}
func (idleTxn) Commit(context.Context, int64) (int64, error) { return 0, nil }
func (idleTxn) Abort(context.Context) error                  { return nil }

type emptyStore struct{ listless }

// listless is the side of a store that has nothing to list.
type listless struct{}

func (listless) Reserved(string, func(key, value []byte) error) error { return nil }
func (listless) After([]byte, func(key, value []byte) error) error    { return nil }

func (emptyStore) Positions() (p Positions, found bool, err error) { return p, false, nil }
func (emptyStore) Get([]byte) ([]byte, error)                      { return nil, nil }
func (emptyStore) Apply([]Change, Positions) error                 { return nil }
func (emptyStore) Wipe() error                                     { return nil }

// hanging is a broker that stops answering at commit.
type hanging struct {
	idleTxn
	at chan struct{}
}

func (h hanging) Commit(ctx context.Context, _ int64) (int64, error) {
	close(h.at)
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestGrace: a commit that hangs when the task is told to stop gets its grace,
// and no more, and Run says that the outcome is open.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		log := &endless{batch: []Record{{Key: []byte("k")}}, left: 1000, cancel: cancel}
		txn := hanging{at: make(chan struct{})}
		process := processFunc(func(Record, []byte, *Effects) error { return nil })
		task, err := New(Dependencies{
			Input: log, Changelog: log, Transactions: txn,
			Store: emptyStore{}, Processor: process,
		},
			Options{MaxRecords: 1, Grace: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- task.Run(ctx) }()
		<-txn.at
		time.Sleep(time.Hour) // without a stop it would hang on
		start := time.Now()
		cancel()
		err = <-ended
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v, want the grace of 3s", took)
		}
		if !errors.Is(err, ErrUnclean) || RemedyOf(err) != Leave ||
			!errors.Is(err, context.Canceled) {
			t.Errorf("Run answers %v (%v)", err, RemedyOf(err))
		}
	})
}

func TestMisuse(t *testing.T) {
	panics := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s does not panic", what)
			}
		}()
		f()
	}
	panics("a missing dependency", func() { _, _ = New(Dependencies{}, Options{}) })
	d := Dependencies{
		Input: &endless{}, Changelog: &endless{}, Transactions: idleTxn{},
		Store: emptyStore{}, Processor: processFunc(nil),
	}
	for _, o := range []Options{{Start: 3}, {Begin: -1}, {MaxRecords: -1}, {MaxInterval: -1}} {
		if _, err := New(d, o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	task, err := New(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := task.Run(ctx); err != nil {
		t.Errorf("a task that is stopped before it starts answers %v", err)
	}
	panics("a second Run", func() { _ = task.Run(ctx) })
	panics("a transition that is not in the table", func() { task.move(Running) })
}

func TestTransitions(t *testing.T) {
	for s := Created; s <= Closed; s++ {
		if s.String() == "unknown" {
			t.Errorf("state %d has no name", s)
		}
		closes := false
		for _, to := range transitions[s] {
			closes = closes || to == Closed
		}
		if closes == (s == Closed) {
			t.Errorf("%v: every state but closed must lead to closed", s)
		}
	}
	if State(99).String() != "unknown" {
		t.Error("state 99 has a name")
	}
}

func TestSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c SystemClock
		start := c.Now()
		if err := c.Sleep(t.Context(), time.Minute); err != nil ||
			c.Now().Sub(start) != time.Minute {
			t.Errorf("slept %v: %v", c.Now().Sub(start), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Sleep(ctx, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("Sleep under a cancelled context answers %v", err)
		}
	})
}
