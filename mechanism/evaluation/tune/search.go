package tune

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// Result is what a search has found.
type Result struct {
	Options Options
	// Users are those a choice is made on, Held those it is checked on, who had no part in it.
	Users, Held int
	// First and Last are the times of the first and of the last fix inside the box.
	First, Last time.Time
	// Plans are the best ones found at each Σε a day, ascending, measured again with other noise on
	// other days: the winner of many is partly lucky (winner's curse). All are measured under
	// models that were not trained on the measured users.
	Plans []Outcome
	// Promise is the chosen one of Plans: the first that reaches the error, or that with the least
	// error at no more than the Σε a day. It is nil if there is no target or it cannot be reached.
	Promise *Outcome
	// Others is the same as Promise on the users that were held out; nil: the users were too few to
	// hold some out.
	Others *Outcome
	// Model is the chosen one, trained on everybody.
	Model *mobility.Model
}

// Search looks for the best plan of a day's releases at each Σε of [Axis], and at what a target
// needs. Models are trained on two thirds of the users and measured on the other third, in turn; a
// fifth of all is held out and sees the chosen plan alone.
//
// Cost: a look at some hundred candidates takes a thousand steps of a filter for each, then some
// dozen times eight thousand. Memory: the fixes, and the models of all maps. The same fixes and
// options give the same result whatever Workers is.
func Search(f *Fixes, o Options) (*Result, error) {
	s, err := searched(f, o)
	if err != nil {
		return nil, err
	}
	return &s.Result, nil
}

