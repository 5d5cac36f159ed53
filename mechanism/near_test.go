package mechanism

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
)

func nearOptions(epsilon, factor float64) Options {
	return Options{
		Mechanism: law.Codebook, Epsilon: epsilon,
		Near: law.Near{DistanceKM: .34, Factor: factor},
	}
}

// TestNearStep releases every cell of the map with a near factor. What comes out is what the
// codebook of the prior draws for that very cell with the stream that was asked for. Every cell
// asks for another stream: cells with the same vote have different laws. The requests of all cells
// have the same length.
func TestNearStep(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	streams := noise.NewKeyed(noise.KeyFromSeed(131))
	recorder := &recorder{streams: streams}
	o := nearOptions(4, 2)
	s := sanitizerWith(t, model, recorder, o)
	var state State
	for i, cell := range walk(model, 21, 30) {
		mustStep(t, s, &state, Input{User: "u", Step: int64(i), Cell: cell, Release: true})
	}
	q, err := law.NewNearQuantizer(model.Grid, o.Epsilon, o.Near)
	if err != nil {
		t.Fatal(err)
	}
	s.predict(&state, 30)
	q.Prepare(s.prior.Cells, s.prior.P)
	transcripts, releases := map[string]grid.Cell{}, map[grid.Point]int{}
	lengths := map[int]bool{}
	for cell := range grid.Cell(model.Grid.Cells()) {
		next := copyState(&state)
		out := mustStep(t, s, &next, Input{User: "u", Step: 30, Cell: cell, Release: true})
		j := q.Draw(onDay(t, streams, recorder.day, recorder.transcript), int(cell))
		if out.Release != q.Place(j) || out.Drift || out.Kind != Released {
			t.Fatalf("cell %d: %+v, want code point %d at %v", cell, out, j, q.Place(j))
		}
		if other, ok := transcripts[string(recorder.transcript)]; ok {
			t.Fatalf("cells %d and %d share their noise", cell, other)
		}
		transcripts[string(recorder.transcript)] = cell
		lengths[len(recorder.transcript)] = true
		releases[out.Release]++
	}
	if len(releases) < 3 {
		t.Errorf("%d places were released", len(releases))
	}
	if len(lengths) != 1 || model.Grid.Cells() <= 128 { // a uvarint of 128 takes two bytes
		t.Errorf("transcripts of %d cells have the lengths %v", model.Grid.Cells(), lengths)
	}
}

// TestNearObserver: who sees the releases comes to the sanitizer's state bit for bit, also from
// degrees, and the posterior never tells two near cells apart by more than the factor.
func TestNearObserver(t *testing.T) {
	t.Parallel()
	model := denseModel(t, 24, 24)
	g := model.Grid
	for _, c := range []struct{ epsilon, factor float64 }{{4, 2}, {2, 1.5}, {1, 1.2}, {8, 5}} {
		o := nearOptions(c.epsilon, c.factor)
		o.Near.DistanceKM = g.CellKM()
		o.Prune = -1
		s, observer := newSanitizer(t, model, o), sanitizerWith(t, model, &recorder{}, o)
		var state, seen State
		for i, cell := range walk(model, 22, 40) {
			out := mustStep(t, s, &state,
				Input{User: "u", Step: int64(i), Cell: cell, Release: true, Prior: true})
			lat, lon := g.ToDegrees(out.Release)
			lat, lon = math.Round(lat*1e8)/1e8, math.Round(lon*1e8)/1e8
			err := observer.Observe(&seen, Seen{
				Step: int64(i), Kind: out.Kind, Release: observer.Snap(g.ToMap(lat, lon)),
			})
			if err != nil || !bytes.Equal(seen.AppendBinary(nil), state.AppendBinary(nil)) {
				t.Fatalf("%+v, step %d: the observer comes to another state, %v", c, i, err)
			}
			odds := func(x grid.Cell) float64 { return state.Posterior.At(x) / out.Prior.At(x) }
			for _, x := range out.Prior.Cells {
				for _, y := range []grid.Cell{x + 1, x + grid.Cell(g.Width()), x +
					grid.Cell(g.Width()) + 1} {
					beside := g.Column(x) < g.Width()-1 || y == x+grid.Cell(g.Width())
					if !beside || int(y) >= g.Cells() || out.Prior.At(y) == 0 ||
						state.Posterior.At(x) == 0 || state.Posterior.At(y) == 0 {
						continue
					}
					ratio := odds(x) / odds(y)
					if max(ratio, 1/ratio) > c.factor*(1+1e-6) { // float32
						t.Fatalf("%+v: the odds of two neighbours changed by %g", c, ratio)
					}
				}
			}
		}
	}
}

// TestNearFacts: distance and factor are facts of the noise, and without them the transcript is
// what it was before there was a near factor.
func TestNearFacts(t *testing.T) {
	t.Parallel()
	head := func(near law.Near) string {
		f := sampleFacts()
		f.options = Options{Mechanism: law.Codebook, Epsilon: 3, Near: near}
		var transcript transcript
		transcript.begin(f.options.withDefaults(), f.grid, f.model, f.stepMS)
		return string(transcript.buf)
	}
	if strings.Contains(head(law.Near{}), "near") {
		t.Error("a transcript without a near factor has changed")
	}
	seen := map[string]bool{}
	for _, near := range []law.Near{
		{},
		{DistanceKM: .34, Factor: 2},
		{DistanceKM: .35, Factor: 2},
		{DistanceKM: .34, Factor: 2.001},
	} {
		if text := head(near); seen[text] {
			t.Errorf("%+v has the transcript of another", near)
		} else {
			seen[text] = true
		}
	}
}

func TestNearStepDoesNotAllocate(t *testing.T) {
	model := roadModel(t)
	s := newSanitizer(t, model, nearOptions(4, 3))
	path := walk(model, 23, 120)
	var state State
	i := 0
	next := func() {
		mustStep(t, s, &state, Input{
			User: "user", Step: int64(i), Cell: path[i%len(path)], Release: true, Near: true,
		})
		i++
	}
	for range path {
		next()
	}
	i, state = 0, State{Posterior: state.Posterior}
	if n := testing.AllocsPerRun(len(path)-1, next); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

func TestNearOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"the lattice": {
			Mechanism: law.Lattice, Epsilon: 4, Delta: .1,
			Near: law.Near{DistanceKM: .34, Factor: 2},
		},
		"no factor":   {Mechanism: law.Codebook, Epsilon: 4, Near: law.Near{DistanceKM: .34}},
		"too large":   nearOptions(1, 3),
		"no distance": {Mechanism: law.Codebook, Epsilon: 4, Near: law.Near{Factor: 2}},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "near") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := nearOptions(4, 2).Validate(); err != nil {
		t.Error(err)
	}
	model := roadModel(t)
	o := nearOptions(20, 1.1)
	if _, err := NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(1)), o); err == nil {
		t.Error("noise that reaches everywhere")
	}
}
