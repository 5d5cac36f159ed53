package trial

import (
	"fmt"
	"math"

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
)

// CheckModel returns remarks about a valid model, each with what "geodither train" can do about it.
// Cost: a pass over its transitions.
func CheckModel(m *mobility.Model) (remarks []Remark) {
	say := func(name, format string, args ...any) {
		remarks = append(remarks, Remark{name, fmt.Sprintf(format, args...)})
	}
	g, c := m.Grid, habitsOf(m)
	if c.sure > sureShare {
		say("too sure", "rows with %.0f %% of the popularity are more than %g %% sure of one "+
			"cell: a user who does otherwise is lost, and drift exceeds δ; train with a larger "+
			"backoff or a smaller cap in --smoothing", 100*c.sure, 100*sureRow)
	}
	switch {
	case g.Cells() == 1:
		say("one cell", "the map is a single cell: nothing is hidden and nothing told; choose "+
			"smaller cells")
	case c.stay > muchStay:
		say("step and cells", "a vehicle stays in its cell with a probability of %.3f: the step "+
			"of %s is short for cells of %g m; choose a longer step or smaller cells",
			c.stay, m.Step, g.CellM())
	case c.stay < littleStay:
		say("step and cells", "a vehicle stays in its cell with a probability of %.3f and moves "+
			"%.1f cells a step: cells of %g m are small for a step of %s; choose larger cells or "+
			"a shorter step", c.stay, c.distance, g.CellM(), m.Step)
	}
	p := m.Provenance
	if p.Fit != nil {
		if what, _ := Judge(*p.Fit); what == TooSure || what == TooUnsure {
			say("fit", "%s", FitVerdict(*p.Fit)[0])
		}
	}
	if text := FewUsers(m); text != "" {
		say("few users", "%s", text)
	}
	return remarks
}

// FewUsers is the remark that a model tells about individuals; "" where it does not.
func FewUsers(m *mobility.Model) string {
	p := m.Provenance
	users := p.Report.Users
	if p.Privacy != nil || users <= 0 || users >= minUsers {
		return ""
	}
	return fmt.Sprintf("it was learned from %s and tells about them: train on more, or with "+
		"--dp-epsilon", plural(users, "user", "users"))
}

// habits are means over cells by popularity, and over classes.
type habits struct {
	sure     float64 // share of rows that are sure of one column
	stay     float64 // probability of staying in a cell for a step
	distance float64 // of a step, cells
}

func habitsOf(m *mobility.Model) (h habits) {
	share := 1 / float64(len(m.Matrices))
	g := m.Grid
	var whole mobility.Distribution
	for cell, weight := range popularity(m) {
		at := grid.Cell(cell)
		column, row := g.Column(at), g.Row(at)
		for class := range m.Matrices {
			m.Row(&whole, class, at)
			for i, to := range whole.Cells {
				mass := float64(float64(weight*share) * whole.P[i])
				if whole.P[i] > sureRow {
					h.sure += float64(weight * share)
				}
				if to == at {
					h.stay += mass
					continue
				}
				h.distance += float64(
					mass * math.Hypot(float64(g.Column(to)-column), float64(g.Row(to)-row)))
			}
		}
	}
	return h
}

// popularity is the initial distribution, per cell.
func popularity(m *mobility.Model) []float64 {
	p := make([]float64, m.Grid.Cells())
	for i, c := range m.Initial.Cells {
		p[c] = m.Initial.P[i]
	}
	return p
}
