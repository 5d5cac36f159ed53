package noise

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/internal/oracle"
)

// wrongRates are laws near exp(-num/den), which the test must tell apart.
var wrongRates = map[string]func(num, den float64) float64{
	"1 - γ":        func(num, den float64) float64 { return max(0, 1-num/den) },
	"1/(1+γ)":      func(num, den float64) float64 { return 1 / (1 + num/den) },
	"a larger den": func(num, den float64) float64 { return math.Exp(-num / (den * 1.05)) },
}

func TestBernoulliExp(t *testing.T) {
	t.Parallel()
	const n = 200_000
	src := NewKeyed(KeyFromSeed(21)).Stream([]byte("exp"))
	huge := Wide{1 << 40, 12345}
	noticed := map[string]bool{}
	for _, c := range []struct{ num, den uint64 }{
		{0, 1},
		{1, 3},
		{1, 1},
		{5, 2},
		{7, 10},
		{3, 1},
		{1, 1 << 63},
		{1<<63 + 1, 1<<64 - 1},
		{math.MaxUint64, 1 << 63},
	} {
		rate := float64(c.num) / float64(c.den)
		for name, draw := range map[string]func() bool{
			"word": func() bool { return BernoulliExp(src, c.num, c.den) },
			"wide": func() bool {
				return BernoulliExpWide(src, huge.Times(c.num&0xffff), huge.Times(c.den&0xffff))
			},
		} {
			if name == "wide" && (c.num > 0xffff || c.den > 0xffff) {
				continue
			}
			counts := make([]int, 1)
			for range n {
				if draw() {
					counts[0]++
				}
			}
			if ratio := oracle.ChiSquare(counts, []float64{math.Exp(-rate)}, n); ratio > 1 {
				t.Errorf("%s, exp(-%d/%d): %d of %d, %.2f times the limit", name, c.num, c.den,
					counts[0], n, ratio)
			}
			for wrong, law := range wrongRates {
				if oracle.ChiSquare(counts, []float64{law(float64(c.num), float64(c.den))},
					n) > 1 {
					noticed[wrong] = true
				}
			}
		}
	}
	for wrong := range wrongRates {
		if !noticed[wrong] {
			t.Errorf("the test does not notice %s", wrong)
		}
	}
}

// laplaceCounts counts draws from -reach to reach.
func laplaceCounts(n, reach int, draw func() int64) []int {
	counts := make([]int, 2*reach+1)
	for range n {
		if y := draw(); y >= int64(-reach) && y <= int64(reach) {
			counts[y+int64(reach)]++
		}
	}
	return counts
}

func laplaceLaw(reach int, num, den uint64) []float64 {
	q := math.Exp(-float64(den) / float64(num))
	p := make([]float64, 2*reach+1)
	for i := range p {
		p[i] = (1 - q) / (1 + q) * math.Pow(q, math.Abs(float64(i-reach)))
	}
	return p
}

func signed(y Wide, negative bool) int64 {
	if negative {
		return -int64(y.Lo)
	}
	return int64(y.Lo)
}

func TestDiscreteLaplace(t *testing.T) {
	t.Parallel()
	const n, reach = 200_000, 60
	for _, c := range []struct{ num, den uint64 }{
		{1, 1},
		{1, 3},
		{7, 2},
		{10, 1},
		{355, 113},
		{1 << 62, 1 << 60},
		{math.MaxUint64, 1 << 62},
		{1 << 40, 1 << 41},
	} {
		t.Run(fmt.Sprint(c.num, "÷", c.den), func(t *testing.T) {
			t.Parallel()
			src := NewKeyed(KeyFromSeed(22)).Stream([]byte("laplace"))
			law := laplaceLaw(reach, c.num, c.den)
			counts := laplaceCounts(n, reach, func() int64 {
				y, negative := DiscreteLaplace(src, c.num, c.den)
				if y.Hi != 0 || y.IsZero() && negative {
					t.Fatalf("drew %v, negative %t", y, negative)
				}
				return signed(y, negative)
			})
			if ratio := oracle.ChiSquare(counts, law, n); ratio > 1 {
				t.Errorf("the statistic is %.2f times its limit", ratio)
			}
			if ratio := oracle.ChiSquare(counts, laplaceLaw(reach, c.num+c.num/20+1, c.den),
				n); c.num > 6 && c.num < 1<<60 && c.den < c.num && ratio <= 1 {
				t.Errorf("the test does not notice a scale 5 %% larger: %.2f of its limit", ratio)
			}
		})
	}
}

