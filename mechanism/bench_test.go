package mechanism

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// setting is one model in its steady state, with everything a single stage needs.
type setting struct {
	name      string
	sanitizer *Sanitizer
	states    []State // of consecutive steps
	cells     []grid.Cell
	step      int64
}

const benchPath = 256

func settings(b *testing.B, o Options) []setting {
	b.Helper()
	var all []setting
	for _, c := range []struct {
		name  string
		model *mobility.Model
	}{
		{"road", roadModel(b)},
		{"dense", denseModel(b, 32, 32)},
		{"map", denseModel(b, 1000, 1000)},
	} {
		s := newSanitizer(b, c.model, o)
		const warm = 200
		path := walk(c.model, 1, warm+benchPath)
		var state State
		set := setting{
			name: strings.TrimPrefix(o.Mechanism+" "+c.name, " "), sanitizer: s, cells: path[warm:],
			step: warm,
		}
		for i, cell := range path {
			if i >= warm {
				set.states = append(set.states, copyState(&state))
			}
			if _, err := s.Step(&state, Input{
				User: "bench", Step: int64(i), Cell: cell,
				Release: true,
			}); err != nil {
				b.Fatal(err)
			}
		}
		all = append(all, set)
	}
	return all
}

// BenchmarkStep measures whole steps under the lattice and under the codebook, at one ε and at a
// larger one. Each mechanism's steps have the priors that its own releases lead to, which are
// narrower under the codebook.
func BenchmarkStep(b *testing.B) {
	var sets []setting
	for _, epsilon := range []float64{1, 4} {
		for _, mechanism := range []string{law.Lattice, law.Codebook} {
			for _, set := range settings(b, Options{
				Mechanism: mechanism, Epsilon: epsilon, Delta: .01,
			}) {
				set.name += fmt.Sprintf(" ε=%v", epsilon)
				sets = append(sets, set)
			}
		}
	}
	for _, set := range sets {
		for _, release := range []bool{true, false} {
			name := set.name + "/release"
			if !release {
				name = set.name + "/predict-only"
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				var state State
				sizes, support, n := 0, 0, 0
				for b.Loop() {
					i := n % benchPath
					// from the first state again, so that both kinds of step see the same
					// posteriors
					if i == 0 {
						s := set.states[0]
						posterior := state.Posterior
						state = s
						state.Posterior = posterior
						state.Posterior.CopyFrom(&s.Posterior)
					}
					if !release {
						state.Posterior.CopyFrom(&set.states[i].Posterior)
					}
					out, err := set.sanitizer.Step(&state,
						Input{
							User: "bench", Step: set.step + int64(i), Cell: set.cells[i],
							Release: release,
						})
					if err != nil {
						b.Fatal(err)
					}
					sizes += out.SetSize
					support += set.sanitizer.prior.Len()
					n++
				}
				b.ReportMetric(float64(sizes)/float64(n), "|ΔX|")
				b.ReportMetric(float64(support)/float64(n), "support")
			})
		}
	}
}

func BenchmarkStage(b *testing.B) {
	for _, set := range settings(b, Options{Epsilon: 1, Delta: .01}) {
		s := set.sanitizer
		n := 0
		next := func() *State { n++; return &set.states[n%benchPath] }
		stage := func(name string, work func()) {
			b.Run(set.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					work()
				}
			})
		}
		stage("predict", func() { s.predictor.Predict(s.prior, &next().Posterior, 0, 1) })
		stage("predict+prune", func() { st := next(); s.predict(st, st.Step+1) })
		st := &set.states[benchPath/2]
		s.predict(st, st.Step+1)
		e := s.emission
		stage("set", func() { e.set.Choose(s.prior, s.options.Delta) })
		e.set.Choose(s.prior, s.options.Delta)
		e.hull.OfCells(s.model.Grid, e.set.Cells)
		stage("hull", func() { e.hull.OfCells(s.model.Grid, e.set.Cells) })
		stage("surrogates", func() {
			e.surrogates.Reset(s.model.Grid, e.set.Cells)
			e.nearest = e.surrogates.All(e.nearest, s.prior.Cells)
		})
		src := noise.NewKeyed(noise.KeyFromSeed(1)).Stream(nil)
		stage("stream", func() {
			if _, err := s.streams.On(1, s.transcript.complete("bench", 1, 1, e.set.Cells,
				1)); err != nil {
				b.Fatal(err)
			}
		})
		for _, name := range law.HullNames() {
			m := mustMechanism(b, name)
			stage("draw/"+name, func() {
				m.Prepare(&e.hull, 1)
				m.Sample(src, e.set.Cells[0])
			})
		}
		e.mechanism.Prepare(&e.hull, 1)
		z := e.mechanism.Sample(src, e.set.Cells[0])
		e.surrogates.Reset(s.model.Grid, e.set.Cells)
		e.nearest = e.surrogates.All(e.nearest, s.prior.Cells)
		e.places = centres(e.places, s.model.Grid, e.set.Cells)
		stage("emission", func() {
			e.places = centres(e.places, s.model.Grid, e.set.Cells)
			e.inference.Surrogate(e.mechanism, z, e.places, e.nearest)
		})
		var posterior mobility.Distribution
		likelihood := slices.Clone(e.inference.Surrogate(e.mechanism, z, e.places, e.nearest))
		stage("posterior", func() {
			copy(e.inference.likelihood, likelihood)
			store(&posterior, s.prior, e.inference.likelihood, s.options.Prune)
		})
		store(&posterior, s.prior, slices.Clone(likelihood), s.options.Prune)
		stage("estimate", func() { s.estimator.Estimate(s.model.Grid, &posterior) })
	}
}
