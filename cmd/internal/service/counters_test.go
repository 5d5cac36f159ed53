package service

import (
	"errors"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
)

// newTestObserver observes a processor that works on a state-less user.
func newTestObserver(t *testing.T) *observer {
	t.Helper()
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)).WithDefaults()
	return &observer{
		log: o.Logger, counters: o.Counters, processor: newTestProcessor(t, anywhere(o), 0),
		board: o.Board.Begin(0), outages: newOutages(o.Logger),
	}
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
		want engine.Tally
	}{
		{"committed", func(o *observer) {
			work(t, o, 10, 5)
			o.Sealed(5)
			o.Committed(task.Transaction{})
		}, engine.Tally{RecordsIn: 5, Releases: 5, Transactions: 1}},
		{"dropped and done again", func(o *observer) {
			work(t, o, 10, 5)
			o.Dropped(5, lost)
			o.Restored(task.Restore{Committed: 10, Records: 2})
			work(t, o, 10, 5)
			o.Sealed(5)
			o.Committed(task.Transaction{})
		}, engine.Tally{RecordsIn: 5, Releases: 5, Transactions: 1, Aborts: 1, Restored: 2}},
		{"committed without an answer", func(o *observer) {
			work(t, o, 10, 5)
			o.Dropped(5, lost)
			o.Restored(task.Restore{Committed: 15})
			work(t, o, 15, 2)
			o.Sealed(5)
			o.Committed(task.Transaction{})
		}, engine.Tally{RecordsIn: 7, Releases: 7, Transactions: 2}},
		{"committed without an answer, found out late", func(o *observer) {
			work(t, o, 10, 5)
			o.Dropped(5, lost)
			o.Dropped(0, lost) // the recovery failed too
			o.Dropped(0, lost)
			o.Restored(task.Restore{Committed: 15})
			o.Restored(task.Restore{Committed: 15})
		}, engine.Tally{RecordsIn: 5, Releases: 5, Transactions: 1}},
		{"nothing was committed before", func(o *observer) {
			work(t, o, 0, 5)
			o.Dropped(5, lost)
			o.Restored(task.Restore{Committed: -1})
		}, engine.Tally{Aborts: 1}},
		{"committed beside the next, which is given up", func(o *observer) {
			work(t, o, 10, 5)
			o.Sealed(5)
			work(t, o, 15, 3)
			o.Committed(task.Transaction{})
			o.Dropped(3, lost)
			o.Restored(task.Restore{Committed: 15})
		}, engine.Tally{RecordsIn: 5, Releases: 5, Transactions: 1, Aborts: 1}},
		{"committed beside the next, without an answer", func(o *observer) {
			work(t, o, 10, 5)
			o.Sealed(5)
			work(t, o, 15, 3)
			o.Dropped(8, lost)
			o.Restored(task.Restore{Committed: 15})
			work(t, o, 15, 3)
			o.Sealed(3)
			o.Committed(task.Transaction{})
		}, engine.Tally{RecordsIn: 8, Releases: 8, Transactions: 2}},
		{"given up", func(o *observer) {
			work(t, o, 0, 5)
			o.Dropped(5, lost)
		}, engine.Tally{}},
		{"restored at the start", func(o *observer) {
			o.Restored(task.Restore{Committed: 99, Records: 7})
		}, engine.Tally{Restored: 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newTestObserver(t)
			c.run(o)
			got := o.counters.Snapshot()
			sets := int64(0)
			for _, n := range got.Sets {
				sets += n
			}
			if got.RecordsOut != got.RecordsIn || (got.SetCells > 0) != (got.Releases > 0) ||
				sets != got.Releases || got.Epsilon != float64(got.Releases) {
				t.Errorf("%+v does not add up", got)
			}
			got.RecordsOut, got.SetCells, got.Drifts, got.Epsilon = 0, 0, 0, 0
			got.Sets = engine.SetSizes{}
			if got != c.want {
				t.Errorf("counted %+v, want %+v", got, c.want)
			}
		})
	}
}
