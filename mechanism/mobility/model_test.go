package mobility

import (
	"math"
	"testing"
	"time"
)

func TestStepOf(t *testing.T) {
	for _, tt := range []struct{ timestampMS, stepMS, want int64 }{
		{0, 60_000, 0},
		{59_999, 60_000, 0},
		{60_000, 60_000, 1},
		{-1, 60_000, -1},
		{-60_000, 60_000, -1},
		{-60_001, 60_000, -2},
		{math.MaxInt64, 1, math.MaxInt64},
		{math.MinInt64, 1, math.MinInt64},
		{math.MinInt64, 1000, -9_223_372_036_854_776},
	} {
		if got := StepOf(tt.timestampMS, tt.stepMS); got != tt.want {
			t.Errorf("time %d in steps of %d ms: %d, want %d", tt.timestampMS, tt.stepMS, got,
				tt.want)
		}
		m := Model{Step: time.Duration(tt.stepMS) * time.Millisecond}
		if got := m.StepAt(tt.timestampMS); got != tt.want {
			t.Errorf("StepAt(%d) of a step of %s: %d, want %d", tt.timestampMS, m.Step, got,
				tt.want)
		}
	}
}
