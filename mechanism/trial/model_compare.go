package trial

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Of a comparison: the simulated tracks, and the steps of each.
const comparedTracks, comparedSteps = 60, 60

// Comparison says how far a model B is from a model A on the same grid, at the same step. Total
// variations lie between 0 and 1.
type Comparison struct {
	// Initial is the total variation between the initial distributions.
	Initial float64 `json:"initial_tv"`
	// RowMean and RowWorst are the mean and the largest total variation of two rows, over the hours
	// of a week where there are classes. The mean is weighted by popularity: the mean of the two
	// initial distributions.
	RowMean  float64 `json:"row_tv_mean"`
	RowWorst float64 `json:"row_tv_worst"`
	// Rows is the number of cells whose rows differ at all.
	Rows int `json:"rows_that_differ"`

	Epsilon float64 `json:"epsilon"` // of the simulated releases
	Delta   float64 `json:"delta"`
	// AofA and BofA are what the filter does with tracks that are simulated from A, released under
	// A and under B. The drift of the first is about δ.
	AofA FilterRun `json:"tracks_of_a_under_a"`
	BofA FilterRun `json:"tracks_of_a_under_b"`
}

// FilterRun is what one simulated filter did.
type FilterRun struct {
	Drift     float64 `json:"drift"`
	DriftLow  float64 `json:"drift_low"` // 95 %, over tracks
	DriftHigh float64 `json:"drift_high"`
	SetMean   float64 `json:"set_mean"` // |ΔX|, cells
	Estimate  float64 `json:"estimate_mean_m"`
	Blind     float64 `json:"blind_mean_m"`
}

// ErrOtherMap says that two models cannot be compared row by row.
var ErrOtherMap = errors.New("the models have another grid or step")

// CompareModels says how far b is from a. It returns [ErrOtherMap], and why, for models of another grid
// or step. Of the options it uses Seed, Workers and Progress.
//
// Cost: one pass over the transitions for each pair of classes that meet in a week, and the
// simulation: 3,600 releases under each model, by the lattice at ε = 1 and δ = .01. Under the
// codebook no release drifts, so drift would compare nothing. The same arguments give the same
// figures.
func CompareModels(a, b *mobility.Model, o FitOptions) (*Comparison, error) {
	if a.Grid.ID() != b.Grid.ID() {
		return nil, fmt.Errorf("%w: %d × %d cells of %g m and %d × %d of %g m, or elsewhere; "+
			"train both with the same box and cell", ErrOtherMap,
			a.Grid.Width(), a.Grid.Height(), a.Grid.CellM(), b.Grid.Width(), b.Grid.Height(),
			b.Grid.CellM())
	}
	if a.Step != b.Step {
		return nil, fmt.Errorf("%w: steps of %s and %s; train both with the same step",
			ErrOtherMap, a.Step, b.Step)
	}
	o.Release = mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .01}
	o.Deltas, o.MinSegment = []float64{}, 1
	c := &Comparison{Epsilon: o.Release.Epsilon, Delta: o.Release.Delta}
	c.rows(a, b)
	for _, run := range []struct {
		model *mobility.Model
		into  *FilterRun
	}{{a, &c.AofA}, {b, &c.BofA}} {
		f, err := MeasureFit(run.model, simulated(a, o.Seed), o)
		if err != nil {
			return nil, err
		}
		at := f.Calibration[0]
		*run.into = FilterRun{at.Drift, at.Low, at.High, at.SetMean, f.Estimate.Mean, f.Blind.Mean}
	}
	return c, nil
}

// simulated yields tracks that move as the model says.
func simulated(m *mobility.Model, seed uint64) iter.Seq[mobility.Track] {
	return func(yield func(mobility.Track) bool) {
		// any second word: it names the stream
		rng := rand.New(rand.NewPCG(seed, 0x636f6d70617265))
		// Starts are spread over a week, so that each class has its share.
		week := int64(7 * 24 * time.Hour / m.Step)
		for i := range int64(comparedTracks) {
			first := week * i / comparedTracks
			track := mobility.Track{User: fmt.Sprintf("simulated-%06d", i)}
			walker := NewWalker(m, rng)
			for step := first; step < first+comparedSteps; step++ {
				track.Steps = append(track.Steps, step)
				track.Cells = append(track.Cells, walker.Cell)
				walker.Move(step)
			}
			if !yield(track) {
				return
			}
		}
	}
}

// meeting is a pair of classes and the share of a week's hours in which both hold.
type meeting struct {
	a, b  int
	share float64
}

func meetings(a, b *mobility.Model) (list []meeting) {
	const hours = 7 * 24
	for hour := range int64(hours) {
		at := hour * time.Hour.Milliseconds()
		of, with := a.Calendar.ClassAt(at), b.Calendar.ClassAt(at)
		i := slices.IndexFunc(list, func(m meeting) bool { return m.a == of && m.b == with })
		if i < 0 {
			i, list = len(list), append(list, meeting{of, with, 0})
		}
		list[i].share += 1. / hours
	}
	return list
}

// rows compares the initial distributions and the rows.
func (c *Comparison) rows(a, b *mobility.Model) {
	c.Initial = variation(a.Initial.Cells, a.Initial.P, b.Initial.Cells, b.Initial.P)
	popular := popularity(a, b)
	together := meetings(a, b)
	var rowA, rowB mobility.Distribution
	for cell := range grid.Cell(a.Grid.Cells()) {
		tv := 0.0
		for _, m := range together {
			a.Row(&rowA, m.a, cell)
			b.Row(&rowB, m.b, cell)
			v := variation(rowA.Cells, rowA.P, rowB.Cells, rowB.P)
			tv += float64(m.share * v)
			c.RowWorst = max(c.RowWorst, v)
		}
		if tv == 0 {
			continue
		}
		c.Rows++
		c.RowMean += float64(popular[cell] * tv)
	}
}

// popularity is the mean of the initial distributions, per cell.
func popularity(models ...*mobility.Model) []float64 {
	p := make([]float64, models[0].Grid.Cells())
	for _, m := range models {
		for i, c := range m.Initial.Cells {
			p[c] += m.Initial.P[i] / float64(len(models))
		}
	}
	return p
}

// variation is half the sum of the absolute differences of two sparse distributions, over ascending
// cells.
func variation(a []grid.Cell, p []float64, b []grid.Cell, q []float64) float64 {
	sum := 0.0
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case j == len(b) || i < len(a) && a[i] < b[j]:
			sum += p[i]
			i++
		case i == len(a) || b[j] < a[i]:
			sum += q[j]
			j++
		default:
			sum += math.Abs(p[i] - q[j])
			i++
			j++
		}
	}
	return min(sum/2, 1)
}
