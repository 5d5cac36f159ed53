package doctor

import (
	"fmt"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// models looks at later versions of the model.
func (d *examination) models() {
	d.largeMap(d.o.Model)
	for _, v := range d.o.Later {
		model, err := d.o.Try(v)
		if err != nil {
			d.add("models", Failure, "%v", err)
			continue
		}
		g := model.Grid
		detail, level := fmt.Sprintf("%v: %d × %d cells of %.0f m", v.ID, g.Width(),
			g.Height(), 1000*g.CellKM()), OK
		if v.GridID() != d.o.Model.Grid.ID() {
			level, detail = Warning, detail+
				", another map than the first version's: every user who comes to it starts over"
		}
		d.add("models", level, "%s", detail)
		if text := engine.NearAdvice(d.o.Release, g); text != "" && level != OK {
			d.add("near", OK, "under %v: %s", v.ID, text)
		}
		d.largeMap(model)
	}
}

// manyCells is how many cells a short posterior has at most, about: no mass is below 2^-12.
const manyCells = 4000

// largeMap warns of a map on which the true cell may have no posterior mass.
func (d *examination) largeMap(m *mobility.Model) {
	if n := m.Grid.Cells(); n > manyCells && d.o.Release.Mechanism == law.Codebook {
		d.add("models", Warning, "the map has %d cells and a posterior about %d at most, so the "+
			"true cell may have none of it: use larger cells unless estimates need these", n,
			manyCells)
	}
}