// searched returns a search after its last step.
func searched(f *Fixes, o Options) (*search, error) {
	o.fill(f)
	if err := o.Validate(); err != nil {
		return nil, err
	}
	users, err := split(f, o.local(), o.Seed)
	if err != nil {
		return nil, err
	}
	s := &search{
		lab:    lab{options: o, users: users, models: map[terrain]map[int]*mobility.Model{}},
		Result: Result{Options: o},
		wanted: slices.Clone(Axis),
	}
	var chosenOn []userDay
	for i := range users {
		if users[i].fold == withoutHeld {
			s.Held++
			continue
		}
		s.Users++
		chosenOn = append(chosenOn, users[i].days...)
	}
	s.First, s.Last = f.span()
	s.lengths = lengths(chosenOn, o.Step)
	s.scouts = s.byFold(o.scoutBins(), o.Seed)
	s.groups = s.byFold(o.bins(), o.Seed)
	if o.TargetEpsilonDay > 0 && !slices.Contains(Axis, o.TargetEpsilonDay) {
		s.wanted = append(s.wanted, o.TargetEpsilonDay)
	}
	if err := s.scout(s.wanted...); err != nil {
		return nil, err
	}
	if err := s.narrow(); err != nil {
		return nil, err
	}
	if err := s.promise(); err != nil || s.Promise == nil {
		return s, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	// The trainer was given those inside, and of a bin only some.
	r := &s.Model.Provenance.Report
	r.Fixes, r.OutsideBox = f.Inside, f.All-f.Inside
	return s, nil
}

// lengths returns the times that the releases of a day may be spread over: 24 hours; the time from
// a day's first report to its last; and the time in which somebody does report, gaps left out. Of
// the latter two they are such that half of all bins lie in days that are no longer.
func lengths(days []userDay, step time.Duration) []time.Duration {
	middle := func(of func(*userDay) time.Duration) time.Duration {
		sorted := slices.SortedFunc(slices.Values(days), func(a, b userDay) int {
			return cmp.Compare(of(&a), of(&b))
		})
		left := binsOf(group{days: days}) / 2
		for i := range sorted {
			if left -= sorted[i].bins; left < 0 {
				return max(step, of(&sorted[i]).Round(step))
			}
		}
		return day
	}
	span := middle(func(d *userDay) time.Duration {
		return time.Duration(d.fixes[len(d.fixes)-1].timeMS-d.fixes[0].timeMS) * time.Millisecond
	})
	active := middle(func(d *userDay) time.Duration {
		return time.Duration(bins(d.fixes, step.Milliseconds())) * step
	})
	return []time.Duration{day, span, min(active, span)}
}

// search is one in progress.
type search struct {
	lab
	Result
	lengths        []time.Duration
	scouts, groups []group   // the small sample, and the large one
	wanted         []float64 // Σε a day to promise something for
	// scouted are all candidates on the small sample; measured the best of each Σε a day on the
	// large one.
	scouted, measured []Outcome
}

func (s *search) phase(name string) {
	s.tell = func(done, total int64) error {
		if s.options.Progress == nil {
			return nil
		}
		return s.options.Progress(name, done, total)
	}
}

// byFold returns a sample of the users that a choice is made on. Samples of other seeds have other
// days, as far as there are enough.
func (s *search) byFold(bins int64, seed uint64) (groups []group) {
	days := sample(s.users, func(u *user) bool { return u.fold != withoutHeld }, bins, seed)
	for fold := range folds {
		g := group{without: fold}
		for _, d := range days {
			if s.users[d.user].fold == fold {
				g.days = append(g.days, d)
			}
		}
		if len(g.days) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// Runs of the large sample: those that a choice is made by, and those of the second measurement.
// The scouts' runs come before them.
const (
	mostRuns = 16
	first    = mostRuns
	fresh    = 2 * mostRuns
)

// runs returns the numbers of runs from one on. Where there is less to measure on than was asked
// for, there are more of them, with other noise.
func runs(from int, groups []group, bins int64) (numbers []int) {
	once := max(1, binsOf(groups...))
	n := min(mostRuns, (bins+once-1)/once)
	for i := range max(1, int(n)) {
		numbers = append(numbers, from+i)
	}
	return numbers
}

// candidates are all settings that are tried at a Σε a day.
func (s *search) candidates(dayEpsilon float64) (all []Setting) {
	o := &s.options
	for _, cell := range o.CellsM {
		at := Setting{Mechanism: o.Mechanism, CellM: cell, Step: o.Step, DayEpsilon: dayEpsilon}
		for _, plan := range at.plans(s.lengths) {
			for _, plan.Calendar = range []bool{false, true} {
				all = append(all, plan)
			}
		}
	}
	slices.SortFunc(all, cheaper)
	return slices.Compact(all)
}

// scout scouts all candidates of some Σε a day, and measures the few best of each on the large
// sample.
func (s *search) scout(daily ...float64) error {
	const few = 3
	s.phase("scouting all settings")
	var candidates []Setting
	for _, epsilon := range daily {
		candidates = append(candidates, s.candidates(epsilon)...)
	}
	scouted, err := s.measure(candidates, s.scouts, runs(0, s.scouts, s.options.scoutBins())...)
	if err != nil {
		return err
	}
	s.phase("measuring the best")
	var settings []Setting
	for _, epsilon := range daily {
		sorted := best(scouted, epsilon)
		for _, o := range sorted[:min(few, len(sorted))] {
			settings = append(settings, o.Setting)
		}
	}
	measured, err := s.measure(settings, s.groups, runs(first, s.groups, s.options.bins())...)
	s.scouted, s.measured = append(s.scouted, scouted...), append(s.measured, measured...)
	return err
}

// best returns the outcomes at a Σε a day, by what they gain, the best first.
func best(outcomes []Outcome, dayEpsilon float64) (all []Outcome) {
	for _, o := range outcomes {
		if o.DayEpsilon == dayEpsilon {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(b.Gain(), a.Gain()), cheaper(a.Setting, b.Setting))
	})
	return all
}

// narrow looks for plans between the last Σε a day whose best plan misses a targeted error and the
// first whose plan reaches it, by halving what lies between them.
func (s *search) narrow() error {
	const halvings = 3
	reaches := func(dayEpsilon float64) bool {
		sorted := best(s.measured, dayEpsilon)
		return len(sorted) > 0 && sorted[0].MedianKM <= s.options.TargetKM
	}
	at := slices.IndexFunc(s.wanted, reaches)
	if at <= 0 {
		return nil
	}
	low, high := s.wanted[at-1], s.wanted[at]
	for range halvings {
		next := decimals(math.Sqrt(low*high), math.Ceil)
		if next <= low || next >= high {
			break
		}
		if err := s.scout(next); err != nil {
			return err
		}
		if s.wanted = append(s.wanted, next); reaches(next) {
			high = next
		} else {
			low = next
		}
	}
	return nil
}

// enough is by how much the sample of a promise is larger than that of a choice.
const enough = 4

// promise measures the best plans again, with other noise, more days and, if there are any, other
// ones, and chooses the cheapest that serves the target: the least Σε that reaches an error, or the
// Σε that was asked for.
func (s *search) promise() error {
	s.phase("measuring the plans again")
	o := &s.options
	groups := s.byFold(enough*o.bins(), o.Seed+1)
	slices.Sort(s.wanted)
	var settings []Setting
	for _, epsilon := range s.wanted {
		if sorted := best(s.measured, epsilon); len(sorted) > 0 {
			settings = append(settings, sorted[0].Setting)
		}
	}
	var err error
	s.Plans, err = s.measure(settings, groups, runs(fresh, groups, enough*o.bins())...)
	if err != nil {
		return err
	}
	for i := range s.Plans {
		p := &s.Plans[i]
		if s.Promise == nil && p.MedianKM <= o.TargetKM || p.DayEpsilon <= o.TargetEpsilonDay &&
			(s.Promise == nil || p.MedianKM < s.Promise.MedianKM) {
			s.Promise = p
		}
	}
	return nil
}

// check measures the choice on those who had no part in it, and trains the model that comes with
// it.
func (s *search) check() (err error) {
	s.phase("checking on held-out users")
	if s.Held > 0 {
		bins := enough * s.options.bins()
		groups := []group{
			{
				without: withoutHeld,
				days: sample(s.users, func(u *user) bool { return u.fold == withoutHeld }, bins,
					s.options.Seed),
			},
		}
		others, err := s.measure([]Setting{s.Promise.Setting}, groups, runs(fresh, groups, bins)...)
		if err != nil {
			return err
		}
		s.Others = &others[0]
	}
	s.Model, err = s.model(terrain{s.Promise.CellM, s.Promise.Calendar}, ofEverybody)
	return err
}

// split divides the users at random: who is in which part belongs to a user's name and the seed,
// not to the order of the traces. Days start early in the morning of a local time.
func split(f *Fixes, local time.Duration, seed uint64) ([]user, error) {
	var users []user
	for name := range f.users {
		users = append(users, user{name: name})
	}
	unit := map[string]float64{}
	for _, u := range users {
		unit[u.name] = trial.Unit(u.name, seed)
	}
	slices.SortFunc(users, func(a, b user) int {
		return cmp.Or(cmp.Compare(unit[a.name], unit[b.name]), cmp.Compare(a.name, b.name))
	})
	if len(users) < 2 {
		return nil, errFewUsers
	}
	held := 0
	if len(users) >= fewestToHold {
		held = int(heldShare*float64(len(users)) + .5)
	}
	for i := range users {
		u := &users[i]
		u.fold = -1
		if i >= held {
			u.fold = (i - held) % min(folds, len(users)-held)
		}
		u.days = f.days(i, u.name, (local - dayStarts).Milliseconds())
	}
	return users, nil
}
