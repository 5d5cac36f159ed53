package counts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEstimates: estimates are the nearest numbers that are not negative and have the published
// sum. By the conditions of Karush, Kuhn and Tucker, those above 0 are all less than the published
// ones by the same number, and the others are not above it.
func TestEstimates(t *testing.T) {
	for _, c := range []struct {
		vehicles []int64
		want     []float64
	}{
		{nil, nil},
		{[]int64{7}, []float64{7}},
		{[]int64{-7}, []float64{0}},
		{[]int64{5, 0, 3}, []float64{5, 0, 3}},
		{[]int64{10, -4, 4}, []float64{8, 0, 2}},
		{[]int64{10, -9, 1}, []float64{2, 0, 0}},
		{[]int64{-1, -2, 3}, []float64{0, 0, 0}},
		{[]int64{1 << 53, -(1 << 53)}, []float64{0, 0}},
	} {
		if got := estimates(c.vehicles); !slices.Equal(got, c.want) {
			t.Errorf("the estimates of %d are %g, want %g", c.vehicles, got, c.want)
		}
	}
	random := rand.New(rand.NewPCG(8, 9))
	for range 2000 {
		vehicles, sum := make([]int64, 1+random.IntN(40)), int64(0)
		for i := range vehicles {
			vehicles[i] = int64(random.NormFloat64()*20) + int64(random.IntN(2)*random.IntN(60))
			sum += vehicles[i]
		}
		got := estimates(vehicles)
		total, least, most := 0.0, math.Inf(1), math.Inf(-1) // what is taken from those above 0
		for i, n := range vehicles {
			total += got[i]
			if got[i] > 0 {
				least = min(least, float64(n)-got[i])
				most = max(most, float64(n)-got[i])
			}
		}
		for i, n := range vehicles {
			if got[i] < 0 || got[i] == 0 && sum > 0 && float64(n) > most+1e-9 {
				t.Fatalf("%d has the estimate %g where %g is taken", n, got[i], most)
			}
		}
		if math.Abs(total-float64(max(sum, 0))) > 1e-9 || sum > 0 && most-least > 1e-9 {
			t.Fatalf("the estimates of %d are %g", vehicles, got)
		}
	}
}

// TestEstimatesAreNearer: where most vehicles are in few of many zones, less than three quarters of
// the vehicles that noise shows in a wrong zone stay there.
func TestEstimatesAreNearer(t *testing.T) {
	const zones, windows = 280, 30
	polygons := make([]Area, zones-1)
	for i := range polygons {
		polygons[i] = square(fmt.Sprint(i), float64(i)/2, float64(i+1)/2)
	}
	p := publisher(t, 11, areas(t, polygons...), someSettings)
	truth := make([]int64, zones)
	for i := range truth {
		truth[i] = int64(400 / (1 + i*i/9))
	}
	cut, estimated := 0.0, 0.0
	for i := range int64(windows) {
		window := Window{StartMS: i * 3_600_000, EndMS: (i + 1) * 3_600_000}
		out, err := p.Publish(window, truth, nil)
		if err != nil {
			t.Fatal(err)
		}
		positive := make([]float64, zones)
		for zone, n := range out.Vehicles {
			positive[zone] = float64(max(0, n))
		}
		cut += wrong(positive, truth)
		estimated += wrong(out.Estimates, truth)
	}
	if cut < .1*windows || estimated > .75*cut {
		t.Errorf("%.3f in a wrong zone, by estimates %.3f", cut/windows, estimated/windows)
	}
}

// wrong is the share of vehicles that are shown in a wrong zone.
func wrong(shown []float64, truth []int64) (share float64) {
	sum, all := 0.0, 0.0
	for zone, n := range truth {
		sum, all = sum+shown[zone], all+float64(n)
	}
	for zone, n := range truth {
		share += math.Abs(shown[zone]/sum-float64(n)/all) / 2
	}
	return share
}
