package follow

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
)

// sums returns the sums of records, which are written in degrees. Without zones in the options each
// cell of the first model is one.
func sums(
	tb testing.TB, o SumOptions, records []Record,
) (windows []*Window, sum Summary, err error) {
	tb.Helper()
	if o.ZoneOf == nil {
		g := o.Public.Models[0].Grid
		o.Zones, o.ZoneOf = g.Cells(), g.Locate
	}
	s, err := NewSums(o, func(w *Window) error {
		windows = append(windows, w)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	defer s.Close()
	for _, r := range records {
		g := o.Public.Models[0].Grid
		for _, m := range o.Public.Models {
			if m.ID() == r.Model {
				g = m.Grid
			}
		}
		p := published(g, o.Public.Release, r)
		if err := s.Add(p); err != nil {
			return windows, s.Summary(), err
		}
	}
	err = s.Finish()
	return windows, s.Summary(), err
}

// TestSums: every vehicle counts once in each of its windows, where it last reported, and a sum is
// that of the service's own posteriors. All workers find the same.
func TestSums(t *testing.T) {
	t.Parallel()
	model := testcase.Town(t)
	for name, o := range map[string]mechanism.Options{
		"lattice":  {Mechanism: law.Lattice, Epsilon: 2, Delta: .05},
		"codebook": {Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 3},
	} {
		// The last vehicles are silent at times, so their windows end in other steps.
		records, _ := driveSome(t, model, o, 1, 30, 12, nil, func(v int, step int64) bool {
			return v < 20 || step%5 != 4 && (v < 25 || step < 5)
		})
		zone := func(c grid.Cell) int32 {
			return c/grid.Cell(model.Grid.Width())/2*4 + c%grid.Cell(model.Grid.Width())/2
		}
		// The posteriors of a window's last records, each by a filter of its own.
		f, tracks := newFollower(t, Models{model}, o), map[string]*Track{}
		last := map[string][]float64{}
		for _, r := range records {
			if tracks[r.User] == nil {
				tracks[r.User] = new(Track)
			}
			if known, err := f.Follow(tracks[r.User], r); err != nil || !known {
				t.Fatalf("%t, %v", known, err)
			}
			shares := make([]float64, 12)
			for i, c := range f.state.Posterior.Cells {
				shares[zone(c)] += f.state.Posterior.P[i] / f.state.Posterior.Total()
			}
			last[fmt.Sprint(r.Step/5, " ", r.User)] = shares
		}
		want, vehicles := make([][12]float64, 3), make([]int, 3)
		for key, shares := range last {
			w := key[0] - '0'
			vehicles[w]++
			for z, p := range shares {
				want[w][z] += p
			}
		}
		for _, workers := range []int{1, 3} {
			windows, sum, err := sums(t, SumOptions{
				Public: Public{Models: Models{model}, Release: o}, WindowSteps: 5, Zones: 12,
				ZoneOf:  func(lat, lon float64) int32 { return zone(model.Grid.Locate(lat, lon)) },
				Workers: workers,
			}, records)
			if err != nil || len(windows) != 3 || sum.Followed != int64(len(records)) ||
				sum.Users != 30 || sum.Windows != 3 || sum.Smallest != slices.Min(vehicles) {
				t.Fatalf("%s: %v, %d windows, %+v", name, err, len(windows), sum)
			}
			for i, w := range windows {
				if w.StartMS != int64(i)*300_000 || w.EndMS-w.StartMS != 300_000 ||
					w.Vehicles != vehicles[i] || w.Lost != 0 {
					t.Errorf("%s: window %d is %+v", name, i, w)
				}
				for z := range want[i] {
					if !near(w.Posterior[z], want[i][z], 1e-9) {
						t.Errorf("%s: window %d, zone %d: %g vehicles, want %g", name, i, z,
							w.Posterior[z], want[i][z])
					}
				}
			}
		}
	}
}

// TestSumsOrder: the order of users does not matter, windows close when they may, and what comes
// too late has no part. Who is lost is counted apart.
func TestSumsOrder(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 2, 8, 20, nil)
	options := SumOptions{Public: Public{Models: Models{model}, Release: o}, WindowSteps: 5}
	open := options
	open.Open = 1
	byTime, _, err := sums(t, open, records)
	if err != nil {
		t.Fatal(err)
	}
	grouped := slices.Clone(records)
	slices.SortStableFunc(grouped, func(a, b Record) int { return strings.Compare(a.User, b.User) })
	mixed, random := slices.Clone(records), rand.New(rand.NewPCG(1, 2))
	for step := range 20 {
		some := mixed[8*step : 8*step+8]
		random.Shuffle(8, func(i, j int) { some[i], some[j] = some[j], some[i] })
	}
	for _, list := range [][]Record{grouped, mixed} {
		windows, sum, err := sums(t, options, list)
		if err != nil || len(byTime) != 4 || len(windows) != 4 || sum.Late != 0 {
			t.Fatalf("%v: %d and %d windows, %+v", err, len(byTime), len(windows), sum)
		}
		for i, w := range windows {
			for z, n := range byTime[i].Posterior {
				if !near(w.Posterior[z], n, 1e-9) {
					t.Errorf("window %d, zone %d: %g, and by time %g", i, z, w.Posterior[z], n)
				}
			}
		}
	}
	if _, sum, err := sums(t, open, grouped); err != nil || sum.Late == 0 ||
		sum.Followed != int64(len(records)) {
		t.Errorf("users one after the other under one open window: %v, %+v", err, sum)
	}
	gap := slices.DeleteFunc(slices.Clone(records), func(r Record) bool {
		return r.User == "v3" && r.Step == 7
	})
	windows, sum, err := sums(t, options, gap)
	if err != nil || windows[0].Vehicles != 8 || windows[3].Vehicles != 7 || windows[3].Lost != 1 ||
		sum.Wanted-sum.Followed != 12 || sum.MaxGap < 1 {
		t.Errorf("%v: a missing record: %+v, %+v", err, windows[3], sum)
	}
	back := []Record{records[8], records[0]}
	if _, _, err := sums(t, options, back); !errors.Is(err, ErrOrder) &&
		!errors.Is(err, ErrSettings) {
		t.Errorf("records in the wrong order: %v", err)
	}
}

// TestSumsBounds: records after what is wanted are not looked at, those before are followed and
// counted apart.
func TestSumsBounds(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 3, 4, 20, nil)
	for i := range records {
		if records[i].Step >= 15 {
			records[i].Kind = 0 // of a newer program
		}
	}
	options := SumOptions{
		Public: Public{Models: Models{model}, Release: o}, WindowSteps: 5,
		FromMS: 300_000, BeforeMS: 900_000,
	}
	windows, sum, err := sums(t, options, records)
	if err != nil || sum.After != 20 || sum.Windows != 2 || sum.Before != 20 || sum.Wanted != 40 ||
		sum.Followed != 40 || windows[0].StartMS != 300_000 {
		t.Errorf("%v, %+v", err, sum)
	}
	options.FromMS, options.BeforeMS = 0, 60_000
	if _, _, err := sums(t, options, records); !errors.Is(err, ErrAfter) {
		t.Errorf("no record is wanted: %v", err)
	}
	if _, _, err := sums(t, options, nil); err == nil ||
		!strings.Contains(err.Error(), "no record") {
		t.Errorf("no record: %v", err)
	}
	options.WindowSteps = 0
	if _, err := NewSums(options, nil); err == nil {
		t.Error("a window without a step is no error")
	}
}

