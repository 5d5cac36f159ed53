package audit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
)

// wholeDraws is the number of releases from the first situation of a whole probe.
const wholeDraws = 1 << 17

// wholeStreams is the number of streams of a whole probe, among which equal noise is looked for.
const wholeStreams = 2 * wholeDraws

// probed is what a probe has found.
type probed struct {
	epsilon float64 // as stated
	records int64   // raw records that the subject was fed
	tests   int     // statistical ones
	bound   float64 // the greatest lower bound on the true ε
	checks  []*Check
	// untested are the facts of a release of which it was not tested whether the noise depends on
	// them: changing one changes nothing on this map, or a fix was not released.
	untested []string
}

// findings are the faults, in words.
func (r *probed) findings() (all []string) {
	for _, c := range r.checks {
		if c.Failures > 0 {
			all = append(all, c.finding())
		}
	}
	return all
}

// probe runs the second implementation against the instances that start makes: it compares all
// bytes and the law of all noise with what it computes itself. On a sound service a probe finds
// something with a probability of at most alarms.
func probe(start Maker, s Settings, sizes Sizes, seed uint64, alarms float64) (*probed, error) {
	p, err := newPlan(start, s, sizes, seed)
	if err != nil {
		return nil, err
	}
	if err := meet(p); err != nil {
		return nil, err
	}
	all, err := do(p)
	if err != nil {
		return nil, err
	}
	r := &probed{epsilon: p.settings.Release.Epsilon}
	judge(p, r, all, alarms)
	return r, nil
}

func newPlan(start Maker, s Settings, sizes Sizes, seed uint64) (*plan, error) {
	s, err := prepared(s, seed)
	if err != nil {
		return nil, err
	}
	plain, err := mechanism.NewSanitizer(s.Model, noise.NewKeyed(s.Key), plainRules(s.Release))
	if err != nil {
		return nil, err
	}
	const someDay = 1_700_000_000_000 // an arbitrary recent time
	p := &plan{start: start, settings: s, plain: plain.Options(), sizes: sizes, seed: seed}
	p.hours, err = hours.New(s.Release.Hours)
	p.firstStep = p.open(s.Model.StepAt(someDay))
	return p, err
}

// meet finds the situations: those of forced shapes, and those that users meet who move.
func meet(p *plan) error {
	scout, err := newScout(p)
	if err != nil {
		return err
	}
	if err := scout.simulate(); err != nil {
		return err
	}
	if len(scout.kept) == 0 && p.sizes.Visits > 0 {
		return errors.New("no location set or codebook of more than one place was met")
	}
	forced, err := forcedSituations(p)
	p.situations = append(forced, scout.kept...)
	return err
}

// scout follows users who move through their releases, and keeps a few of the different situations
// that it meets, at random.
type scout struct {
	plan   *plan
	walker *walker
	states map[string][]byte // of the users
	seen   map[string]bool   // situations, by what determines the law
	kept   []situation
}

// mostScouted bounds the situations that are kept.
const mostScouted = 4

func newScout(p *plan) (*scout, error) {
	s := p.settings
	s.Release = p.plain
	w, err := newWalker(p.start, s, p.rng("scout", 0))
	return &scout{
		plan: p, walker: w, states: map[string][]byte{}, seen: map[string]bool{},
	}, err
}

// visit takes one fix of a user.
func (s *scout) visit(user string, step int64, cell grid.Cell) error {
	w, m, before := s.walker, s.walker.settings.Model, s.states[user]
	if len(before) > 0 {
		if err := s.consider(before, step); err != nil {
			return err
		}
	}
	effect, err := w.feed(fix(m.Grid, user, step*m.Step.Milliseconds(), cell, w.rng), before)
	s.states[user] = effect.State
	return err
}

// consider decides whether to keep the situation that comes with a step.
func (s *scout) consider(before []byte, step int64) error {
	law, err := s.walker.observer.law(before, step)
	if err != nil || !law.tells() || s.seen[lawFacts(law)] {
		return err
	}
	s.seen[lawFacts(law)] = true
	slot := len(s.kept)
	if slot < mostScouted {
		s.kept = append(s.kept, situation{})
	} else if slot = s.walker.rng.IntN(len(s.seen)); slot >= mostScouted {
		return nil
	}
	at := situation{
		name: fmt.Sprintf("met %d", slot+1), settings: s.walker.settings, state: before,
		step: step, scouted: true, users: s.plan.sizes.Shapes,
	}
	at.law, err = lawOf(&at)
	s.kept[slot] = at
	return err
}

// simulate sends vehicles past the scout that move by the model, at times in which releases may be
// drawn.
func (s *scout) simulate() error {
	const vehicles = 20
	for v := range vehicles {
		walker := trial.NewWalker(s.plan.settings.Model, s.walker.rng)
		step := s.plan.moments(v).next()
		for range s.plan.sizes.Visits / vehicles {
			if err := s.visit(userName("simulated", v), step, walker.Cell); err != nil {
				return err
			}
			walker.Move(step)
			step = s.plan.open(step + 1)
		}
	}
	return nil
}

// do runs all jobs.
func do(p *plan) ([]*result, error) {
	jobs := slices.Concat(ruleJobs(p), walkJobs(p), crowdJobs(p), factJobs(p), exponentJobs(p))
	jobs = append(jobs, func() (*result, error) { return days(p) })
	results := make([]*result, len(jobs))
	for i, job := range jobs {
		var err error
		if results[i], err = job(); err != nil {
			return nil, err
		}
	}
	return results, nil
}
