package audit

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

const (
	// DefaultDraws is the default of Options.Draws. It takes some 10 seconds of one core.
	DefaultDraws = 1 << 16
	// leastDraws is the smallest number of draws from which a bound follows.
	leastDraws = 1000
	// Confidence is one minus the rate of false alarms of an audit. The bound on ε is the only part
	// that chance decides.
	Confidence = .999
	// duels is the number of duels that share the draws.
	duels = 16
)

// Options configure an audit.
type Options struct {
	// Draws is the number of releases in the duels; 0 means DefaultDraws.
	Draws int64
	// Seed determines the places and the noise, so that an audit can be repeated.
	Seed uint64
	// Workers is the number of goroutines, one at least. The report does not depend on it.
	Workers int
	// Progress, if set, receives how many of the releases were drawn, one call at a time. Its
	// error ends the audit.
	Progress func(done, total int64) error
}

// ValidateDraws refuses a number of draws from which no bound follows.
func ValidateDraws(draws float64) error {
	if draws != math.Trunc(draws) || math.Abs(draws) > 1e15 {
		return fmt.Errorf("--draws %g is not a number of draws: write 1e6 or 1000000", draws)
	}
	if draws < leastDraws {
		return fmt.Errorf("--draws %g is too few: a bound needs %d, and one near ε 100000", draws,
			leastDraws)
	}
	return nil
}

// Run attacks the instances that start makes under the settings. It does not use the key of the
// settings: an audit has a key of its own. An error means that the audit could not run.
//
// On a service that does what it states, the report has a finding with a probability of at most
// 1 - Confidence.
func Run(ctx context.Context, start Maker, s Settings, o Options) (*Report, error) {
	if o.Draws == 0 {
		o.Draws = DefaultDraws
	}
	s, err := prepared(s, o.Seed)
	if err != nil {
		return nil, err
	}
	results := make([]*duel, duels)
	share := func(n int) int64 { return o.Draws/duels + min(1, max(0, o.Draws%duels-int64(n))) }
	pool := parallel.Pool{Workers: o.Workers, Size: share}
	if o.Progress != nil {
		pool.Progress = func(done int64) error { return o.Progress(done, o.Draws) }
	}
	err = pool.Each(duels, func(n int) error {
		d, err := newDuel(start, s, rngOf(o.Seed, "duel", n), share(n))
		if err != nil {
			return err
		}
		results[n] = d
		return d.run(ctx)
	})
	if err != nil {
		return nil, err
	}
	return newReport(s, o, results), nil
}

// newReport adds up what the duels have found, in their order.
func newReport(s Settings, o Options, duels []*duel) *Report {
	r := &Report{
		Mechanism: s.Release.Mechanism, Epsilon: s.Release.Epsilon, Delta: s.Release.Delta,
		ModelID: s.Model.ID(), Settings: s.Facts(), Seed: o.Seed, Confidence: Confidence,
		Findings: []string{}, // an array in JSON
	}
	sum := newChecks()
	r.Checks = sum.list()
	hits, misses := int64(0), int64(0)
	for _, d := range duels {
		for i, c := range d.checks.list() {
			r.Checks[i].addCheck(c)
		}
		hits, misses = hits+d.hits, misses+d.misses
		r.Records, r.Situations = r.Records+d.records, r.Situations+d.situations
	}
	r.Bound = Bound{
		Epsilon: min(epsilonLowerBound(hits, misses, 1-Confidence), math.MaxFloat64),
		Hits:    hits, Misses: misses,
	}
	if sum.attack.Trials = hits + misses; r.Bound.Epsilon > r.Epsilon {
		sum.attack.fail("the true ε is at least %.4f", r.Bound.Epsilon)
	}
	for _, c := range r.Checks {
		if c.Failures > 0 {
			r.Findings = append(r.Findings, c.finding())
		}
	}
	r.Passed = len(r.Findings) == 0
	return r
}

// addCheck adds what another goroutine has counted.
func (c *Check) addCheck(o *Check) {
	c.Trials += o.Trials
	failures := c.Failures + o.Failures
	for _, detail := range o.Details {
		c.fail("%s", detail)
	}
	c.Failures = failures
}

// finding describes the failures of a check.
func (c *Check) finding() string {
	return fmt.Sprintf("%s: %d of %d trials (%s)", c.Name, c.Failures, c.Trials,
		strings.Join(c.Details, "; "))
}

// prepared returns settings with their defaults and an audit's own key. It refuses what no theorem
// of mechanism/PROOFS.md covers.
func prepared(s Settings, seed uint64) (Settings, error) {
	// The key is parsed as from a key file: under a key that is known to be a seed's, records say
	// that they are not private.
	key, err := noise.ParseKey(noise.KeyFromSeed(seed).Reveal())
	if err != nil {
		return s, err
	}
	s.Key, s.Streams = key, nil
	given, err := mechanism.NewSanitizer(s.Model, noise.NewKeyed(s.Key), s.Release)
	if err != nil {
		return s, err
	}
	if s.Model.Grid.Cells() < 2 {
		return s, errors.New("the map has no more than one place: take smaller cells")
	}
	s.Release = given.Options()
	if r := s.Release; r.Mechanism != law.Lattice && r.Mechanism != law.Codebook ||
		r.Inference != mechanism.InferenceSurrogate {
		return s, fmt.Errorf("%s with %s inference has no proof to contradict: audit codebook "+
			"or lattice", r.Mechanism, r.Inference)
	}
	return s, nil
}

// rngOf returns the randomness of a part of an audit, which depends on the seed and the part alone.
func rngOf(seed uint64, kind string, number int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "geodither audit of the service, %s %d", kind, number)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// epsilonLowerBound returns a number that does not exceed the true ε but with probability alpha.
// It is for an observer who is shown releases of two places, each place chosen by a fair coin, and
// guesses which one it was or says nothing; hits and misses are how often he was right and wrong. 0
// at least.
//
// Guarantee: under ε-differential privacy a release that leads to a guess is at most e^ε times as
// likely to be a hit as a miss, so given the number of guesses the hits are binomial with a
// probability q ≤ e^ε/(1+e^ε). The lower bound of Clopper and Pearson (1934, doi
// 10.1093/biomet/26.4.404) on q is the α quantile of the Beta law of hits and misses+1; it is
// exact, without an approximation by a normal law. One bound on a ratio takes the place of two on
// both probabilities, and the whole of α with it.
func epsilonLowerBound(hits, misses int64, alpha float64) float64 {
	if hits == 0 {
		return 0
	}
	q := math.Pow(alpha, 1/float64(hits)) // the quantile for no miss
	if misses > 0 {
		q = distuv.Beta{Alpha: float64(hits), Beta: float64(misses) + 1}.Quantile(alpha)
	}
	return max(math.Log(q/(1-q)), 0)
}
