package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
	"github.com/geodither/geodither/mechanism/trial"
)

// DefaultSizes take some 40 seconds of one core for most models.
var DefaultSizes = Sizes{
	Users: DefaultDraws, Shapes: 2048, Streams: 2 * DefaultDraws, Facts: 1024, Vehicles: 16,
	Steps: 512, RuleSteps: 64, Visits: 2000,
}

// DefaultDraws is the default of Options.Draws, and leastDraws what tells anything.
const (
	DefaultDraws = 1 << 17
	leastDraws   = 1000
)

// DefaultConfidence is one minus the rate of false alarms of a whole audit.
const DefaultConfidence = .999

// SizesFor returns the sizes that go with a number of draws from the first location set: the
// default sizes for its default, and in proportion for others, from a 64th to 16 times the default.
func SizesFor(draws int64) Sizes {
	scale := min(max(float64(draws)/DefaultDraws, 1./64), 16)
	d := DefaultSizes
	of := func(n, least int) int { return max(int(scale*float64(n)), least) }
	return Sizes{
		Users: of(d.Users, 1), Shapes: of(d.Shapes, 256), Streams: of(d.Streams, 1),
		Facts: of(d.Facts, 256), Vehicles: d.Vehicles, Steps: of(d.Steps, 32),
		RuleSteps: of(d.RuleSteps, 24), Visits: d.Visits,
	}
}

// Options configure an audit.
type Options struct {
	Sizes Sizes // the zero Sizes mean DefaultSizes
	// Seed determines the truths and the keys, so that an audit can be repeated.
	Seed uint64
	// Confidence is one minus the rate of false alarms; 0 means DefaultConfidence.
	Confidence float64
	// Traces are followed for location sets; nil: vehicles are simulated that move by the model.
	Traces *traces.Reader
	// Workers is the number of goroutines, one at least. The report does not depend on it.
	Workers int
	// Progress, if set, receives roughly how many of the raw records were fed, one call at a time.
	// Its error ends the audit.
	Progress func(done, total int64) error
}

// ValidateDraws reports a number of draws that tells nothing.
func ValidateDraws(draws float64) error {
	if draws != math.Trunc(draws) || math.Abs(draws) > 1e15 {
		return fmt.Errorf("--draws %g is not a number of draws: write 1e6 or 1000000", draws)
	}
	if draws < leastDraws {
		return fmt.Errorf("%g draws tell nothing: an audit needs --draws %d at least, and a bound "+
			"near ε a hundred thousand", draws, leastDraws)
	}
	return nil
}

// Run attacks the instances that start makes under the settings. It does not use the key of the
// settings: an audit has keys of its own. An error means that the audit could not run.
//
// On a service that does what it states, the rate of false alarms is 1 - Confidence in all.
func Run(ctx context.Context, start Maker, s Settings, o Options) (*Report, error) {
	if o.Sizes == (Sizes{}) {
		o.Sizes = DefaultSizes
	}
	if o.Confidence == 0 {
		o.Confidence = DefaultConfidence
	}
	p, err := newPlan(start, s, o)
	if err != nil {
		return nil, err
	}
	report := newReport(p, o)
	if err := meet(ctx, p, o, report); err != nil {
		return nil, err
	}
	all, err := do(ctx, p, o)
	if err != nil {
		return nil, err
	}
	judge(p, report, all, 1-o.Confidence)
	return report, nil
}

func newReport(p *plan, o Options) *Report {
	return &Report{
		Mechanism: p.settings.Release.Mechanism, Epsilon: p.settings.Release.Epsilon,
		Delta: p.settings.Release.Delta, ModelID: p.settings.Model.ID(),
		Settings: p.settings.Facts(), Seed: o.Seed, Confidence: o.Confidence,
	}
}

