package task

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// quiet is an input of aborted records alone, one each second.
type quiet struct {
	s     *script
	stops int64 // where the task is told to stop
}

func (q quiet) Bounds(context.Context) (int64, int64, error) { return q.s.first, q.s.end, nil }

func (q quiet) Fetch(_ context.Context, offset int64, _ time.Duration) (Batch, error) {
	q.s.now = q.s.now.Add(time.Second)
	if offset >= q.stops {
		q.s.cancel()
		return Batch{Next: offset, StableEnd: offset}, nil
	}
	return Batch{Next: offset + 1, StableEnd: offset + 1}, nil
}

// TestIdle: an offset that moves past aborted records alone is committed, but
// not for each of them, and not at all where nothing moves.
func TestIdle(t *testing.T) {
	for _, test := range []struct {
		name     string
		interval time.Duration
		stops    int64
		want     string
	}{
		{"every minute, and at the stop", 0, 150, "60 120 150"},
		{"every so often", 100 * time.Second, 250, "100 200 250"},
		{"at the stop", 0, 7, "7"},
		{"nothing has moved", 0, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScript()
			s.committed, s.changelog = 0, []Message{mark(0)}
			err := s.runOn(t, quiet{s, test.stops}, Options{IdleInterval: test.interval})
			if err != nil {
				t.Fatal(err)
			}
			var commits []string
			for _, l := range s.lines {
				if next, ok := strings.CutPrefix(l, "txn.commit "); ok {
					commits = append(commits, next)
				}
			}
			if got := strings.Join(commits, " "); got != test.want {
				t.Errorf("committed %q, want %q", got, test.want)
			}
			if s.committed != test.stops || s.positions.Input != test.stops {
				t.Errorf("the group is at %d, the store at %d, want %d", s.committed,
					s.positions.Input, test.stops)
			}
		})
	}
}

// TestTrimmedTail: retention may remove an aborted tail while the task is
// stopped. Nothing is lost then, and the next start must not warn.
func TestTrimmedTail(t *testing.T) {
	s := newScript()
	s.end = 9 // the input's three records, and an aborted tail
	tail := abortedTail{scriptInput{s}}
	if err := s.runOn(t, tail, Options{MaxRecords: 3}); err != nil {
		t.Fatal(err)
	}
	if count(s, "txn.commit 3") != 1 {
		t.Fatal("the tail was committed with the records: it must be alone")
	}
	s.input, s.first = nil, s.end
	if err := s.runOn(t, tail, Options{}); err != nil {
		t.Errorf("the start after the tail was removed answers %v", err)
	}
}

// abortedTail answers with the records first, and with what follows them in
// a batch of its own.
type abortedTail struct{ scriptInput }

func (l abortedTail) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	b, err := l.scriptInput.Fetch(ctx, offset, wait)
	if n := len(b.Records); n > 0 {
		b.Next = b.Records[n-1].Offset + 1
	}
	return b, err
}

// TestSkipLost: where the lost records end is committed too, so that the
// permission is needed once.
func TestSkipLost(t *testing.T) {
	s := newScript()
	s.committed, s.changelog = 1, []Message{mark(1)}
	s.input, s.first = nil, 3
	for _, skip := range []bool{true, false} {
		if err := s.runOn(t, quiet{s, 0}, Options{SkipLost: skip}); err != nil {
			t.Errorf("with SkipLost %v: %v", skip, err)
		}
	}
}

// arrivals answers fetches one after another: with a record, some time after it was asked, or
// without one, after the time that it may wait.
type arrivals struct {
	s     *script
	after []time.Duration // 0: no record
	waits []time.Duration // what it was asked
}

func (a *arrivals) Bounds(context.Context) (int64, int64, error) { return 0, 0, nil }

func (a *arrivals) Fetch(_ context.Context, offset int64, wait time.Duration) (Batch, error) {
	a.waits = append(a.waits, wait)
	b := Batch{Next: offset, StableEnd: offset}
	n := len(a.waits)
	if n == len(a.after) {
		a.s.cancel()
	}
	if after := a.after[n-1]; after > 0 {
		a.s.now = a.s.now.Add(after)
		b = Batch{
			Records: []Record{{Offset: offset, Key: []byte("k"), Value: []byte("v")}},
			Next:    offset + 1, StableEnd: offset + 1,
		}
	} else {
		a.s.now = a.s.now.Add(wait)
	}
	return b, nil
}

// TestWaits: an idle task waits longer and longer for the next record, and one with a transaction
// in hand until that is due. So the transaction ends MaxInterval after its first record.
func TestWaits(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		interval    time.Duration
		after, want []time.Duration
	}{
		{
			0,
			[]time.Duration{0, 0, 0, 0, 0, 0, 0, 0, ms, 40 * ms, 0, 0, 0, ms, 0},
			[]time.Duration{
				100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms,
				5000 * ms, 100 * ms, 60 * ms, 200 * ms, 400 * ms, 800 * ms, 100 * ms,
			},
		},
		{
			10 * ms,
			[]time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0},
			[]time.Duration{
				10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 500 * ms, 500 * ms,
				500 * ms,
			},
		},
		{
			10 * time.Second,
			[]time.Duration{0, 0, ms, 4 * time.Second, 0},
			[]time.Duration{
				10 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second,
				6 * time.Second,
			},
		},
	} {
		s := newScript()
		s.committed, s.changelog, s.input = 0, []Message{mark(0)}, nil
		a := &arrivals{s: s, after: test.after}
		if err := s.runOn(t, a, Options{MaxInterval: test.interval}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.waits, test.want) {
			t.Errorf("with MaxInterval %v it waits %v, want %v", test.interval, a.waits, test.want)
		}
	}
}
