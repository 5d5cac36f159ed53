package tune

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Result is what a search has found.
type Result struct {
	Options Options
	// Users are those a choice is made on, Held those it is checked on, who had no part in it.
	Users, Held int
	// Lengths are the times that plans spread a day's releases over: see lengths.
	Lengths []time.Duration
	// Scouted are all candidates on a small sample; Measured the best of each Σε a day on a large
	// one. Both are in order of their cost.
	Scouted, Measured []Outcome
	// Plans are the best of Measured at each Σε a day, ascending, measured again with other noise
	// on other days: the winner of many is partly lucky (winner's curse). All are measured under
	// models that were not trained on the measured users.
	Plans []Outcome
	// Promise is the chosen one of Plans. It is nil if there is no target or it cannot be reached.
	Promise *Outcome
	// Raised is the ε that was chosen first, if the second measurement missed the target and ε
	// had to be raised; else 0.
	Raised float64
	// Missed is the choice whose second measurement missed the target at every ε that was tried.
	Missed *Outcome
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
// Cost: a look at some hundred candidates takes ScoutBins steps of a filter for each, then some
// dozen Bins. Memory: the fixes, and the models of one map, step and calendar. The same fixes and
// options give the same result whatever Workers is.
func Search(f *Fixes, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	users, err := split(f, o.local(), o.Seed)
	if err != nil {
		return nil, err
	}
	s := &search{
		lab:    lab{options: o, users: users},
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
	s.Lengths = lengths(chosenOn, slices.Min(o.Steps))
	s.scouts = s.byFold(o.ScoutBins, o.Seed)
	s.groups = s.byFold(o.Bins, o.Seed)
	if o.TargetEpsilonDay > 0 && !slices.Contains(Axis, o.TargetEpsilonDay) {
		s.wanted = append(s.wanted, o.TargetEpsilonDay)
	}
	for _, step := range []func() error{s.axis, s.reach, s.promise, s.check} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return &s.Result, nil
}

// lengths returns the times that the releases of a day may be spread over: 24 hours; the time from
// a day's first report to its last; and the time in which somebody does report, gaps left out. Of
// the latter two they are such that half of all bins lie in days that are no longer.
func lengths(days []userDay, bin time.Duration) []time.Duration {
	middle := func(of func(*userDay) time.Duration) time.Duration {
		sorted := slices.SortedFunc(slices.Values(days), func(a, b userDay) int {
			return cmp.Compare(of(&a), of(&b))
		})
		left := work([]group{{days: days}}) / 2
		for i := range sorted {
			if left -= sorted[i].bins; left < 0 {
				return max(bin, of(&sorted[i]).Round(bin))
			}
		}
		return day
	}
	span := middle(func(d *userDay) time.Duration {
		return time.Duration(d.fixes[len(d.fixes)-1].timeMS-d.fixes[0].timeMS) * time.Millisecond
	})
	active := middle(func(d *userDay) time.Duration { return time.Duration(d.bins) * bin })
	return []time.Duration{day, span, min(active, span)}
}

// search is one in progress.
type search struct {
	lab
	Result
	scouts, groups []group   // the small sample, and the large one
	wanted         []float64 // Σε a day to promise something for
	target         float64   // the one that reaches the targeted error; 0: none
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
	last     = 3 * mostRuns
)

// runs returns the numbers of runs from one on. Where there is less to measure on than was asked
// for, there are more of them, with other noise.
func runs(from int, groups []group, bins int64) (numbers []int) {
	n := min(mostRuns, (bins+work(groups)-1)/max(1, work(groups)))
	for i := range max(1, int(n)) {
		numbers = append(numbers, from+i)
	}
	return numbers
}

// axis looks for plans at each Σε a day that is wanted.
func (s *search) axis() error { return s.look("scouting", "measuring", s.wanted...) }

// look scouts all candidates of some Σε a day, and measures the few best of each on the large
// sample.
func (s *search) look(scouting, measuring string, daily ...float64) error {
	const few = 3
	s.phase(scouting)
	var candidates []Setting
	for _, epsilon := range daily {
		candidates = append(candidates, s.options.candidates(epsilon, s.Lengths)...)
	}
	scouted, err := s.measure(candidates, s.scouts, runs(0, s.scouts, s.options.ScoutBins)...)
	if err != nil {
		return err
	}
	s.phase(measuring)
	var settings []Setting
	for _, epsilon := range daily {
		sorted := best(scouted, epsilon)
		for _, o := range sorted[:min(few, len(sorted))] {
			settings = append(settings, o.Setting)
		}
	}
	measured, err := s.measure(settings, s.groups, runs(first, s.groups, s.options.Bins)...)
	s.Scouted, s.Measured = byCost(s.Scouted, scouted), byCost(s.Measured, measured)
	return err
}

// byCost returns the outcomes of two lists in the order of cheaper.
func byCost(a, b []Outcome) []Outcome {
	return slices.SortedFunc(slices.Values(slices.Concat(a, b)),
		func(a, b Outcome) int { return cheaper(a.Setting, b.Setting) })
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

// reach looks for the least Σε a day whose plan reaches the targeted error: first along the axis,
// then beyond it by doubling, and at last between what reaches it and what does not.
func (s *search) reach() error {
	const halvings = 3
	if !(s.options.TargetKM > 0) {
		return nil
	}
	low, high, err := s.bracket()
	for range halvings {
		next := decimals(math.Sqrt(low*high), math.Ceil)
		if err != nil || next <= low || next >= high {
			break
		}
		if err = s.look("reaching", "reaching", next); s.reaches(next) {
			high = next
		} else {
			low = next
		}
	}
	if s.target = high; high > 0 && !slices.Contains(s.wanted, high) {
		s.wanted = append(s.wanted, high)
	}
	return err
}

// bracket returns a Σε a day that does not reach the targeted error, or 0, and a larger one that
// does, or 0 if none does. Beyond the axis it doubles for as long as that pays.
func (s *search) bracket() (low, high float64, err error) {
	const doublings, pays = 10, .97
	for _, next := range s.wanted {
		if s.reaches(next) {
			return low, next, nil
		}
		low = next
	}
	for range doublings {
		before, next := s.least(low), 2*low
		if err := s.look("reaching", "reaching", next); err != nil {
			return 0, 0, err
		}
		switch {
		case s.reaches(next):
			return low, next, nil
		case !(s.least(next) <= pays*before):
			return 0, 0, nil
		}
		low = next
	}
	return 0, 0, nil
}

// reaches says whether the best plan at a Σε a day has the targeted error.
func (s *search) reaches(dayEpsilon float64) bool {
	return s.least(dayEpsilon) <= s.options.TargetKM
}

// least is the median error of the best plan at a Σε a day; infinite: there is none, as no release
// has so large an ε.
func (s *search) least(dayEpsilon float64) float64 {
	sorted := best(s.Measured, dayEpsilon)
	if len(sorted) == 0 {
		return math.Inf(1)
	}
	return sorted[0].MedianKM
}

// enough is by how much the sample of a promise is larger than that of a choice.
const enough = 4

// promise measures the best plans again, with other noise, more days and, if there are any, other
// ones, and chooses what serves the target.
func (s *search) promise() error {
	s.phase("promising")
	o := &s.options
	groups := s.byFold(enough*o.Bins, o.Seed+1)
	slices.Sort(s.wanted)
	var settings []Setting
	for _, epsilon := range s.wanted {
		if sorted := best(s.Measured, epsilon); len(sorted) > 0 {
			settings = append(settings, sorted[0].Setting)
		}
	}
	var err error
	s.Plans, err = s.measure(settings, groups, runs(fresh, groups, enough*o.Bins)...)
	if err != nil {
		return err
	}
	chosen := slices.IndexFunc(s.Plans, func(p Outcome) bool {
		return p.DayEpsilon == max(s.target, o.TargetEpsilonDay)
	})
	if chosen < 0 {
		return nil
	}
	if s.target > 0 {
		return s.keep(chosen, groups)
	}
	s.Promise = &s.Plans[chosen]
	return nil
}

// keep promises the plan that has reached the targeted error. If its second measurement misses the
// target, ε is raised, and the plan that then reaches the target is measured once more: the promise
// is not the best of several either.
func (s *search) keep(chosen int, groups []group) error {
	const tries, more = 8, 1.08
	const asGood = 1.05 // measured once more it may lie a little above
	o := &s.options
	again := func(setting Setting, from int) (Outcome, error) {
		outcomes, err := s.measure([]Setting{setting}, groups, runs(from, groups, enough*o.Bins)...)
		if err != nil {
			return Outcome{}, err
		}
		return outcomes[0], nil
	}
	tried := s.Plans[chosen]
	before := tried.Epsilon
	for range tries {
		larger := tried.raised(more)
		if tried.MedianKM <= o.TargetKM || law.ValidateEpsilon(larger.Epsilon) != nil {
			break
		}
		var err error
		if tried, err = again(larger, fresh); err != nil {
			return err
		}
	}
	if tried.Epsilon != before {
		s.Raised = before
		var err error
		if tried, err = again(tried.Setting, last); err != nil {
			return err
		}
	}
	if tried.MedianKM > asGood*o.TargetKM {
		s.Missed = &tried
		return nil
	}
	s.Plans[chosen] = tried
	s.Promise = &s.Plans[chosen]
	return nil
}

// check measures the choice on those who had no part in it, and trains the model that comes with
// it.
func (s *search) check() (err error) {
	if s.Promise == nil {
		return nil
	}
	s.phase("checking")
	if s.Held > 0 {
		bins := enough * s.options.Bins
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
	if err := s.enter(terrainOf(s.Promise.Setting)); err != nil {
		return err
	}
	s.Model, err = s.model(ofEverybody)
	return err
}
