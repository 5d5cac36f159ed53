package experiment

import (
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
)

// Options say what is measured, and how much.
type Options struct {
	Extent
	// Also lists what is measured beside the paper's two mechanisms; see [Alsos].
	Also []string
	// Tool is the program's name and version: what it has measured is not taken for what another
	// one would.
	Tool string
}

// Extent is how much is measured.
type Extent struct {
	// Seed makes a study repeatable: the same seed, data, options and program give the same report.
	Seed uint64
	// TimeRuns and Runs are how often the trace over time and each other trace is walked, with
	// other noise: users differ more than runs.
	TimeRuns, Runs int
	// MaxUsers bounds the traces over parameters.
	MaxUsers int
	// Epsilons and Deltas are what is swept, while the other one stays as in [Fixed].
	Epsilons, Deltas []float64
	// MechanismEpsilons and MechanismDeltas are what all mechanisms are compared at, each at its
	// best δ.
	MechanismEpsilons, MechanismDeltas []float64
}

// Full has as many traces as the paper; Quick is a first look, with wide bands.
var (
	Full = Extent{
		Seed: 1, TimeRuns: 20, Runs: 1, MaxUsers: 100,
		Epsilons: []float64{.1, .2, .5, 1, 1.5, 2}, Deltas: []float64{.001, .003, .01, .03, .1},
		MechanismEpsilons: []float64{1, 2, 4, 6}, MechanismDeltas: []float64{.01, .1, .3, .5, .7},
	}
	Quick = Extent{
		Seed: 1, TimeRuns: 6, Runs: 1, MaxUsers: 6,
		Epsilons: []float64{.1, .5, 2}, Deltas: []float64{.001, .01, .1},
		MechanismEpsilons: []float64{1, 4}, MechanismDeltas: []float64{.01, .3, .7},
	}
)

// Validate reports what cannot be used.
func (o Options) Validate() error {
	for _, also := range o.Also {
		if !slices.Contains(Alsos(), also) {
			return fmt.Errorf("%q is nothing that can be measured beside the paper's mechanisms: "+
				"choose of %v", also, Alsos())
		}
	}
	return nil
}

// Study is some data sets and options.
type Study struct {
	Data    []*Data
	Options Options
}

// New returns a study of some data sets.
func New(data []*Data, o Options) (*Study, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, errors.New("a study needs a data set")
	}
	for _, d := range data {
		if d.Places == nil {
			d.Places = Synthetic(d.Grid)
		}
	}
	return &Study{Data: data, Options: o}, nil
}

// Variant is one way to release.
type Variant struct{ Mechanism, Inference string }

// The paper's two mechanisms and the others, with inference by the law that makes the releases.
var (
	LM       = Variant{law.Laplace, mechanism.InferenceSurrogate}
	PIM      = Variant{law.PIM, mechanism.InferenceSurrogate}
	Tight    = Variant{law.LaplaceTight, mechanism.InferenceSurrogate}
	Lattice  = Variant{law.Lattice, mechanism.InferenceSurrogate}
	Codebook = Variant{law.Codebook, mechanism.InferenceSurrogate}
)

// alsoPaper adds the paper's inference.
const alsoPaper = "paper-inference"

// variants are all of them: their names in charts, and by which option they are measured.
var variants = []struct {
	Variant
	label, also string
}{
	{LM, "LM", ""},
	{PIM, "PIM", ""},
	{Tight, "LM, tight", "laplace-tight"},
	{Lattice, "lattice", "lattice"},
	{Codebook, "codebook", "codebook"},
	{Variant{law.Laplace, mechanism.InferencePaper}, "LM, paper's inference", alsoPaper},
	{Variant{law.PIM, mechanism.InferencePaper}, "PIM, paper's inference", alsoPaper},
}

// Alsos returns what Options.Also can name.
func Alsos() []string {
	var names []string
	for _, v := range variants {
		if v.also != "" && !slices.Contains(names, v.also) {
			names = append(names, v.also)
		}
	}
	return names
}

// Label is the variant's name in charts.
func (v Variant) Label() string {
	for _, k := range variants {
		if k.Variant == v {
			return k.label
		}
	}
	return v.Mechanism
}

