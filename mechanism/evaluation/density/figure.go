package density

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/evaluation/chart"
)

// Measure is one way to judge an estimate.
type Measure struct {
	Name string // short, for files
	Axis string // with what 1 is
	Note string // what it means
	Of   func(Score) float64
	// low and high are the ends of a band; nil: there is none.
	low, high func(Score) float64
	stated    float64  // what it should be, drawn as a reference; 0 means nothing is drawn
	without   []string // estimators that it does not judge
}

// Measures returns all measures.
func Measures() []Measure {
	return []Measure{
		{
			Name: "variation", Axis: "total variation distance",
			Note: "Total variation distance from where the vehicles are: the share of the fleet " +
				"that would have to be elsewhere, 0 to 1. Bands, or bars of a single size, hold " +
				"80 % or more of the fleets of a size; where there is a single fleet there is " +
				"none. What lies below blind is what the releases tell.",
			Of:   func(s Score) float64 { return s.Variation },
			low:  func(s Score) float64 { return s.end(s.VariationLow) },
			high: func(s Score) float64 { return s.end(s.VariationHigh) },
		},
		{
			Name: "top", Axis: "share of the fullest zones found",
			Note: "Share of the zones with most vehicles that an estimate has among as many of " +
				"its own. What lies above blind is what the releases tell.",
			Of: func(s Score) float64 { return s.TopFound },
		},
		{
			Name: "rank", Axis: "rank correlation",
			Note: "Spearman's correlation over zones of the estimate with the true numbers of " +
				"vehicles: 1 if it has the zones in the right order.",
			Of: func(s Score) float64 { return s.Rank },
		},
		{
			Name: "coverage", Axis: "coverage of 90 % intervals",
			Note: "Share of the zones whose interval of 90 % holds the true number of vehicles, " +
				"of those that have three vehicles or more in truth or by the estimate. Below " +
				"what is stated, the intervals promise too much.",
			Of:     func(s Score) float64 { return s.Coverage },
			stated: aggregate.DefaultLevel, without: []string{"naive", "blind"},
		},
	}
}

// end returns an end of a band, or NaN for a single fleet, which has no band.
func (s *Score) end(quantile float64) float64 {
	if s.Fleets < 2 {
		return math.NaN()
	}
	return quantile
}

// Judged returns the estimators that a measure judges.
func (m *Measure) Judged() []string {
	return slices.DeleteFunc(Estimators(), func(name string) bool {
		return slices.Contains(m.without, name)
	})
}

// Figure draws a measure of each estimator against the number of vehicles: a row of
// panels for each kind of fleet, a column for each ε.
func Figure(scores []Score, m Measure) *chart.Figure {
	f := &chart.Figure{
		Title: "Where the fleet is, from its releases",
		Note:  m.Note + " " + m.legend(),
	}
	// The same in all panels. No measure is above 1, and of them only correlations are below 0.
	sizes, values := chart.Axis{Label: "vehicles", Log: true}, chart.Axis{Label: m.Axis, Max: 1}
	type key struct {
		fleet   string
		epsilon float64
	}
	panels, columns := map[key]*chart.Lines{}, map[float64]bool{}
	for _, s := range scores {
		k := key{s.Fleet, s.Epsilon}
		columns[s.Epsilon] = true
		sizes.Max = max(sizes.Max, float64(s.Vehicles))
		if n := float64(s.Vehicles); sizes.Min == 0 || n < sizes.Min {
			sizes.Min = n
		}
		if panels[k] == nil {
			panels[k] = &chart.Lines{Title: fmt.Sprintf("%s, ε = %g", s.Fleet, s.Epsilon)}
			f.Panels = append(f.Panels, panels[k])
		}
		if !slices.Contains(m.without, s.Estimator) {
			m.add(panels[k], s)
			values.Min = min(values.Min, math.Floor(5*m.Of(s))/5)
		}
	}
	for _, panel := range panels {
		panel.X, panel.Y = sizes, values
		if m.stated > 0 {
			panel.Series = append(panel.Series, chart.Series{
				Name: "stated", Reference: true,
				X: []float64{sizes.Min, sizes.Max}, Y: []float64{m.stated, m.stated},
			})
		}
	}
	f.Columns = len(columns)
	return f
}

// legend describes the lines.
func (m *Measure) legend() string {
	var parts []string
	for i, what := range []string{
		"the histogram of the releases", "the model alone",
		"the mean of the vehicles' posteriors", "under a prior that the fleet has taught",
	} {
		if name := Estimators()[i]; !slices.Contains(m.without, name) {
			parts = append(parts, name+": "+what)
		}
	}
	return strings.Join(parts, "; ") + "."
}

// add adds a score to its estimator's line.
func (m *Measure) add(panel *chart.Lines, s Score) {
	at := slices.IndexFunc(panel.Series, func(of chart.Series) bool {
		return of.Name == s.Estimator
	})
	if at < 0 {
		at = len(panel.Series)
		panel.Series = append(panel.Series, chart.Series{
			Name: s.Estimator, Reference: s.Estimator == "blind",
			Look: 1 + slices.Index(Estimators(), s.Estimator),
		})
	}
	to := &panel.Series[at]
	to.X, to.Y = append(to.X, float64(s.Vehicles)), append(to.Y, m.Of(s))
	if m.low != nil {
		to.Low, to.High = append(to.Low, m.low(s)), append(to.High, m.high(s))
	}
}
