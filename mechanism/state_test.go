package mechanism

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	s.Ledger.StartWith(ledger.StepEnd(28_999_000, s.StepMS), 2)
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

// appendFirstVersion is AppendBinary as version 1 of the encoding had it.
func appendFirstVersion(dst []byte, s *State) []byte {
	if !s.Started {
		return append(dst, 1, 0)
	}
	flags := byte(1)
	if s.HasRelease {
		flags = 3
	}
	dst = append(append(append(dst, 1, flags), s.Model[:]...), s.Grid[:]...)
	dst = binary.AppendUvarint(dst, uint64(s.StepMS))
	dst = binary.AppendVarint(dst, s.Step)
	dst = binary.AppendUvarint(dst, s.Releases)
	for _, x := range []float64{s.EpsilonSpent, s.Estimate.X, s.Estimate.Y, s.RadiusKM} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	if s.HasRelease {
		dst = binary.AppendUvarint(dst, uint64(s.Step)-uint64(s.ReleaseStep))
		for _, x := range []float64{s.Release.X, s.Release.Y} {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
		}
	}
	return s.Posterior.AppendBinary(dst)
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

// head and tail of the sample state, in every version of the encoding.
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

// TestStateFormat pins the bytes: stored states must stay readable.
func TestStateFormat(t *testing.T) {
	t.Parallel()
	want := slices.Concat(
		[]byte{2, 3}, // version, flags
		sampleMiddle,
		samplePosterior,
	)
	if got := sampleState().AppendBinary(nil); !bytes.Equal(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	want = slices.Concat([]byte{3, 3}, sampleMiddle, []byte{
		3, 3, // cells, lowest bits
		0xd4, 0x01, 0x5c, 0x5e, 0xf8, // runs, then 01 111, 01 111, 1 000
	})
	if got := shortState().AppendBinary(nil); !bytes.Equal(got, want) {
		t.Errorf("with short masses: got %#v, want %#v", got, want)
	}
	// A mass that is not short is never rounded on the way to the store.
	odd := shortState()
	odd.Posterior.P[0] = .1
	if got := odd.AppendBinary(nil); got[0] != 2 {
		t.Errorf("a posterior with other masses is of version %d", got[0])
	}
}

// sampleMiddle is what lies between flags and posterior.
var sampleMiddle = slices.Concat(
	sampleHead,
	[]byte{0, 0, 0, 0, 0, 0, 0x21, 0x40}, // Σε²/2
	sampleEstimate,
	[]byte{
		2,                            // one run, in steps
		0x80, 0xa8, 0xd6, 0xb9, 0x07, // ε 2 before
		0xb2, 0xf5, 0xd3, 0x1b, // up to the end of step 28 999 000
		0xd2, 0x08, // the first of the run is 1106 steps later
		15, 1, // fifteen releases, one step apart
		0x80, 0x94, 0xeb, 0xdc, 0x03, // ε 1 each
	},
)

// TestOldStates reads states that programs of before have written, each with its version in front:
// it comes back as the same bytes of version 2, and the sanitizer goes on from it, to a state of
// the version that the mechanism writes now.
func TestOldStates(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "states.txt"))
	if err != nil {
		t.Fatal(err)
	}
	model := denseModel(t, 6, 5)
	model.Initial = mobility.Distribution{Cells: []grid.Cell{7, 14, 22}, P: []float64{.25, .5, .25}}
	read := 0
	for line := range strings.Lines(string(text)) {
		var version byte
		var mechanism string
		var data []byte
		if _, err := fmt.Sscanf(line, "%d %s %x", &version, &mechanism, &data); err != nil {
			continue // a comment
		}
		read++
		var s State
		if err := s.DecodeBinary(data); err != nil || data[0] != version || s.Short {
			t.Fatalf("%s of version %d: %v", mechanism, version, err)
		}
		if again := s.AppendBinary(nil); version == 2 && !bytes.Equal(again, data) {
			t.Errorf("%s: the bytes of version 2 became %x", mechanism, again)
		}
		sanitizer := newSanitizer(t, model, Options{Mechanism: mechanism, Epsilon: 2, Delta: .05})
		spent := s.EpsilonSpent
		out := mustStep(t, sanitizer, &s, Input{
			User: "bits", Step: s.Step + 1, Cell: 14, Release: true,
		})
		if out.Kind != Released || s.EpsilonSpent != spent+2 ||
			int(s.AppendBinary(nil)[0]) != StateVersionOf(mechanism) {
			t.Errorf("%s of version %d went on to %+v, %+v", mechanism, version, out, s)
		}
	}
	if read != 4 {
		t.Errorf("%d states were read", read)
	}
}

// TestFirstVersionIsReadForEver decodes the bytes of version 1, as programs have stored them, and
// counts what they tell of as spent at the last release.
func TestFirstVersionIsReadForEver(t *testing.T) {
	t.Parallel()
	first := slices.Concat([]byte{1, 3}, sampleHead, []byte{0, 0, 0, 0, 0, 0, 0x31, 0x40},
		sampleEstimate, samplePosterior)
	if got := appendFirstVersion(nil, sampleState()); !bytes.Equal(got, first) {
		t.Fatalf("version 1 was %#v, not %#v", first, got)
	}
	var s State
	if err := s.DecodeBinary(first); err != nil {
		t.Fatal(err)
	}
	want := sampleState()
	want.Ledger.StartWith(ledger.StepEnd(want.ReleaseStep, want.StepMS), 17)
	if !equalStates(&s, want) || s.EpsilonSpent != 17 || s.Rho != 17*.5 {
		t.Errorf("got %+v, want %+v", s, *want)
	}
	if last, ok := s.Ledger.Last(); !ok || last != 29_000_121*60_000 ||
		s.Ledger.SpentSince(last-1).Epsilon() != 17 || s.Ledger.SpentSince(last) != 0 {
		t.Errorf("the ledger: %+v", s.Ledger)
	}
	// After a change of model the last release was not kept: it can have been in the last step.
	moved := sampleState()
	moved.HasRelease = false
	if err := s.DecodeBinary(appendFirstVersion(nil, moved)); err != nil {
		t.Fatal(err)
	}
	if last, ok := s.Ledger.Last(); !ok || last != 29_000_124*60_000 {
		t.Errorf("without a last release: %+v", s.Ledger)
	}
	// Ten times .1 were a little less than 1 in version 1.
	sum := 0.0
	for range 10 {
		sum += .1
	}
	moved.EpsilonSpent = sum
	if err := s.DecodeBinary(appendFirstVersion(nil, moved)); err != nil || sum == 1 ||
		s.EpsilonSpent != 1 {
		t.Errorf("%v became %v: %v", sum, s.EpsilonSpent, err)
	}
	moved.EpsilonSpent = 1e300
	if err := s.DecodeBinary(appendFirstVersion(nil, moved)); err != nil ||
		s.Ledger.Spent() != math.MaxUint64 || math.IsInf(s.Rho, 0) {
		t.Errorf("a sum beyond all limits: %+v, %v", s.Ledger, err)
	}
}

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
	f.Add(appendFirstVersion(nil, sampleState()))
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