// TestDiscreteLaplaceNoticesFaults plants samplers that are wrong in the ways that are easy to
// make.
func TestDiscreteLaplaceNoticesFaults(t *testing.T) {
	t.Parallel()
	const n, reach, num, den = 200_000, 60, 7, 2
	src := NewKeyed(KeyFromSeed(23)).Stream(nil)
	exact := func() int64 { return signed(DiscreteLaplace(src, num, den)) }
	for name, draw := range map[string]func() int64{
		"zero has two signs": func() int64 {
			size, _ := DiscreteLaplace(src, num, den)
			for src.Uint64()&1 == 0 && size.IsZero() { // half of the zeros are kept once more
				size, _ = DiscreteLaplace(src, num, den)
			}
			return signed(size, src.Uint64()&1 == 0)
		},
		"a rounded continuous draw": func() int64 {
			return int64(math.Round(Laplace(src) * num / den))
		},
		"a truncated one": func() int64 { return int64(Laplace(src) * num / den) },
		"the nearer of two draws": func() int64 {
			a, b := exact(), exact()
			if max(a, -a) < max(b, -b) {
				return a
			}
			return b
		},
		"u is not thinned": func() int64 {
			u, v := Below(src, num), uint64(0)
			for bernoulliOverE(src) {
				v++
			}
			return signed(Wide{0, (u + num*v) / den}, src.Uint64()&1 == 0)
		},
	} {
		if ratio := oracle.ChiSquare(laplaceCounts(n, reach, draw), laplaceLaw(reach, num, den),
			n); ratio <= 1 {
			t.Errorf("the test does not notice: %s (%.2f of its limit)", name, ratio)
		}
	}
	if ratio := oracle.ChiSquare(laplaceCounts(n, reach, exact), laplaceLaw(reach, num, den),
		n); ratio > 1 {
		t.Errorf("the law itself: %.2f times its limit", ratio)
	}
}

// TestBelow counts small ranges, and a range that takes three quarters of all words, where a
// remainder would favour the lower half.
func TestBelow(t *testing.T) {
	t.Parallel()
	const n = 100_000
	src := NewKeyed(KeyFromSeed(24)).Stream(nil)
	for name, c := range map[string]struct {
		draw func() uint64
		law  []float64
		ok   bool
	}{
		"2": {func() uint64 { return Below(src, 2) }, []float64{.5, .5}, true},
		"3": {
			func() uint64 { return Below(src, 3) }, []float64{1. / 3, 1. / 3, 1. / 3}, true,
		},
		"thirds": {
			func() uint64 { return Below(src, 3<<62) >> 62 },
			[]float64{1. / 3, 1. / 3, 1. / 3},
			true,
		},
		"thirds, remainder": {
			func() uint64 { return src.Uint64() % (3 << 62) >> 62 },
			[]float64{1. / 3, 1. / 3, 1. / 3},
			false,
		},
		"wide thirds": {
			func() uint64 { return BelowWide(src, Wide{3 << 62, 1}).Hi >> 62 },
			[]float64{1. / 3, 1. / 3, 1. / 3},
			true,
		},
		"two and a half": {
			func() uint64 { return BelowWide(src, Wide{2, 1 << 63}).Hi },
			[]float64{.4, .4, .2},
			true,
		},
		"two": {
			func() uint64 { return BelowWide(src, Wide{2, 1 << 63}).Hi },
			[]float64{.5, .5, 0},
			false,
		},
	} {
		counts := make([]int, len(c.law))
		for range n {
			counts[c.draw()]++
		}
		if ratio := oracle.ChiSquare(counts, c.law, n); (ratio <= 1) != c.ok {
			t.Errorf("%s: %.2f times the limit, %v", name, ratio, counts)
		}
	}
	for range 100 {
		if Below(src, 1) != 0 || !BelowWide(src, Wide{1, 1}).Less(Wide{1, 1}) {
			t.Fatal("a draw beyond its bound")
		}
	}
}

