package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

const (
	// oncePlaces bounds the cells of a prior: finding the bound takes about .1 s for 40 cells, and
	// more than ten times that for twice as many.
	oncePlaces = 40
	// fewestPlaces is how few cells may be left of a prior for which the bound is not found.
	fewestPlaces = 5
	// oncePriors is how many priors of a data set are measured at each ε; quickPriors with few of
	// everything.
	oncePriors, quickPriors = 12, 4
	// onceDraws is how many releases of the lattice are drawn from a prior. The mean of the
	// posterior variance is then known to about half a percent.
	onceDraws = 4000
)

// Quantities of single releases. Errors are shares of the prior's variance; behind reachedError
// is that of the lattice for each δ.
const (
	onceMass     = iota // of the filter's prior that the places hold
	boundError          // no ε-DP mechanism has less
	reachedError        // what the best mechanism that was found has
	codebookError
	latticeError
)

// singles measures single releases on one data set: expected squared distances from the truth to
// the mean of the posterior. The clusters are priors.
type singles struct {
	*Study
	data *Data
}

func (x *singles) priors() int {
	if x.Options.Quick {
		return quickPriors
	}
	return oncePriors
}

func (x *singles) piece(epsilon float64, i int) string {
	return fmt.Sprintf("mechanisms/once/%s/ε %g/prior %d", x.data.Name, epsilon, i)
}

// pieces are one for each prior and ε.
func (x *singles) pieces() (pieces []Piece) {
	o := x.Options
	for _, epsilon := range o.MechanismEpsilons {
		for i := range x.priors() {
			pieces = append(pieces, Piece{
				Name: x.piece(epsilon, i),
				Inputs: fmt.Sprintf("%s users %d seed %d deltas %v priors %d", x.data.ID,
					len(x.Traces(x.data)), o.Seed, o.MechanismDeltas, x.priors()),
				Work: onceDraws / 10,
				Run:  func(Tick) (any, error) { return x.measure(epsilon, i) },
			})
		}
	}
	return pieces
}

// read returns one release from each prior at an ε, and with which of the δ the lattice's mean
// error is least.
func (x *singles) read(p *Page, epsilon float64) (all Sample, bestDelta int) {
	for i := range x.priors() {
		var one Sums
		p.Fail(p.Results.Get(x.piece(epsilon, i), &one))
		if len(one.Of) > 0 {
			all = append(all, one)
		}
	}
	least := 0.
	for k := range x.Options.MechanismDeltas {
		if v := mean(latticeError+k, all).Value; k == 0 || v < least {
			bestDelta, least = k, v
		}
	}
	return all, bestDelta
}

// errMet ends a trace at the timestamp that it was run for.
var errMet = errors.New("experiment: the timestamp is met")

// prior returns the i-th prior: what the filter expects at a timestamp of a user, under the
// codebook at ε. Users and timestamps are evenly spread.
func (x *singles) prior(epsilon float64, i int) (*mobility.Distribution, error) {
	d, traces := x.data, x.Traces(x.data)
	n := x.priors()
	t := &traces[i*len(traces)/n]
	model, err := d.WithoutFold(t.Fold)
	if err != nil {
		return nil, err
	}
	s, err := mechanism.NewSanitizer(model, Keyed(x.Options.Seed, 0),
		d.Release(Codebook, epsilon, Fixed.Delta))
	if err != nil {
		return nil, err
	}
	last := (i + 1) * (len(t.Steps) - 1) / n
	var prior mobility.Distribution
	err = Releasing(s, t.Track(d.Grid, nil), func(r *trial.Result) error {
		if r.Number < last {
			return nil
		}
		prior.CopyFrom(r.Outcome.Prior)
		return errMet
	})
	if err != nil && !errors.Is(err, errMet) {
		return nil, err
	}
	return &prior, nil
}

// mostProbable makes dst the n most probable cells of a prior, with masses that sum to 1, and
// returns their mass in the prior.
func mostProbable(dst, prior *mobility.Distribution, n int) (mass float64) {
	order := make([]int, prior.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(prior.P[b], prior.P[a]), cmp.Compare(a, b))
	})
	order = order[:min(n, len(order))]
	slices.Sort(order) // cells ascend
	dst.Reset()
	for _, i := range order {
		dst.Cells, dst.P = append(dst.Cells, prior.Cells[i]), append(dst.P, prior.P[i])
		mass += prior.P[i]
	}
	dst.Normalize()
	return mass
}

