package noise

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/internal/oracle"
)

func draws(n int, draw func(Source) float64) []float64 {
	src := NewKeyed(KeyFromSeed(7)).Stream([]byte("draws"))
	sample := make([]float64, n)
	for i := range sample {
		sample[i] = draw(src)
	}
	return sample
}

func gammaCDF(shape int) func(float64) float64 {
	return func(x float64) float64 {
		term, sum := 1.0, 0.0
		for k := range shape {
			if k > 0 {
				term *= x / float64(k)
			}
			sum += term
		}
		return 1 - math.Exp(-x)*sum
	}
}

func laplaceCDF(x float64) float64 {
	if x < 0 {
		return math.Exp(x) / 2
	}
	return 1 - math.Exp(-x)/2
}

func TestLaws(t *testing.T) {
	t.Parallel()
	const n = 40000
	uniform := func(x float64) float64 { return x }
	for _, c := range []struct {
		name  string
		draw  func(Source) float64
		cdf   func(float64) float64
		wrong func(float64) float64 // a neighbouring law, which the test must tell apart
	}{
		{"uniform", Uniform, uniform, func(x float64) float64 { return math.Pow(x, 1.1) }},
		{"gamma 1", func(s Source) float64 { return Gamma(s, 1) }, gammaCDF(1), gammaCDF(2)},
		{"gamma 2", func(s Source) float64 { return Gamma(s, 2) }, gammaCDF(2), gammaCDF(3)},
		{"gamma 3", func(s Source) float64 { return Gamma(s, 3) }, gammaCDF(3), gammaCDF(2)},
		{"gamma 40", func(s Source) float64 { return Gamma(s, 40) }, gammaCDF(40), gammaCDF(41)},
		{"laplace", Laplace, laplaceCDF, func(x float64) float64 { return laplaceCDF(x * 1.1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sample := draws(n, c.draw)
			if d := oracle.Kolmogorov(sample, c.cdf); d > 1 {
				t.Errorf("√n·D is %.2f of its limit", d)
			}
			if d := oracle.Kolmogorov(sample, c.wrong); d <= 1 {
				t.Errorf("the test does not notice a wrong law: √n·D is %.2f of its limit", d)
			}
		})
	}
}

type words []uint64

func (w *words) Uint64() uint64 {
	first := (*w)[0]
	*w = (*w)[1:]
	return first
}

func TestUniformNeverReachesItsEnds(t *testing.T) {
	t.Parallel()
	for _, word := range []uint64{0, 1<<12 - 1, 1 << 12, 1 << 63, math.MaxUint64} {
		u := Uniform(&words{word})
		if !(u > 0 && u < 1) {
			t.Errorf("word %#x gives %g", word, u)
		}
		if e := Gamma(&words{word}, 1); math.IsInf(e, 0) || !(e > 0) {
			t.Errorf("word %#x gives the exponential number %g", word, e)
		}
	}
	if a, b := Laplace(&words{2 << 40}), Laplace(&words{2<<40 | 1}); a != -b || a < 0 {
		t.Errorf("the low bit is not the sign: %g and %g", a, b)
	}
}

// TestUniformTakes52Bits checks the lattice of uniform numbers: each of the upper 52 bits of a word
// counts, and the other twelve do not.
func TestUniformTakes52Bits(t *testing.T) {
	t.Parallel()
	for bit := range 64 {
		change := Uniform(&words{1 << bit}) - Uniform(&words{0})
		want := 0.0
		if bit >= 12 {
			want = math.Ldexp(1, bit-64)
		}
		if change != want {
			t.Errorf("bit %d changes a uniform number by %g, want %g", bit, change, want)
		}
	}
	if least := Uniform(&words{0}); least != 0x1p-53 {
		t.Errorf("the least uniform number is %g, want 2⁻⁵³", least)
	}
}

func TestGammaRefusesShape(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("shape 0 did not panic")
		}
	}()
	Gamma(&words{1}, 0)
}

func TestLogAgainstStandardLibrary(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	check := func(x float64) {
		want := math.Log(x)
		worst = max(worst, math.Abs(log(x)-want)/max(math.Abs(want), 0x1p-1000))
	}
	for range 200000 {
		check(r.Float64() + 0x1p-53)
		check(1 - r.Float64()*0x1p-20)
		check(math.Exp(1200*r.Float64() - 600))
	}
	if worst > 4*0x1p-53 {
		t.Errorf("relative error %g", worst)
	}
	if log(1) != 0 {
		t.Errorf("log 1 = %g", log(1))
	}
}

