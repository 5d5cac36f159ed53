// Package audit attacks a mechanism and bounds its true ε from below.
//
// A [Scout] follows tracks under release and keeps a few situations: a location set, and the
// state that led to it. [Run] draws releases of two places in each situation, guesses which
// place each came from, and tests what must hold without exception. A [Subject] is what is
// attacked: [Sanitizers] is the real one, and the tests have broken ones.
//
//	audit.go      Run, its options and its report
//	scout.go      situations along tracks; situation.go describes one
//	attack.go     the closed-form attack; events.go its guesses, bound.go its bound
//	bits.go       the low bits of releases
//	outcome.go    bytes that must not depend on the truth
//	separation.go whether each fact of a release changes its noise; noise.go compares noise
//	ratio.go      the exponents of all pairs of places, with K built by brute force in span.go
//	codebook.go   what takes the place of sets, surrogates and hulls under the codebook mechanism:
//	              the code points, votes by definition, and the law of answers
package audit

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Options say how hard an audit tries. The zero value of each field means its default.
type Options struct {
	// Draws is the number of releases that the attack draws, default 10⁶. Bounds tighten with its
	// root.
	Draws int64
	// Seed makes an audit repeatable: the same seed, code, model and situations give the same
	// report.
	Seed uint64
	// Confidence that no bound of the attack exceeds the true ε, over all its tests together;
	// default .999. One minus it is the rate of false alarms of the attack on a mechanism whose ε
	// is exactly as stated.
	Confidence float64
	// Ratio also compares the exponents of all pairs of places; see RatioReport.
	Ratio bool
	// Workers is the number of goroutines, default one. The report does not depend on it.
	Workers int
	// Progress, if set, is told now and then how many draws are done, one call at a time. Its error
	// ends the audit.
	Progress func(done, total int64) error
}

// Defaults of Options.
const (
	DefaultDraws      = 1_000_000
	DefaultConfidence = .999
)

func (o Options) withDefaults() Options {
	if o.Draws == 0 {
		o.Draws = DefaultDraws
	}
	if o.Confidence == 0 {
		o.Confidence = DefaultConfidence
	}
	o.Workers = max(o.Workers, 1)
	return o
}

// leastDraws leaves each of a few dozen pairs of the survey a few draws.
const leastDraws = 1000

// Validate reports what cannot be used.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Draws < leastDraws {
		errs = append(errs, fmt.Errorf("%d draws tell nothing: an audit needs %d at least, and a "+
			"bound near ε a million", o.Draws, leastDraws))
	}
	if !(o.Confidence > .5 && o.Confidence < 1) {
		errs = append(errs, fmt.Errorf("confidence %g is not between .5 and 1: leave it out for %g",
			o.Confidence, DefaultConfidence))
	}
	return errors.Join(errs...)
}

// Report is what an audit has found. It holds no place and no user: of a situation it tells sizes
// and shapes.
type Report struct {
	Mechanism  string  `json:"mechanism"`
	Epsilon    float64 `json:"epsilon"`
	Delta      float64 `json:"delta"`
	ModelID    string  `json:"model_id"`
	Draws      int64   `json:"draws"`
	Seed       uint64  `json:"seed"`
	Confidence float64 `json:"confidence"`

	Situations []SituationReport `json:"situations"`
	Attack     AttackReport      `json:"attack"`
	Bits       BitsReport        `json:"bits"`
	Repeat     CheckReport       `json:"repeat"`
	Separation CheckReport       `json:"separation"`
	// Surrogates is about cells that are released as others are: as their surrogates, or under the
	// codebook mechanism as cells of one vote.
	Surrogates CheckReport  `json:"surrogates"`
	Estimates  CheckReport  `json:"estimates"`
	Law        *CheckReport `json:"law,omitempty"` // of draws from codebooks
	Ratio      *RatioReport `json:"ratio,omitempty"`

	// Passed says that nothing was found. It does not say that the mechanism is private: no attack
	// can show that.
	Passed bool `json:"passed"`
	// Findings are the faults, in words.
	Findings []string `json:"findings"`
}

// CheckReport is the outcome of a test of many trials, each of which a right mechanism passes.
type CheckReport struct {
	Trials   int      `json:"trials"`
	Failures int      `json:"failures"`
	Details  []string `json:"details,omitempty"`
}

// fail counts a failure and keeps what is new about it.
func (c *CheckReport) fail(format string, args ...any) {
	c.Failures++
	detail := fmt.Sprintf(format, args...)
	for _, known := range c.Details {
		if known == detail {
			return
		}
	}
	c.Details = append(c.Details, detail)
}

// SituationReport describes a location set or a codebook without saying where it lies.
type SituationReport struct {
	Name     string  `json:"name"`
	Cells    int     `json:"cells"`            // of the location set, or of a codebook's prior
	Points   int     `json:"points,omitempty"` // code points
	Vertices int     `json:"vertices"`         // of K
	WidthKM  float64 `json:"width_km"`         // of K's half, the greatest distance of two cells
	AreaKM2  float64 `json:"area_km2"`         // of K; 0 on a line
}

// auditor is one audit in progress.
type auditor struct {
	subject    Subject
	model      *mobility.Model
	release    mechanism.Options
	situations []*Situation
	options    Options
	done       int64
}

