package experiment

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
)

// Variant is one way to release.
type Variant struct{ Mechanism, Inference string }

// The paper's two mechanisms, with inference by the law that makes the releases.
var (
	LM  = Variant{law.Laplace, mechanism.InferenceSurrogate}
	PIM = Variant{law.PIM, mechanism.InferenceSurrogate}
)

// Label is the variant's name in figures.
func (v Variant) Label() string {
	name := map[string]string{
		law.Laplace: "LM", law.PIM: "PIM", law.Lattice: "lattice", law.LaplaceTight: "LM, tight", law.KNorm: "K-norm",
	}[v.Mechanism]
	if v.Inference == mechanism.InferencePaper {
		name += ", paper's inference"
	}
	return name
}

// look is the variant's look in every figure.
func (v Variant) look() int {
	look := map[string]int{law.PIM: 1, law.Laplace: 2, law.Lattice: 3, law.LaplaceTight: 4}[v.Mechanism]
	if v.Inference == mechanism.InferencePaper {
		return look + 18 // the same colour, dashes and markers of no other variant
	}
	return look
}

// group is variants that are drawn together.
type group struct {
	name, title string
	variants    []Variant
}

// groups are what the figures compare: the paper's mechanisms, and by option others with them.
func (s *Study) groups() []group {
	groups := []group{{"", "", []Variant{LM, PIM}}}
	beside := group{"mechanisms", "the paper's mechanisms and others", []Variant{LM, PIM}}
	if s.also(AlsoTight) {
		beside.variants = append(beside.variants, Variant{law.LaplaceTight, mechanism.InferenceSurrogate})
	}
	if s.also(AlsoLattice) {
		beside.variants = append(beside.variants, Variant{law.Lattice, mechanism.InferenceSurrogate})
	}
	if len(beside.variants) > 2 {
		groups = append(groups, beside)
	}
	if s.also(AlsoPaper) {
		groups = append(groups, group{"inference", "inference by the law of the releases, and by the paper's formula", []Variant{
			LM, PIM, {law.Laplace, mechanism.InferencePaper}, {law.PIM, mechanism.InferencePaper},
		}})
	}
	return groups
}

// Variants are the paper's mechanisms and what is measured beside them.
func (s *Study) Variants() (list []Variant) {
	for _, g := range s.groups() {
		for _, v := range g.variants {
			if !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
	}
	return list
}

// Release returns the options of a variant on a data set. Location sets are the paper's: the fewest cells, even a single one.
func (d *Data) Release(v Variant, epsilon, delta float64) mechanism.Options {
	gap := mechanism.DefaultMaxGap
	if !d.EveryFix {
		gap = max(gap, int(d.MaxGap/d.Step))
	}
	return mechanism.Options{Mechanism: v.Mechanism, Inference: v.Inference, Epsilon: epsilon, Delta: delta, MinCells: -1, MaxGap: gap}
}

// Keyed returns the noise of one run. Runs, and studies of other seeds, are independent.
func Keyed(seed uint64, run int) noise.Streams {
	message := binary.BigEndian.AppendUint64([]byte("geodither experiment run "), seed)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(message, uint64(run)))
	return noise.NewKeyed(noise.KeyFromSeed(binary.BigEndian.Uint64(sum[:])))
}

// track returns the trace for a runner; personal may be nil.
func (t *Trace) track(g *grid.Grid, personal *mobility.Personal) trial.Track {
	return trial.Track{User: t.User, Personal: personal, Reports: trial.Centres(g, t.Steps, t.Cells)}
}

// releasing runs a trace with a release at each timestamp.
func releasing(s *mechanism.Sanitizer, t trial.Track, visit func(*trial.Result) error) error {
	return (&trial.Runner{Sanitizer: s, Release: true}).Run(t, visit)
}

// blindly runs a trace without releases. sets are, for each δ, the location set of the prior: what ΔX would be if nothing were known
// but the model.
func blindly(m *mobility.Model, o mechanism.Options, t trial.Track, deltas []float64, visit func(r *trial.Result, sets []locationset.Set) error) error {
	s, err := mechanism.NewSanitizer(m, Keyed(0, 0), o)
	if err != nil {
		return err
	}
	sets := make([]locationset.Set, len(deltas))
	var prior mobility.Distribution
	return (&trial.Runner{Sanitizer: s}).Run(t, func(r *trial.Result) error {
		prior.CopyFrom(&r.State.Posterior)
		prior.Normalize()
		for k, delta := range deltas {
			sets[k].Choose(&prior, delta)
		}
		return visit(r, sets)
	})
}

// Tally adds up what one user's timestamps give. Distances are in kilometres.
type Tally struct {
	N                   int64   // timestamps, of all runs
	Set                 float64 // Σ|ΔX|
	Drift               float64 // how often the true cell lay outside ΔX
	Release, Release2   float64 // Σ distance, Σ distance²
	Estimate, Estimate2 float64
}

func (t *Tally) add(set int, drift bool, releaseKM, estimateKM float64) {
	t.N++
	t.Set += float64(set)
	if drift {
		t.Drift++
	}
	t.Release += releaseKM
	t.Release2 += float64(releaseKM * releaseKM)
	t.Estimate += estimateKM
	t.Estimate2 += float64(estimateKM * estimateKM)
}

// addResult adds a release at a timestamp.
func (t *Tally) addResult(r *trial.Result) {
	out := &r.Outcome
	t.add(out.SetSize, out.Drift, out.Release.Distance(r.Place), out.Estimate.Distance(r.Place))
}
