package audit

import (
	"fmt"
	"math/rand/v2"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
)

// Sizes say how much a probe tests.
type Sizes struct {
	Users     int // releases from the first forced location set
	Shapes    int // releases from each other location set
	Streams   int // releases among which equal noise is looked for
	Facts     int // users before and after each change of a fact
	Vehicles  int // long runs
	Steps     int // records of each long run; from codebooks four times as many
	RuleSteps int // records under each set of rules
	Visits    int // records of users who are followed for location sets
}

// plan is what the jobs of a probe share. None of it changes once they run.
type plan struct {
	start      Maker
	settings   Settings          // with the given rules of release
	plain      mechanism.Options // with a release in every step
	hours      *hours.Hours      // of the given rules
	sizes      Sizes
	seed       uint64
	firstStep  int64
	situations []situation
}

// steps returns the number of records of a long run. An answer from a codebook says less about ε
// than noise does: it has a few bits.
func (p *plan) steps() int {
	if p.settings.coded() {
		return 4 * p.sizes.Steps
	}
	return p.sizes.Steps
}

// job is a part of a probe that runs by itself, on instances of its own.
type job func() (*result, error)

// result is what one job has found.
type result struct {
	checks *probeChecks
	walk   []draw // of a long run

	situation int // of a crowd, whose releases are the pool
	pool      []draw
	shifts    []grid.Point // noise in steps of the lattice
	guesses   [2]int64     // between two far places: right, wrong

	changed string // a fact, with the releases before and after
	pairs   [][2]draw
}

// rng returns the randomness of a job, which depends on the seed and the job alone.
func (p *plan) rng(kind string, number int) *rand.Rand { return rngOf(p.seed, kind, number) }

// situation is what everybody knows before a release, and the law that follows from it.
type situation struct {
	name     string
	settings Settings
	state    []byte // empty for a new user, whose law is the same in every step
	step     int64
	scouted  bool // met by a user who moves, in place of a forced shape
	law      *stated
	users    int // of its crowd
	// streams means that the releases are for finding two that share their noise.
	streams bool
}

// lawOf returns the law of a situation's release, with memory of its own.
func lawOf(at *situation) (*stated, error) {
	o, err := newObserver(at.settings)
	if err != nil {
		return nil, err
	}
	return o.law(at.state, at.step)
}

// moments enumerates steps that are spread over days, hours and minutes, and in which releases may
// be drawn.
type moments struct {
	plan *plan
	n    int64
}

func (p *plan) moments(from int) *moments { return &moments{p, int64(from)} }

// mostMoments bounds how far into the future moments reach: some 900 years.
const mostMoments = 1 << 19

// next returns the next moment. Successive ones are .618 days apart, or a step if that is longer.
func (m *moments) next() int64 {
	const apartMS = 53_395_200
	stepMS := m.plan.settings.Model.Step.Milliseconds()
	apart := max(1, apartMS/stepMS)
	for range 1000 {
		step := m.plan.firstStep + m.n%mostMoments*apart
		if m.n++; m.plan.hours.Open(step * stepMS) {
			return step
		}
	}
	return m.plan.open(m.plan.firstStep + m.n*apart)
}

// open returns the step itself, or the first later one in which release.hours let releases be
// drawn.
func (p *plan) open(step int64) int64 {
	const week = 7 * 24 * 3600 * 1000
	stepMS := p.settings.Model.Step.Milliseconds()
	for later := step; (later-step)*stepMS <= week; later++ {
		if p.hours.Open(later * stepMS) {
			return later
		}
	}
	return step
}

// coded says that the settings have codebooks.
func (s Settings) coded() bool { return s.Release.Mechanism == law.Codebook }

func userName(kind string, i int) string { return fmt.Sprintf("audit-%s-%d", kind, i) }