func newPlan(start Maker, s Settings, o Options) (*plan, error) {
	// The key is parsed as from a key file: under a key that is known to be a seed's, records say
	// that they are not private.
	key, err := noise.ParseKey(noise.KeyFromSeed(o.Seed).Reveal())
	if err != nil {
		return nil, err
	}
	s.Key, s.Streams = key, nil
	given, err := mechanism.NewSanitizer(s.Model, noise.NewKeyed(s.Key), s.Release)
	if err != nil {
		return nil, err
	}
	if s.Model.Grid.Cells() < 2 {
		return nil, errors.New("the map has no more than one place: take smaller cells")
	}
	s.Release = given.Options()
	if r := s.Release; r.Mechanism != law.Lattice && !s.coded() ||
		r.Inference != mechanism.InferenceSurrogate {
		return nil, fmt.Errorf("%s with %s inference has no proof to contradict: audit codebook "+
			"or lattice", r.Mechanism, r.Inference)
	}
	plain, err := mechanism.NewSanitizer(s.Model, noise.NewKeyed(s.Key), PlainRules(s.Release))
	if err != nil {
		return nil, err
	}
	const someDay = 1_700_000_000_000 // an arbitrary recent time
	p := &plan{
		start: start, settings: s, plain: plain.Options(), sizes: o.Sizes, seed: o.Seed,
	}
	p.hours, err = hours.New(s.Release.Hours)
	p.firstStep = p.open(s.Model.StepAt(someDay))
	return p, err
}

// meet finds the situations: those of forced shapes, and those that users meet who move.
func meet(ctx context.Context, p *plan, o Options, r *Report) error {
	scout, err := newScout(p)
	if err != nil {
		return err
	}
	if o.Traces != nil {
		err = scout.follow(ctx, o.Traces)
	} else {
		err = scout.simulate(ctx)
	}
	if err != nil {
		return err
	}
	r.Met, r.Visits, r.Simulated = len(scout.seen), scout.visits, o.Traces == nil
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
	visits int
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

// visit takes one fix of a user. A late one and another one of the same step are left out; then
// fresh is false.
func (s *scout) visit(user string, step int64, cell grid.Cell) (fresh bool, err error) {
	w, m, before := s.walker, s.walker.settings.Model, s.states[user]
	var state mechanism.State
	if err := state.DecodeBinary(before); err != nil || state.Started && step <= state.Step {
		return false, err
	}
	if state.Started {
		if err := s.consider(before, step); err != nil {
			return false, err
		}
	}
	effect, err := w.feed(fix(m.Grid, user, step*m.Step.Milliseconds(), cell, w.rng), before)
	s.states[user] = effect.State
	s.visits++
	return true, err
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

// mostOfAUser is how many steps of one user are followed: no user is to have all location sets.
const mostOfAUser = 200

// follow sends the fixes of traces past the scout.
func (s *scout) follow(ctx context.Context, reader *traces.Reader) error {
	m, seen := s.plan.settings.Model, map[string]int{}
	for fix, err := range reader.Fixes() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if seen[fix.UserID] == mostOfAUser {
			continue
		}
		cell := m.Grid.Locate(fix.Latitude, fix.Longitude)
		fresh, err := s.visit(fix.UserID, m.StepAt(fix.Timestamp), cell)
		if err != nil {
			return err
		}
		if fresh {
			seen[fix.UserID]++
		}
		if s.visits >= s.plan.sizes.Visits {
			break
		}
	}
	return nil
}

// simulate sends vehicles past the scout that move by the model, at times in which releases may be
// drawn.
func (s *scout) simulate(ctx context.Context) error {
	const vehicles = 20
	for v := range vehicles {
		walker := trial.NewWalker(s.plan.settings.Model, s.walker.rng)
		step := s.plan.moments(v).next()
		for range s.plan.sizes.Visits / vehicles {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := s.visit(userName("simulated", v), step, walker.Cell); err != nil {
				return err
			}
			walker.Move(step)
			step = s.plan.open(step + 1)
		}
	}
	return nil
}

// do runs all jobs.
func do(ctx context.Context, p *plan, o Options) ([]*result, error) {
	jobs := slices.Concat(ruleJobs(p), walkJobs(p), crowdJobs(p), factJobs(p), exponentJobs(p))
	jobs = append(jobs, job{4 * dayUsers, func() (*result, error) { return days(p) }})
	total := int64(0)
	for _, j := range jobs {
		total += int64(j.records)
	}
	results := make([]*result, len(jobs))
	pool := parallel.Pool{
		Workers: o.Workers, Size: func(n int) int64 { return int64(jobs[n].records) },
		Progress: func(done int64) error {
			if o.Progress == nil {
				return ctx.Err()
			}
			return o.Progress(done, total)
		},
	}
	return results, pool.Each(len(jobs), func(n int) (err error) {
		results[n], err = jobs[n].do()
		return err
	})
}
