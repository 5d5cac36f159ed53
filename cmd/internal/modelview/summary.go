// Package modelview says what a mobility model is and how good it is, for people and programs.
//
//	summary.go  what it holds, gaps.go its law of gaps, text.go both in words
//	map.go      a picture of it
//	fit.go      how well it predicts users that it was not trained on
//	diff.go     how far it is from another one
package modelview

import (
	"math"

	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/mechanism/evaluation/fit"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Summary is what a model holds and how it was made, as "model inspect" prints it.
type Summary struct {
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

	Gaps       []Gap               `json:"gaps,omitempty"` // the law of gaps; empty: there is none
	Calendar   string              `json:"calendar"`
	Classes    []Class             `json:"classes"`
	Provenance mobility.Provenance `json:"provenance"`
	Private    bool                `json:"differentially_private"`
	Fit        *mobility.Fit       `json:"fit,omitempty"`        // nil: not measured
	Verdict    []string            `json:"verdict,omitempty"`    // on the fit, in words
	Suspicious []fit.Remark        `json:"suspicious,omitempty"` // why releases may disappoint
	Expected   *expect.Summary     `json:"expected,omitempty"`
}

// Class is one class of a model's calendar. Means are over the hours of a week that belong to it.
type Class struct {
	Name        string  `json:"name"`
	Hours       int     `json:"hours_a_week"`
	Transitions int     `json:"transitions"`
	StayMean    float64 `json:"stay_mean"`
	StepBits    float64 `json:"step_entropy_bits"`
}

// Summarize takes a few passes over the model.
func Summarize(m *mobility.Model) Summary {
	cells := m.Grid.Cells()
	s := Summary{
		ID: m.ID(), Grid: m.Grid.ID(), Plain: m.Grid.IsPlain(), Box: m.Grid.Box(),
		Width: m.Grid.Width(), Height: m.Grid.Height(), CellM: m.Grid.CellKM() * 1000,
		Distortion: m.Grid.Distortion(), StepSeconds: m.Step.Seconds(),
		Transitions: m.Transitions(), InitialBits: entropy(m.Initial.P), Initial: m.Initial.Len(),
		Calendar: m.Calendar.String(), Provenance: m.Provenance,
		Private: m.Provenance.Privacy != nil,
		Fit:     m.Provenance.Fit, Gaps: gapsOf(m.Gaps), Suspicious: fit.Check(m),
		MemoryBytes: 12*int64(m.Transitions()+m.Initial.Len()) + 8*int64(len(m.Matrices)*(cells+1)),
	}
	if s.Fit != nil {
		s.Verdict = fit.Verdict(*s.Fit)
	}
	s.Provenance.Fit = nil // once is enough
	s.Classes = summarizeClasses(m)
	for _, c := range s.Classes {
		s.StayMean += c.StayMean * float64(c.Hours) / hoursAWeek
		s.StepBits += c.StepBits * float64(c.Hours) / hoursAWeek
	}
	return s
}

func summarizeClasses(m *mobility.Model) []Class {
	classes := make([]Class, len(m.Matrices))
	for hour := range int64(hoursAWeek) {
		classes[m.Calendar.ClassAt(hour*3_600_000)].Hours++
	}
	for class, matrix := range m.Matrices {
		c := &classes[class]
		c.Name, c.Transitions = m.Calendar.ClassName(class), matrix.Transitions()
		for cell := range grid.Cell(m.Grid.Cells()) {
			columns, values := matrix.Row(cell)
			for i, to := range columns {
				if to == cell {
					c.StayMean += values[i] / float64(m.Grid.Cells())
				}
			}
		}
		for i, cell := range m.Initial.Cells {
			_, values := matrix.Row(cell)
			c.StepBits += float64(m.Initial.P[i] * entropy(values))
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
