package law

import (
	"math"
	"math/big"
	"testing"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for _, name := range HullNames() {
		for _, isotropy := range []string{IsotropyClosedForm, IsotropySampled, ""} {
			m, err := New(Options{Name: name, Isotropy: isotropy})
			if err != nil || m.Name() != name {
				t.Errorf("%q, %q: %v, %v", name, isotropy, m, err)
			}
		}
	}
	for fault, o := range map[string]Options{
		"no mechanism":               {},
		"an unknown mechanism":       {Name: "x"},
		"an unknown way of isotropy": {Name: PIM, Isotropy: "x"},
		"a negative subdivision":     {Name: Lattice, Subdivision: -1},
		"a subdivision too fine":     {Name: Lattice, Subdivision: MaxSubdivision + 1},
	} {
		if _, err := New(o); err == nil {
			t.Error(fault)
		}
	}
}

func TestExactEpsilon(t *testing.T) {
	t.Parallel()
	for epsilon, want := range map[float64][2]uint64{
		1: {1, 1}, .1: {1, 10}, 2.5: {5, 2}, 700: {700, 1}, 1e-6: {1, 1_000_000},
		.693147181:   {693147181, 1_000_000_000},
		12.000000001: {12_000_000_001, 1_000_000_000},
	} {
		p, q, err := exactEpsilon(epsilon)
		if err != nil || [2]uint64{p, q} != want {
			t.Errorf("%v: %d/%d, %v, want %v", epsilon, p, q, err, want)
		}
	}
	for _, epsilon := range []float64{
		math.Ln2, 1. / 3, math.Nextafter(.3, 1), 1e-6 + 1e-10, 0,
		math.NaN(), 701, -1,
	} {
		if p, q, err := exactEpsilon(epsilon); err == nil {
			t.Errorf("%v is taken for %d/%d", epsilon, p, q)
		}
	}
}

func FuzzExactEpsilon(f *testing.F) {
	f.Add(1.5)
	f.Add(1e-6)
	f.Fuzz(func(t *testing.T, epsilon float64) {
		p, q, err := exactEpsilon(epsilon)
		if err != nil {
			return
		}
		num, den := new(big.Int).SetUint64(p), new(big.Int).SetUint64(q)
		back, _ := new(big.Rat).SetFrac(num, den).Float64()
		if back != epsilon || p >= 1<<40 || q > 1e9 || gcd(p, q) != 1 {
			t.Errorf("%v is taken for %d/%d", epsilon, p, q)
		}
	})
}
