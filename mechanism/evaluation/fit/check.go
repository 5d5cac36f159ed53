package fit

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Remark is something suspicious about a model: releases under it will probably disappoint.
type Remark struct {
	Name string `json:"name"` // short, and always the same for the same thing
	Text string `json:"text"` // what it is and what to do
}

// Thresholds of remarks. Shares are shares of popularity, which is the initial distribution.
const (
	// sureRow is the probability above which a row holds one column for certain: a filter with δ =
	// .01 then has a location set of one cell.
	sureRow   = .99
	sureShare = .05
	// A step in which nearly everybody stays, or nearly nobody, does not suit the cells.
	muchStay, littleStay = .97, .05
	// minUsers: a model trained on fewer users describes individuals, not a population.
	minUsers = 20
	// pruneShare is the share of δ that pruning may cost.
	pruneShare = .1
	// lostShare is the share of initial mass below the pruning level from which on Check mentions
	// it.
	lostShare = 1e-3
)

// Check returns remarks about a valid model, for releases with a δ. Cost: a few passes over its
// transitions.
func Check(m *mobility.Model, delta float64) []Remark {
	c := &checking{model: m, delta: delta, popular: popularity(m)}
	c.ways()
	c.rows()
	c.starts()
	c.provenance()
	return c.remarks
}

type checking struct {
	model   *mobility.Model
	delta   float64
	popular []float64
	remarks []Remark
}

func (c *checking) say(name, format string, args ...any) {
	c.remarks = append(c.remarks, Remark{name, fmt.Sprintf(format, args...)})
}

// ways looks for cells that cannot be left or reached.
func (c *checking) ways() {
	stuck, first := 0, grid.Cell(-1)
	for cell := range grid.Cell(c.model.Grid.Cells()) {
		leaves := false
		for _, m := range c.model.Matrices {
			columns, _ := m.Row(cell)
			leaves = leaves || len(columns) > 1 || columns[0] != cell
		}
		if !leaves {
			if stuck++; first < 0 {
				first = cell
			}
		}
	}
	if stuck > 0 {
		c.say("never left", "%s can never be left (the first is %d): who gets there is "+
			"lost to the filter; train with a smoothing kernel, or leave the region out of the box",
			plural(int64(stuck), "cell", "cells"), first)
	}
	if n, first := c.unreached(); n > 0 {
		c.say("never reached", "%s can never be reached from where users start (the first "+
			"is %d): who goes there is not found; train with a larger radius in --smoothing, "+
			"or with a uniform share of the initial distribution",
			plural(int64(n), "cell", "cells"), first)
	}
}

// unreached counts the cells that no path from a cell of the initial distribution reaches.
func (c *checking) unreached() (n int, first grid.Cell) {
	first = -1
	for i, is := range c.reached() {
		if is {
			continue
		}
		if n++; first < 0 {
			first = grid.Cell(i)
		}
	}
	return n, first
}

// reached says for each cell whether a path from a cell of the initial distribution reaches it. It
// sweeps up and down over the rows; each sweep passes on what the one before has found, so a few
// sweeps are enough.
func (c *checking) reached() []bool {
	cells := c.model.Grid.Cells()
	reached, done := make([]bool, cells), make([]bool, cells)
	for _, cell := range c.model.Initial.Cells {
		reached[cell] = true
	}
	for found, down := true, false; found; down = !down {
		found = false
		for i := range grid.Cell(cells) {
			if down {
				i = grid.Cell(cells) - 1 - i
			}
			if !reached[i] || done[i] {
				continue
			}
			done[i], found = true, true
			for _, m := range c.model.Matrices {
				columns, _ := m.Row(i)
				for _, to := range columns {
					reached[to] = true
				}
			}
		}
	}
	return reached
}

// rows looks for rows that are too sure, and for a step that does not suit the cells.
func (c *checking) rows() {
	sure, stay, distance := 0.0, 0.0, 0.0
	share := 1 / float64(len(c.model.Matrices))
	g := c.model.Grid
	for cell, weight := range c.popular {
		at := grid.Cell(cell)
		column, row := g.Column(at), g.Row(at)
		for _, m := range c.model.Matrices {
			columns, values := m.Row(at)
			for i, to := range columns {
				mass := float64(float64(weight*share) * values[i])
				if values[i] > sureRow {
					sure += float64(weight * share)
				}
				if to == at {
					stay += mass
					continue
				}
				distance += float64(
					mass * math.Hypot(float64(g.Column(to)-column), float64(g.Row(to)-row)))
			}
		}
	}
	if sure > sureShare {
		c.say("too sure", "rows with %.0f %% of the popularity are more than %g %% sure of "+
			"one cell: a user who does otherwise is lost, and drift exceeds δ; train with a "+
			"larger backoff or a smaller cap in --smoothing",
			100*sure, 100*sureRow)
	}
	switch {
	case g.Cells() == 1:
		c.say("one cell", "the map is a single cell: nothing is hidden and nothing told; choose "+
			"smaller cells")
	case stay > muchStay:
		c.say("step and cells", "a vehicle stays in its cell with a probability of %.3f: "+
			"the step of %s is short for cells of %g m; choose a longer step or smaller cells",
			stay, c.model.Step, g.CellM())
	case stay < littleStay:
		c.say("step and cells", "a vehicle stays in its cell with a probability of %.3f "+
			"and moves %.1f cells a step: cells of %g m are small for a step of %s; choose "+
			"larger cells or a shorter step",
			stay, distance, g.CellM(), c.model.Step)
	}
}

// starts looks at the initial distribution, and at what pruning leaves of it.
func (c *checking) starts() {
	cells, initial := c.model.Grid.Cells(), &c.model.Initial
	if without := cells - initial.Len(); without > 0 {
		c.say("no start", "%d of %d cells have no initial probability: who starts there is "+
			"not found; train with a uniform share of the initial distribution", without, cells)
	}
	const threshold = mechanism.DefaultPrune
	if lost := mobility.PruneCells * threshold; lost > pruneShare*c.delta &&
		cells > mobility.PruneCells {
		c.say("pruning", "pruning at the default of %g may drop %.2g of the mass a step, "+
			"and δ is %g: set prune to %.1g at most", threshold, lost, c.delta,
			pruneShare*c.delta/mobility.PruneCells)
	}
	level, lost := mobility.PruneLevel(initial.P, threshold, initial.Total()), 0.0
	for _, p := range initial.P {
		if p < level {
			lost += p
		}
	}
	if lost > lostShare {
		c.say("pruned starts", "cells with %.2g of the initial probability are pruned at "+
			"the default of %g: set a smaller prune, or train with a larger uniform share", lost,
			threshold)
	}
}

// provenance looks at how the model was made and how well it does.
func (c *checking) provenance() {
	p := c.model.Provenance
	if p.Fit != nil {
		if what, _ := Judge(*p.Fit); what == TooSure || what == TooUnsure {
			c.say("fit", "%s", Verdict(*p.Fit)[0])
		}
	}
	if users := p.Report.Users; p.Privacy == nil && users > 0 && users < minUsers {
		c.say("few users", "it was learned from %s: it tells about them; train on more, or with "+
			"--dp-epsilon", plural(users, "user", "users"))
	}
}
