package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// The quantities of [traceErrors]: Σ|ΔX| in cells, how often the true cell lay outside ΔX, and the
// squared distances of release and estimate to the truth, km². A walk of a single trace also has
// the place of the release, in kilometres.
const (
	setSize = iota
	drifted
	release2
	estimate2
	placeX
	placeY
)

// perDelta is how many quantities a blind walk has for each δ: the first four, where the estimate
// stands for the release too.
const perDelta = 4

// traceErrors measures the paper's metrics on whole traces.
var traceErrors = &Walks{
	Name: "errors",
	Runs: func(s *Study) int { return s.Options.Runs },
	Inputs: func(s *Study, at Point) string {
		if at.Blind {
			return fmt.Sprintf("deltas %v", s.deltas())
		}
		return ""
	},
	Probe: func(s *Study, w *Walk) (Probe, error) {
		if w.Blind {
			return blindErrors(s.deltas(), exact), nil
		}
		return releaseErrors(exact), nil
	},
}

func exact(km float64) float64 { return km }

// metre rounds to a metre: what is kept of single timestamps is no finer.
func metre(km float64) float64 { return math.Round(km*1000) / 1000 }

func squared(km float64) float64 { return float64(km * km) }

func share(of bool) float64 {
	if of {
		return 1
	}
	return 0
}

// releaseErrors adds up the releases of a walk, with distances rounded by a function.
func releaseErrors(round func(km float64) float64) Probe {
	return func(to *Sums, r *trial.Result) error {
		out := &r.Outcome
		to.Add(1, float64(out.SetSize), share(out.Drift),
			squared(round(out.Release.Distance(r.Place))),
			squared(round(out.Estimate.Distance(r.Place))), round(out.Release.X),
			round(out.Release.Y))
		return nil
	}
}

// blindErrors adds up a walk without releases: for each δ what ΔX would be if nothing were known
// but the model, and the distance of the model's own estimate.
func blindErrors(deltas []float64, round func(km float64) float64) Probe {
	var (
		prior mobility.Distribution
		set   law.LocationSet
	)
	return func(to *Sums, r *trial.Result) error {
		prior.CopyFrom(&r.State.Posterior)
		prior.Normalize()
		distance := squared(round(r.Outcome.Estimate.Distance(r.Place)))
		var values []float64
		for _, delta := range deltas {
			set.Choose(&prior, delta)
			_, in := slices.BinarySearch(set.Cells, r.Cell)
			values = append(values, float64(len(set.Cells)), share(!in), distance, distance)
		}
		to.Add(1, values...)
		return nil
	}
}

// errorsAt returns what [traceErrors] has of a point, a cluster for each user. A blind point has
// the quantities of its own δ.
func errorsAt(p *Page, at Point) Sample {
	sample := p.Read(traceErrors, at).All()
	if !at.Blind {
		return sample
	}
	k, ok := slices.BinarySearch(p.deltas(), at.Delta)
	if !ok {
		p.Fail(fmt.Errorf("experiment: δ = %g is not one of the study", at.Delta))
		return nil
	}
	for i := range sample {
		sample[i].Of = sample[i].Of[perDelta*k : perDelta*(k+1)]
	}
	return sample
}

// score is a number that a sample is judged by: the mean of a quantity, or the root of it.
type score struct {
	name     string // short: in tables of all numbers
	axis     string // with the unit
	quantity int
	per      float64 // what the quantity is a share of; 0: 1
	root     bool    // of a mean square
	log      bool    // spans powers of ten
}

// y is the axis of the score in a chart.
func (m score) y() report.Axis { return report.Axis{Label: m.axis, Log: m.log} }

func (m score) bandOf(s Sample) report.Band {
	b := s.Mean(func(sums Sums) float64 {
		if m.per != 0 {
			return sums.Of[m.quantity] / m.per
		}
		return sums.Of[m.quantity]
	})
	if m.root {
		return b.Root()
	}
	return b
}

// The paper's metrics and the estimate's distance.
var (
	setScore     = score{name: "set", axis: "|ΔX|, cells", quantity: setSize, log: true}
	driftScore   = score{name: "drift", axis: "drift, share of timestamps", quantity: drifted}
	releaseScore = score{
		name: "release", axis: "release to truth (rms), km", quantity: release2, root: true,
		log: true,
	}
	estimateScore = score{
		name: "estimate", axis: "estimate to truth (rms), km", quantity: estimate2, root: true,
	}
)

var errorScores = []score{setScore, driftScore, releaseScore, estimateScore}

// axes are what scores are called where people read them.
func axes(scores []score) map[string]string {
	names := map[string]string{"epsilon": "ε", "delta": "δ"}
	for _, s := range scores {
		names[s.name] = s.axis
	}
	return names
}
