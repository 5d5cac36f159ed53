package tune

import (
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
	// Scouted are all candidates on a small sample; Measured those near the frontier, and what was
	// tried on the way to a target, on a large one. Both are in order of their cost.
	Scouted, Measured []Outcome
	// Frontier are those of Measured that nothing of the same mechanism beats: whatever costs less
	// has a larger error. They are in the order of Options.Mechanisms, and of their cost.
	Frontier []Outcome
	// Best is what serves the target best of each mechanism, of Measured, in the order of
	// Options.Mechanisms. A mechanism that does not reach the target has none.
	Best []Outcome
	// LeftOut are intervals that the trips are too short to show.
	LeftOut []time.Duration
	// Promise is the chosen setting, measured again with other noise on other trips, under models
	// that were not trained on the measured users. It is nil if there is no target or it cannot be
	// reached.
	Promise *Outcome
	// Raised is the ε that was chosen first, if the second measurement missed the target and ε
	// had to be raised; else 0.
	Raised float64
	// Missed is the choice whose second measurement missed the target or the limit at every ε that
	// was tried.
	Missed *Outcome
	// Others is the same as Promise on the users that were held out; nil: the users were too few to
	// hold some out.
	Others *Outcome
	// Model is the chosen one, trained on everybody.
	Model *mobility.Model
}

// Search looks for the best settings. Models are trained on two thirds of the users and measured on
// the other third, in turn; a fifth of all is held out and sees the chosen setting alone.
//
// Cost: a look at some hundred candidates takes ScoutBins steps of a filter for each, then some
// dozen Bins. Memory: the fixes, and the models of one cell and step. The same fixes and options
// give the same result whatever Workers is.
func Search(f *Fixes, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	users, err := split(f, o.LongestInterval(), o.Seed)
	if err != nil {
		return nil, err
	}
	s := &search{
		lab:    lab{options: o, users: users},
		Result: Result{Options: o},
	}
	s.leaveOut()
	for i := range users {
		if users[i].fold == withoutHeld {
			s.Held++
		} else {
			s.Users++
		}
	}
	for _, step := range []func() error{s.scout, s.nearFrontier, s.aim, s.promise, s.check} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return &s.Result, nil
}

// search is one in progress.
type search struct {
	lab
	Result
	groups []group // of the large sample
}

func (s *search) phase(name string) {
	s.tell = func(done, total int64) error {
		if s.options.Progress == nil {
			return nil
		}
		return s.options.Progress(name, done, total)
	}
}

// leaveOut drops the intervals that the trips are too short to show. A trip starts with a release,
// so a short trip has releases more often than its interval says, and in trips shorter than two
// intervals most fixes come soon after a release. For the remaining intervals, half of the bins lie
// in trips of at least two intervals.
func (s *search) leaveOut() {
	o := &s.options
	var kept []time.Duration
	for _, interval := range o.Intervals {
		var long, all int64
		for i := range s.users {
			for _, t := range s.users[i].trips {
				if s.users[i].fold == withoutHeld {
					continue
				}
				all += t.bins
				lasts := t.fixes[len(t.fixes)-1].timeMS - t.fixes[0].timeMS
				if lasts >= 2*interval.Milliseconds() {
					long += t.bins
				}
			}
		}
		if 2*long >= all {
			kept = append(kept, interval)
		} else {
			s.LeftOut = append(s.LeftOut, interval)
		}
	}
	o.Intervals = kept
}

// sample returns trips of users, cut at no less than the longest interval.
func (s *search) sample(chosen func(*user) bool, bins int64, seed uint64) []trip {
	o := &s.options
	limit := bins/8 + 1
	for _, interval := range o.Intervals {
		limit = max(limit, int64(interval/slices.Min(o.Steps)))
	}
	return sample(s.users, chosen, bins, limit, seed)
}

