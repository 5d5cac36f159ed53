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
	"github.com/geodither/geodither/mechanism/evaluation/report"
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
	f := NewFixes(Options{Box: box})
	for _, at := range fixes {
		f.Add(at)
	}
	return f
}

func few() Options {
	return Options{
		Box: box, CellsM: []float64{500}, Step: time.Minute, Mechanism: law.Codebook,
		Quick: true, Seed: 1, Workers: 1,
	}
}

// TestSearch: the choice reaches its target, no plan that costs much less does, and its promise
// holds for users that nobody has seen; any number of goroutines comes to the same.
func TestSearch(t *testing.T) {
	t.Parallel()
	o := few()
	o.TargetKM = .6
	outside := train.Fix{User: "no fix"} // at 0, 0
	f := gathered(t, append(fleet(20, 120, 1), outside, outside))
	r, err := searched(f, o)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Promise
	if seen := r.Model.Provenance.Report; seen.Fixes != 20*120 || seen.OutsideBox != 2 {
		t.Errorf("the model is of %d fixes, %d outside: all were 2402", seen.Fixes, seen.OutsideBox)
	}
	if p == nil || p.MedianKM > 1.05*o.TargetKM || r.Users != 16 || r.Held != 4 ||
		r.Others == nil || r.Others.Users != 4 || r.Model == nil || p.Users != 16 {
		t.Fatalf("%d users, %d held: %+v, %+v", r.Users, r.Held, p, r.Others)
	}
	if p.Mechanism != law.Codebook || p.SpentDay > p.DayEpsilon {
		t.Errorf("%s was chosen, which spends %v: %+v", p.Mechanism, p.SpentDay, p)
	}
	for _, m := range r.measured {
		if m.MedianKM <= .9*o.TargetKM && m.DayEpsilon < .8*p.DayEpsilon {
			t.Errorf("%v is as good and cheaper: %+v", m.Setting, m)
		}
	}
	if r.Model.Step != p.Step || r.Model.Grid.CellM() != p.CellM ||
		(r.Model.Calendar.Classes() > 1) != p.Calendar {
		t.Errorf("the model has steps of %v, cells of %v and %d classes", r.Model.Step,
			r.Model.Grid.CellM(), r.Model.Calendar.Classes())
	}
	if median := strangers(t, &r.Result); median > 1.25*p.MedianKM || median < p.MedianKM/1.25 {
		t.Errorf("promised %.3f km, strangers have %.3f", p.MedianKM, median)
	}

	o.Workers = 3
	again, err := Search(f, o)
	if err != nil {
		t.Fatal(err)
	}
	again.Options, again.Model, r.Model = r.Options, nil, nil
	if !reflect.DeepEqual(&r.Result, again) {
		t.Error("three goroutines come to another result")
	}
}

// strangers returns the median error of a promise on users that the search has not seen, by a way
// of its own.
func strangers(t *testing.T, r *Result) float64 {
	t.Helper()
	s, err := mechanism.NewSanitizer(r.Model, (&lab{options: Options{Seed: 99}}).streams(0),
		r.Promise.options())
	if err != nil {
		t.Fatal(err)
	}
	var km []float64
	states := map[string]*mechanism.State{}
	for seed := range uint64(4) {
		for _, at := range fleet(20, 120, 2+seed) {
			if states[at.User] == nil {
				states[at.User] = &mechanism.State{}
			}
			out, err := s.Step(states[at.User], mechanism.Input{
				User: at.User, Step: mobility.StepOf(at.TimeMS, r.Model.Step.Milliseconds()),
				Cell: r.Model.Grid.Locate(at.Lat, at.Lon), Release: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			km = append(km, out.Estimate.Distance(r.Model.Grid.ToMap(at.Lat, at.Lon)))
		}
	}
	slices.Sort(km)
	return km[len(km)/2]
}

// TestPlansOfADay: there is a plan at each Σε of the axis, which spends no more than that; errors
// fall as it grows, and the figures say whether 20 a day halve the error.
func TestPlansOfADay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fixes  []train.Fix
		halves bool
	}{
		"an hour":  {fleet(60, 120, 1), true},
		"unbroken": {fleet(9, 2*20*60, 1), false},
	} {
		o := few()
		o.TargetEpsilonDay = 20
		r, err := searched(gathered(t, c.fixes), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Plans) != len(Axis) || r.Promise == nil || r.Promise.DayEpsilon != 20 {
			t.Fatalf("%s: %d plans, %+v", name, len(r.Plans), r.Promise)
		}
		for i, p := range r.Plans {
			if p.DayEpsilon != Axis[i] || p.SpentDay > p.DayEpsilon+1e-9 || p.SpentDay <= 0 ||
				float64(p.ReleasesDay())*p.Epsilon > p.DayEpsilon+1e-9 {
				t.Errorf("%s: %v spends %v", name, p.Setting, p.SpentDay)
			}
		}
		if first, last := &r.Plans[0], &r.Plans[len(Axis)-1]; last.MedianKM >= first.MedianKM ||
			last.Gain() <= first.Gain() || last.BlindKM != first.BlindKM {
			t.Errorf("%s: Σε = 80 gives %.3f km, Σε = 5 %.3f", name, last.MedianKM, first.MedianKM)
		}
		for _, p := range r.Plans {
			if p.DayEpsilon <= 20 && p.MedianKM < r.Promise.MedianKM {
				t.Errorf("%s: Σε = %g has less error than the choice", name, p.DayEpsilon)
			}
		}
		if gain := r.Promise.Gain(); (gain >= .5) != c.halves {
			t.Errorf("%s: at Σε = 20 the gain is %v", name, gain)
		}
		if hours := r.lengths[1].Hours(); c.halves && hours > 1.1 || !c.halves && hours < 9 {
			t.Errorf("%s: days of %v", name, r.lengths)
		}
	}
}

