package mechanism

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

func mustQuantizer(tb testing.TB, g *grid.Grid, epsilon float64) *law.Quantizer {
	tb.Helper()
	q, err := law.NewQuantizer(g, epsilon)
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

// TestStepReleasesTheVote releases every cell of the map. What comes out is the code point that the
// codebook of the prior draws with the stream that was asked for. Cells of one vote cannot be
// told apart by anything that is published or kept, and no cell drifts.
func TestStepReleasesTheVote(t *testing.T) {
	t.Parallel()
	r := newRig(t, law.Codebook)
	g := r.model.Grid
	r.predict(&r.state, r.step)
	q := mustQuantizer(t, g, r.options.Epsilon)
	q.Prepare(r.prior.Cells, r.prior.P)
	size := len(testcase.LocationSet(r.prior, r.options.Delta))
	streams := noise.NewKeyed(noise.KeyFromSeed(77))
	type published struct {
		out   Outcome
		state []byte
	}
	first := map[int]published{}
	for cell := range grid.Cell(g.Cells()) {
		out, state := r.release(t, cell)
		j := q.Sample(onDay(t, streams, r.recorder.day, r.recorder.transcript), q.Vote(cell))
		if out.Release != q.Place(j) || out.Drift || out.SetSize != size {
			t.Fatalf("cell %d: %+v, want code point %d at %v and a set of %d", cell, out, j,
				q.Place(j), size)
		}
		own := published{out, state.AppendBinary(nil)}
		other, ok := first[q.Vote(cell)]
		if !ok {
			first[q.Vote(cell)] = own
			continue
		}
		if own.out != other.out || !bytes.Equal(own.state, other.state) {
			t.Fatalf("cell %d is told apart from another that votes for %d", cell, q.Vote(cell))
		}
	}
	if len(first) < 2 {
		t.Errorf("%d votes", len(first))
	}
}

// TestCodebookOfOneCell: where the model is sure of a cell nothing is released. What is published
// is that cell's centre, the same for every true cell. It costs nothing, no noise is asked for, and
// the interval does not begin.
func TestCodebookOfOneCell(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	middle := model.Initial.Cells[0]
	streams := &recorder{streams: noise.NewKeyed(noise.KeyFromSeed(79))}
	s := sanitizerWith(t, model, streams, Options{
		Mechanism: law.Codebook, Epsilon: 1, ReleaseInterval: 5,
	})
	for cell := range grid.Cell(model.Grid.Cells()) {
		streams.asked = 0
		var state State
		out := mustStep(t, s, &state, Input{User: "u", Cell: cell, Release: true})
		if out.Kind != Predicted || out.Release != model.Grid.Centre(middle) ||
			out.Estimate != out.Release || out.Epsilon != 0 || out.Number != 0 || !out.Changed ||
			out.Metric != (law.Metric{}) || state.EpsilonSpent != 0 || state.HasRelease ||
			state.Posterior.Len() != 1 || state.Posterior.P[0] != 1 || streams.asked > 0 {
			t.Fatalf("cell %d: %+v, noise asked for %d times", cell, out, streams.asked)
		}
		out = mustStep(t, s, &state, Input{User: "u", Step: 1, Cell: cell, Release: true})
		if out.Kind != Released || out.Number != 1 {
			t.Fatalf("cell %d: the interval has begun without a release: %+v", cell, out)
		}
	}
}

// sometimesSure is a model that is sure of where users start, and of where they go from there in
// one case of three.
func sometimesSure(tb testing.TB, r *rand.Rand) *mobility.Model {
	tb.Helper()
	const start = 4*8 + 4
	leaves := r.IntN(3) > 0
	return weightedModel(tb, 8, 8, 1, .34, func(column, row, dx, dy int) float64 {
		here := column + 8*row
		switch {
		case dx == 0 && dy == 0:
			return 1
		case here == start && !leaves:
			return 0
		case here%3 == 0 && dx != 1, dx != 0 && dy != 0:
			return 0
		}
		return 1e-3 + float64(here%5)
	})
}

// TestObserverAgreesOnOneCodePoint walks users through models that are sure of a place and unsure
// again. Whether there is a release follows from public facts: it is the same for another true
// cell, and the observer comes to the sanitizer's state, bit for bit.
func TestObserverAgreesOnOneCodePoint(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(56, 1))
	sure, released := 0, 0
	for i := range 60 {
		model := sometimesSure(t, r)
		o := Options{
			Mechanism: law.Codebook, Epsilon: []float64{.001, .5, 4, 20}[i%4],
			ReleaseInterval: 1 + i%3,
			Budget:          []Budget{{}, {Epsilon: 60, WindowSteps: 9, Spent: SpentRepeat}}[i/8%2],
		}
		s := newSanitizer(t, model, o)
		observer := sanitizerWith(t, model, &recorder{}, o) // without noise
		var state, seen State
		step := int64(0)
		for range 80 {
			step += int64(r.IntN(3))
			if r.IntN(16) == 0 {
				step += DefaultMaxGap // starts at the initial distribution again
			}
			anywhere := func() Input {
				return Input{
					User: "u", Step: step, Cell: grid.Cell(r.IntN(model.Grid.Cells())),
					Release: true,
				}
			}
			other, before := copyState(&state), copyState(&state)
			want := mustStep(t, s, &other, anywhere())
			out := mustStep(t, s, &state, anywhere())
			if out.Kind != want.Kind || out.Epsilon != want.Epsilon || out.Number != want.Number {
				t.Fatalf("case %d: %v for one cell, %v for another", i, out, want)
			}
			charged := state.Releases != before.Releases ||
				!reflect.DeepEqual(state.Ledger, before.Ledger)
			if out.Kind != Released && charged {
				t.Fatalf("case %d: nothing was released, and it is charged", i)
			}
			switch {
			case out.Kind == Released:
				released++
			case o.ReleaseInterval == 1 && out.Kind == Predicted: // no other rule predicts
				sure++
			}
			err := observer.Observe(&seen, Seen{Step: step, Kind: out.Kind, Release: out.Release})
			if err != nil || !bytes.Equal(seen.AppendBinary(nil), state.AppendBinary(nil)) {
				t.Fatalf("case %d, step %d: the observer of %v comes to another state, %v", i, step,
					out, err)
			}
		}
	}
	if sure < 100 || released < 500 {
		t.Errorf("sure %d times, %d releases", sure, released)
	}
}

