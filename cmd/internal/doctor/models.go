package doctor

import (
	"fmt"

	"github.com/geodither/geodither/mechanism"
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
		d.largeMap(model)
	}
}

// largeMap warns where the most probable cell is published and chance may have chosen it.
func (d *examination) largeMap(m *mobility.Model) {
	// A small mass may become twice the least.
	n, most := m.Grid.Cells(), int(1/mechanism.LeastMass)/2
	if n > most && d.o.Release.Mechanism == law.Codebook &&
		d.o.Release.Estimate == mechanism.EstimateMode {
		d.add("models", Warning, "the map has %d cells, more than %d, so chance may choose the "+
			"most probable one where little is known: set publish.estimate to mean", n, most)
	}
}
