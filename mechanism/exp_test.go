package mechanism

import (
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
		if x <= leastExponent {
			continue
		}
		worst = max(worst, math.Abs(exp(x)/math.Exp(x)-1))
	}
	if worst > 4*0x1p-53 {
		t.Errorf("relative error %g", worst)
	}
	if exp(0) != 1 || exp(-708) != 0 || exp(math.Inf(-1)) != 0 || exp(-707.9) == 0 ||
		exp(-1e300) != 0 {
		t.Error("wrong at an end")
	}
}
