package mechanism

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/ledger"
	"github.com/geodither/geodither/mechanism/mobility"
)

func sampleState() *State {
	s := &State{
		Started: true, Step: 29_000_123, HasRelease: true, ReleaseStep: 29_000_120,
		Release:  grid.Point{X: -1.25, Y: 3.5},
		Releases: 17, EpsilonSpent: 17, Model: ID{1, 2, 3}, Grid: ID{4, 5}, StepMS: 60_000,
		Estimate: grid.Point{X: 2, Y: -.5}, RadiusKM: .25,
		Rho:       8.5,
		Posterior: mobility.Distribution{Cells: []grid.Cell{0, 3, 700}, P: []float64{.5, .25, .25}},
	}
	s.Posterior.Round()
	noRuns := slices.Concat([]byte{0}, sampleOlder)
	if _, err := s.Ledger.DecodeBinary(noRuns, s.StepMS); err != nil {
		panic(err)
	}
	for step := int64(29_000_106); step <= 29_000_120; step++ {
		s.Ledger.Charge(ledger.StepEnd(step, s.StepMS), ledger.CostOf(1), math.MinInt64)
	}
	return s
}

// shortState is the sample with short masses.
func shortState() *State {
	s := sampleState()
	s.Short = true
	return s
}

func equalStates(a, b *State) bool {
	return bytes.Equal(a.AppendBinary(nil), b.AppendBinary(nil)) &&
		a.Started == b.Started && a.Step == b.Step && a.Release == b.Release &&
		a.Posterior.Len() == b.Posterior.Len()
}

