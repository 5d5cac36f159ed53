package expect

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism/law"
)

// MetricView collects the metric view of releases: the factor by which each distinguishes two
// places. It keeps 24 bytes a release.
type MetricView struct {
	near, far, across []float64
	widthKM           float64
}

// Add adds the view of one release.
func (v *MetricView) Add(m law.Metric) {
	v.near = append(v.near, m.Within200M)
	v.far = append(v.far, m.Within1KM)
	v.across = append(v.across, m.Across)
	v.widthKM = max(v.widthKM, m.WidthKM)
}

// MetricSummary has the factors by which releases distinguish two positions of their location sets,
// by the distance of these. For positions outside the set nothing better than e^ε holds. Under the
// codebook mechanism the factors hold for any two positions of the map.
type MetricSummary struct {
	Within200M Factors `json:"within_200m"`
	Within1KM  Factors `json:"within_1km"`
	Across     Factors `json:"across_set"`
	WidthKM    float64 `json:"set_width_km"` // of the widest location set; the map's

	mechanism string
}

// Factors are the largest factor of any release and the median of all; 0 where there is no release.
type Factors struct {
	Largest float64 `json:"largest"`
	Median  float64 `json:"median"`
}

// Summary sums up all releases, which one mechanism made.
func (v *MetricView) Summary(mechanism string) MetricSummary {
	return MetricSummary{
		factorsOf(v.near), factorsOf(v.far), factorsOf(v.across), v.widthKM, mechanism,
	}
}

func factorsOf(all []float64) Factors {
	if len(all) == 0 {
		return Factors{}
	}
	sorted := slices.Sorted(slices.Values(all))
	return Factors{Largest: sorted[len(sorted)-1], Median: sorted[(len(sorted)-1)/2]}
}

// String prints the median, and the largest in brackets.
func (f Factors) String() string { return fmt.Sprintf("%.3g (%.3g)", f.Median, f.Largest) }

// String returns a sentence for a person.
func (m MetricSummary) String() string {
	if m.mechanism == law.Codebook {
		return fmt.Sprintf("a release tells two places of the map apart by a factor of at most, "+
			"in the median (and worst) release: %v where they vote for different code points, "+
			"however near; places that vote alike not at all", m.Across)
	}
	return fmt.Sprintf("a release tells two places of its location set apart by a factor of "+
		"at most, in the median (and worst) release: %v within 200 m, %v within 1 km, %v "+
		"across it; places outside by e^ε at most, however near",
		m.Within200M, m.Within1KM, m.Across)
}

// SetLine says how large the location sets are and how often the true cell is outside. Under the
// codebook mechanism there is no cell that another one stands for, and the set has no influence.
func SetLine(mechanism string, mean, drift float64) string {
	if mechanism == law.Codebook {
		return fmt.Sprintf("|ΔX| %.1f cells on average, without influence on releases", mean)
	}
	return fmt.Sprintf("|ΔX| %.1f cells on average, true cell outside it in %.2f %% of releases",
		mean, 100*drift)
}
