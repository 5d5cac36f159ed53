package portable

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
)

func TestExpAgainstStandardLibrary(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(61, 1))
	worst := 0.0
	for range 300000 {
		x := -math.Exp(16*r.Float64() - 10)
		if x <= least {
			continue
		}
		worst = max(worst, math.Abs(Exp(x)/math.Exp(x)-1), math.Abs(Exp(-x)/math.Exp(-x)-1))
	}
	if worst > 4*0x1p-53 {
		t.Errorf("relative error %g", worst)
	}
	if Exp(0) != 1 || Exp(-708) != 0 || Exp(math.Inf(-1)) != 0 || Exp(-707.9) == 0 ||
		Exp(-1e300) != 0 || !math.IsInf(Exp(709), 1) || math.IsInf(Exp(708.9), 1) {
		t.Error("wrong at an end")
	}
}

// TestBits holds the same bits on every architecture.
func TestBits(t *testing.T) {
	t.Parallel()
	h := fnv.New64a()
	r := rand.New(rand.NewPCG(61, 2))
	for range 200_000 {
		x := float64(1400*r.Float64()) - 700 // not fused: the same x everywhere
		h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(Exp(x))))
	}
	if got := h.Sum64(); got != 0x17c4163592cf9733 {
		t.Errorf("other bits: %#x", got)
	}
}
