package tune

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// fleet returns users who walk about in the box, each fix half a minute after the last, within
// streets of their own.
func fleet(users, fixes int, seed uint64) (all []train.Fix) {
	random := rand.New(rand.NewPCG(seed, 1))
	for u := range users {
		lat, lon := 10.01+.03*random.Float64(), 20.01+.03*random.Float64()
		dlat, dlon := .0004, 0.
		for i := range fixes {
			if random.IntN(12) == 0 {
				dlat, dlon = dlon, -dlat
			}
			if next := lat + dlat; next > 10.001 && next < 10.049 {
				lat = next
			} else {
				dlat = -dlat
			}
			if next := lon + dlon; next > 20.001 && next < 20.049 {
				lon = next
			} else {
				dlon = -dlon
			}
			all = append(all, train.Fix{
				User:   fmt.Sprintf("user-%d-%d", seed, u),
				TimeMS: int64(1_700_000_000_000 + 30_000*i), Lat: lat, Lon: lon,
			})
		}
	}
	return all
}

func gathered(tb testing.TB, fixes []train.Fix) *Fixes {
	tb.Helper()
	f := NewFixes(mapOf(tb, 500), 30*time.Second)
	for _, at := range fixes {
		f.Add(at)
	}
	return f
}

func few() Options {
	return Options{
		Box: box, CellsM: []float64{500}, Steps: []time.Duration{
			30 * time.Second, time.Minute,
		}, Intervals: []time.Duration{5 * time.Minute},
		Mechanisms: []string{law.Codebook, law.Lattice}, Epsilons: []float64{1, 4, 16},
		Deltas: []float64{.01, .3}, Seed: 1, Workers: 1,
		ScoutBins: 300, Bins: 2500,
	}
}

