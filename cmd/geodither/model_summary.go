package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// modelSummary is what a model holds and how it was made, as "model inspect" prints it.
type modelSummary struct {
	ID          string   `json:"id"`
	FileBytes   int64    `json:"file_bytes,omitempty"`
	MemoryBytes int64    `json:"memory_bytes"`
	Grid        string   `json:"grid_id"`
	Plain       bool     `json:"plain,omitempty"` // the grid has no place on Earth
	Box         grid.Box `json:"box"`
	Width       int      `json:"width"`
	Height      int      `json:"height"`
	CellM       float64  `json:"cell_m"`
	Distortion  float64  `json:"distortion"` // of map distances, relative, at most
	StepSeconds float64  `json:"step_seconds"`
	Transitions int      `json:"transitions"`
	// mean probability of staying in a cell for a step
	StayMean    float64 `json:"stay_mean"`
	InitialBits float64 `json:"initial_entropy_bits"` // entropy of the initial distribution
	// entropy of one step, averaged over the initial distribution
	StepBits float64 `json:"step_entropy_bits"`
	Initial  int     `json:"initial_cells"` // cells of positive initial probability

	Gaps       []modelGap          `json:"gaps,omitempty"` // the law of gaps; empty: there is none
	Calendar   string              `json:"calendar"`
	Classes    []modelClass        `json:"classes"`
	Provenance mobility.Provenance `json:"provenance"`
	Private    bool                `json:"differentially_private"`
	Fit        *mobility.Fit       `json:"fit,omitempty"`        // nil: not measured
	Verdict    []string            `json:"verdict,omitempty"`    // on the fit, in words
	Suspicious []trial.Remark      `json:"suspicious,omitempty"` // why releases may disappoint
	Expected   *expect.Summary     `json:"expected,omitempty"`
}

// modelClass is one class of a model's calendar. Means are over the hours of a week that belong to
// it.
type modelClass struct {
	Name        string  `json:"name"`
	Hours       int     `json:"hours_a_week"`
	Transitions int     `json:"transitions"`
	StayMean    float64 `json:"stay_mean"`
	StepBits    float64 `json:"step_entropy_bits"`
}

// summarizeModel takes a few passes over the model.
func summarizeModel(m *mobility.Model) modelSummary {
	cells := m.Grid.Cells()
	s := modelSummary{
		ID: m.ID(), Grid: m.Grid.ID(), Plain: m.Grid.IsPlain(), Box: m.Grid.Box(),
		Width: m.Grid.Width(), Height: m.Grid.Height(), CellM: m.Grid.CellKM() * 1000,
		Distortion: m.Grid.Distortion(), StepSeconds: m.Step.Seconds(),
		Transitions: m.Transitions(), InitialBits: entropy(m.Initial.P), Initial: m.Initial.Len(),
		Calendar: m.Calendar.String(), Provenance: m.Provenance,
		Private: m.Provenance.Privacy != nil,
		Fit:     m.Provenance.Fit, Gaps: modelGaps(m.Gaps), Suspicious: trial.CheckModel(m),
		MemoryBytes: 12*int64(m.Transitions()+m.Initial.Len()) +
			16*int64(len(m.Matrices)*(cells+1)),
	}
	if s.Fit != nil {
		s.Verdict = trial.FitVerdict(*s.Fit)
	}
	s.Provenance.Fit = nil // once is enough
	s.Classes = modelClasses(m)
	for _, c := range s.Classes {
		s.StayMean += c.StayMean * float64(c.Hours) / hoursAWeek
		s.StepBits += c.StepBits * float64(c.Hours) / hoursAWeek
	}
	return s
}

func modelClasses(m *mobility.Model) []modelClass {
	classes := make([]modelClass, len(m.Matrices))
	for hour := range int64(hoursAWeek) {
		classes[m.Calendar.ClassAt(hour*3_600_000)].Hours++
	}
	var row mobility.Distribution
	for class, matrix := range m.Matrices {
		c := &classes[class]
		c.Name, c.Transitions = m.Calendar.ClassName(class), matrix.Transitions()
		for cell := range grid.Cell(m.Grid.Cells()) {
			m.Row(&row, class, cell)
			c.StayMean += row.At(cell) / float64(m.Grid.Cells())
		}
		for i, cell := range m.Initial.Cells {
			m.Row(&row, class, cell)
			c.StepBits += float64(m.Initial.P[i] * entropy(row.P))
		}
	}
	return classes
}

const hoursAWeek = 7 * 24

// entropy of a distribution in bits.
func entropy(p []float64) float64 {
	sum := 0.0
	for _, v := range p {
		if v > 0 {
			sum -= float64(v * math.Log2(v))
		}
	}
	return sum
}

// modelGap is a row of a model's law of gaps, as "model inspect" shows it.
type modelGap struct {
	From int64 `json:"from_steps"`
	To   int64 `json:"to_steps"`
	// Chain, Fewer and Anew sum to 1: a move in each step, fewer moves than steps, and a start from
	// the initial distribution.
	Chain float64 `json:"chain"`
	Fewer float64 `json:"fewer_moves"`
	Anew  float64 `json:"anew"`
	// MeanMoves is the mean number of moves where there were fewer than steps.
	MeanMoves float64 `json:"mean_moves"`
}

// modelGaps lists a model's law of gaps, nil if it has none.
func modelGaps(law mobility.GapLaw) (rows []modelGap) {
	for i, w := range law {
		g := modelGap{From: 1<<i + 1, To: 2 << i, Chain: w.Chain, Anew: w.Anew}
		for part, moves := range mobility.GapMoves {
			g.Fewer += w.Moves[part]
			g.MeanMoves += float64(w.Moves[part] * float64(moves))
		}
		if g.Fewer > 0 {
			g.MeanMoves /= g.Fewer
		}
		rows = append(rows, g)
	}
	return rows
}

// steps names the gaps of a row.
func (g modelGap) steps() string {
	if g.From == g.To {
		return fmt.Sprintf("%d steps", g.To)
	}
	return fmt.Sprintf("%d to %d steps", g.From, g.To)
}

// shares puts the row's numbers into words.
func (g modelGap) shares() string {
	var parts []string
	add := func(share float64, format string, args ...any) {
		if share > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% ", 100*share)+fmt.Sprintf(format, args...))
		}
	}
	add(g.Chain, "a move a step")
	add(g.Fewer, "fewer moves (%.1f)", g.MeanMoves)
	add(g.Anew, "start over")
	return strings.Join(parts, ", ")
}