func TestStateRoundTrip(t *testing.T) {
	t.Parallel()
	fresh := sampleState()
	fresh.HasRelease, fresh.Releases, fresh.Release, fresh.ReleaseStep = false, 0, grid.Point{}, 0
	old := sampleState()
	old.Step, old.ReleaseStep = -5, math.MinInt64+7
	for name, s := range map[string]*State{
		"released": sampleState(), "predicted only": fresh,
		"negative steps": old, "new user": {}, "short masses": shortState(),
	} {
		var back State
		if err := back.DecodeBinary(s.AppendBinary([]byte{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !equalStates(s, &back) || back.Short != s.Short {
			t.Errorf("%s: got %+v, want %+v", name, back, *s)
		}
	}
	var empty State
	if err := empty.DecodeBinary(nil); err != nil || empty.Started {
		t.Errorf("no bytes are a new user: %v", err)
	}
}

// head and tail of the sample state.
var (
	sampleHead = []byte{
		1, 2, 3, 0, 0, 0, 0, 0, // model
		4, 5, 0, 0, 0, 0, 0, 0, // grid
		0xe0, 0xd4, 0x03, // step length
		0xf6, 0x86, 0xd4, 0x1b, // step
		17, // releases
	}
	sampleEstimate = []byte{
		0, 0, 0, 0, 0, 0, 0, 0x40, // estimate, x
		0, 0, 0, 0, 0, 0, 0xe0, 0xbf, // y
		0, 0, 0, 0, 0, 0, 0xd0, 0x3f, // radius
		3,                            // age of the release
		0, 0, 0, 0, 0, 0, 0xf4, 0xbf, // x
		0, 0, 0, 0, 0, 0, 0x0c, 0x40, // y
	}
	samplePosterior = []byte{
		3, 0, 2, 0xb8, 5, // cells
		0, 0, 0, 0x3f, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3e, // masses
	}
)

// TestStateFormat pins the bytes.
func TestStateFormat(t *testing.T) {
	t.Parallel()
	want := slices.Concat(
		[]byte{1, 3}, // version, flags
		sampleMiddle,
		samplePosterior,
	)
	if got := sampleState().AppendBinary(nil); !bytes.Equal(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	want = slices.Concat([]byte{1, 7}, sampleMiddle, []byte{
		3, 3, // cells, lowest bits
		0xd4, 0x01, 0x5c, 0x5e, 0xf8, // runs, then 01 111, 01 111, 1 000
	})
	if got := shortState().AppendBinary(nil); !bytes.Equal(got, want) {
		t.Errorf("with short masses: got %#v, want %#v", got, want)
	}
	// A mass that is not short is never rounded on the way to the store.
	odd := shortState()
	odd.Posterior.P[0] = .1
	if got := odd.AppendBinary(nil); got[1] != 3 {
		t.Errorf("a posterior with other masses has the flags %d", got[1])
	}
}

// sampleOlder is what the sample's ledger holds before its runs.
var sampleOlder = []byte{
	0x80, 0xa8, 0xd6, 0xb9, 0x07, // ε 2
	0xb2, 0xf5, 0xd3, 0x1b, // up to the end of step 28 999 000
}

// sampleMiddle is what lies between flags and posterior.
var sampleMiddle = slices.Concat(
	sampleHead,
	[]byte{0, 0, 0, 0, 0, 0, 0x21, 0x40}, // Σε²/2
	sampleEstimate,
	[]byte{2}, // one run, in steps
	sampleOlder,
	[]byte{
		0xd2, 0x08, // the first of the run is 1106 steps later
		15, 1, // fifteen releases, one step apart
		0x80, 0x94, 0xeb, 0xdc, 0x03, // ε 1 each
	},
)

func TestStateRefusesDamage(t *testing.T) {
	t.Parallel()
	good := sampleState().AppendBinary(nil)
	for _, whole := range [][]byte{good, shortState().AppendBinary(nil)} {
		for n := 1; n < len(whole); n++ {
			if err := new(State).DecodeBinary(whole[:n]); !errors.Is(err, ErrState) {
				t.Errorf("%d of %d bytes: %v", n, len(whole), err)
			}
		}
	}
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	notANumber := bytes.Clone(good)
	copy(notANumber[26:], []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f})
	for name, data := range map[string][]byte{
		"another version":       change(0, 4),
		"other masses":          change(0, 3),
		"version 0":             change(0, 0),
		"an unknown flag":       change(1, 7),
		"a release, no start":   change(1, 2),
		"flags of no state":     change(1, 0),
		"bytes after the end":   append(bytes.Clone(good), 0),
		"a negative ρ":          change(33, 0xc0),
		"ρ that is no number":   notANumber,
		"a release, none drawn": change(25, 0),
		"a negative radius":     change(57, 0xbf),
	} {
		if err := new(State).DecodeBinary(data); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStateDecodesWithoutAllocation(t *testing.T) {
	data, short := sampleState().AppendBinary(nil), shortState().AppendBinary(nil)
	var s State
	out := make([]byte, 0, 256)
	run := func() {
		for _, data := range [][]byte{data, short} {
			if err := s.DecodeBinary(data); err != nil {
				t.Error(err)
			}
			out = s.AppendBinary(out[:0])
		}
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// FuzzStateDecode checks that any bytes are either refused or a state that encodes to what decodes
// to the same, and that a sanitizer takes or refuses such a state without a panic.
func FuzzStateDecode(f *testing.F) {
	f.Add(sampleState().AppendBinary(nil))
	f.Add(shortState().AppendBinary(nil))
	f.Add(new(State).AppendBinary(nil))
	f.Add([]byte{1, 1})
	model := roadModel(f)
	s := newSanitizer(f, model, Options{Epsilon: 1, Delta: .1})
	own := sampleState()
	own.Model, own.Grid = s.modelID, s.gridID
	f.Add(own.AppendBinary(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var state State
		if err := state.DecodeBinary(data); err != nil {
			if !errors.Is(err, ErrState) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		again := state.AppendBinary(nil)
		var back State
		if err := back.DecodeBinary(again); err != nil ||
			!bytes.Equal(back.AppendBinary(nil), again) {
			t.Fatalf("a decoded state does not survive encoding: %v", err)
		}
		if back.Ledger.Spent() != state.Ledger.Spent() || back.EpsilonSpent != state.EpsilonSpent {
			t.Fatalf("the ledger does not survive encoding: %+v, %+v", state.Ledger, back.Ledger)
		}
		before := state.Ledger.Spent()
		s.Migrate(&state)
		out, err := s.Step(&state, Input{User: "u", Step: state.Step, Cell: 1, Release: true})
		if err == nil && (math.IsNaN(out.Estimate.X) || math.IsNaN(out.RadiusKM)) {
			t.Fatalf("no estimate: %+v", out)
		}
		if err == nil && state.Ledger.Spent() != before.Plus(ledger.CostOf(out.Epsilon)) {
			t.Fatalf("a release of ε %g made %d billionths %d", out.Epsilon, before,
				state.Ledger.Spent())
		}
	})
}

// TestErase: two users who differ in nothing but their places are one after Erase, to the byte, and
// what they have spent is still there.
func TestErase(t *testing.T) {
	t.Parallel()
	a, b := sampleState(), sampleState()
	b.Release, b.Estimate, b.RadiusKM = grid.Point{X: 9}, grid.Point{Y: 8}, 7
	b.Model, b.Grid, b.ReleaseStep = ID{7}, ID{8}, b.ReleaseStep-5
	b.Posterior = mobility.Distribution{Cells: []grid.Cell{5}, P: []float64{1}}
	b.Short = true
	a.Erase()
	b.Erase()
	if got, other := a.AppendBinary(nil), b.AppendBinary(nil); !bytes.Equal(got, other) {
		t.Errorf("%x\n%x", got, other)
	}
	var back State
	if err := back.DecodeBinary(a.AppendBinary(nil)); err != nil {
		t.Fatal(err)
	}
	want := sampleState()
	if back.Releases != want.Releases || back.EpsilonSpent != want.EpsilonSpent ||
		back.Rho != want.Rho || back.Step != want.Step || back.HasRelease {
		t.Errorf("%+v", back)
	}
	var fresh State
	fresh.Erase()
	if fresh.Started {
		t.Error("a new user was made a known one")
	}
}

// TestOneReleaseAStep: a step that has had its release gets no other one after an erasure, at any
// interval. A fix may be read again, as after a move to another cluster.
func TestOneReleaseAStep(t *testing.T) {
	t.Parallel()
	for _, interval := range []int{1, 3} {
		s := newSanitizer(t, roadModel(t), Options{
			Epsilon: 1, Delta: .1, ReleaseInterval: interval,
		})
		var state State
		in := Input{User: "u", Step: 100, Cell: 1, Release: true}
		if out, err := s.Step(&state, in); err != nil || out.Kind != Released {
			t.Fatalf("%v, %v", out.Kind, err)
		}
		state.Erase()
		s.Migrate(&state)
		if out, err := s.Step(&state, in); err != nil || out.Kind != Predicted ||
			out.Epsilon != 0 {
			t.Errorf("interval %d: after the erasure it is %v, %v", interval, out.Kind, err)
		}
		in.Step += int64(interval)
		if out, err := s.Step(&state, in); err != nil || out.Kind != Released {
			t.Errorf("interval %d: the next step is %v, %v", interval, out.Kind, err)
		}
	}
}
