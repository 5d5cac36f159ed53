package mechanism

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// onDay is the source of a release's transcript on a day that the streams have.
func onDay(t *testing.T, streams noise.Streams, day noise.Day, transcript []byte) noise.Source {
	t.Helper()
	source, err := streams.On(day, transcript)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

const dayMS = 24 * 60 * 60 * 1000

func TestDayOfAStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step, stepMS int64
		want         noise.Day
	}{
		{0, 60_000, 0},
		{1439, 60_000, 0},
		{1440, 60_000, 1},
		{-1, 60_000, 0},
		{math.MinInt64, 60_000, 0},
		{math.MaxInt64, 60_000, noise.LastDay},
		{math.MaxInt64, 1, noise.LastDay},
		{20_778, dayMS, 20_778},
		{20_778*24 - 1, dayMS / 24, 20_777},
		{7, 30 * dayMS, 210},
		{math.MaxInt64 / dayMS, dayMS, noise.LastDay},
	} {
		if got := dayOf(c.step, c.stepMS); got != c.want {
			t.Errorf("step %d of %d ms begins on day %d, want %d", c.step, c.stepMS, got, c.want)
		}
	}
}

// daySanitizer draws under a key from a day on.
func daySanitizer(t *testing.T, m *mobility.Model, first noise.Day) *Sanitizer {
	t.Helper()
	key, err := noise.KeyFromSeed(12).From(first)
	if err != nil {
		t.Fatal(err)
	}
	s := sanitizerWith(t, m, noise.NewKeyed(key), Options{Epsilon: 1, Delta: .01})
	return s
}

// TestDestroyedDayIsNotReleased: a step of a day whose key is gone is an error that leaves the
// state as it was, to the bit, and the step after it on a day that is there has the very release
// that the whole key gives.
func TestDestroyedDayIsNotReleased(t *testing.T) {
	t.Parallel()
	const first = 3
	model := roadModel(t)
	whole, part := daySanitizer(t, model, 0), daySanitizer(t, model, first)
	perDay := dayMS / whole.stepMS
	var a, b State
	for _, step := range []int64{0, first*perDay - 1} {
		in := Input{User: "u", Step: step, Cell: 1, Release: true}
		state := copyState(&b)
		_, err := part.Step(&b, in)
		var destroyed *noise.DestroyedError
		if !errors.As(err, &destroyed) || destroyed.First != first {
			t.Fatalf("step %d: %v, want a destroyed day", step, err)
		}
		if !bytes.Equal(state.AppendBinary(nil), b.AppendBinary(nil)) {
			t.Fatalf("step %d: the state has changed", step)
		}
		// The rest of Algorithm 1 needs no key.
		if _, err := part.Step(&state, Input{User: "u", Step: step}); err != nil {
			t.Errorf("step %d cannot be predicted: %v", step, err)
		}
	}
	for step := first * perDay; step < first*perDay+20; step++ {
		in := Input{User: "u", Step: step, Cell: 1, Release: true}
		x, y := mustStep(t, whole, &a, in), mustStep(t, part, &b, in)
		if x != y || !bytes.Equal(a.AppendBinary(nil), b.AppendBinary(nil)) {
			t.Fatalf("step %d: the key from day %d on gives another release", step, first)
		}
	}
}

// TestDayChangesTheNoise: the same transcript has other noise on another day, for the streams that
// sanitizers use.
func TestDayChangesTheNoise(t *testing.T) {
	t.Parallel()
	streams := noise.NewKeyed(noise.KeyFromSeed(13))
	seen := map[uint64]noise.Day{}
	for day := range noise.Day(50) {
		word := onDay(t, streams, day, sampleFacts().bytes()).Uint64()
		if other, ok := seen[word]; ok {
			t.Errorf("days %d and %d share their noise", day, other)
		}
		seen[word] = day
		if onDay(t, streams, day, sampleFacts().bytes()).Uint64() != word {
			t.Errorf("day %d has two streams", day)
		}
	}
}

// TestStepAsksForItsDay: the sanitizer asks for the day on which the step begins.
func TestStepAsksForItsDay(t *testing.T) {
	t.Parallel()
	r := &recorder{streams: noise.NewKeyed(noise.KeyFromSeed(14))}
	s := sanitizerWith(t, roadModel(t), r, Options{Epsilon: 1, Delta: .01})
	perDay := dayMS / s.stepMS
	for _, day := range []int64{0, 1, 20_778, 20_779} {
		for _, step := range []int64{day * perDay, (day+1)*perDay - 1} {
			var state State
			mustStep(t, s, &state, Input{User: "u", Step: step, Cell: 1, Release: true})
			if r.day != noise.Day(day) {
				t.Errorf("step %d asks for day %d, want %d", step, r.day, day)
			}
		}
	}
}