// measure measures one release from the i-th prior. The codebook's error is exact and the
// bound's certain; the lattice's is a mean over draws.
func (x *singles) measure(epsilon float64, i int) (*Sums, error) {
	whole, err := x.prior(epsilon, i)
	if err != nil {
		return nil, err
	}
	g := x.data.Grid
	prior, least, mass, err := bounded(g, whole, epsilon)
	if err != nil {
		return nil, err
	}
	if least.Variance == 0 { // one cell: no release tells anything
		ones := slices.Repeat([]float64{1}, latticeError+len(x.Options.MechanismDeltas))
		ones[onceMass] = mass
		return &Sums{N: 1, Of: ones}, nil
	}
	response, err := responseOf(g, prior, epsilon)
	if err != nil {
		return nil, err
	}
	codebook := expectedError(centres(g, prior), prior.P, response)
	errs := []float64{least.Bound, least.Reached, codebook}
	for _, delta := range x.Options.MechanismDeltas {
		drawn, err := x.drawn(prior, Setting{Epsilon: epsilon, Delta: delta}, i)
		if err != nil {
			return nil, err
		}
		errs = append(errs, drawn)
	}
	for k := range errs {
		errs[k] /= least.Variance
	}
	return &Sums{N: 1, Of: append([]float64{mass}, errs...)}, nil
}

// bounded returns the most probable cells of a prior, their mass in it, and the bound for them. The
// search for the bound may not converge where masses span many powers of ten: then fewer cells are
// taken.
func bounded(
	g *grid.Grid, whole *mobility.Distribution, epsilon float64,
) (prior *mobility.Distribution, least leastError, mass float64, err error) {
	prior = &mobility.Distribution{}
	for n := oncePlaces; n >= fewestPlaces; n = n * 3 / 4 {
		mass = mostProbable(prior, whole, n)
		if least, err = leastSquaredError(centres(g, prior), prior.P, epsilon); err == nil {
			break
		}
	}
	return prior, least, mass, err
}

func centres(g *grid.Grid, d *mobility.Distribution) (places []grid.Point) {
	for _, c := range d.Cells {
		places = append(places, g.Centre(c))
	}
	return places
}

// responseOf returns the probability of each code point at each cell of a prior.
func responseOf(
	g *grid.Grid, prior *mobility.Distribution, epsilon float64,
) (rows [][]float64, err error) {
	q, err := law.NewQuantizer(g, epsilon)
	if err != nil {
		return nil, err
	}
	q.Prepare(prior.Cells, prior.P)
	m := len(q.Points())
	all := 1 + float64(m-1)*(float64(q.Other())*0x1p-64)
	for j := range m {
		row := q.Likelihoods(nil, j, prior.Cells)
		for i := range row {
			row[i] /= all
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// drawn returns the mean variance of the posterior after a release of the lattice, km², over draws
// of the true cell from the prior and of the release.
func (x *singles) drawn(
	prior *mobility.Distribution, at Setting, number int,
) (float64, error) {
	g := x.data.Grid
	options := x.data.Release(Lattice, at.Epsilon, at.Delta)
	e, err := mechanism.NewEmission(g, options)
	if err != nil {
		return 0, err
	}
	e.Prepare(prior)
	noise, err := options.NewMechanism()
	if err != nil {
		return 0, err
	}
	noise.Prepare(e.Hull(), at.Epsilon)
	source, err := Keyed(x.Options.Seed, 0).On(0,
		fmt.Appendf(nil, "one release of prior %d, %v", number, at))
	if err != nil {
		return 0, err
	}
	var posterior mobility.Distribution
	sum := 0.
	for k := range onceDraws {
		i := stratum(prior.P, (float64(k)+.5)/onceDraws)
		z := noise.Sample(source, e.Surrogate(prior.Cells[i]))
		mobility.Update(&posterior, prior, e.Likelihoods(z, prior.Cells))
		sum += variance(g, &posterior)
	}
	return sum / onceDraws, nil
}

// stratum returns the cell in which a prior's distribution function passes u. Evenly spread u meet
// each cell as often as its probability says, which leaves only the release to chance.
func stratum(p []float64, u float64) int {
	for i, v := range p {
		if u -= v; u < 0 {
			return i
		}
	}
	return len(p) - 1
}

// variance returns the variance of a distribution about its mean, km².
func variance(g *grid.Grid, d *mobility.Distribution) (sum float64) {
	mean := d.Mean(g)
	for i, c := range d.Cells {
		distance := g.Centre(c).Distance(mean)
		sum += float64(d.P[i] * float64(distance*distance))
	}
	return sum
}