// TestBelowTakesEveryWordOnce follows the words at the edges of Lemire's method for n = 3:
// 2⁶⁴ = 3·k + 1, so one word is drawn again.
func TestBelowTakesEveryWordOnce(t *testing.T) {
	t.Parallel()
	const third = (1<<64 - 1) / 3
	for _, c := range []struct {
		words words
		want  uint64
	}{
		{words{0, math.MaxUint64}, 2}, // the product 0 has the lower word 0 < 1: drawn again
		{words{1}, 0},
		{words{third}, 0},
		{words{third + 1}, 1},
		{words{2*third + 1}, 2},
		{words{2 * third}, 1},
		{words{math.MaxUint64}, 2},
	} {
		asked := fmt.Sprint(c.words)
		if got := Below(&c.words, 3); got != c.want || len(c.words) != 0 {
			t.Errorf("words %s: got %d and left %d, want %d", asked, got, len(c.words), c.want)
		}
	}
}

func TestExactDrawsRefuse(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(){
		"below 0":      func() { Below(&words{1}, 0) },
		"over 0":       func() { BernoulliExp(&words{1}, 1, 0) },
		"wide over 0":  func() { BernoulliExpWide(&words{1}, Wide{1, 0}, Wide{}) },
		"big over 0":   func() { BernoulliExpBig(&words{1}, big.NewInt(1), new(big.Int)) },
		"no scale":     func() { DiscreteLaplace(&words{1}, 0, 1) },
		"scale over 0": func() { DiscreteLaplace(&words{1}, 1, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("did not panic")
				}
			}()
			call()
		})
	}
}

// same checks that one, two and any number of words give the same result from the same stream, and
// leave it at the same word.
func same(t *testing.T, num, den Wide, seed uint64) {
	t.Helper()
	a, b, c := rand.NewPCG(seed, 1), rand.NewPCG(seed, 1), rand.NewPCG(seed, 1)
	for range 20 {
		wide, unbounded := BernoulliExpWide(a, num, den), BernoulliExpBig(b, num.Big(), den.Big())
		if wide != unbounded {
			t.Fatalf("exp(-%v/%v): two words give %t, any number %t", num, den, wide, unbounded)
		}
		if num.Hi|den.Hi == 0 && BernoulliExp(c, num.Lo, den.Lo) != wide {
			t.Fatalf("exp(-%v/%v): one word gives %t, two %t", num, den, !wide, wide)
		}
	}
	next := a.Uint64()
	if next != b.Uint64() || num.Hi|den.Hi == 0 && next != c.Uint64() {
		t.Fatalf("exp(-%v/%v): another number of words", num, den)
	}
}

func FuzzBernoulliExp(f *testing.F) {
	f.Add(uint64(0), uint64(1), uint64(0), uint64(2), uint64(1))
	f.Add(uint64(1), uint64(0), uint64(1), uint64(0), uint64(2))
	f.Add(uint64(math.MaxUint64), uint64(math.MaxUint64), uint64(1<<63), uint64(0), uint64(3))
	f.Fuzz(func(t *testing.T, numHi, numLo, denHi, denLo, seed uint64) {
		if denHi|denLo == 0 {
			denLo = 1
		}
		same(t, Wide{numHi, numLo}, Wide{denHi, denLo}, seed)
		same(t, Wide{0, numLo}, Wide{0, max(denLo, 1)}, seed)
	})
}

// FuzzDiscreteLaplace follows one draw in numbers without bounds, also where it is as large as the
// words allow.
func FuzzDiscreteLaplace(f *testing.F) {
	f.Add(uint64(7), uint64(2), uint64(1))
	f.Add(uint64(math.MaxUint64), uint64(1), uint64(2))
	f.Add(uint64(1), uint64(math.MaxUint64), uint64(3))
	f.Fuzz(func(t *testing.T, num, den, seed uint64) {
		num, den = max(num, 1), max(den, 1)
		a, b := rand.NewPCG(seed, 1), rand.NewPCG(seed, 1)
		for range 10 {
			y, negative := DiscreteLaplace(a, num, den)
			want := unboundedLaplace(b, num, den)
			got := y.Big()
			if negative {
				got.Neg(got)
			}
			if got.Cmp(want) != 0 {
				t.Fatalf("scale %d/%d: got %v, want %v", num, den, got, want)
			}
		}
		if a.Uint64() != b.Uint64() {
			t.Fatal("another number of words")
		}
	})
}

