package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/noise"
)

// broken is a subject with a planted fault.
type broken struct {
	Sanitizers
	sampler func(at *Situation, o mechanism.Options, right Sampler) Sampler
	publish func(f Facts) (first, again mechanism.Outcome, err error)
}

func (b broken) Sampler(at *Situation, o mechanism.Options) (Sampler, error) {
	right, err := b.Sanitizers.Sampler(at, o)
	if err != nil || b.sampler == nil {
		return right, err
	}
	return b.sampler(at, o, right), nil
}

func (b broken) Publish(f Facts) (first, again mechanism.Outcome, err error) {
	if b.publish == nil {
		return b.Sanitizers.Publish(f)
	}
	return b.publish(f)
}

func plus(p, q grid.Point, by float64) grid.Point {
	return grid.Point{X: p.X + by*q.X, Y: p.Y + by*q.Y}
}

// moved gives both reports of a step another release.
func moved(
	first, again mechanism.Outcome, z grid.Point, err error,
) (mechanism.Outcome, mechanism.Outcome, error) {
	first.Release, again.Release = z, z
	return first, again, err
}

// perimeter draws the direction uniformly along K's perimeter and the norm from Gamma(2).
func perimeter(at *Situation, o mechanism.Options, right Sampler) Sampler {
	k := at.hull.Body().Vertices()
	if len(k) == 2 {
		return right
	}
	lengths := make([]float64, len(k))
	sum := 0.0
	for i, v := range k {
		edge := k[(i+1)%len(k)].Sub(v)
		sum += math.Hypot(edge.X, edge.Y)
		lengths[i] = sum
	}
	var surrogates locationset.Surrogates
	surrogates.Reset(at.grid, at.cells)
	return func(src noise.Source, cell grid.Cell) grid.Point {
		i, _ := slices.BinarySearch(lengths, noise.Uniform(src)*sum)
		v, w, t := k[i], k[(i+1)%len(k)], noise.Uniform(src)
		p := grid.Point{X: v.X + t*(w.X-v.X), Y: v.Y + t*(w.Y-v.Y)}
		return plus(at.grid.Centre(at.cells[surrogates.Nearest(cell)]), p,
			noise.Gamma(src, 2)/o.Epsilon)
	}
}

// TestAuditNoticesSamplers plants faults into what is drawn. Each must push the bound above ε.
func TestAuditNoticesSamplers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, law string
		least     float64
		sampler   func(at *Situation, o mechanism.Options, right Sampler) Sampler
	}{
		{"uniform on the perimeter", law.KNorm, 1.05, perimeter},
		{"half K", law.KNorm, 1.9, func(at *Situation, _ mechanism.Options, right Sampler) Sampler {
			return func(src noise.Source, cell grid.Cell) grid.Point {
				x := at.grid.Centre(at.surrogate(cell))
				return plus(x, right(src, cell).Sub(x), .5)
			}
		}},
		{"ε twice as large, on the lattice", law.Lattice, 1.9, func(
			at *Situation, o mechanism.Options, _ Sampler,
		) Sampler {
			o.Epsilon *= 2
			s, err := Sanitizers{}.Sampler(at, o)
			if err != nil {
				panic(err)
			}
			return s
		}},
		{"mean of two draws", law.KNorm, 1.2, func(
			_ *Situation, _ mechanism.Options, right Sampler,
		) Sampler {
			return func(src noise.Source, cell grid.Cell) grid.Point {
				z, other := right(src, cell), right(src, cell)
				return plus(z, other.Sub(z), .5)
			}
		}},
		{"the true cell, not its surrogate", law.KNorm, 1.5, func(
			at *Situation, _ mechanism.Options, right Sampler,
		) Sampler {
			return func(src noise.Source, cell grid.Cell) grid.Point {
				return plus(right(src, cell),
					at.grid.Centre(cell).Sub(at.grid.Centre(at.surrogate(cell))), 1)
			}
		}},
		{"a set without a cell", law.Lattice, 1.02, func(
			at *Situation, o mechanism.Options, right Sampler,
		) Sampler {
			if len(at.cells) < 4 {
				return right
			}
			smaller := newSituation(at.grid, at.cells[1:], at.state, at.step)
			m, err := o.NewMechanism()
			if err != nil {
				panic(err)
			}
			m.Prepare(&smaller.hull, o.Epsilon)
			return func(
				src noise.Source, cell grid.Cell,
			) grid.Point {
				return m.Sample(src, at.surrogate(cell))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := audited(t, c.law, broken{sampler: c.sampler})
			if r.Attack.Bound < c.least || r.Passed ||
				!strings.Contains(strings.Join(r.Findings, "\n"), "more than e^ε") {
				t.Errorf("the bound is %v, want %v; findings %q",
					r.Attack.Bound, c.least, r.Findings)
			}
		})
	}
}

