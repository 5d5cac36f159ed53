package doctor

import (
	"fmt"

	"github.com/geodither/geodither/cmd/internal/engine"
)

// models looks at later versions of the model.
func (d *examination) models() {
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
	}
}