// TestCodebookPosterior: the posterior that is kept stays within a factor of e^ε of any prior, and
// is Bayes' rule for the law of the release.
func TestCodebookPosterior(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(54, 1))
	for i := range 400 {
		g := testcase.Grid(t, 1+r.IntN(12), 1+r.IntN(12), .34)
		epsilon := []float64{.01, 1, 4, 10}[i%4]
		q := mustQuantizer(t, g, epsilon)
		placed := testcase.Prior(r, g.Cells())
		q.Prepare(placed.Cells, placed.P)
		for j := range q.Points() {
			for _, prior := range []*mobility.Distribution{
				placed,
				testcase.Prior(r, g.Cells()),
			} {
				likelihood := q.Likelihoods(nil, j, prior.Cells)
				if ratio := posteriorRatio(prior, likelihood, epsilon); ratio > 1+rounding/epsilon {
					t.Fatalf("case %d: |ln posterior/prior| = %g ε", i, ratio)
				}
				// Rounding to float32 changes a probability by up to 2⁻²⁴ of it.
				ratio := storeRatio(prior, likelihood, epsilon, -1)
				if ratio > 1+1e-7/epsilon {
					t.Fatalf("case %d: |ln posterior/prior| of what is kept = %g ε", i, ratio)
				}
			}
		}
	}
}

