package expect

import (
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism/law"
)

// MetricView collects the metric view of releases: the factor by which each distinguishes two
// places, and how much of its ε is between neighbouring cells. It keeps 32 bytes a release, and
// some 40 more for each one of a user's last hour.
type MetricView struct {
	near, far, farthest []float64
	widthKM             float64
	shares              float64   // sum of law.Metric.NearShare
	hours               []float64 // ε between neighbours in the hour that ends with a release
	users               map[string]*lastHour
}

// hourMS is how long releases of a user are added up.
const hourMS = 3_600_000

// lastHour is what a user's releases of the last hour spent between neighbours.
type lastHour struct {
	firstMS int64 // of all releases
	times   []int64
	spent   []float64
}

// addRelease adds a release and returns the sum over the hour that ends with it. A release just an
// hour before counts no more. The sum is whole where the user's releases began an hour ago or
// earlier.
func (h *lastHour) addRelease(timeMS int64, spent float64) (sum float64, whole bool) {
	if len(h.times) == 0 {
		h.firstMS = timeMS
	}
	old := 0
	for old < len(h.times) && h.times[old] <= timeMS-hourMS {
		old++
	}
	h.times = append(slices.Delete(h.times, 0, old), timeMS)
	h.spent = append(slices.Delete(h.spent, 0, old), spent)
	for _, x := range h.spent {
		sum += x
	}
	return sum, timeMS-h.firstMS >= hourMS
}

// Add adds the view of one release of ε, which a user had at a time in milliseconds. The times of
// a user must not fall.
func (v *MetricView) Add(user string, timeMS int64, epsilon float64, m law.Metric) {
	v.near = append(v.near, m.Within200M)
	v.far = append(v.far, m.Within1KM)
	v.farthest = append(v.farthest, m.Across)
	v.widthKM = max(v.widthKM, m.WidthKM)
	v.shares += m.NearShare
	h := v.users[user]
	if h == nil {
		if v.users == nil {
			v.users = map[string]*lastHour{}
		}
		h = new(lastHour)
		v.users[user] = h
	}
	if sum, whole := h.addRelease(timeMS, epsilon*m.NearShare); whole {
		v.hours = append(v.hours, sum)
	}
}

// MetricSummary has the factors by which releases distinguish two positions of their location sets,
// by the distance of these. For positions outside the set nothing better than e^ε holds. Under the
// codebook mechanism the factors hold for any two positions of the map.
type MetricSummary struct {
	Within200M Factors `json:"within_200m"`
	Within1KM  Factors `json:"within_1km"`
	// Farthest is for the two positions that lie farthest apart, FarthestKM: of a location set, or
	// under the codebook mechanism of the map.
	Farthest   Factors `json:"farthest"`
	FarthestKM float64 `json:"farthest_km"`
	// NearShare is the mean of law.Metric.NearShare over all releases, as "geodither tune" prints
	// it. Under the codebook mechanism it is the share of the pairs of neighbouring cells that a
	// release tells apart.
	NearShare float64 `json:"near_share"`
	// NearEpsilonHour is the sum, over all releases of a user in an hour, of their ε between two
	// neighbouring cells on average over pairs. It bounds no given pair: one that every release
	// tells apart gets the user's whole Σε. Under the codebook mechanism each average is exact,
	// under the others it is an upper limit. It is over the hours that end with a release, where
	// the user's releases had begun an hour before.
	NearEpsilonHour Factors `json:"near_epsilon_hour"`

	mechanism string
}

// Factors are the largest number of any release and the median of all; 0 where there is no release.
type Factors struct {
	Largest float64 `json:"largest"`
	Median  float64 `json:"median"`
}

// Summary sums up all releases, which one mechanism made.
func (v *MetricView) Summary(mechanism string) MetricSummary {
	return MetricSummary{
		factorsOf(v.near), factorsOf(v.far), factorsOf(v.farthest), v.widthKM,
		v.shares / float64(max(len(v.near), 1)), factorsOf(v.hours), mechanism,
	}
}

func factorsOf(all []float64) Factors {
	if len(all) == 0 {
		return Factors{}
	}
	sorted := slices.Sorted(slices.Values(all))
	return Factors{Largest: sorted[len(sorted)-1], Median: sorted[(len(sorted)-1)/2]}
}

// factor prints a factor without an exponent.
func factor(x float64) string {
	if x >= 1000 {
		return engine.Grouped(math.Ceil(x))
	}
	return fmt.Sprintf("%.3g", x)
}

// Text returns a few sentences for a person. of says which releases they are about, such as "the
// simulated releases".
func (m MetricSummary) Text(of string) string {
	text := fmt.Sprintf("One release changes the odds between two places of the map by a factor "+
		"of at most %s, or not at all if both vote for the same code point.",
		factor(m.Farthest.Largest))
	if m.mechanism != law.Codebook {
		of := func(f Factors) string {
			return fmt.Sprintf("%s (worst release: %s)", factor(f.Median), factor(f.Largest))
		}
		text = fmt.Sprintf("One release changes the odds between two places of its location set "+
			"by a factor of at most %s within 200 m, %s within 1 km and %s across the set; with a "+
			"place outside the set, by at most e^ε.", of(m.Within200M), of(m.Within1KM),
			of(m.Farthest))
	}
	return text + m.neighbours(of)
}

// neighbours are the sentences about neighbouring cells, "" without any.
func (m MetricSummary) neighbours(of string) string {
	if m.NearShare == 0 {
		return ""
	}
	share, atMost := 100*m.NearShare, "at most "
	text := fmt.Sprintf(" A release uses at most %.0f %% of its ε between two neighbouring cells",
		share)
	if m.mechanism == law.Codebook {
		atMost = ""
		text = fmt.Sprintf(" A release tells %.0f %% of the pairs of neighbouring cells apart",
			share)
	}
	text += fmt.Sprintf(" (mean over %s; a pair counts by how likely the user is there).", of)
	if h := m.NearEpsilonHour; h.Largest > 0 {
		text += fmt.Sprintf(" In the median hour this adds up to %sε = %.3g, in the worst to "+
			"%.3g, and for some pairs to the ε of all releases.",
			atMost, h.Median, h.Largest)
	}
	return text
}

// SetLine says how large the location sets are and how often the true cell is outside. Under the
// codebook mechanism there is no cell that another one stands for, and the set is all cells of the
// prior.
func SetLine(mechanism string, mean, drift float64) string {
	if mechanism == law.Codebook {
		return fmt.Sprintf("before a release, %s cells are possible on average", cli.Sum(mean))
	}
	return fmt.Sprintf("the location set has %s cells on average, and lacks the true cell in "+
		"%.2f %% of releases", cli.Sum(mean), 100*drift)
}