// byFold returns a sample of the users that a choice is made on. Samples of other seeds have other
// trips, as far as there are enough.
func (s *search) byFold(bins int64, seed uint64) (groups []group) {
	trips := s.sample(func(u *user) bool { return u.fold != withoutHeld }, bins, seed)
	for fold := range folds {
		g := group{without: fold}
		for _, t := range trips {
			if s.users[t.user].fold == fold {
				g.trips = append(g.trips, t)
			}
		}
		if len(g.trips) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// scout looks at all candidates.
func (s *search) scout() (err error) {
	s.phase("scouting")
	o := &s.options
	groups := s.byFold(o.ScoutBins, o.Seed)
	s.Scouted, err = s.measure(o.candidates(), groups, runs(0, groups, o.ScoutBins)...)
	return err
}

// nearFrontier measures what is worth it.
func (s *search) nearFrontier() (err error) {
	s.phase("measuring")
	s.groups = s.byFold(s.options.Bins, s.options.Seed)
	const most = 60
	var settings []Setting
	for _, mechanism := range s.options.Mechanisms {
		settings = append(settings, near(only(mechanism, s.allowed(s.Scouted)),
			most/len(s.options.Mechanisms))...)
	}
	slices.SortFunc(settings, cheaper)
	s.Measured, err = s.measure(settings, s.groups, s.runs(first)...)
	s.Frontier = s.frontier()
	return err
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

func (s *search) runs(from int) []int { return runs(from, s.groups, s.options.Bins) }

// allowed returns those within the limit of the options.
func (s *search) allowed(outcomes []Outcome) []Outcome {
	most := s.options.MostFactor200M
	return slices.DeleteFunc(slices.Clone(outcomes),
		func(o Outcome) bool { return most > 0 && o.Factor200M > most })
}

// promise measures the chosen setting again. The winner of many candidates is partly lucky, with
// its noise and with its trips (winner's curse). The second measurement therefore has other noise,
// more trips and, if there are any, other ones. If it misses the target, ε is raised, and the
// setting that then reaches the target is measured once more: the promise is not the best of
// several either.
func (s *search) promise() error {
	chosen := s.choose(s.Measured)
	if chosen == nil {
		return nil
	}
	for _, mechanism := range s.options.Mechanisms {
		if best := s.choose(only(mechanism, s.Measured)); best != nil {
			s.Best = append(s.Best, *best)
		}
	}
	s.phase("promising")
	const tries, more = 8, 1.08
	o := &s.options
	groups := s.byFold(enough*o.Bins, o.Seed+1)
	anew := func(setting Setting, from int) (*Outcome, error) {
		outcomes, err := s.measure([]Setting{setting}, groups, runs(from, groups, enough*o.Bins)...)
		if err != nil {
			return nil, err
		}
		return &outcomes[0], nil
	}
	tried, err := anew(chosen.Setting, fresh)
	if err != nil {
		return err
	}
	for range tries {
		larger := decimals(more*tried.Epsilon, math.Ceil)
		if o.TargetKM == 0 || tried.MedianKM <= o.TargetKM || law.ValidateEpsilon(larger) != nil {
			break
		}
		if tried, err = anew(tried.with(larger), fresh); err != nil {
			return err
		}
	}
	if tried.Epsilon != chosen.Epsilon {
		s.Raised = chosen.Epsilon
		if tried, err = anew(tried.Setting, last); err != nil {
			return err
		}
	}
	const asGood = 1.05 // measured once more it may lie a little above
	if o.TargetKM > 0 && tried.MedianKM > asGood*o.TargetKM ||
		len(s.allowed([]Outcome{*tried})) == 0 {
		s.Missed = tried
		return nil
	}
	s.Promise = tried
	return nil
}

// enough is by how much the sample of a promise is larger than that of a choice.
const enough = 4

// check measures the choice on those who had no part in it, and trains the model that comes with
// it.
func (s *search) check() (err error) {
	if s.Promise == nil {
		return nil
	}
	s.phase("checking")
	if s.Held > 0 {
		o := &s.options
		groups := []group{
			{
				without: withoutHeld,
				trips: s.sample(func(u *user) bool { return u.fold == withoutHeld },
					enough*o.Bins, o.Seed),
			},
		}
		others, err := s.measure([]Setting{s.Promise.Setting}, groups,
			runs(fresh, groups, enough*o.Bins)...)
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