// TestAuditNoticesNaiveFloats: the right point of the lattice, but added up in kilometres.
func TestAuditNoticesNaiveFloats(t *testing.T) {
	t.Parallel()
	r := audited(t, law.Lattice, broken{sampler: func(
		at *Situation, _ mechanism.Options, right Sampler,
	) Sampler {
		pitch := at.grid.CellKM() / law.DefaultSubdivision
		return func(src noise.Source, cell grid.Cell) grid.Point {
			x := at.grid.Centre(at.surrogate(cell))
			v := right(src, cell).Sub(x)
			return plus(x, grid.Point{X: math.Round(v.X / pitch), Y: math.Round(v.Y / pitch)},
				pitch)
		}
	}})
	if r.Bits.OffLattice < r.Bits.Draws/20 || r.Passed || len(r.Findings) != 1 ||
		!strings.Contains(r.Findings[0], "lattice") {
		t.Errorf("%d of %d beside the lattice, findings %q",
			r.Bits.OffLattice, r.Bits.Draws, r.Findings)
	}
}

// TestAuditNoticesPaths plants faults into the way from the facts to the noise.
func TestAuditNoticesPaths(t *testing.T) {
	t.Parallel()
	m := roads(t, 24, 24)
	surrogateOf := func(f Facts) grid.Cell {
		l := NewLookout(m, f.Options)
		at := newSituation(m.Grid, slices.Clone(l.Cells(f.State, f.Step)), f.State, f.Step)
		return at.surrogate(f.Cell)
	}
	fresh := 0
	for _, c := range []struct {
		name, finding string
		publish       func(f Facts) (first, again mechanism.Outcome, err error)
	}{
		{
			"noise without the cell", "noise does not depend on the cell",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				x := m.Grid.Centre(surrogateOf(f))
				f.Cell = 0
				from := m.Grid.Centre(surrogateOf(f))
				out, again, err := Sanitizers{}.Publish(f)
				return moved(out, again, plus(out.Release, x.Sub(from), 1), err)
			},
		},
		{
			"a second draw in the step", "another report of the same step",
			drawAgain,
		},
		{
			"fresh noise on a retry", "another run of the same facts",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				fresh++
				f.Key = noise.KeyFromSeed(uint64(fresh))
				return Sanitizers{}.Publish(f)
			},
		},
		{
			"more noise on drift", "more than the surrogate",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				out, again, err := Sanitizers{}.Publish(f)
				z := out.Release
				if x := surrogateOf(f); x != f.Cell {
					z = plus(m.Grid.Centre(x), z.Sub(m.Grid.Centre(x)), 2)
				}
				return moved(out, again, z, err)
			},
		},
		{
			"the true cell", "more than the surrogate",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				out, again, err := Sanitizers{}.Publish(f)
				way := m.Grid.Centre(f.Cell).Sub(m.Grid.Centre(surrogateOf(f)))
				return moved(out, again, plus(out.Release, way, 1), err)
			},
		},
		{
			"half the noise", "another law than the sampler",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				out, again, err := Sanitizers{}.Publish(f)
				x := m.Grid.Centre(surrogateOf(f))
				return moved(out, again, plus(x, out.Release.Sub(x), .5), err)
			},
		},
		{"the true cell's estimate", "published beside the release depends on more than the " +
			"surrogate", func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
			out, again, err := Sanitizers{}.Publish(f)
			if out.Drift {
				out.Estimate = m.Grid.Centre(f.Cell)
			}
			return out, again, err
		}},
		{"drift in the repeat's radius", "published beside the release depends on more than the " +
			"surrogate", func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
			out, again, err := Sanitizers{}.Publish(f)
			if out.Drift {
				again.RadiusKM *= 2
			}
			return out, again, err
		}},
		{
			"drift in the kind", "published beside the release depends on more than the surrogate",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				out, again, err := Sanitizers{}.Publish(f)
				if out.Drift {
					out.Kind = mechanism.Predicted
				}
				return out, again, err
			},
		},
		{
			"the surrogate's estimate", "beside equal releases differs",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				out, again, err := Sanitizers{}.Publish(f)
				out.Estimate = m.Grid.Centre(surrogateOf(f))
				again.Estimate = out.Estimate
				return out, again, err
			},
		},
		{
			"the surrogate's radius", "beside equal releases differs",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				out, again, err := Sanitizers{}.Publish(f)
				out.RadiusKM += out.Estimate.Distance(m.Grid.Centre(surrogateOf(f)))
				again.RadiusKM = out.RadiusKM
				return out, again, err
			},
		},
		{
			"a fresh estimate on a retry", "something else beside the same release",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				out, again, err := Sanitizers{}.Publish(f)
				fresh++
				out.Estimate.X += float64(fresh)
				return out, again, err
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := audited(t, law.Lattice, broken{publish: c.publish})
			if r.Passed || !strings.Contains(strings.Join(r.Findings, "\n"), c.finding) {
				t.Errorf("findings %q do not say %q", r.Findings, c.finding)
			}
		})
	}
}

