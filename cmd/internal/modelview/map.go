package modelview

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// ParseCell reads the number of a cell, or a place in it, as LAT,LON. Its errors do not repeat a
// place.
func ParseCell(text string, g *grid.Grid) (grid.Cell, error) {
	if lat, lon, ok := strings.Cut(text, ","); ok {
		y, errY := strconv.ParseFloat(strings.TrimSpace(lat), 64)
		x, errX := strconv.ParseFloat(strings.TrimSpace(lon), 64)
		switch {
		case errY != nil || errX != nil || math.IsNaN(x) || math.IsNaN(y):
			return 0, errors.New("--from: want LAT,LON in degrees, or a cell's number")
		case !g.Contains(y, x):
			return 0, errors.New(
				"--from lies outside the model's map; its box is printed without --from")
		}
		return g.Locate(y, x), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= g.Cells() {
		return 0, fmt.Errorf("--from: want LAT,LON in degrees, or a cell's number from 0 to %d",
			g.Cells()-1)
	}
	return grid.Cell(n), nil
}

// dense has a value for each cell of a grid, NaN where there is none.
func dense(g *grid.Grid, d *mobility.Distribution) []float64 {
	values := make([]float64, g.Cells())
	for i := range values {
		values[i] = math.NaN()
	}
	for i, c := range d.Cells {
		values[c] = d.P[i]
	}
	return values
}

// DrawPopularity draws where vehicles are to be found, into a .png or .svg file.
func DrawPopularity(m *mobility.Model, path string) error {
	figure := chart.Figure{
		Title: "Where vehicles are to be found",
		Note: fmt.Sprintf("Initial distribution of model %s, cells of %.0f m.",
			m.ID(), m.Grid.CellKM()*1000),
		Panels: []chart.Panel{&chart.Map{
			Grid: m.Grid, Values: dense(m.Grid, &m.Initial),
			Scale: chart.Axis{Label: "probability of the cell", Log: true},
		}},
		PanelWidth: 6, PanelHeight: 5,
	}
	return files.Unwritten(path, figure.WriteFile(path))
}

// Flows says where a vehicle goes from a cell in some numbers of steps.
type Flows struct {
	Cell    grid.Cell  `json:"cell"`
	Lat     float64    `json:"lat"` // of the cell's centre
	Lon     float64    `json:"lon"`
	Step    int64      `json:"first_step"`
	Seconds float64    `json:"step_seconds"`
	After   []flowStep `json:"after"`

	distributions []mobility.Distribution
}

// flowStep is where it is after some steps.
type flowStep struct {
	Steps     int      `json:"steps"`
	Stay      float64  `json:"in_the_cell"`  // probability of being in the first cell
	MeanM     float64  `json:"mean_m"`       // mean distance from it
	Bits      float64  `json:"entropy_bits"` // of where it is
	Likeliest []toCell `json:"likeliest"`    // cells, the likeliest first
}

type toCell struct {
	Cell grid.Cell `json:"cell"`
	P    float64   `json:"p"`
}

// likeliest is how many cells of each distribution are named.
const likeliest = 10

// NewFlows predicts from a cell and a step on, for each number of steps ahead.
func NewFlows(m *mobility.Model, from grid.Cell, step int64, ahead []int) *Flows {
	centre := m.Grid.Centre(from)
	s := &Flows{Cell: from, Step: step, Seconds: m.Step.Seconds()}
	s.Lat, s.Lon = m.Grid.ToDegrees(centre)
	predictor := mobility.NewPredictor(m)
	now := mobility.Distribution{Cells: []grid.Cell{from}, P: []float64{1}}
	done := 0
	for _, k := range slices.Sorted(slices.Values(ahead)) {
		predictor.Predict(&now, &now, step+int64(done), k-done)
		done = k
		after := flowStep{Steps: k, Bits: entropy(now.P)}
		var cells []toCell
		for i, c := range now.Cells {
			after.MeanM += float64(1000 * now.P[i] * m.Grid.Centre(c).Distance(centre))
			if c == from {
				after.Stay = now.P[i]
			}
			cells = append(cells, toCell{c, now.P[i]})
		}
		slices.SortFunc(cells, func(a, b toCell) int {
			return cmp.Or(cmp.Compare(b.P, a.P), cmp.Compare(a.Cell, b.Cell))
		})
		after.Likeliest = slices.Clone(cells[:min(likeliest, len(cells))])
		s.After = append(s.After, after)
		var kept mobility.Distribution
		kept.CopyFrom(&now)
		s.distributions = append(s.distributions, kept)
	}
	return s
}

// after is how long so many steps take.
func (s *Flows) after(steps int) time.Duration {
	return time.Duration(float64(steps) * s.Seconds * float64(time.Second))
}

// String is a line for each number of steps.
func (s *Flows) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "flows        from cell %d\n", s.Cell)
	for _, a := range s.After {
		fmt.Fprintf(&b, "             after %s (%s): still there with probability %.2f, %s off "+
			"on average, as if in one of %.0f cells\n",
			stepsWord(a.Steps), s.after(a.Steps), a.Stay, cli.Metres(a.MeanM), math.Exp2(a.Bits))
	}
	return b.String()
}

func stepsWord(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}

// seen is the probability from which on a cell is in the picture.
const seen = 1e-4

// Draw draws a map for each number of steps, into a .png or .svg file.
func (s *Flows) Draw(m *mobility.Model, path string) error {
	centre, side := m.Grid.Centre(s.Cell), m.Grid.CellKM()
	reach := 3 * side
	for i := range s.distributions {
		for j, c := range s.distributions[i].Cells {
			if s.distributions[i].P[j] >= seen {
				to := m.Grid.Centre(c)
				reach = max(reach, math.Abs(to.X-centre.X)+side, math.Abs(to.Y-centre.Y)+side)
			}
		}
	}
	east, north := float64(m.Grid.Width())*side, float64(m.Grid.Height())*side
	view := [2]grid.Point{
		{X: max(0, centre.X-reach), Y: max(0, centre.Y-reach)},
		{X: min(east, centre.X+reach), Y: min(north, centre.Y+reach)},
	}
	figure := chart.Figure{
		Title: fmt.Sprintf("Where a vehicle in cell %d goes", s.Cell),
		Note: fmt.Sprintf("Model %s, cells of %.0f m, steps of %g s. A cell below a "+
			"probability of %g is grey.", m.ID(), side*1000, s.Seconds, seen),
		Columns: min(3, len(s.After)),
	}
	for i, after := range s.After {
		values := dense(m.Grid, &s.distributions[i])
		for c, p := range values {
			if p < seen {
				values[c] = math.NaN()
			}
		}
		figure.Panels = append(figure.Panels, &chart.Map{
			Title: fmt.Sprintf("after %s, %s", stepsWord(after.Steps), s.after(after.Steps)),
			Grid:  m.Grid, Values: values, View: view,
			Scale: chart.Axis{Label: "probability of the cell", Log: true, Min: seen, Max: 1},
			Series: []chart.Series{{
				Name: "from here", X: []float64{centre.X}, Y: []float64{centre.Y},
				Reference: true, NoLine: true,
			}},
		})
	}
	return files.Unwritten(path, figure.WriteFile(path))
}
