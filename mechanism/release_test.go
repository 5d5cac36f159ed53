package mechanism

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
)

// recorder keeps the last transcript that a sanitizer asked a stream for, and how often it asked.
type recorder struct {
	streams    noise.Streams
	transcript []byte
	day        noise.Day
	asked      int
}

func (r *recorder) On(day noise.Day, transcript []byte) (noise.Source, error) {
	r.transcript, r.day = append(r.transcript[:0], transcript...), day
	r.asked++
	return r.streams.On(day, transcript)
}

// rig is a sanitizer whose streams are recorded, with a state some steps into a walk.
type rig struct {
	*Sanitizer
	recorder *recorder
	state    State
	step     int64
}

const rigUser = "véhicule 7"

func newRig(t *testing.T, mechanism string) *rig {
	t.Helper()
	model := roadModel(t)
	r := &rig{recorder: &recorder{streams: noise.NewKeyed(noise.KeyFromSeed(77))}}
	s := sanitizerWith(t, model, r.recorder, Options{
		Mechanism: mechanism, Epsilon: 1.5,
		Delta: .02,
	})
	r.Sanitizer = s
	for i, cell := range walk(model, 11, 40) {
		r.step = int64(i)
		mustStep(t, s, &r.state, Input{User: rigUser, Step: r.step, Cell: cell, Release: true})
	}
	r.step++
	return r
}

// release releases one cell from the rig's state, which it leaves as it was.
func (r *rig) release(t *testing.T, cell grid.Cell) (Outcome, State) {
	t.Helper()
	state := copyState(&r.state)
	asked := r.recorder.asked
	out := mustStep(t, r.Sanitizer, &state, Input{
		User: rigUser, Step: r.step, Cell: cell,
		Release: true,
	})
	if r.recorder.asked != asked+1 {
		t.Fatalf("a release asked for %d streams", r.recorder.asked-asked)
	}
	return out, state
}

// definedSet is the location set of the rig's next step from its definition: the whole prior
// sorted.
func (r *rig) definedSet() []grid.Cell {
	r.predict(&r.state, r.step)
	return testcase.LocationSet(r.prior, r.options.Delta)
}

// TestStepReleasesTheSurrogate releases every cell of the map. What comes out is the mechanism's
// sample from the surrogate by the definition, with the stream that was asked for, also where the
// true cell lies outside the set; cells with one surrogate cannot be told apart by anything that is
// published or kept.
func TestStepReleasesTheSurrogate(t *testing.T) {
	t.Parallel()
	for _, name := range law.HullNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, name)
			g, set := r.model.Grid, r.definedSet()
			var hull law.SensitivityHull
			hull.OfCells(g, set)
			m := mustMechanism(t, name)
			m.Prepare(&hull, r.options.Epsilon)
			streams := noise.NewKeyed(noise.KeyFromSeed(77))
			type published struct {
				out   Outcome
				state []byte
			}
			first := map[grid.Cell]published{}
			drifted := 0
			for cell := range grid.Cell(g.Cells()) {
				surrogate := set[testcase.Surrogate(g, set, cell)]
				out, state := r.release(t, cell)
				if want := m.Sample(onDay(t, streams, r.recorder.day, r.recorder.transcript),
					surrogate); out.Release != want {
					t.Fatalf("cell %d with surrogate %d: released %v, want %v", cell, surrogate,
						out.Release, want)
				}
				if out.Drift != (cell != surrogate) || out.SetSize != len(set) {
					t.Fatalf("cell %d with surrogate %d: %+v", cell, surrogate, out)
				}
				if out.Drift {
					drifted++
				}
				out.Drift = false
				now := published{out, state.AppendBinary(nil)}
				before, seen := first[surrogate]
				if !seen {
					first[surrogate] = now
				} else if now.out != before.out || !bytes.Equal(now.state, before.state) {
					t.Fatalf("cell %d: what is published or kept differs from that of another "+
						"cell with surrogate %d", cell, surrogate)
				}
			}
			if len(first) != len(set) || len(set) < 5 || drifted < 100 {
				t.Errorf("a poor case: %d cells in the set, %d of them released, %d cells outside",
					len(set), len(first), drifted)
			}
			releases := map[grid.Point]bool{}
			for _, p := range first {
				releases[p.out.Release] = true
			}
			if len(releases) != len(first) {
				t.Errorf("%d members of the set have only %d releases", len(first), len(releases))
			}
		})
	}
}

// TestStepAsksForTheWholeTranscript writes down the transcript of a release by hand, for cells
// inside and outside the set.
func TestStepAsksForTheWholeTranscript(t *testing.T) {
	t.Parallel()
	for _, name := range []string{law.PIM, law.Laplace} {
		r := newRig(t, name)
		set := r.definedSet()
		for _, cell := range []grid.Cell{
			set[0], set[len(set)-1], 0,
			grid.Cell(r.model.Grid.Cells() - 1),
		} {
			r.release(t, cell)
			var want bytes.Buffer
			text := func(s string) {
				want.WriteByte(byte(len(s)))
				want.WriteString(s)
			}
			fixed := func(v any) {
				if err := binary.Write(&want, binary.LittleEndian, v); err != nil {
					t.Fatal(err)
				}
			}
			digits := func(s string) {
				b, err := hex.DecodeString(s)
				if err != nil {
					t.Fatal(err)
				}
				want.Write(b)
			}
			text("geodither release 1")
			text(name)
			text("closed-form")
			fixed(uint64(1))
			fixed(math.Float64bits(1.5))
			digits(r.model.Grid.ID())
			fixed(int64(60_000))
			digits(r.model.ID())
			text(rigUser)
			fixed(r.step)
			fixed(r.state.Releases + 1)
			want.Write(varint(uint64(len(set))))
			for i, c := range set {
				if i > 0 {
					c -= set[i-1]
				}
				want.Write(varint(uint64(c)))
			}
			fixed(set[testcase.Surrogate(r.model.Grid, set, cell)])
			if !bytes.Equal(r.recorder.transcript, want.Bytes()) {
				t.Errorf("%s, cell %d: transcript\n%x, want\n%x", name, cell, r.recorder.transcript,
					want.Bytes())
			}
		}
	}
}

// varint is LEB128, from its definition: seven bits a byte, the low ones first, all but the last
// byte marked.
func varint(v uint64) []byte {
	var b []byte
	for ; v > 127; v /= 128 {
		b = append(b, byte(v%128+128))
	}
	return append(b, byte(v))
}
