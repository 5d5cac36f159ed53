package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Scout follows tracks under release, as the service would, and keeps a few of the situations that
// it meets: of the lines, the thin and the fat hulls each the one on which the attack is strongest,
// and another one at random. Under the codebook mechanism these are codebooks of two, of a few and
// of many points. A single place is no situation: it tells nothing.
type Scout struct {
	lookout   *Lookout
	sanitizer *mechanism.Sanitizer
	states    map[string]*mechanism.State
	rng       *rand.Rand
	kept      [shapes][2]*Situation
	share     [shapes]float64
	met       [shapes]int
}

// NewScout returns a scout for release options, without rules that hold releases back.
func NewScout(m *mobility.Model, o mechanism.Options, seed uint64) (*Scout, error) {
	sanitizer, err := mechanism.NewSanitizer(m, noise.NewKeyed(noise.KeyFromSeed(seed)), o)
	if err != nil {
		return nil, err
	}
	return &Scout{
		lookout: NewLookout(m, sanitizer.Options()), sanitizer: sanitizer,
		// any second word: it names the stream
		states: map[string]*mechanism.State{}, rng: rand.New(rand.NewPCG(seed, 0x73636f7574)),
	}, nil
}

// Visit takes one report of a user, steps ascending. A late one and another one of the same step
// are left out: then fresh is false.
func (s *Scout) Visit(user string, step int64, cell grid.Cell) (fresh bool, err error) {
	state := s.states[user]
	if state == nil {
		state = new(mechanism.State)
		s.states[user] = state
	}
	if state.Started && step <= state.Step {
		return false, nil
	}
	if err := s.consider(state, step); err != nil {
		return false, err
	}
	_, err = s.sanitizer.Step(
		state, mechanism.Input{User: user, Step: step, Cell: cell, Release: true},
	)
	return err == nil, err
}

// Lookout computes location sets and codebooks from public facts alone.
type Lookout struct {
	model     *mobility.Model
	options   mechanism.Options
	predictor *mobility.Predictor
	prior     mobility.Distribution
	set       locationset.Set
	quantizer *law.Quantizer // nil before the first Codebook
}

// NewLookout returns a lookout for options with their defaults filled in.
func NewLookout(m *mobility.Model, o mechanism.Options) *Lookout {
	return &Lookout{model: m, options: o, predictor: mobility.NewPredictor(m)}
}

// Cells returns the location set of a state's later step as Algorithm 1 has it. It is valid until
// the next call.
func (l *Lookout) Cells(state *mechanism.State, step int64) []grid.Cell {
	l.predict(state, step)
	padding := locationset.Padding{
		MinCells: max(l.options.MinCells, 0), RadiusKM: max(l.options.MinRadiusKM, 0),
	}
	l.set.ChoosePadded(l.model.Grid, &l.prior, l.options.Delta, padding)
	return l.set.Cells
}

// Codebook returns the codebook of a state's later step. It fails for an ε or a grid that the
// mechanism does not take.
func (l *Lookout) Codebook(state *mechanism.State, step int64) (*Codebook, error) {
	if l.quantizer == nil {
		var err error
		if l.quantizer, err = law.NewNearQuantizer(l.model.Grid, l.options.Epsilon,
			l.options.Near); err != nil {
			return nil, err
		}
	}
	l.predict(state, step)
	l.quantizer.Prepare(l.prior.Cells, l.prior.P)
	return NewCodebook(l.model.Grid, l.options.Epsilon, l.quantizer), nil
}

// predict fills the prior.
func (l *Lookout) predict(state *mechanism.State, step int64) {
	prune := max(l.options.Prune, 0)
	gap := uint64(step) - uint64(state.Step)
	if !state.Started || gap > l.options.LongestGap(l.model) {
		l.prior.CopyFrom(&l.model.Initial)
		l.prior.Prune(prune)
		return
	}
	byLaw := l.options.LearnedGaps(l.model) &&
		l.predictor.PredictGap(&l.prior, &state.Posterior, state.Step, gap, prune)
	switch {
	case byLaw:
	case gap > 1 && l.options.Mechanism == law.Codebook && l.options.Hides():
		l.rounded(state, step)
	default:
		l.predictor.PredictPruned(&l.prior, &state.Posterior, state.Step, int(gap), prune)
	}
}

// rounded fills the prior after a gap whose every step is rounded (Sanitizer.Step): the sanitizer's
// own, for which it needs neither a place nor noise.
func (l *Lookout) rounded(state *mechanism.State, step int64) {
	s, err := mechanism.NewSanitizer(l.model, noise.NewKeyed(noise.KeyFromSeed(0)), l.options)
	if err != nil {
		panic(err) // NewLookout was given valid options
	}
	var after mechanism.State
	after.CopyFrom(state)
	out, err := s.Step(&after, mechanism.Input{Step: step, Prior: true})
	if err != nil {
		panic(err)
	}
	l.prior.CopyFrom(out.Prior)
}

// Prior is the prior of the last Cells or Codebook.
func (l *Lookout) Prior() *mobility.Distribution { return &l.prior }

// consider decides whether to keep the situation that comes with a step.
func (s *Scout) consider(state *mechanism.State, step int64) error {
	at, err := s.situation(state, step)
	if err != nil {
		return err
	}
	shape := at.shape()
	if shape == shapePoint {
		return nil
	}
	slots := &s.kept[shape]
	for _, other := range slots {
		if other != nil && at.like(other) {
			return nil
		}
	}
	share := at.share()
	s.met[shape]++
	switch {
	case share > s.share[shape]:
		s.share[shape] = share
		slots[0], at = at, slots[0]
		s.remember(slots[0], state)
		if at != nil && slots[1] == nil {
			slots[1] = at
		}
	case slots[1] == nil || s.rng.IntN(s.met[shape]) == 0:
		slots[1] = at
		s.remember(at, state)
	}
	return nil
}

// situation returns the situation that comes with a step, without its state.
func (s *Scout) situation(state *mechanism.State, step int64) (*Situation, error) {
	g := s.lookout.model.Grid
	if s.lookout.options.Mechanism != law.Codebook {
		return newSituation(g, slices.Clone(s.lookout.Cells(state, step)), nil, step), nil
	}
	code, err := s.lookout.Codebook(state, step)
	if err != nil {
		return nil, err
	}
	return codeSituation(g, s.lookout.Prior(), code, s.lookout.options.Near, step), nil
}

func (s *Scout) remember(at *Situation, state *mechanism.State) {
	at.state = new(mechanism.State)
	at.state.CopyFrom(state)
}

// Situations returns what was kept: lines first, six at most.
func (s *Scout) Situations() []*Situation {
	var all []*Situation
	for shape, slots := range s.kept {
		for i, at := range slots {
			if at != nil {
				at.name = fmt.Sprintf("%s-%d", at.shapeName(shape), i+1)
				all = append(all, at)
			}
		}
	}
	return all
}

// Met returns how many different situations were seen.
func (s *Scout) Met() int {
	sum := 0
	for _, n := range s.met {
		sum += n
	}
	return sum
}