// Variants are the paper's mechanisms and what is measured beside them.
func (s *Study) Variants() (list []Variant) {
	for _, k := range variants {
		if k.also == "" || slices.Contains(s.Options.Also, k.also) {
			list = append(list, k.Variant)
		}
	}
	return list
}

// Setting is an ε and a δ.
type Setting struct{ Epsilon, Delta float64 }

// Fixed is the setting at which nothing is swept.
var Fixed = Setting{Epsilon: 1, Delta: .01}

// Case is a data set under a kind of model.
type Case struct {
	Data *Data
	Kind Kind
}

// Title names the case in charts.
func (c Case) Title() string {
	return c.Data.Title + ", " + string(c.Kind) + " M"
}

// Cases are the paper's: every data set with the popular model, and with the personal one where
// traces are more than check-ins.
func (s *Study) Cases() (cases []Case) {
	for _, d := range s.Data {
		cases = append(cases, Case{d, Popular})
		if !d.EveryFix {
			cases = append(cases, Case{d, Personal})
		}
	}
	return cases
}

// Point is one place on the axes of an experiment: data under a kind of model, and a way to release
// at a setting. A blind point has no releases, and so neither a variant nor an ε; its δ, if there
// is one, only says how its location sets are chosen.
type Point struct {
	Case
	Variant
	Setting
	Blind bool
}

// blind is the name of the baseline that sees no release.
const blind = "blind"

// Label is the point's name in charts.
func (p Point) Label() string {
	if p.Blind {
		return blind
	}
	return p.Variant.Label()
}

// Cells are the point's name, ε and δ for a table; nil for what it does not have.
func (p Point) Cells() (label, epsilon, delta any) {
	cell := func(v float64) any {
		if v == 0 {
			return nil
		}
		return v
	}
	return p.Label(), cell(p.Epsilon), cell(p.Delta)
}

// Ways are the points of a case: each variant at each of some settings, and blind at each of their
// δ.
func (s *Study) Ways(c Case, settings ...Setting) (points []Point) {
	var deltas []float64
	for _, at := range settings {
		for _, v := range s.Variants() {
			points = append(points, Point{Case: c, Variant: v, Setting: at})
		}
		deltas = append(deltas, at.Delta)
	}
	slices.Sort(deltas)
	for _, delta := range slices.Compact(deltas) {
		points = append(points, Point{Case: c, Setting: Setting{Delta: delta}, Blind: true})
	}
	return points
}

// Settings are those that are swept, each once: the ε at the fixed δ, and the δ at the fixed ε.
func (s *Study) Settings() (list []Setting) {
	for _, epsilon := range s.Options.Epsilons {
		list = append(list, Setting{Epsilon: epsilon, Delta: Fixed.Delta})
	}
	for _, delta := range s.Options.Deltas {
		if at := (Setting{Epsilon: Fixed.Epsilon, Delta: delta}); !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// deltas are all that occur, ascending.
func (s *Study) deltas() []float64 {
	list := append(slices.Clone(s.Options.Deltas), Fixed.Delta)
	slices.Sort(list)
	return slices.Compact(list)
}

// Traces are those of a data set that are measured: up to MaxUsers of them, evenly spread.
func (s *Study) Traces(d *Data) []Trace { return spread(d.Traces, s.Options.MaxUsers) }

// spread returns at most so many traces, evenly spread over a list.
func spread(list []Trace, most int) []Trace {
	n := min(len(list), most)
	chosen := make([]Trace, 0, n)
	for i := range n {
		chosen = append(chosen, list[i*len(list)/n])
	}
	return chosen
}

// Release returns the options of a variant on a data set. Location sets are the paper's: the fewest
// cells, even a single one.
func (d *Data) Release(v Variant, epsilon, delta float64) mechanism.Options {
	gap := mechanism.DefaultMaxGap
	if !d.EveryFix {
		gap = max(gap, int(d.MaxGap/d.Step))
	}
	return mechanism.Options{
		Mechanism: v.Mechanism, Inference: v.Inference, Epsilon: epsilon, Delta: delta,
		MinCells: -1, MaxGap: gap,
	}
}
