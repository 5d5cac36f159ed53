package noise

import (
	"math/rand/v2"
	"testing"
)

// TestMeter checks the totals: the words of rejected attempts are rounded up to WordUnit, and the
// kept attempt takes whole blocks.
func TestMeter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attempts []int // words of each attempt, the last of which is kept
		block    uint64
		want     int
	}{
		{[]int{0}, 64, 64},
		{[]int{1}, 64, 64},
		{[]int{64}, 64, 64},
		{[]int{65}, 64, 128},
		{[]int{200}, 64, 256},
		{[]int{0, 5}, 64, 64},
		{[]int{3, 5}, 64, 32 + 64},
		{[]int{32, 64}, 64, 32 + 64},
		{[]int{20, 20, 64}, 64, 64 + 64},
		{[]int{20, 20, 65}, 96, 64 + 96},
		{[]int{200, 1}, 64, 224 + 64},
	} {
		for name, src := range map[string]Source{
			"chacha8": rand.NewChaCha8([32]byte{1}),
			"other":   &counted{Source: rand.NewChaCha8([32]byte{1})},
		} {
			var m Meter
			m.Start(src, c.block)
			next, drawn := rand.NewChaCha8([32]byte{1}), 0
			for i, words := range c.attempts {
				if i > 0 {
					m.Reject()
				}
				for drawn += words; words > 0; words-- {
					if got, want := m.Uint64(), next.Uint64(); got != want {
						t.Fatalf("%s, %v: a word %#x, want the source's %#x",
							name, c.attempts, got, want)
					}
				}
			}
			m.Keep()
			for range c.want - drawn {
				next.Uint64()
			}
			if n, ok := src.(*counted); ok && n.words != c.want {
				t.Errorf("%v in blocks of %d: %d words, want %d", c.attempts, c.block,
					n.words, c.want)
			}
			if src.Uint64() != next.Uint64() {
				t.Errorf("%s, %v in blocks of %d: another total", name, c.attempts, c.block)
			}
		}
	}
}

func TestMeterRefusesBlocks(t *testing.T) {
	t.Parallel()
	for _, block := range []uint64{0, 1, WordUnit - 1, WordUnit + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a block of %d words did not panic", block)
				}
			}()
			new(Meter).Start(&words{1}, block)
		}()
	}
}

func TestMeterDoesNotAllocate(t *testing.T) {
	src := NewKeyed(KeyFromSeed(1)).Stream(nil)
	m := new(Meter)
	if n := testing.AllocsPerRun(1000, func() {
		m.Start(src, 64)
		DiscreteLaplace(m, 1<<60, 12345)
		m.Keep()
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
