package mechanism

import (
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// facts are everything that determines the law of a release and whose it is.
type facts struct {
	options     Options
	grid, model ID
	stepMS      int64
	user        string
	step        int64
	number      uint64
	hull        []convex.Lattice
	cell        grid.Cell
}

func sampleFacts() facts {
	return facts{
		options: Options{Mechanism: PIM, Isotropy: IsotropyClosedForm, Epsilon: 1},
		grid:    ID{1}, model: ID{2}, stepMS: 60_000, user: "ab", step: 3, number: 4,
		hull: []convex.Lattice{{X: -1, Y: -1}, {X: 1, Y: -1}, {X: 1, Y: 1}, {X: -1, Y: 1}}, cell: 5,
	}
}

func (f facts) bytes() []byte {
	var t transcript
	t.begin(f.options, f.grid, f.model, f.stepMS)
	return slices.Clone(t.complete(f.user, f.step, f.number, f.hull, f.cell))
}

// TestEveryFactChangesTheStream changes one element after the other: each gives another transcript and another stream, and no two the
// same. Without any change the stream repeats.
func TestEveryFactChangesTheStream(t *testing.T) {
	t.Parallel()
	streams := noise.NewKeyed(noise.KeyFromSeed(9))
	head := func(f facts) [4]uint64 {
		src := streams.Stream(f.bytes())
		return [4]uint64{src.Uint64(), src.Uint64(), src.Uint64(), src.Uint64()}
	}
	first := head(sampleFacts())
	if head(sampleFacts()) != first {
		t.Error("the same facts gave another stream")
	}
	seen := map[[4]uint64]string{first: "no change"}
	for _, c := range []struct {
		name   string
		change func(*facts)
	}{
		{"mechanism", func(f *facts) { f.options.Mechanism = KNorm }},
		{"isotropy", func(f *facts) { f.options.Isotropy = IsotropySampled }},
		{"epsilon", func(f *facts) { f.options.Epsilon = 1 + 0x1p-52 }},
		{"grid", func(f *facts) { f.grid[7] = 1 }},
		{"model", func(f *facts) { f.model[7] = 1 }},
		{"step length", func(f *facts) { f.stepMS++ }},
		{"user", func(f *facts) { f.user = "ac" }},
		{"longer user", func(f *facts) { f.user = "ab\x00" }},
		{"step", func(f *facts) { f.step++ }},
		{"negative step", func(f *facts) { f.step = -3 }},
		{"release number", func(f *facts) { f.number++ }},
		{"vertex of K", func(f *facts) {
			f.hull = []convex.Lattice{{X: -1, Y: -2}, {X: 1, Y: -1}, {X: 1, Y: 2}, {X: -1, Y: 1}}
		}},
		{"number of vertices", func(f *facts) {
			f.hull = []convex.Lattice{{X: -1, Y: -1}, {X: 1, Y: 1}}
		}},
		{"point", func(f *facts) { f.hull = []convex.Lattice{{}} }},
		{"cell", func(f *facts) { f.cell++ }},
	} {
		f := sampleFacts()
		c.change(&f)
		h := head(f)
		if other, ok := seen[h]; ok {
			t.Errorf("%s: the stream is that of %s", c.name, other)
		}
		seen[h] = c.name
	}
	other := noise.NewKeyed(noise.KeyFromSeed(10)).Stream(sampleFacts().bytes())
	if other.Uint64() == first[0] {
		t.Error("another key gave the same stream")
	}
}

// TestTranscriptTestNoticesAMissingFact plants the two omissions that would leak: a stream without the cell, or without K.
func TestTranscriptTestNoticesAMissingFact(t *testing.T) {
	t.Parallel()
	without := func(forget func(*facts)) bool {
		a, b := sampleFacts(), sampleFacts()
		b.cell, b.hull = 6, b.hull[:2]
		forget(&a)
		forget(&b)
		return slices.Equal(a.bytes(), b.bytes())
	}
	if without(func(f *facts) { f.cell = 0 }) || without(func(f *facts) { f.hull = f.hull[:1] }) {
		t.Error("one of the two facts is enough to tell the transcripts apart")
	}
	if !without(func(f *facts) { f.cell, f.hull = 0, f.hull[:1] }) {
		t.Error("the transcripts differ in something else")
	}
}

// TestNeighboursDrawIndependently compares the releases of two cells of one set: were the cell missing from the transcript, their
// difference would be that of the cells, free of noise.
func TestNeighboursDrawIndependently(t *testing.T) {
	t.Parallel()
	model := denseModel(t, 20, 20)
	s := newSanitizer(t, model, Options{Epsilon: 1, Delta: .01})
	var state State
	for i, cell := range walk(model, 5, 20) {
		mustStep(t, s, &state, Input{User: "u", Step: int64(i), Cell: cell, Release: true})
	}
	a, b := copyState(&state), copyState(&state)
	members := slices.Clone(s.set.Cells)
	p, q := members[0], members[len(members)-1]
	x := mustStep(t, s, &a, Input{User: "u", Step: 20, Cell: p, Release: true})
	y := mustStep(t, s, &b, Input{User: "u", Step: 20, Cell: q, Release: true})
	gap := model.Grid.Centre(p).Sub(model.Grid.Centre(q))
	if d := x.Release.Sub(y.Release).Distance(gap); d < 1e-6 {
		t.Error("two cells share their noise")
	}
}
