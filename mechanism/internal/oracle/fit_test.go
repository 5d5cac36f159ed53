package oracle

import (
	"math/rand/v2"
	"testing"
)

// TestPower: samples of a distribution pass, and of one a little off do not.
func TestPower(t *testing.T) {
	t.Parallel()
	const n = 20_000
	random := rand.New(rand.NewPCG(1, 2))
	sample, counts := make([]float64, n), make([]int, 10)
	for i := range sample {
		sample[i] = random.Float64()
		counts[int(10*sample[i])]++
	}
	uniform := func(x float64) float64 { return x }
	bent := func(x float64) float64 { return x + .1*x*(1-x) }
	if d := Kolmogorov(sample, uniform); d > 1 {
		t.Errorf("uniform numbers: %.2f", d)
	}
	if d := Kolmogorov(sample, bent); d <= 1 {
		t.Errorf("uniform numbers pass for others: %.2f", d)
	}
	even, uneven := make([]float64, 10), make([]float64, 10)
	for i := range even {
		even[i], uneven[i] = .1, .1+.01*(float64(i)-4.5)/4.5
	}
	if d := ChiSquare(counts, even, n); d > 1 {
		t.Errorf("even counts: %.2f", d)
	}
	if d := ChiSquare(counts, uneven, n); d <= 1 {
		t.Errorf("even counts pass for others: %.2f", d)
	}
}

// TestRareOutcomes: outcomes without a count of their own count together.
func TestRareOutcomes(t *testing.T) {
	t.Parallel()
	if d := ChiSquare([]int{500, 400}, []float64{.55, .449}, 1000); d <= 1 {
		t.Errorf("100 draws of what is expected once pass: %.2f", d)
	}
	if d := ChiSquare([]int{1000}, []float64{1}, 1000); d != 0 {
		t.Errorf("the only outcome there is: %.2f", d)
	}
}
