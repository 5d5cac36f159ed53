package experiment

import (
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// TestNeighboursByHand: places at 0, 1, 2, … 11 km on a line. The truth is at 2.25 km, so R is
// {2, 3, 1, 4, 0, 5, 6, 7, 8, 9}; asked from 4.2 km R' is {4, 5, 3, 6, 2, 7, 1, 8, 0, 9}, and from
// 2.25 km it is R.
func TestNeighboursByHand(t *testing.T) {
	var points []grid.Point
	for x := range 12 {
		points = append(points, grid.Point{X: float64(x), Y: .25})
	}
	d := testData(t)
	d.Places = NewPlaces(points)
	around := newNeighbourhood(d)
	want := map[query]float64{{1, 1}: 0, {2, 2}: 0, {5, 5}: 3, {10, 10}: 10, {5, 10}: 5}
	if len(around.queries) != len(want) {
		t.Fatalf("queries %v: those beyond the 12 places cannot be asked", around.queries)
	}
	// the fifth cell of .5 km, centre 2.25
	hits := around.found(4, grid.Point{X: 4.2, Y: .25}, grid.Point{X: 2.25, Y: .25})
	for i, q := range around.queries {
		if release, estimate := hits[i], hits[i+len(want)]; release != want[q] ||
			estimate != float64(q.k) {
			t.Errorf("%v: %g of the release and %g of the estimate, want %g and %d",
				q, release, estimate, want[q], q.k)
		}
	}
	five := slices.Index(around.queries, query{5, 10})
	sample := Sample{{N: 1, Of: hits}}
	if p, r := shareFound(sample, five, 10), shareFound(sample, five, 5); p.Value != .5 ||
		r.Value != 1 {
		t.Errorf("precision %v, recall %v, want .5 and 1", p, r)
	}
}

// TestNeighboursOfLoudAndQuiet: where hardly any noise is added nearly all neighbours are found,
// and where it is larger than the map few are. A measurement that asked from the truth, or from
// anywhere, would not tell the two apart.
func TestNeighboursOfLoudAndQuiet(t *testing.T) {
	s := testStudy(t)
	share := func(epsilon float64) float64 {
		d := s.Data[0]
		got := walked(t, s, neighbours, popular(d, PIM, epsilon, .01)).All()
		return shareFound(got, slices.Index(queriesOf(d.Places), query{5, 5}), 5).Value
	}
	if quiet, loud := share(700), share(.1); quiet < .8 || loud > .1 {
		t.Errorf("%.2f of the neighbours at ε = 700, %.2f at ε = .1", quiet, loud)
	}
}
