package explore

import (
	"context"
	"encoding/base64"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// Anatomy is one step of one user, taken apart. Everything in it but Truth, Cell, Codebook.Own and
// Set.Surrogate is public given the model and the releases.
type Anatomy struct {
	Number int    `json:"number"` // of the fix, from 0
	TimeMS int64  `json:"time_ms"`
	Kind   string `json:"kind"`

	// Secret: the truth, the centre of its cell, and the probability that the prior gives the cell.
	Truth     Place  `json:"truth"`
	Cell      Place  `json:"cell"`
	CellPrior number `json:"cell_prior"`

	// Prior is nil where the step predicted nothing: it is late, refused, or answered from what
	// was released before.
	Prior *Field `json:"prior"`
	// Codebook or Set has what a release was drawn from; both are nil without a release.
	Codebook *Codebook `json:"codebook"`
	Set      *Set      `json:"set"`
	// Likelihood of each cell of the prior, up to a factor; nil without a release.
	Likelihood *Field `json:"likelihood"`
	// LikelihoodRange is the largest likelihood over the least. It is at most e^ε.
	LikelihoodRange float64 `json:"likelihood_range"`
	Posterior       *Field  `json:"posterior"`

	// What is published; nil where nothing is.
	Release  *Place   `json:"release"`
	Estimate *Place   `json:"estimate"`
	RadiusKM float64  `json:"radius_km"`
	Ellipse  *Ellipse `json:"ellipse"`
	Spent    float64  `json:"spent"` // Σε with it
}

// Ellipse is the 1σ ellipse of the posterior: its axes in kilometres, and the direction of the
// longer one in degrees clockwise from north.
type Ellipse struct {
	MajorKM    float64 `json:"major_km"`
	MinorKM    float64 `json:"minor_km"`
	AzimuthDeg float64 `json:"azimuth_deg"`
}

// Codebook is what a release of mechanism codebook was drawn from.
type Codebook struct {
	Points []CodePoint `json:"points"`
	Votes  *Votes      `json:"votes"` // of a view's blocks
	Own    int         `json:"own"`   // secret: the true cell's vote
	Drawn  int         `json:"drawn"`
	// OwnChance and OtherChance are the probabilities that the release is the own code point, and
	// that it is a certain other one.
	OwnChance   float64 `json:"own_chance"`
	OtherChance float64 `json:"other_chance"`
}

// CodePoint is a place that a release could be.
type CodePoint struct {
	Place
	Prior float64 `json:"prior"` // of the cells that vote for it, together
}

// Set is what a release of the other mechanisms was drawn from.
type Set struct {
	Cells *Field  `json:"cells"` // how many cells of each block belong to ΔX
	Size  int     `json:"size"`  // |ΔX|
	Hull  []Place `json:"hull"`  // vertices of Conv(ΔX)
	// Body has the vertices of K, the sensitivity hull, around 0.
	Body      []Place `json:"body"`
	Surrogate Place   `json:"surrogate"` // secret: the centre of the true cell's surrogate
	Drift     bool    `json:"drift"`     // secret: the true cell lies outside ΔX
}

// dissect takes the step of a user's fix apart, as far as an area shows it. It takes the step
// again, from the state before it.
func dissect(ctx context.Context, t *Truth, c *course, i int, shown area) (*Anatomy, error) {
	state, err := t.before(ctx, c, i)
	if err != nil {
		return nil, err
	}
	row, err := c.part(ctx, i, 1, 0)
	if err != nil {
		return nil, err
	}
	fix, g := c.Fixes[i], c.model.Grid
	v := shown.of(g)
	cell := g.Locate(fix.Latitude, fix.Longitude)
	a := &Anatomy{
		Number: i, TimeMS: fix.Timestamp, Kind: row.Kind[0],
		Truth: placeOf(g.ToMap(fix.Latitude, fix.Longitude)), Cell: placeOf(g.Centre(cell)),
		CellPrior: number(math.NaN()), Spent: float64(row.SpentEps[0]),
	}
	if a.Kind == kindRefused || a.Kind == mechanism.Late.String() {
		if state.Started {
			a.Posterior = fieldOfMass(v, &state.Posterior)
		}
		return a, nil
	}
	s, err := mechanism.NewSanitizer(c.model, noise.NewKeyed(noise.KeyFromSeed(c.Settings.Seed)),
		c.options)
	if err != nil {
		return nil, err
	}
	out, err := s.Step(state, mechanism.Input{
		User: fix.UserID, Step: c.model.StepAt(fix.Timestamp), Cell: cell, Release: true,
		Prior: true, Near: true,
	})
	if err != nil {
		return nil, err
	}
	a.publish(v, g, &out, state)
	if out.Prior == nil {
		return a, nil
	}
	a.Prior = fieldOfMass(v, out.Prior)
	a.CellPrior = number(out.Prior.At(cell))
	if out.Kind != mechanism.Released {
		return a, nil
	}
	return a, a.draw(c, v, &out, cell)
}

// publish fills in what everybody sees.
func (a *Anatomy) publish(
	v view, g *grid.Grid, out *mechanism.Outcome, after *mechanism.State,
) {
	a.Posterior = fieldOfMass(v, &after.Posterior)
	if !out.Kind.Published() {
		return
	}
	a.Estimate, a.RadiusKM = new(placeOf(out.Estimate)), out.RadiusKM
	if out.Kind != mechanism.Predicted {
		a.Release = new(placeOf(out.Release))
	}
	e := mechanism.EllipseOf(g, &after.Posterior)
	a.Ellipse = &Ellipse{e.MajorKM, e.MinorKM, e.AzimuthDeg}
}

// draw fills in what a release was drawn from, and what follows from it for each cell.
func (a *Anatomy) draw(
	c *course, v view, out *mechanism.Outcome, cell grid.Cell,
) error {
	e, err := mechanism.NewEmission(c.model.Grid, c.options)
	if err != nil {
		return err
	}
	e.Prepare(out.Prior)
	if e.Codebook() != nil {
		a.codebook(e, v, out, cell)
	} else {
		a.set(e, v, cell)
	}
	likelihood := e.Likelihoods(out.Release, out.Prior.Cells)
	a.Likelihood = fieldOf(v, out.Prior.Cells, likelihood, math.Max, 0)
	a.LikelihoodRange = slices.Max(likelihood) / slices.Min(likelihood)
	return nil
}

// codebook describes the code points of a prior.
func (a *Anatomy) codebook(
	e *mechanism.Emission, v view, out *mechanism.Outcome, cell grid.Cell,
) {
	q := e.Codebook()
	b := &Codebook{
		Votes: &Votes{
			v.column / v.block, v.row / v.block, v.blocksWide(), v.blocksHigh(), v.block,
			base64.StdEncoding.EncodeToString(q.Votes(nil, v.middles())),
		},
		Own: q.Vote(cell), Drawn: q.Nearest(out.Release),
	}
	for j := range q.Points() {
		b.Points = append(b.Points, CodePoint{Place: placeOf(q.Place(j))})
	}
	for i, vote := range q.Votes(nil, out.Prior.Cells) {
		b.Points[vote].Prior += out.Prior.P[i]
	}
	other := float64(q.Other()) / math.Exp2(64)
	all := 1 + float64(len(b.Points)-1)*other
	b.OwnChance, b.OtherChance = 1/all, other/all
	a.Codebook = b
}

// set describes the location set, its hull and the surrogate.
func (a *Anatomy) set(e *mechanism.Emission, v view, cell grid.Cell) {
	g, cells := e.Grid(), e.Set()
	own := e.Surrogate(cell)
	shown := &Set{Size: len(cells), Surrogate: placeOf(g.Centre(own)), Drift: own != cell}
	shown.Cells = fieldOf(v, cells, slices.Repeat([]float64{1}, len(cells)), sum, 0)
	side := g.CellKM()
	for _, v := range convex.HullOfCells(nil, cells, g.Width()) {
		shown.Hull = append(shown.Hull,
			Place{(float64(v.X) + .5) * side, (float64(v.Y) + .5) * side})
	}
	for _, v := range e.Hull().Body().Vertices() {
		shown.Body = append(shown.Body, Place(v))
	}
	a.Set = shown
}

// middles returns the cell in the middle of each block, row by row from the south.
func (v view) middles() []grid.Cell {
	cells := make([]grid.Cell, 0, v.blocksWide()*v.blocksHigh())
	for row := range v.blocksHigh() {
		y := min(v.row+row*v.block+v.block/2, v.high-1)
		for column := range v.blocksWide() {
			x := min(v.column+column*v.block+v.block/2, v.wide-1)
			cells = append(cells, grid.Cell(y*v.wide+x))
		}
	}
	return cells
}