// TestSumsLearn: what the records tell is as good as what the reader is told, also where releases
// come only after records that do not tell ε.
func TestSumsLearn(t *testing.T) {
	t.Parallel()
	model := testcase.Town(t)
	o := mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05, ReleaseInterval: 3}
	records, _ := drive(t, model, o, 3, 20, 12, nil)
	told := SumOptions{Public: Public{Models: Models{model}, Release: o}, WindowSteps: 5}
	want, _, err := sums(t, told, records)
	if err != nil || len(want) != 3 {
		t.Fatalf("%v, %d windows", err, len(want))
	}
	learn := func(records []Record) (windows []*Window, sum Summary, err error) {
		s, err := NewSums(SumOptions{
			Public: Public{
				Models: Models{model}, Release: mechanism.Options{ReleaseInterval: 3},
				TellEpsilon: true, TellDelta: true, TellMechanism: true,
			},
			WindowSteps: 5, Zones: model.Grid.Cells(), ZoneOf: model.Grid.Locate,
		}, func(w *Window) error {
			windows = append(windows, w)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if err := s.Add(published(model.Grid, o, r)); err != nil {
				return nil, sum, err
			}
		}
		err = s.Finish()
		return windows, s.Summary(), err
	}
	if got, _, err := learn(records); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("learning from the records finds something else, or %v", err)
	}
	// A reader who comes in between two releases: until the next one, nothing tells ε.
	if _, sum, err := learn(records[80:]); err != nil || sum.Records != int64(len(records)-80) ||
		sum.Followed != 0 || sum.Windows != 0 {
		t.Errorf("records that wait for a release: %v, %+v", err, sum)
	}
}

// TestWorkersFindTheSameError: with several workers the error is that of the first bad record, with
// its place.
func TestWorkersFindTheSameError(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 3, 6, 30, nil)
	s, err := NewSums(SumOptions{
		Public: Public{Models: Models{model}, Release: o}, WindowSteps: 5,
		Zones: model.Grid.Cells(), ZoneOf: model.Grid.Locate, Workers: 3,
	}, func(*Window) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, r := range records {
		p := published(model.Grid, o, r)
		p.Where = fmt.Sprint("line ", i)
		p.HasRelease = i != 70
		if i >= 90 {
			p.Delta = .3
		}
		if err = s.Add(p); err != nil {
			break
		}
	}
	if err == nil {
		err = s.Finish()
	}
	if placed, ok := errors.AsType[*PlaceError](err); !ok || placed.Where != "line 70" ||
		!errors.Is(err, ErrNoRelease) {
		t.Errorf("the error is %v", err)
	}
}

// TestSplitUsers: users with records of two states are counted. A file that is there twice is none.
func TestSplitUsers(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	one, _ := drive(t, model, o, 3, 4, 10, nil)
	other, _ := drive(t, model, o, 4, 1, 10, nil)
	options := SumOptions{Public: Public{Models: Models{model}, Release: o}, WindowSteps: 5}
	mixed := slices.Concat(one, other)
	slices.SortStableFunc(mixed, func(a, b Record) int { return int(a.Step - b.Step) })
	if _, sum, _ := sums(t, options, mixed); sum.Split != 1 {
		t.Errorf("%+v", sum)
	}
	var twice []Record
	for _, r := range one {
		twice = append(twice, r, r)
	}
	if _, sum, _ := sums(t, options, twice); sum.Split != 0 {
		t.Errorf("%+v", sum)
	}
}
