package main

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism/law"
)

// metricView gathers the metric view of releases: by which factor each can tell
// two places apart. It keeps 24 bytes a release.
type metricView struct {
	near, far, across []float64
	widthKM           float64
}

func (v *metricView) add(m law.Metric) {
	v.near = append(v.near, m.Within200M)
	v.far = append(v.far, m.Within1KM)
	v.across = append(v.across, m.Across)
	v.widthKM = max(v.widthKM, m.WidthKM)
}

// metricSummary is the largest factor of any release, and the median of all, by
// which it tells two positions of its location set so far apart from each other; 0
// where there was none. For positions outside the set nothing better than e^ε holds.
type metricSummary struct {
	Within200M factors `json:"within_200m"`
	Within1KM  factors `json:"within_1km"`
	Across     factors `json:"across_set"`
	WidthKM    float64 `json:"set_width_km"` // of the widest location set
}

type factors struct {
	Largest float64 `json:"largest"`
	Median  float64 `json:"median"`
}

func (v *metricView) summary() metricSummary {
	return metricSummary{factorsOf(v.near), factorsOf(v.far), factorsOf(v.across), v.widthKM}
}

func factorsOf(all []float64) factors {
	if len(all) == 0 {
		return factors{}
	}
	sorted := slices.Sorted(slices.Values(all))
	return factors{Largest: sorted[len(sorted)-1], Median: sorted[(len(sorted)-1)/2]}
}

func (f factors) String() string { return fmt.Sprintf("%.3g (%.3g)", f.Median, f.Largest) }

func (m metricSummary) String() string {
	return fmt.Sprintf("a release tells two places of its location set apart by a factor of at most, in the median (and worst) release: %v within 200 m, %v within 1 km, %v across it; places outside by e^ε at most, however near",
		m.Within200M, m.Within1KM, m.Across)
}