// TestVerdict: a plan that takes less than a quarter off the error of the model alone, by the mean
// or by the median, is told so; and the users outside the choice are mentioned.
func TestVerdict(t *testing.T) {
	const hardly = "hardly better than the model alone"
	for _, c := range []struct {
		median, mean float64
		good         string
		hardly       bool
	}{
		{1.4, 1.4, "a user's district", false},
		{1.4, 1.6, "the fleet alone", true},
		{1.6, 1.4, "the fleet alone", true},
		{.2, .3, "a user's street", false},
		{.8, 1, "a user's neighbourhood", false},
		{1.4, 2.1, "nothing", false},
	} {
		p := Outcome{
			Setting: Setting{
				Mechanism: law.Codebook, DayEpsilon: 40, Epsilon: 5, Interval: day,
				Step: time.Minute, CellM: 500,
			},
			MedianKM: c.median, MeanKM: c.mean, BlindKM: 2, BlindMeanKM: 2, Users: 20,
			NearShare: .25,
		}
		others := p
		others.MedianKM = 1.75
		r := Result{
			Options: Options{TargetEpsilonDay: 40}, Plans: []Outcome{p}, Promise: &p,
			Others: &others, Users: 80, Held: 19, First: time.UnixMilli(0).UTC(),
			Last: time.UnixMilli(day.Milliseconds()).UTC(),
		}
		r.Options.Name = "fleet.csv"
		if got := r.Report(); got.Title !=
			"How to release fleet.csv: 99 users, 1970-01-01 to 1970-01-02" ||
			!slices.ContainsFunc(got.Sections[0].Parts, func(p report.Part) bool {
				table, is := p.(*report.Table)
				return is && reflect.DeepEqual(table.Rows, r.Frontier().Rows)
			}) {
			t.Errorf("a report without fleet, dates or frontier: %+v", got)
		}
		words := strings.Join(r.Verdict(), " ")
		for _, want := range []string{
			"every 24 h, at most 2 a day", "a step lasts 1 min",
			"outside the choice it is 1.75 km", "by the model alone within 2.00 km",
			"more than ε = 20 a day hardly protects", "at most e^ε = 148. It tells 25 %",
			"Many nights show",
		} {
			if !strings.Contains(words, want) {
				t.Errorf("%+v: %q is not in %q", c, want, words)
			}
		}
		few, little := strings.Contains(words, "Counts of 99 users are mostly noise"),
			c.hardly || c.good == "nothing"
		if rows := r.Frontier().Rows; rows[0][5] != "nothing" ||
			c.hardly && rows[1][5] != "nothing" {
			t.Errorf("%+v: so few users have %q", c, rows)
		}
		if r.Held = 20; little != few ||
			little != strings.Contains(strings.Join(r.Verdict(), " "), "Publish counts instead") {
			t.Errorf("%+v: %q says another thing of counts", c, words)
		}
		if c.good == "nothing" != strings.Contains(words, "no better than the model alone") {
			t.Errorf("%+v: %q says another thing of harm", c, words)
		}
		if rows := r.Frontier().Rows; strings.Contains(words, hardly) != c.hardly ||
			len(rows) != 2 || rows[1][5] != c.good {
			t.Errorf("%+v: %q, %q", c, words, rows)
		}
	}
}

