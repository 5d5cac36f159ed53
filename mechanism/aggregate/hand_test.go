package aggregate

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// found is what a Collector has found: its windows' estimates and its counts.
type found struct {
	windows []Window // without what they are made of
	density []Density
	counts  Counts
}

// collected runs a Collector. It returns the number of the record whose error ended it, from 1.
// wrap, if not nil, stands around each task.
func collected(
	t *testing.T, model *mobility.Model, o mechanism.Options, c CollectOptions, records []Record,
	wrap func(do func(int, *task)) func(int, *task),
) (all found, number int64, err error) {
	t.Helper()
	k, err := NewCollector(Models{model}, o, c, func(w *Window) error {
		all.windows = append(all.windows, Window{
			StartMS: w.StartMS, Released: w.Released, Lost: w.Lost,
		})
		all.density = append(all.density, w.Estimate(EstimateOptions{Seed: 1, Resamples: 4}))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		k.do = wrap(k.do)
	}
	for i, r := range records {
		r.Place = Place{fmt.Sprintf("line %d", i+1), int64(i + 1)}
		if err = k.Add(r); err != nil {
			number = r.Place.Number
			break
		}
	}
	if err == nil {
		err = k.Finish()
	}
	if placed, ok := errors.AsType[*PlaceError](err); ok {
		number = placed.Place.Number
		if placed.Place.Where != fmt.Sprintf("line %d", number) {
			t.Errorf("record %d is at %q", number, placed.Place.Where)
		}
	}
	k.Close()
	all.counts = k.Counts()
	return all, number, err
}

// byUser sorts records by user, each user's in their order.
func byUser(records []Record) []Record {
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b Record) int { return strings.Compare(a.User, b.User) })
	return sorted
}

// TestSameOnAnyWorkers: whatever the number of workers, windows and counts are the same to the
// last bit: with users side by side and one after another, with windows that are closed on the
// way, and with a user who has a record missing.
func TestSameOnAnyWorkers(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 4, 40, 40, nil)
	records = slices.Delete(records, 205, 206)
	for name, test := range map[string]struct {
		records []Record
		open    int
	}{
		"side by side": {records, 0}, "windows are closed": {records, 2},
		"one after another": {byUser(records), 0},
	} {
		options := CollectOptions{WindowSteps: 5, Block: 2, Open: test.open}
		want, _, err := collected(t, model, o, options, test.records, nil)
		if err != nil || len(want.windows) != 8 || want.counts.Lost != 1 ||
			want.counts.Followed >= want.counts.Records {
			t.Fatalf("%s: %v, %d windows, %+v", name, err, len(want.windows), want.counts)
		}
		for _, workers := range []int{2, 8} {
			options.Workers = workers
			got, _, err := collected(t, model, o, options, test.records, nil)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %d workers find something else, or %v", name, workers, err)
			}
		}
	}
}

// TestWorkersMeet: two workers are at work at the same time, on different users, also where a file
// has one user after another. A record of each of the first two users waits for the other one's.
func TestWorkersMeet(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 5, 3, 700, nil)
	records = byUser(records)
	want, _, err := collected(t, model, o, CollectOptions{WindowSteps: 50}, records, nil)
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]chan struct{}{"v0": make(chan struct{}), "v1": make(chan struct{})}
	other := map[string]string{"v0": "v1", "v1": "v0"}
	var mu sync.Mutex
	workers := map[int]bool{}
	got, _, err := collected(t, model, o, CollectOptions{WindowSteps: 50, Workers: 2}, records,
		func(do func(int, *task)) func(int, *task) {
			return func(worker int, task *task) {
				mu.Lock()
				workers[worker] = true
				mu.Unlock()
				if user := task.record.User; task.record.Step == 100 && met[user] != nil {
					close(met[user])
					<-met[other[user]]
				}
				do(worker, task)
			}
		})
	if err != nil || len(workers) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d workers, error %v, or they find something else than one", len(workers), err)
	}
}

// TestFirstErrorInOrder: of two records out of order the first one in the input is the error,
// whatever the number of workers, and so it is beside an error that is known at once.
func TestFirstErrorInOrder(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 6, 6, 600, nil)
	records = byUser(records)
	const first = 1500
	records[first].Step -= 2
	records[len(records)-1].Step -= 2
	foreign := slices.Clone(records)
	foreign[len(foreign)-3].Model = "another one"
	for name, records := range map[string][]Record{"follows": records, "foreign": foreign} {
		for _, workers := range []int{1, 2, 8} {
			options := CollectOptions{WindowSteps: 50, Workers: workers}
			_, number, err := collected(t, model, o, options, records, nil)
			if !errors.Is(err, ErrOrder) || number != first+1 {
				t.Errorf("%s, %d workers: record %d, %v", name, workers, number, err)
			}
		}
	}
	foreign[first].Step += 2
	for _, workers := range []int{1, 2, 8} {
		options := CollectOptions{WindowSteps: 50, Workers: workers}
		_, number, err := collected(t, model, o, options, foreign, nil)
		if !errors.Is(err, ErrModel) || number != int64(len(foreign)-2) {
			t.Errorf("%d workers: record %d, %v", workers, number, err)
		}
	}
}
