package experiment

import (
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// nearContenders are the mechanisms whose near factors are measured.
func nearContenders() []study.Variant { return []study.Variant{study.Codebook, study.Lattice} }

// nearPlaces measures near factors on one data set.
type nearPlaces struct {
	*study.Study
	data *study.Data
}

func (x *nearPlaces) name(v study.Variant, at study.Setting, fold int) string {
	return fmt.Sprintf("mechanisms/%s/near/%s/fold %d", x.data.Name, v.At(at), fold)
}

// nearness adds up one user's near factors. The near factor of two cells is the greatest ratio of
// the probabilities with which they give the same release. Of a timestamp it is measured for the
// pairs of the true cell and the cells beside it.
type nearness struct {
	Pairs int64
	Logs  float64 // Σ ln factor
	Apart int64   // pairs whose factor is above 1
}

// pieces are a mechanism's at a setting, one for each fold.
func (x *nearPlaces) pieces(v study.Variant, at study.Setting) (pieces []study.Piece) {
	x.EachFold(x.data, func(of []study.Trace) {
		pieces = append(pieces, study.Piece{
			Name: x.name(v, at, of[0].Fold),
			Inputs: fmt.Sprintf("%s users %d seed %d", x.data.ID, len(x.Traces(x.data)),
				x.Options.Seed),
			Work: study.Timestamps(of),
			Run:  func(tick study.Tick) (any, error) { return x.measure(of, v, at, tick) },
		})
	})
	return pieces
}

// measure returns the near factors of each trace of a fold.
func (x *nearPlaces) measure(
	traces []study.Trace, v study.Variant, at study.Setting, tick study.Tick,
) ([]nearness, error) {
	d := x.data
	model, err := d.WithoutFold(traces[0].Fold)
	if err != nil {
		return nil, err
	}
	options := d.Release(v, at.Epsilon, at.Delta)
	s, err := mechanism.NewSanitizer(model, study.Keyed(x.Options.Seed, 0), options)
	if err != nil {
		return nil, err
	}
	tell, err := newTeller(d.Grid, options)
	if err != nil {
		return nil, err
	}
	found := make([]nearness, len(traces))
	for i := range traces {
		t := &traces[i]
		told := study.Strides(len(t.Steps), tick)
		err := study.Releasing(s, t.Track(d.Grid, nil), func(r *trial.Result) error {
			tell.prepare(r.Outcome.Prior)
			for _, other := range beside(d.Grid, r.Cell) {
				found[i].add(tell.logFactor(r.Cell, other))
			}
			return told(r.Number)
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (n *nearness) add(logFactor float64) {
	n.Pairs++
	n.Logs += logFactor
	if logFactor > 0 {
		n.Apart++
	}
}

// beside returns the cells of the map that share a side with a cell.
func beside(g *grid.Grid, c grid.Cell) (cells []grid.Cell) {
	column, row, width := g.Column(c), g.Row(c), grid.Cell(g.Width())
	for _, side := range []struct {
		in    bool
		shift grid.Cell
	}{
		{column > 0, -1}, {column < g.Width()-1, 1}, {row > 0, -width}, {row < g.Height()-1, width},
	} {
		if side.in {
			cells = append(cells, c+side.shift)
		}
	}
	return cells
}

// teller says by how much a release that is made under a prior tells two cells apart. It is scratch
// for one goroutine.
type teller struct {
	grid       *grid.Grid
	options    mechanism.Options
	codebook   *law.Quantizer // nil for a mechanism with a location set
	mechanism  law.Mechanism
	set        locationset.Set
	hull       law.SensitivityHull
	surrogates locationset.Surrogates
}

func newTeller(g *grid.Grid, o mechanism.Options) (t *teller, err error) {
	t = &teller{grid: g, options: o}
	if o.Mechanism == law.Codebook {
		t.codebook, err = law.NewQuantizer(g, o.Epsilon)
	} else {
		t.mechanism, err = o.NewMechanism()
	}
	return t, err
}

func (t *teller) prepare(prior *mobility.Distribution) {
	if t.codebook != nil {
		t.codebook.Prepare(prior.Cells, prior.P)
		return
	}
	t.set.Choose(prior, t.options.Delta)
	t.hull.OfCells(t.grid, t.set.Cells)
	t.surrogates.Reset(t.grid, t.set.Cells)
	t.mechanism.Prepare(&t.hull, t.options.Epsilon)
}

// logFactor returns the greatest ln(P(z|a)/P(z|b)) over all releases z. A codebook has ε where the
// cells vote differently. K-norm noise is by ε‖σ(a)-σ(b)‖_K more probable at the surrogate
// σ(a).
func (t *teller) logFactor(a, b grid.Cell) float64 {
	if t.codebook != nil {
		if t.codebook.Vote(a) == t.codebook.Vote(b) {
			return 0
		}
		return t.options.Epsilon
	}
	from := t.grid.Centre(t.set.Cells[t.surrogates.Nearest(a)])
	to := t.grid.Centre(t.set.Cells[t.surrogates.Nearest(b)])
	if from == to {
		return 0
	}
	var exponent [1]float64
	t.mechanism.Exponents(exponent[:], from, []convex.Vec{convex.Vec(to)})
	return -exponent[0]
}

// bands returns the mean of ln factor, and the share of pairs that are told apart, over users.
func (x *nearPlaces) bands(
	r *study.Results, v study.Variant, at study.Setting,
) (logs, apart study.Band, err error) {
	users, err := study.Gathered(x.Study, x.data, func(fold int) ([]nearness, error) {
		var got []nearness
		err := r.Get(x.name(v, at, fold), &got)
		return got, err
	})
	var sums, counts, pairs []float64
	for _, n := range users {
		sums, counts = append(sums, n.Logs), append(counts, float64(n.Apart))
		pairs = append(pairs, float64(n.Pairs))
	}
	return study.Ratio(sums, pairs), study.Ratio(counts, pairs), err
}
