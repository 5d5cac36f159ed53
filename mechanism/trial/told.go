package trial

import (
	"slices"

	"github.com/geodither/geodither/mechanism"
)

// Tellings gathers what all records tell about moments (mechanism.Teller). The zero value is empty.
type Tellings struct{ at, between []float64 }

// Add adds a moment.
func (t *Tellings) Add(told mechanism.Told) {
	if told.Released {
		t.at = append(t.at, told.LnRatio)
	} else {
		t.between = append(t.between, told.LnRatio)
	}
}

// Merge adds all moments of another.
func (t *Tellings) Merge(other *Tellings) {
	t.at, t.between = append(t.at, other.at...), append(t.between, other.between...)
}

// Told summarizes what all records tell about moments, as ln of the largest ratio between two
// cells: at releases, and at reports between two of them.
type Told struct {
	Releases ToldFigures `json:"at_releases"`
	Between  ToldFigures `json:"between_releases"`
}

// ToldFigures are figures over moments, 0 if there are none.
type ToldFigures struct {
	Moments int     `json:"moments"`
	Median  float64 `json:"median"`
	P99     float64 `json:"p99"` // 99 % of moments have at most this
	Largest float64 `json:"largest"`
}

// Told returns the figures.
func (t *Tellings) Told() Told { return Told{figuresOf(t.at), figuresOf(t.between)} }

func figuresOf(values []float64) ToldFigures {
	n := len(values)
	if n == 0 {
		return ToldFigures{}
	}
	sorted := slices.Sorted(slices.Values(values))
	const share = 100 // one in so many is above P99
	return ToldFigures{
		Moments: n, Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, P99: sorted[n-1-n/share],
		Largest: sorted[n-1],
	}
}