// facts are those of one release in a situation.
func (a *auditor) facts(at *Situation, user string, cell grid.Cell) Facts {
	return Facts{
		Key: noise.KeyFromSeed(a.options.Seed), Model: a.model, Options: a.release,
		User: user, State: at.state, Step: at.step, Cell: cell,
	}
}

func (a *auditor) rng(test string) *rand.Rand {
	return rand.New(
		noiseSource{
			noise.NewKeyed(noise.KeyFromSeed(a.options.Seed)).Stream(
				[]byte("geodither audit, " + test)),
		},
	)
}

// Run attacks a subject under a model and release options, at situations that a Scout has met. An
// error means that the audit could not be carried out, not that it found something.
//
// It runs the closed-form attack (AttackReport), and tests the low bits of releases (BitsReport),
// that the same facts give the same bytes, that each fact of a release changes its noise, that a
// cell outside the location set is published as its surrogate is, and that equal releases come with
// the same estimate, radius and kind. Under the codebook mechanism cells of one vote must be
// published in the same way, and draws must follow the stated law.
//
// False alarms on a right mechanism: 1 - Confidence for the attack; below 10⁻⁶ for the test of
// separation, and for that of a codebook's law; none for the others, which look for what cannot
// happen.
func Run(
	subject Subject, model *mobility.Model, release mechanism.Options, situations []*Situation,
	o Options,
) (*Report, error) {
	if err := errors.Join(o.Validate(), release.Validate()); err != nil {
		return nil, err
	}
	if len(situations) == 0 {
		return nil, errors.New(
			"audit: it needs a situation in which something is released; give it longer tracks")
	}
	full, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(o.Seed)), release)
	if err != nil {
		return nil, err
	}
	release = full.Options()
	a := &auditor{
		subject: subject, model: model, release: release, situations: situations,
		options: o.withDefaults(),
	}
	report := &Report{
		Mechanism: release.Mechanism, Epsilon: release.Epsilon, Delta: release.Delta,
		ModelID: model.ID(),
		Draws:   a.options.Draws, Seed: o.Seed, Confidence: a.options.Confidence,
	}
	for _, s := range situations {
		report.Situations = append(report.Situations, s.report())
	}
	separation := separate
	if release.Mechanism == law.Codebook {
		separation = separateAnswers
	}
	// The attack comes last: it takes longest.
	for _, test := range []func(*auditor, *Report) error{
		repeat, separation, surrogates, estimates, lowBits, exponents, (*auditor).attack,
	} {
		if err := test(a, report); err != nil {
			return nil, err
		}
	}
	report.judge()
	return report, nil
}

// judge turns figures into findings.
func (r *Report) judge() {
	r.Findings = []string{} // an array in JSON
	find := func(format string, args ...any) {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
	if r.Attack.Bound > r.Epsilon {
		find("two places can be told apart by more than e^ε: the true ε is at least %.4f with "+
			"confidence %g, and %g is stated (situation %s, event %q)",
			r.Attack.Bound, r.Confidence, r.Epsilon, r.Attack.Worst.Situation, r.Attack.Worst.Event)
	}
	if near := r.Attack.Near; near != nil && near.Bound > r.Attack.NearLimit {
		find("two near places can be told apart by more than the near factor e^%.4f: by e^%.4f at "+
			"least with confidence %g (situation %s, event %q)", r.Attack.NearLimit, near.Bound,
			r.Confidence, near.Situation, near.Event)
	}
	if r.Bits.Certain > 0 {
		find("the low bits of %d of %d releases (%.2g %%) prove that they do not come from the "+
			"other place: no finite ε holds for the numbers that are published",
			r.Bits.Certain, r.Bits.Draws, 100*r.Bits.Share())
	}
	if r.Bits.OffLattice > 0 {
		shared := "do not lie on the lattice"
		if r.Law != nil {
			shared = "are none of the code points"
		}
		find("%d of %d releases %s that all places share: their bits depend on more than the "+
			"place that was drawn", r.Bits.OffLattice, r.Bits.Draws, shared)
	}
	check := func(name string, of CheckReport) {
		if of.Failures > 0 {
			find("%s: %d of %d trials (%s)", name, of.Failures, of.Trials,
				strings.Join(of.Details, "; "))
		}
	}
	check("the same facts do not give the same bytes", r.Repeat)
	check("releases that must be independent share their noise", r.Separation)
	if r.Law == nil {
		check("a cell outside the location set is not released as its surrogate is", r.Surrogates)
	} else {
		check("cells of one vote are not released in the same way", r.Surrogates)
		check("code points are not drawn by the stated law", *r.Law)
	}
	check("what is published beside a release depends on more than the releases", r.Estimates)
	switch {
	case r.Ratio == nil || r.Ratio.Failures == 0:
	case r.Law != nil:
		find("the weights, votes or likelihoods of a codebook are not as stated in %d of %d "+
			"comparisons", r.Ratio.Failures, r.Ratio.Comparisons)
	default:
		find("exponents of two places differ by more than ε in %d of %d comparisons, by %.6g "+
			"ε at most", r.Ratio.Failures, r.Ratio.Comparisons, r.Ratio.Worst)
	}
	r.Passed = len(r.Findings) == 0
}

// clamp makes a bound a number that JSON can hold.
func clamp(x float64) float64 { return min(max(x, 0), math.MaxFloat64) }
