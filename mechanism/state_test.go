package mechanism

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

func sampleState() *State {
	s := &State{
		Started: true, Step: 29_000_123, HasRelease: true, ReleaseStep: 29_000_120, Release: grid.Point{X: -1.25, Y: 3.5},
		Releases: 17, EpsilonSpent: 17, Model: ID{1, 2, 3}, Grid: ID{4, 5}, StepMS: 60_000,
		Estimate: grid.Point{X: 2, Y: -.5}, RadiusKM: .25,
		Posterior: mobility.Distribution{Cells: []grid.Cell{0, 3, 700}, P: []float64{.5, .25, .25}},
	}
	s.Posterior.Round()
	return s
}

func equalStates(a, b *State) bool {
	return bytes.Equal(a.AppendBinary(nil), b.AppendBinary(nil)) &&
		a.Started == b.Started && a.Step == b.Step && a.Release == b.Release && a.Posterior.Len() == b.Posterior.Len()
}

func TestStateRoundTrip(t *testing.T) {
	t.Parallel()
	fresh := sampleState()
	fresh.HasRelease, fresh.Releases, fresh.Release, fresh.ReleaseStep = false, 0, grid.Point{}, 0
	old := sampleState()
	old.Step, old.ReleaseStep = -5, math.MinInt64+7
	for name, s := range map[string]*State{"released": sampleState(), "predicted only": fresh, "negative steps": old, "new user": {}} {
		var back State
		if err := back.DecodeBinary(s.AppendBinary([]byte{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !equalStates(s, &back) {
			t.Errorf("%s: got %+v, want %+v", name, back, *s)
		}
	}
	var empty State
	if err := empty.DecodeBinary(nil); err != nil || empty.Started {
		t.Errorf("no bytes are a new user: %v", err)
	}
}

// TestStateFormat pins the bytes: stored states must stay readable.
func TestStateFormat(t *testing.T) {
	t.Parallel()
	want := []byte{
		1, 3, // version, flags
		1, 2, 3, 0, 0, 0, 0, 0, // model
		4, 5, 0, 0, 0, 0, 0, 0, // grid
		0xe0, 0xd4, 0x03, // step length
		0xf6, 0x86, 0xd4, 0x1b, // step
		17,                           // releases
		0, 0, 0, 0, 0, 0, 0x31, 0x40, // ε spent
		0, 0, 0, 0, 0, 0, 0, 0x40, // estimate, x
		0, 0, 0, 0, 0, 0, 0xe0, 0xbf, // y
		0, 0, 0, 0, 0, 0, 0xd0, 0x3f, // radius
		3,                            // age of the release
		0, 0, 0, 0, 0, 0, 0xf4, 0xbf, // x
		0, 0, 0, 0, 0, 0, 0x0c, 0x40, // y
		3, 0, 2, 0xb8, 5, // cells
		0, 0, 0, 0x3f, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3e, // masses
	}
	if got := sampleState().AppendBinary(nil); !bytes.Equal(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

func TestStateRefusesDamage(t *testing.T) {
	t.Parallel()
	good := sampleState().AppendBinary(nil)
	for n := 1; n < len(good); n++ {
		if err := new(State).DecodeBinary(good[:n]); !errors.Is(err, ErrState) {
			t.Errorf("%d of %d bytes: %v", n, len(good), err)
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
		"another version":       change(0, 2),
		"an unknown flag":       change(1, 7),
		"a release, no start":   change(1, 2),
		"flags of no state":     change(1, 0),
		"bytes after the end":   append(bytes.Clone(good), 0),
		"negative ε":            change(33, 0xc0),
		"ε that is no number":   notANumber,
		"a release, none drawn": change(25, 0),
		"a negative radius":     change(57, 0xbf),
	} {
		if err := new(State).DecodeBinary(data); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStateDecodesWithoutAllocation(t *testing.T) {
	data := sampleState().AppendBinary(nil)
	var s State
	out := make([]byte, 0, 256)
	run := func() {
		if err := s.DecodeBinary(data); err != nil {
			t.Error(err)
		}
		out = s.AppendBinary(out[:0])
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// FuzzStateDecode checks that any bytes are either refused or a state that encodes to what decodes to the same, and that a sanitizer
// takes or refuses such a state without a panic.
func FuzzStateDecode(f *testing.F) {
	f.Add(sampleState().AppendBinary(nil))
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
		if err := back.DecodeBinary(again); err != nil || !bytes.Equal(back.AppendBinary(nil), again) {
			t.Fatalf("a decoded state does not survive encoding: %v", err)
		}
		s.Migrate(&state)
		out, err := s.Step(&state, Input{User: "u", Step: state.Step, Cell: 1, Release: true})
		if err == nil && (math.IsNaN(out.Estimate.X) || math.IsNaN(out.RadiusKM)) {
			t.Fatalf("no estimate: %+v", out)
		}
	})
}
