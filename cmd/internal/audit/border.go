package audit

import (
	"math"

	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/mechanism/grid"
)

// outsideKM is how far beyond the map's border a fix is fed that lies outside.
const outsideKM = 50

// border tests what becomes of a fix far outside the map. With outside: clamp it is one of
// the nearest cell. With dead_letter it leaves a dead letter and nothing else, and that is
// the same wherever beyond the border the fix lies: that it was outside is no secret then,
// where it was is one.
func (w *walker) border(f Fix, before []byte) error {
	g := w.settings.Model.Grid
	far, near := w.beyond(f, max(outsideKM, 4*g.CellKM())), w.beyond(f, 2*g.CellKM())
	if g.Beyond(near.Latitude, near.Longitude) <= g.CellKM() {
		return nil // the map ends where the Earth does
	}
	clamped := g.Locate(far.Latitude, far.Longitude)
	got, err := w.feed(far, before)
	if err != nil {
		return err
	}
	check := &w.checks.border
	check.Trials++
	if w.settings.Input.Outside == pipeline.OutsideClamp {
		want, err := w.feed(placed(f, g, clamped, w.rng), before)
		if err != nil {
			return err
		}
		if what := difference(want, got); what != "" {
			check.fail("%s of a fix outside the map is not that of the cell it is clamped to", what)
		}
		return nil
	}
	other, err := w.feed(near, before)
	if err != nil {
		return err
	}
	switch {
	case len(got.Records) > 0:
		check.fail("a fix outside the map leaves a record")
	case string(got.State) != string(before):
		check.fail("a fix outside the map changes the state")
	case len(got.DeadLetters) != 1:
		check.fail("a fix outside the map leaves no dead letter")
	default:
		if what := difference(other, got); what != "" {
			check.fail("%s says how far outside the map a fix was", what)
		}
	}
	return nil
}

// beyond is f from a place so far beyond one of the four borders.
func (w *walker) beyond(f Fix, km float64) Fix {
	g := w.settings.Model.Grid
	width, height := float64(g.Width())*g.CellKM(), float64(g.Height())*g.CellKM()
	at := grid.Point{X: w.rng.Float64() * width, Y: w.rng.Float64() * height}
	switch w.rng.IntN(4) {
	case 0:
		at.X = -km
	case 1:
		at.X = width + km
	case 2:
		at.Y = -km
	default:
		at.Y = height + km
	}
	f.Latitude, f.Longitude = g.ToDegrees(at)
	f.Latitude = math.Max(-90, math.Min(90, f.Latitude))
	f.Longitude = math.Max(-180, math.Min(180, f.Longitude))
	return f
}
