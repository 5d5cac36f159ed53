package countfiles

import "testing"

// TestMostCut: hours in which few drive do not decide.
func TestMostCut(t *testing.T) {
	var seen, counted [24]int64
	seen[8], seen[9], seen[23] = 100, 10, 9
	counted[8], counted[9] = 99, 8
	if hour, share := mostCut(seen, counted); hour != 9 || share != .2 {
		t.Errorf("%g at %d h", share, hour)
	}
}

// TestCover: a cap of 3 cuts the fourth window of the users who have one, which 5 % of a busy hour
// may be.
func TestCover(t *testing.T) {
	for late, want := range map[int]int{5: 3, 6: 4} {
		o := new(Shifts)
		for i := range 100 {
			o.Add(8, 0)
			o.Add(9, 1)
			o.Add(10, 2)
			if i >= 5 {
				o.Add(11, 2)
			}
		}
		for range late {
			o.Add(11, 3)
		}
		if got := o.Cover(); got != want {
			t.Errorf("with %d of a fourth window: %d, want %d", late, got, want)
		}
	}
}