// lowBit is not a fact but the last bit of one: neighbours in a row share the rest.
const lowBit = "low bit of the cell"

// TestSeparationNoticesEachFact leaves one fact at a time, or a bit of one, out of the key of the
// noise.
func TestSeparationNoticesEachFact(t *testing.T) {
	t.Parallel()
	m, o, situations := scouted(t, law.Lattice)
	facts := []string{
		"key", "user", "cell", "step", "release number", "ε", "location set", "mechanism", "model",
	}
	for _, without := range append(facts, lowBit, "") {
		// The draw is the lattice's of words by a transcript of its own.
		publish := func(f Facts) (first, again mechanism.Outcome, err error) {
			l := NewLookout(f.Model, f.Options)
			at := newSituation(m.Grid, slices.Clone(l.Cells(f.State, f.Step)), f.State, f.Step)
			cell := at.surrogate(f.Cell)
			known := map[string]any{
				"user": f.User, "cell": cell, "step": f.Step, "release number": f.State.Releases,
				"ε":            f.Options.Epsilon,
				"location set": at.cells, "mechanism": f.Options.Mechanism, "model": f.Model.ID(),
			}
			key := f.Key
			if without == "key" {
				key = noise.KeyFromSeed(0)
			}
			delete(known, without)
			if without == lowBit {
				known["cell"] = cell &^ 1
			}
			noisy, err := f.Options.NewMechanism()
			if err != nil {
				return first, again, err
			}
			noisy.Prepare(&at.hull, f.Options.Epsilon)
			if without == "mechanism" { // words in common show under laws with equal use of them
				noisy, _ = mechanism.Options{Mechanism: law.KNorm}.NewMechanism()
				noisy.Prepare(&at.hull, 1)
			}
			z := noisy.Sample(noise.NewKeyed(key).Stream(fmt.Append(nil, known)), cell)
			first.Release = z
			return first, first, nil
		}
		a := &auditor{
			subject: broken{publish: publish}, model: m, release: o, situations: situations,
			options: Options{Seed: 3}.withDefaults(),
		}
		var r Report
		if err := separate(a, &r); err != nil {
			t.Fatal(err)
		}
		missed := slices.DeleteFunc(slices.Clone(r.Separation.Details),
			func(d string) bool { return strings.Contains(d, "another law") })
		if without == lowBit {
			without = "cell"
		}
		switch {
		case without == "" && len(missed) > 0:
			t.Errorf("all facts count, but: %q", missed)
		case without != "" && (len(missed) != 1 || !strings.HasSuffix(missed[0], " "+without)):
			t.Errorf("without the %s: %q", without, missed)
		}
	}
}

// drawAgain releases a second time in the step. It is planted under every mechanism.
func drawAgain(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
	f.Options.SameStep = mechanism.SameStepRelease
	return Sanitizers{}.Publish(f)
}