// TestCalendarIsTried: where people are elsewhere at night, the plan has a model that knows it, and
// blind is what that model says, for plans without it too.
func TestCalendarIsTried(t *testing.T) {
	t.Parallel()
	var fixes []train.Fix
	random := rand.New(rand.NewPCG(1, 2))
	for u := range 8 {
		for i := range 24 * 30 {
			lat := 10.005 // at night all are in the south
			if hour := i / 30; hour >= 6 && hour < 18 {
				lat = 10.045
			}
			fixes = append(fixes, train.Fix{
				User: fmt.Sprint("user-", u), TimeMS: int64(1_699_999_200_000 + 120_000*i),
				Lat: lat + .002*random.Float64(), Lon: 20.02 + .01*random.Float64(),
			})
		}
	}
	o := few()
	o.Step, o.TargetEpsilonDay = 2*time.Minute, 5
	r, err := searched(gathered(t, fixes), o)
	if err != nil {
		t.Fatal(err)
	}
	with, without := 0, 0
	for _, s := range r.scouted {
		if s.BlindKM != r.scouted[0].BlindKM {
			t.Fatalf("plans are compared with different models: %v and %v", s, r.scouted[0])
		}
		if s.Calendar {
			with++
		} else {
			without++
		}
	}
	if with == 0 || with != without || !r.Promise.Calendar || r.Model.Calendar.Classes() != 4 {
		t.Errorf("%d with a calendar, %d without: %v", with, without, r.Promise.Setting)
	}
}

// TestHeldOutSeesNothing: whatever those held out did, the choice and its promise are the same, to
// the last bit; only the check differs.
func TestHeldOutSeesNothing(t *testing.T) {
	t.Parallel()
	o := few()
	o.TargetEpsilonDay = 60
	fixes := fleet(12, 100, 3)
	f := gathered(t, fixes)
	users, err := split(f, o.local(), o.Seed)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{}
	for _, u := range users {
		held[u.name] = u.fold == withoutHeld
	}
	r, err := searched(f, o)
	if err != nil || r.Promise == nil || r.Promise.DayEpsilon != o.TargetEpsilonDay {
		t.Fatal(r, err)
	}
	for i := range fixes {
		if held[fixes[i].User] {
			fixes[i].Lat, fixes[i].Lon = 10+(fixes[i].Lon-20)/2, 20+(fixes[i].Lat-10)
		}
	}
	other, err := searched(gathered(t, fixes), o)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r.scouted, other.scouted) ||
		!reflect.DeepEqual(r.measured, other.measured) ||
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
	users, err := split(f, o.local(), 1)
	if err != nil {
		t.Fatal(err)
	}
	s := &search{lab: lab{options: o, users: users, models: map[terrain]map[int]*mobility.Model{}}}
	for _, g := range s.byFold(1000, 1) {
		m, err := s.model(terrain{500, false}, g.without)
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]bool{}
		for _, d := range g.days {
			in[users[d.user].name] = true
		}
		want, err := train.New(mapOf(t, 500), o.Step, o.training(false))
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
		{func(*Options) {}, "Name an error"},
	} {
		o, last := few(), int64(-1)
		c.change(&o)
		phase := ""
		o.Progress = func(name string, done, total int64) error {
			if name != phase || done == 0 {
				phase, last = name, -1
			}
			if done <= last || done > total || last < 0 && done != 0 {
				t.Errorf("%s: %d of %d after %d", name, done, total, last)
			}
			last = done
			return nil
		}
		r, err := Search(f, o)
		if err != nil {
			t.Fatal(err)
		}
		if words := strings.Join(r.Verdict(), " "); r.Promise != nil || r.Model != nil ||
			len(r.Plans) != len(Axis) || !strings.Contains(words, c.says) {
			t.Errorf("%v, %q", r.Promise, words)
		}
		if err := r.Report().Write(t.TempDir(), func() error { return nil }); err != nil {
			t.Error(err)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for what, change := range map[string]func(*Options){
		"not both":         func(o *Options) { o.TargetKM, o.TargetEpsilonDay = 1, 1 },
		"must be positive": func(o *Options) { o.TargetKM = -1 },
		"so small":         func(o *Options) { o.TargetEpsilonDay = 1e-9 },
		"largest budget":   func(o *Options) { o.TargetEpsilonDay = 1e10 },
		"is none":          func(o *Options) { o.Step = -1 },
		"whose guarantee":  func(o *Options) { o.Mechanism = law.PIM },
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
