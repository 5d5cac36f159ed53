package pipeline

import (
	"errors"
	"reflect"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
)

// newTestObserver observes a processor that works on a state-less user.
func newTestObserver(t *testing.T) *observer {
	t.Helper()
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)).WithDefaults()
	return &observer{log: o.Logger, counters: o.Counters, processor: newTestProcessor(t, anywhere(o), 0)}
}

// work runs records of so many users with offsets from first on.
func work(t *testing.T, o *observer, first, n int64) {
	t.Helper()
	for i := range n {
		fix := servicetest.Sentinel()
		fix.UserID += string(rune('a' + i))
		servicetest.Process(t, o.processor, servicetest.Record(t, first+i, fix), nil)
	}
}

// TestCountersOfCommits: what is dropped and done again counts once, and so does
// a transaction whose commit had lost its answer.
func TestCountersOfCommits(t *testing.T) {
	lost := errors.New("the answer was lost")
	for _, c := range []struct {
		name string
		run  func(o *observer)
		want Tally
	}{
		{"committed", func(o *observer) {
			work(t, o, 10, 5)
			o.Committed(task.Transaction{})
		}, Tally{RecordsIn: 5, Releases: 5, Transactions: 1}},
		{"dropped and done again", func(o *observer) {
			work(t, o, 10, 5)
			o.Dropped(5, lost)
			o.Restored(task.Restore{Committed: 10, Records: 2})
			work(t, o, 10, 5)
			o.Committed(task.Transaction{})
		}, Tally{RecordsIn: 5, Releases: 5, Transactions: 1, Aborts: 1, Restored: 2}},
		{"committed without an answer", func(o *observer) {
			work(t, o, 10, 5)
			o.Dropped(5, lost)
			o.Restored(task.Restore{Committed: 15})
			work(t, o, 15, 2)
			o.Committed(task.Transaction{})
		}, Tally{RecordsIn: 7, Releases: 7, Transactions: 2}},
		{"committed without an answer, found out late", func(o *observer) {
			work(t, o, 10, 5)
			o.Dropped(5, lost)
			o.Dropped(0, lost) // the recovery failed too
			o.Dropped(0, lost)
			o.Restored(task.Restore{Committed: 15})
			o.Restored(task.Restore{Committed: 15})
		}, Tally{RecordsIn: 5, Releases: 5, Transactions: 1}},
		{"nothing was committed before", func(o *observer) {
			work(t, o, 0, 5)
			o.Dropped(5, lost)
			o.Restored(task.Restore{Committed: -1})
		}, Tally{Aborts: 1}},
		{"given up", func(o *observer) {
			work(t, o, 0, 5)
			o.Dropped(5, lost)
		}, Tally{}},
		{"restored at the start", func(o *observer) {
			o.Restored(task.Restore{Committed: 99, Records: 7})
		}, Tally{Restored: 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newTestObserver(t)
			c.run(o)
			got := o.counters.Snapshot()
			if got.RecordsOut != got.RecordsIn || (got.SetCells > 0) != (got.Releases > 0) || got.Epsilon != float64(got.Releases) {
				t.Errorf("%+v does not add up", got)
			}
			got.RecordsOut, got.SetCells, got.Drifts, got.Epsilon = 0, 0, 0, 0
			if got != c.want {
				t.Errorf("counted %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestRatios(t *testing.T) {
	if s := (Tally{}); s.LocationSetMean() != 0 || s.DriftRatio() != 0 {
		t.Error("the ratios of nothing are not 0")
	}
	if s := (Tally{Releases: 4, SetCells: 10, Drifts: 1}); s.LocationSetMean() != 2.5 || s.DriftRatio() != .25 {
		t.Errorf("%v and %v", s.LocationSetMean(), s.DriftRatio())
	}
}

// TestCounterNames: every number of a tally is in the one table, under a name of its own,
// and is added up.
func TestCounterNames(t *testing.T) {
	var one Tally
	names := map[string]bool{}
	for i, c := range counters {
		if names[c.name] || c.help == "" {
			t.Errorf("the name %q is there twice, or says nothing", c.name)
		}
		names[c.name] = true
		*c.of(&one) = int64(i + 1)
	}
	if !names[latenessAfter] {
		t.Error("the lateness has no place in the log")
	}
	numbers := 0
	for i := range reflect.TypeFor[Tally]().NumField() {
		if value := reflect.ValueOf(one).Field(i); value.Kind() == reflect.Int64 {
			numbers++
			if value.Int() == 0 {
				t.Errorf("%s has no name", reflect.TypeFor[Tally]().Field(i).Name)
			}
		}
	}
	one.Epsilon = .5
	var total Counters
	total.Book(one)
	total.Book(one)
	got := total.Snapshot()
	for i, c := range counters {
		if *c.of(&got) != 2*int64(i+1) {
			t.Errorf("%s is %d after two times %d", c.name, *c.of(&got), i+1)
		}
	}
	if numbers != len(counters) || got.Epsilon != 1 {
		t.Errorf("%d numbers and %d names; ε adds up to %g", numbers, len(counters), got.Epsilon)
	}
}