// TestSearch: the choice reaches its target, is no dearer than what else reaches it but for the
// tenth that it may be, and its promise holds for users that nobody has seen; any number of
// goroutines comes to the same.
func TestSearch(t *testing.T) {
	t.Parallel()
	o := few()
	o.TargetKM = .8
	f := gathered(t, fleet(20, 120, 1))
	r, err := Search(f, o)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Promise
	if p == nil || p.MedianKM > o.TargetKM || r.Users != 16 || r.Held != 4 || r.Others == nil ||
		r.Others.Users != 4 || r.Model == nil || p.Users != 16 {
		t.Fatalf("%d users, %d held: %+v, %+v", r.Users, r.Held, p, r.Others)
	}
	if len(r.Best) != 2 || r.Best[0].Mechanism != law.Codebook ||
		r.Best[1].Mechanism != law.Lattice || r.Best[0].EpsilonDay() >= r.Best[1].EpsilonDay() ||
		r.Best[0].MedianKM > o.TargetKM || r.Best[1].MedianKM > o.TargetKM {
		t.Errorf("the best of each mechanism: %+v", r.Best)
	}
	if p.Mechanism != law.Codebook || p.Drift != 0 {
		t.Errorf("%s was chosen, which is not the cheapest: %+v", p.Mechanism, p)
	}
	words := strings.Join(r.Words(), " ")
	for _, part := range []string{
		"codebook with", "lattice with", "two neighbouring cells", "a small δ",
	} {
		if !strings.Contains(words, part) {
			t.Errorf("%q is not in %q", part, words)
		}
	}
	for _, m := range r.Measured {
		if m.MedianKM <= .9*o.TargetKM && m.EpsilonDay() < .8*p.EpsilonDay() {
			t.Errorf("%v is as good and cheaper: %+v", m.Setting, m)
		}
	}
	if r.Model.Step != p.Step || r.Model.Grid.CellM() != p.CellM {
		t.Errorf("the model has steps of %v and cells of %v", r.Model.Step, r.Model.Grid.CellM())
	}
	// The promise on strangers, by a way of its own.
	s, err := mechanism.NewSanitizer(r.Model, (&lab{options: Options{Seed: 99}}).streams(0),
		p.options(o.Release))
	if err != nil {
		t.Fatal(err)
	}
	var km []float64
	states := map[string]*mechanism.State{}
	for _, at := range fleet(20, 120, 2) {
		if states[at.User] == nil {
			states[at.User] = &mechanism.State{}
		}
		out, err := s.Step(states[at.User], mechanism.Input{
			User: at.User, Step: mobility.StepOf(at.TimeMS, p.Step.Milliseconds()),
			Cell: r.Model.Grid.Locate(at.Lat, at.Lon), Release: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		km = append(km, out.Estimate.Distance(r.Model.Grid.ToMap(at.Lat, at.Lon)))
	}
	slices.Sort(km)
	if median := km[len(km)/2]; median > 1.2*p.MedianKM || median < p.MedianKM/1.2 {
		t.Errorf("promised %.3f km, strangers have %.3f", p.MedianKM, median)
	}

	o.Workers = 3
	again, err := Search(f, o)
	if err != nil {
		t.Fatal(err)
	}
	again.Options, again.Model, r.Model = r.Options, nil, nil
	if !reflect.DeepEqual(r, again) {
		t.Error("three goroutines come to another result")
	}
}

// TestHeldOutSeesNothing: whatever those held out did, the choice and its promise are the same, to
// the last bit; only the check differs.
func TestHeldOutSeesNothing(t *testing.T) {
	t.Parallel()
	o := few()
	o.TargetEpsilonDay, o.Steps = 2000, o.Steps[:1]
	fixes := fleet(12, 100, 3)
	f := gathered(t, fixes)
	users, err := split(f, time.Hour, o.Seed)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{}
	for _, u := range users {
		held[u.name] = u.fold == withoutHeld
	}
	r, err := Search(f, o)
	if err != nil || r.Promise == nil || r.Promise.EpsilonDay() > o.TargetEpsilonDay {
		t.Fatal(r, err)
	}
	for i := range fixes {
		if held[fixes[i].User] {
			fixes[i].Lat, fixes[i].Lon = 10+(fixes[i].Lon-20)/2, 20+(fixes[i].Lat-10)
		}
	}
	other, err := Search(gathered(t, fixes), o)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r.Scouted, other.Scouted) ||
		!reflect.DeepEqual(r.Measured, other.Measured) ||
		!reflect.DeepEqual(r.Promise, other.Promise) {
		t.Error("the choice has seen those who were held out of it")
	}
	if reflect.DeepEqual(r.Others, other.Others) {
		t.Error("the check does not see them")
	}
}

// TestNobodyIsMeasuredUnderHisOwnModel: each group's model is the one of all others.
func TestNobodyIsMeasuredUnderHisOwnModel(t *testing.T) {
	o := few()
	f := gathered(t, fleet(7, 60, 4))
	users, err := split(f, time.Hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := &search{lab: lab{options: o, users: users, tell: func(int64, int64) error { return nil }}}
	w := terrain{500, 30 * time.Second}
	if err := s.enter(w); err != nil {
		t.Fatal(err)
	}
	for _, g := range s.byFold(1000, 1) {
		m, err := s.model(g.without)
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]bool{}
		for _, trip := range g.trips {
			in[users[trip.user].name] = true
		}
		want, err := train.New(mapOf(t, 500), w.step, o.Train)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range fleet(7, 60, 4) {
			i := slices.IndexFunc(users, func(u user) bool { return u.name == at.User })
			if !in[at.User] && users[i].fold != withoutHeld {
				want.Add(at)
			}
		}
		others, _, err := want.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if len(in) == 0 || m.ID() != others.ID() {
			t.Errorf("the model for a fold of %d users is another than that of the others", len(in))
		}
	}
}

// TestShortTrips: an interval that the trips cannot show is not tried, and the words say so.
func TestShortTrips(t *testing.T) {
	o := few()
	o.Steps, o.Epsilons, o.Deltas = o.Steps[:1], o.Epsilons[:1], o.Deltas[:1]
	o.Intervals = []time.Duration{5 * time.Minute, 20 * time.Minute}
	r, err := Search(gathered(t, fleet(5, 60, 7)), o) // half an hour each
	if err != nil {
		t.Fatal(err)
	}
	if len(r.LeftOut) != 1 || r.LeftOut[0] != 20*time.Minute ||
		!strings.Contains(strings.Join(r.Words(), " "), "every 20m was not tried") {
		t.Errorf("left out %v: %q", r.LeftOut, r.Words())
	}
	for _, s := range r.Scouted {
		if s.Interval == 20*time.Minute {
			t.Errorf("%v was tried", s.Setting)
		}
	}
}

// TestLimit: what is promised keeps to the limit of what a release may tell, also where ε has to
// be raised for the target.
func TestLimit(t *testing.T) {
	t.Parallel()
	promised := 0
	for seed := range uint64(4) {
		o := few()
		o.Steps, o.Epsilons = o.Steps[:1], []float64{1, 2, 4}
		o.TargetKM, o.MostFactor200M, o.Seed, o.Bins = 1.1, 1.9, seed, 600
		r, err := Search(gathered(t, fleet(8, 90, 8+seed)), o)
		if err != nil {
			t.Fatal(err)
		}
		if p := r.Promise; p != nil {
			promised++
			if p.Factor200M > o.MostFactor200M {
				t.Errorf("seed %d: %v tells by a factor of %v", seed, p.Setting, p.Factor200M)
			}
		} else if !strings.Contains(strings.Join(r.Words(), " "), "1.9") {
			t.Errorf("seed %d: the limit is not named: %q", seed, r.Words())
		}
	}
	t.Logf("%d of 4 promised", promised)
}

// TestTargets: what cannot be reached is not chosen, and the words say what comes nearest; without
// a target nothing is.
func TestTargets(t *testing.T) {
	t.Parallel()
	f := gathered(t, fleet(6, 80, 5))
	for _, c := range []struct {
		change func(*Options)
		says   string
	}{
		{func(o *Options) { o.TargetKM = .001 }, "The nearest is"},
		{func(o *Options) { o.TargetEpsilonDay = .001 }, "costs at most"},
		{func(*Options) {}, "Name an error"},
		{
			func(o *Options) { o.TargetKM, o.MostFactor200M = .5, 1.0001 },
			"is better than the model alone while",
		},
	} {
		o := few()
		o.Steps = o.Steps[:1]
		c.change(&o)
		r, err := Search(f, o)
		if err != nil {
			t.Fatal(err)
		}
		if words := strings.Join(r.Words(), " "); r.Promise != nil || r.Model != nil ||
			!strings.Contains(words, c.says) {
			t.Errorf("%v, %q", r.Promise, words)
		}
		if err := r.Report().Write(t.TempDir(), func() error { return nil }); err != nil {
			t.Error(err)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for what, change := range map[string]func(*Options){
		"there must be a mechanism": func(o *Options) { o.CellsM = nil },
		"multiples of the shortest": func(o *Options) {
			o.Steps = []time.Duration{
				40 * time.Second, time.Minute,
			}
		},
		"not both":         func(o *Options) { o.TargetKM, o.TargetEpsilonDay = 1, 1 },
		"must be positive": func(o *Options) { o.TargetKM = -1 },
		"psilon":           func(o *Options) { o.Epsilons = []float64{-1} },
		"elta":             func(o *Options) { o.Deltas = []float64{2} },
		"factor":           func(o *Options) { o.MostFactor200M = .5 },
		"is none":          func(o *Options) { o.Steps = []time.Duration{0} },
		"begins anew":      func(o *Options) { o.Intervals = []time.Duration{61 * time.Minute} },
	} {
		o := few()
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
		}
	}
	o := few()
	if _, err := Search(gathered(t, fleet(1, 50, 6)), o); !errors.Is(err, errFewUsers) {
		t.Errorf("one user: %v", err)
	}
	stop := errors.New("stop")
	o.Progress = func(string, int64, int64) error { return stop }
	if _, err := Search(gathered(t, fleet(5, 50, 6)), o); !errors.Is(err, stop) {
		t.Errorf("stopped: %v", err)
	}
}