// TestEveryFactOfACodebookChangesTheStream changes one element after the other, those that all
// mechanisms have in common and those of the codebook.
func TestEveryFactOfACodebookChangesTheStream(t *testing.T) {
	t.Parallel()
	g, err := grid.Plain(20, 20, 1)
	if err != nil {
		t.Fatal(err)
	}
	type codebookFacts struct {
		facts
		prior mobility.Distribution
		vote  int
	}
	sample := func() codebookFacts {
		f := codebookFacts{facts: sampleFacts(), vote: 1}
		f.options = Options{Mechanism: law.Codebook, Epsilon: 3}
		f.prior = mobility.Distribution{
			Cells: []grid.Cell{3, 40, 117, 251, 399}, P: []float64{.2, .3, .1, .3, .1},
		}
		return f
	}
	streams := noise.NewKeyed(noise.KeyFromSeed(9))
	head := func(f codebookFacts) [4]uint64 {
		q := mustQuantizer(t, g, 6) // so that ε changes the transcript by itself
		q.Prepare(f.prior.Cells, f.prior.P)
		if len(q.Points()) <= f.vote {
			t.Fatalf("%d code points", len(q.Points()))
		}
		var transcript transcript
		transcript.begin(f.options.withDefaults(), f.grid, f.model, f.stepMS)
		src := streams.Stream(transcript.completeVote(f.user, f.step, f.number, q, f.vote))
		return [4]uint64{src.Uint64(), src.Uint64(), src.Uint64(), src.Uint64()}
	}
	if head(sample()) != head(sample()) {
		t.Error("the same facts gave another stream")
	}
	seen := map[[4]uint64]string{head(sample()): "no change"}
	for _, c := range []struct {
		name   string
		change func(*codebookFacts)
	}{
		{"mechanism", func(f *codebookFacts) { f.options.Mechanism = law.Lattice }},
		{"epsilon", func(f *codebookFacts) { f.options.Epsilon = 3 + 0x1p-51 }},
		{"grid", func(f *codebookFacts) { f.grid[7] = 1 }},
		{"model", func(f *codebookFacts) { f.model[7] = 1 }},
		{"step length", func(f *codebookFacts) { f.stepMS++ }},
		{"user", func(f *codebookFacts) { f.user = "ac" }},
		{"step", func(f *codebookFacts) { f.step++ }},
		{"release number", func(f *codebookFacts) { f.number++ }},
		{"vote", func(f *codebookFacts) { f.vote = 2 }},
		{"first vote", func(f *codebookFacts) { f.vote = 0 }},
		{"a code point", func(f *codebookFacts) { f.prior.Cells[2] = 137 }},
		{"code points a little", func(f *codebookFacts) { f.prior.P[0] += .01 }},
		{"fewer code points", func(f *codebookFacts) {
			f.prior.Cells, f.prior.P = f.prior.Cells[:3], f.prior.P[:3]
		}},
	} {
		f := sample()
		c.change(&f)
		h := head(f)
		if other, ok := seen[h]; ok {
			t.Errorf("%s: the stream is that of %s", c.name, other)
		}
		seen[h] = c.name
	}
	f := sample()
	var transcript transcript
	transcript.begin(f.options.withDefaults(), f.grid, f.model, f.stepMS)
	field := fmt.Sprintf("\x08codebook\x0bcell/4096/%d", law.CodebookVersion)
	if !strings.Contains(string(transcript.buf), field) {
		t.Error("the version of the codebook is not in the transcript")
	}
	// What acts through nothing but the prior is no fact of its own.
	f.options.Isotropy, f.options.Subdivision, f.options.Delta = law.IsotropySampled, 7, .3
	if seen[head(f)] != "no change" {
		t.Error("what a codebook does not have changes its stream")
	}
}

// TestCodebookIgnoresDelta: δ changes the size that is reported, and nothing else.
func TestCodebookIgnoresDelta(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	var first []byte
	sizes := map[int]bool{}
	for _, delta := range []float64{0, .01, .5} {
		s := newSanitizer(t, model, Options{Mechanism: law.Codebook, Epsilon: 2, Delta: delta})
		var state State
		size := 0
		for i, cell := range walk(model, 13, 60) {
			out := mustStep(t, s, &state,
				Input{User: "u", Step: int64(i), Cell: cell, Release: true})
			size = out.SetSize
		}
		sizes[size] = true
		if first == nil {
			first = state.AppendBinary(nil)
		}
		if !slices.Equal(first, state.AppendBinary(nil)) {
			t.Errorf("δ = %v leads to another state", delta)
		}
	}
	if len(sizes) != 3 {
		t.Errorf("sizes %v", sizes)
	}
}
