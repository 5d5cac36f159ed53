package mechanism

import (
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
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
	set         []grid.Cell
	cell        grid.Cell
}

func sampleFacts() facts {
	return facts{
		options: Options{Mechanism: law.PIM, Isotropy: law.IsotropyClosedForm, Epsilon: 1},
		grid:    ID{1}, model: ID{2}, stepMS: 60_000, user: "ab", step: 3, number: 4,
		set: []grid.Cell{1, 3, 5, 300, 302}, cell: 5,
	}
}

func (f facts) bytes() []byte {
	var t transcript
	t.begin(f.options, f.grid, f.model, f.stepMS)
	return slices.Clone(t.complete(f.user, f.step, f.number, f.set, f.cell))
}

// TestEveryFactChangesTheStream changes one element after the other: each gives another transcript
// and another stream, and no two the same. Without any change the stream repeats.
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
		{"mechanism", func(f *facts) { f.options.Mechanism = law.KNorm }},
		{"isotropy", func(f *facts) { f.options.Isotropy = law.IsotropySampled }},
		{"lattice", func(f *facts) {
			f.options.Mechanism, f.options.Subdivision = law.Lattice, 256
		}},
		{"subdivision", func(f *facts) {
			f.options.Mechanism, f.options.Subdivision = law.Lattice, 255
		}},
		{"epsilon", func(f *facts) { f.options.Epsilon = 1 + 0x1p-52 }},
		{"grid", func(f *facts) { f.grid[7] = 1 }},
		{"model", func(f *facts) { f.model[7] = 1 }},
		{"step length", func(f *facts) { f.stepMS++ }},
		{"user", func(f *facts) { f.user = "ac" }},
		{"longer user", func(f *facts) { f.user = "ab\x00" }},
		{"user in capitals", func(f *facts) { f.user = "AB" }},
		{"user with a space", func(f *facts) { f.user = "ab " }},
		{"step", func(f *facts) { f.step++ }},
		{"negative step", func(f *facts) { f.step = -3 }},
		{"release number", func(f *facts) { f.number++ }},
		{"another set", func(f *facts) { f.set = []grid.Cell{1, 3, 5, 301, 302} }},
		{"another set, same K", func(f *facts) { f.set = []grid.Cell{1, 5, 300, 302} }},
		{"shorter set", func(f *facts) { f.set = f.set[:4] }},
		{"longer set", func(f *facts) { f.set = append(f.set, 303) }},
		{"other differences", func(f *facts) { f.set = []grid.Cell{1, 3, 298, 300, 302} }},
		{"one cell", func(f *facts) { f.set = []grid.Cell{5} }},
		{"first cell", func(f *facts) { f.set = []grid.Cell{0} }},
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
	g, err := grid.Plain(100, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	var h, without law.SensitivityHull
	h.OfCells(g, sampleFacts().set)
	without.OfCells(g, []grid.Cell{1, 5, 300, 302})
	if !slices.Equal(h.Body().Vertices(), without.Body().Vertices()) {
		t.Error("the two sets do not have the same K")
	}
	// What does not determine a release does not change it: a lattice has no way of isotropy, the
	// others no subdivision.
	one, two := sampleFacts(), sampleFacts()
	one.options.Subdivision = 7
	if head(one) != first {
		t.Error("the subdivision changes the stream of another mechanism")
	}
	one.options.Mechanism, two.options = law.Lattice,
		Options{Mechanism: law.Lattice, Subdivision: 7, Isotropy: law.IsotropySampled, Epsilon: 1}
	if head(one) != head(two) {
		t.Error("the way of isotropy changes the stream of a lattice")
	}
	other := noise.NewKeyed(noise.KeyFromSeed(10)).Stream(sampleFacts().bytes())
	if other.Uint64() == first[0] {
		t.Error("another key gave the same stream")
	}
}

// TestTranscriptTestNoticesAMissingFact plants the two omissions that would leak: a stream without
// the cell, or without the set.
func TestTranscriptTestNoticesAMissingFact(t *testing.T) {
	t.Parallel()
	same := func(change, forget func(*facts)) bool {
		a, b := sampleFacts(), sampleFacts()
		change(&b)
		forget(&a)
		forget(&b)
		return slices.Equal(a.bytes(), b.bytes())
	}
	changeCell, changeSet := func(f *facts) { f.cell = 3 }, func(f *facts) { f.set = f.set[1:] }
	forgetCell, forgetSet := func(f *facts) { f.cell = 0 }, func(f *facts) { f.set = nil }
	if !same(changeCell, forgetCell) || !same(changeSet, forgetSet) {
		t.Error("the transcripts differ in something else")
	}
	if same(changeCell, forgetSet) || same(changeSet, forgetCell) {
		t.Error("one of the two facts stands for the other")
	}
}

// TestOtherReportsUnderOneKey shows what the key does not protect from, and DESIGN.md warns of: two
// reports of one user, step and number in runs over different fixes give the same release where
// they have the same surrogate, and else not.
func TestOtherReportsUnderOneKey(t *testing.T) {
	t.Parallel()
	model := denseModel(t, 5, 5)
	model.Initial = mobility.Distribution{
		Cells: []grid.Cell{0, 4, 20, 24},
		P:     []float64{.25, .25, .25, .25},
	}
	run := func(key uint64, cell grid.Cell) grid.Point {
		s := sanitizerWith(t, model, noise.NewKeyed(noise.KeyFromSeed(key)),
			Options{Epsilon: 1, Delta: .01})
		return mustStep(t, s, new(State), Input{
			User: "u", Step: 1, Cell: cell,
			Release: true,
		}).Release
	}
	if run(1, 0) != run(1, 5) {
		t.Error("two cells of one surrogate give two releases")
	}
	if run(1, 0) == run(1, 24) {
		t.Error("two surrogates give one release")
	}
	if run(1, 0) == run(2, 0) {
		t.Error("a key for each set of fixes does not help")
	}
}