// unboundedLaplace is algorithm 2 as it is written, in numbers without bounds.
func unboundedLaplace(src Source, num, den uint64) *big.Int {
	t, s := new(big.Int).SetUint64(num), new(big.Int).SetUint64(den)
	for {
		u := belowBig(src, t)
		if !BernoulliExpBig(src, u, t) {
			continue
		}
		v := int64(0)
		for BernoulliExpBig(src, s, s) {
			v++
		}
		x := new(big.Int).Mul(t, big.NewInt(v))
		y := x.Add(x, u).Div(x, s)
		negative := src.Uint64()>>63 == 1
		if negative && y.Sign() == 0 {
			continue
		}
		if negative {
			y.Neg(y)
		}
		return y
	}
}

func FuzzWide(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint64(3), uint64(4))
	f.Add(uint64(math.MaxUint64), uint64(math.MaxUint64), uint64(math.MaxUint64), uint64(1))
	f.Fuzz(func(t *testing.T, a, b, add, by uint64) {
		p := Product(a, b)
		want := new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
		if p.Big().Cmp(want) != 0 {
			t.Fatalf("%d·%d = %v", a, b, p)
		}
		if wide := want.Mul(want, new(big.Int).SetUint64(by)); wide.BitLen() <= 128 &&
			p.Times(by).Big().Cmp(wide) != 0 {
			t.Fatalf("%d·%d·%d = %v", a, b, by, p.Times(by))
		}
		q := Wide{add, by}
		low, high := p, q
		if high.Less(low) {
			low, high = high, low
		}
		if d := new(big.Int).Sub(high.Big(), low.Big()); d.Sign() < 0 ||
			high.Minus(low).Big().Cmp(d) != 0 {
			t.Fatalf("%v - %v = %v", high, low, high.Minus(low))
		}
		sum := new(big.Int).Add(p.Big(), new(big.Int).SetUint64(add))
		if by = max(by, 1); sum.BitLen() <= 128 &&
			p.over(add, by).Big().Cmp(sum.Div(sum, new(big.Int).SetUint64(by))) != 0 {
			t.Fatalf("(%v + %d)/%d = %v", p, add, by, p.over(add, by))
		}
	})
}

func TestExactDrawsDoNotAllocate(t *testing.T) {
	src := NewKeyed(KeyFromSeed(1)).Stream(nil)
	if n := testing.AllocsPerRun(1000, func() {
		DiscreteLaplace(src, 1<<60, 12345)
		BernoulliExpWide(src, Wide{3, 4}, Wide{5, 6})
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// counted counts the words that are drawn.
type counted struct {
	Source
	words int
}

func (c *counted) Uint64() uint64 {
	c.words++
	return c.Source.Uint64()
}

func BenchmarkExactDraws(b *testing.B) {
	src := &counted{Source: NewKeyed(KeyFromSeed(1)).Stream(nil)}
	for _, c := range []struct {
		name string
		draw func()
	}{
		{"exp(-1÷3)", func() { BernoulliExp(src, 1, 3) }},
		{"exp(-1÷3) wide", func() { BernoulliExpWide(src, Wide{1, 0}, Wide{3, 0}) }},
		{"laplace 10÷1", func() { DiscreteLaplace(src, 10, 1) }},
		{"laplace 10⁹÷7", func() { DiscreteLaplace(src, 1_000_000_000, 7) }},
		{"laplace 2⁶²÷2⁴⁰", func() { DiscreteLaplace(src, 1<<62, 1<<40) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			src.words = 0
			for b.Loop() {
				c.draw()
			}
			b.ReportMetric(float64(src.words)/float64(b.N), "words/op")
		})
	}
}