func TestStreamIsSeededByHMAC(t *testing.T) {
	t.Parallel()
	key := KeyFromSeed(3)
	mac := hmac.New(sha256.New, key.secret().master[:])
	mac.Write([]byte("transcript"))
	want := rand.NewChaCha8([32]byte(mac.Sum(nil)))
	got := NewKeyed(key).Stream([]byte("transcript"))
	for range 100 {
		if g, w := got.Uint64(), want.Uint64(); g != w {
			t.Fatalf("got %#x, want %#x", g, w)
		}
	}
}

func TestStreamsRepeatAndDiffer(t *testing.T) {
	t.Parallel()
	k := NewKeyed(KeyFromSeed(3))
	first := func(k *Keyed, transcript string) [8]uint64 {
		s := k.Stream([]byte(transcript))
		var w [8]uint64
		for i := range w {
			w[i] = s.Uint64()
		}
		return w
	}
	a := first(k, "a")
	k.Stream([]byte("left half way")).Uint64()
	if first(k, "a") != a {
		t.Error("the same transcript gave another stream")
	}
	if first(k, "b") == a || first(k, "") == a {
		t.Error("another transcript gave the same stream")
	}
	if first(NewKeyed(KeyFromSeed(4)), "a") == a {
		t.Error("another key gave the same stream")
	}
	if first(NewKeyed(KeyFromSeed(3)), "a") != a {
		t.Error("the same key in another instance gave another stream")
	}
}

func TestKeysNeverPrint(t *testing.T) {
	t.Parallel()
	key := KeyFromSeed(5)
	digits := key.Reveal()
	type config struct {
		Public  Key
		private Key // fmt reaches it by reflection only
	}
	nested := config{key, key}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%T"} {
		for _, v := range []any{key, &key, nested, &nested, []Key{key}, map[string]Key{"k": key}} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	for _, v := range []any{key, nested, []Key{key}} {
		if err := json.NewEncoder(&out).Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.NewTextHandler(&out, nil))
	log.Info("start", "key", key, "config", nested)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("start", "key", key, "config", nested)
	text := strings.ToLower(out.String())
	if !strings.Contains(text, redacted) {
		t.Error("keys do not print [redacted]")
	}
	bytesInDecimal := fmt.Sprintf("%d %d", key.secret().master[0], key.secret().master[1])
	bytesInHex := fmt.Sprintf("%#x, %#x", key.secret().master[0], key.secret().master[1])
	for _, secret := range []string{digits[:8], bytesInDecimal, bytesInHex} {
		if strings.Contains(text, secret) {
			t.Errorf("a printed key shows its bytes (%q)", secret)
		}
	}
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	key := NewKey()
	back, err := ParseKey(key.Reveal())
	if err != nil || !back.Equal(key) {
		t.Errorf("a revealed key does not parse back: %v", err)
	}
	if key.Equal(NewKey()) || key.Equal(Key{}) || !(Key{}).Equal(Key{}) {
		t.Error("Equal is wrong")
	}
	if (Key{}).Reveal() != "" || !(Key{}).IsZero() || key.IsZero() {
		t.Error("the zero key is not one")
	}
	for _, digits := range []string{"", "12", strings.Repeat("g", 64), strings.Repeat("1", 63)} {
		_, err := ParseKey(digits)
		if err == nil {
			t.Errorf("%q parsed", digits)
		} else if digits != "" && strings.Contains(err.Error(), digits) {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
}

func TestNoKeyPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("the zero key did not panic")
		}
	}()
	NewKeyed(Key{})
}

func TestStreamDoesNotAllocate(t *testing.T) {
	k := NewKeyed(KeyFromSeed(1))
	transcript := make([]byte, 150)
	sum := 0.0
	run := func() {
		s := k.Stream(transcript)
		sum += Gamma(s, 3) + Uniform(s) + Laplace(s)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%g allocations a stream", n)
	}
}

func BenchmarkStream(b *testing.B) {
	k := NewKeyed(KeyFromSeed(1))
	for _, size := range []int{100, 160, 300} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			transcript := make([]byte, size)
			b.ReportAllocs()
			for b.Loop() {
				k.Stream(transcript).Uint64()
			}
		})
	}
}

func BenchmarkDraws(b *testing.B) {
	src := NewKeyed(KeyFromSeed(1)).Stream(nil)
	for name, draw := range map[string]func(Source) float64{
		"uniform": Uniform, "gamma3": func(s Source) float64 { return Gamma(s, 3) },
		"laplace": Laplace,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				draw(src)
			}
		})
	}
}
