package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// The closed-form attack on a codebook: of two cells that vote otherwise, an answer for the vote of
// one speaks for it by a factor of e^ε exactly. The observer guesses at these two answers.

// codebookAlpha is the rate at which a bound exceeds the true ε by chance.
const codebookAlpha = 5e-4

// guesser counts right and wrong guesses at which of two cells a release is of.
type guesser struct {
	votes        [2]int
	hits, misses int64
}

func (g *guesser) guess(place, answer int) {
	switch answer {
	case g.votes[place]:
		g.hits++
	case g.votes[1-place]:
		g.misses++
	}
}

func (g *guesser) bound() float64 { return EpsilonLowerBound(g.hits, g.misses, codebookAlpha) }

// border returns two neighbouring cells that vote otherwise: what a codebook protects least.
func border(tb testing.TB, q *law.Quantizer, g *grid.Grid) [2]grid.Cell {
	tb.Helper()
	for c := range grid.Cell(g.Cells() - 1) {
		if g.Row(c) == g.Row(c+1) && q.Vote(c) != q.Vote(c+1) {
			return [2]grid.Cell{c, c + 1}
		}
	}
	tb.Fatal("all cells have one vote")
	return [2]grid.Cell{}
}

// sure is a model of a map whose users start in a blob of cells.
func sure(tb testing.TB) *mobility.Model {
	tb.Helper()
	g, err := grid.Plain(16, 16, .34)
	if err != nil {
		tb.Fatal(err)
	}
	m := &mobility.Matrix{RowStart: []int64{0}}
	for c := range grid.Cell(g.Cells()) {
		m.Columns, m.Values = append(m.Columns, c), append(m.Values, 1)
		m.RowStart = append(m.RowStart, int64(c)+1)
	}
	model := &mobility.Model{Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{m}}
	for _, c := range []grid.Cell{35, 36, 37, 51, 52, 68, 100, 101, 117, 134, 150, 151, 200} {
		model.Initial.Cells = append(model.Initial.Cells, c)
		model.Initial.P = append(model.Initial.P, 1+float64(c%5))
	}
	model.Initial.Normalize()
	if err := model.Validate(); err != nil {
		tb.Fatal(err)
	}
	return model
}

// TestCodebookAttack: from a million releases of two neighbouring cells the attack reaches .97 of
// ε at ε = 1, and does not exceed ε. A codebook of a larger ε is noticed.
func TestCodebookAttack(t *testing.T) {
	t.Parallel()
	model := sure(t)
	for _, c := range []struct {
		epsilon, drawn, least float64
	}{{1, 1, .97}, {2, 2, .97}, {4, 4, .97}, {1, 1.05, 1}, {2, 2.1, 1}} {
		q, err := law.NewQuantizer(model.Grid, c.drawn)
		if err != nil {
			t.Fatal(err)
		}
		q.Prepare(model.Initial.Cells, model.Initial.P)
		cells := border(t, q, model.Grid)
		g := guesser{votes: [2]int{q.Vote(cells[0]), q.Vote(cells[1])}}
		src := noise.NewKeyed(noise.KeyFromSeed(121)).Stream(nil)
		for range DefaultDraws {
			place := int(src.Uint64() >> 63)
			g.guess(place, q.Sample(src, q.Vote(cells[place])))
		}
		bound := g.bound()
		t.Logf("ε = %v, drawn with %v: a bound of %.4f", c.epsilon, c.drawn, bound)
		if bound < c.least*c.epsilon ||
			(bound > c.epsilon) != (c.drawn > c.epsilon) {
			t.Errorf("ε = %v, drawn with %v: a bound of %.4f", c.epsilon, c.drawn, bound)
		}
	}
}

// TestCodebookStepAttack is the attack through whole steps of many users under one key: what is
// published follows the law of ε, and ε × 1.2 is noticed.
func TestCodebookStepAttack(t *testing.T) {
	t.Parallel()
	const users = 30_000
	model := sure(t)
	attack := func(epsilon float64) float64 {
		s, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(122)),
			mechanism.Options{Mechanism: law.Codebook, Epsilon: epsilon})
		if err != nil {
			t.Fatal(err)
		}
		q, err := law.NewQuantizer(model.Grid, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		q.Prepare(model.Initial.Cells, model.Initial.P)
		cells := border(t, q, model.Grid)
		g := guesser{votes: [2]int{q.Vote(cells[0]), q.Vote(cells[1])}}
		coins := noise.NewKeyed(noise.KeyFromSeed(123)).Stream(nil)
		for user := range users {
			place := int(coins.Uint64() >> 63)
			var state mechanism.State
			out, err := s.Step(&state, mechanism.Input{
				User: string(rune(user + 1)), Step: int64(user), Cell: cells[place], Release: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			g.guess(place, q.Nearest(out.Release))
		}
		return g.bound()
	}
	if bound := attack(1); bound < .9 || bound > 1 {
		t.Errorf("ε = 1: a bound of %.4f", bound)
	}
	if bound := attack(1.2); bound <= 1 {
		t.Errorf("ε = 1.2 passes for 1: a bound of %.4f", bound)
	}
}

// TestAuditPassesTheCodebook: nothing is found, every test has run, and the bound reaches ε.
func TestAuditPassesTheCodebook(t *testing.T) {
	t.Parallel()
	r := audited(t, law.Codebook, Sanitizers{})
	if !r.Passed || len(r.Findings) > 0 {
		t.Errorf("findings on the codebook: %q", r.Findings)
	}
	if r.Attack.Bound < .97 || r.Attack.Bound > 1 {
		t.Errorf("the bound is %v, want it between .97 and 1", r.Attack.Bound)
	}
	kinds, places := map[string]bool{}, map[string]bool{}
	for _, s := range r.Situations {
		kind, _, _ := strings.Cut(s.Name, "-")
		kinds[kind] = true
	}
	for _, result := range r.Attack.Survey {
		places[result.Places] = true
	}
	if !kinds["two"] || !kinds["few"] || !kinds["many"] || !places["neighbours"] ||
		!places["members"] || !places["corners"] {
		t.Errorf("situations %+v with places %v", r.Situations, places)
	}
	if r.Repeat.Trials == 0 || r.Surrogates.Trials < 50 || r.Estimates.Trials < 100 ||
		r.Separation.Trials < 7 || r.Bits.Draws == 0 || !r.Bits.Lattice ||
		r.Ratio.Comparisons == 0 || r.Law.Trials < 20 {
		t.Errorf("a test has not run: %+v", r)
	}
	if !r.Ratio.Exact || math.Abs(r.Ratio.Worst-1) > 1e-15 {
		t.Errorf("weights differ by %v ε, want ε exactly", r.Ratio.Worst)
	}
}

// TestAuditOfCodebooksOfAnyEpsilon: nothing is found, and the bound comes as near as the draws
// let it.
func TestAuditOfCodebooksOfAnyEpsilon(t *testing.T) {
	t.Parallel()
	m := roads(t, 24, 24)
	for _, c := range []struct{ epsilon, least float64 }{
		{.001, 0}, {.1, .05}, {2, 1.9}, {4, 3.7}, {10, 4}, {20, 4},
	} {
		scout, err := NewScout(m, mechanism.Options{
			Mechanism: law.Codebook, Epsilon: c.epsilon,
		}, 3)
		if err != nil {
			t.Fatal(err)
		}
		src := rand.NewPCG(5, 2)
		cell := m.SampleInitial(src)
		for step := range int64(30) {
			if _, err := scout.Visit("u", step, cell); err != nil {
				t.Fatal(err)
			}
			cell = m.SampleNext(src, cell, step)
		}
		r, err := Run(Sanitizers{}, m, scout.lookout.options, scout.Situations(),
			Options{Draws: testDraws, Seed: 4, Ratio: true, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Passed || r.Attack.Bound < c.least || r.Attack.Bound > c.epsilon {
			t.Errorf("ε = %v: a bound of %v, findings %q", c.epsilon, r.Attack.Bound, r.Findings)
		}
	}
}

// drawn is a sampler of code points by weights of a fault's own.
func drawn(weight func(at *Situation, cell grid.Cell, j, own int) float64) func(
	*Situation, mechanism.Options, Sampler,
) Sampler {
	return func(at *Situation, _ mechanism.Options, _ Sampler) Sampler {
		return func(src noise.Source, cell grid.Cell) grid.Point {
			own, all := at.code.Vote(cell), 0.0
			for j := range at.code.Len() {
				all += weight(at, cell, j, own)
			}
			u, last := noise.Uniform(src)*all, 0
			for j := range at.code.Len() {
				if w := weight(at, cell, j, own); w > 0 {
					if last = j; u < w {
						break
					}
					u -= w
				}
			}
			return at.code.Place(last)
		}
	}
}

// weightOf is the stated probability of code point j for cells that vote for own.
func weightOf(c *Codebook, j, own int) float64 {
	all := 1 + float64(c.Len()-1)*c.other
	if j == own {
		return 1 / all
	}
	return c.other / all
}

// TestAuditNoticesCodebookSamplers plants faults into what is drawn.
func TestAuditNoticesCodebookSamplers(t *testing.T) {
	t.Parallel()
	stated := func(at *Situation, _ grid.Cell, j, own int) float64 {
		return weightOf(at.code, j, own)
	}
	for _, c := range []struct {
		name, finding string
		sampler       func(at *Situation, o mechanism.Options, right Sampler) Sampler
	}{
		{"as stated", "", drawn(stated)},
		{"T for ε × 1.1", "more than e^ε", drawn(func(
			at *Situation, x grid.Cell, j, own int,
		) float64 {
			if j == own {
				return math.Exp(.1) * stated(at, x, j, own)
			}
			return stated(at, x, j, own)
		})},
		{"far code points are left out", "more than e^ε", drawn(func(
			at *Situation, x grid.Cell, j, own int,
		) float64 {
			if ranks := at.code.Ranks(own); len(ranks) > 2 && j == ranks[len(ranks)-1] {
				return 0
			}
			return stated(at, x, j, own)
		})},
		{"index off by one", "another law than is stated", drawn(func(
			at *Situation, x grid.Cell, j, own int,
		) float64 {
			return stated(at, x, (j+1)%at.code.Len(), own)
		})},
		{"some cells vote for their second nearest", "another law than is stated", drawn(func(
			at *Situation, x grid.Cell, j, own int,
		) float64 {
			if x%3 == 0 {
				own = at.code.Ranks(own)[1]
			}
			return stated(at, x, j, own)
		})},
		{"a little of the way to the truth", "none of the code points", func(
			at *Situation, _ mechanism.Options, right Sampler,
		) Sampler {
			return func(src noise.Source, cell grid.Cell) grid.Point {
				z := right(src, cell)
				return plus(z, at.grid.Centre(cell).Sub(z), 1e-9)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := audited(t, law.Codebook, broken{sampler: c.sampler})
			found := strings.Join(r.Findings, "\n")
			if r.Passed != (c.finding == "") || !strings.Contains(found, c.finding) {
				t.Errorf("the bound is %v; findings %q do not say %q", r.Attack.Bound, r.Findings,
					c.finding)
			}
		})
	}
}

// TestAuditNoticesCodebookPaths plants faults into the way from the facts to what is published.
func TestAuditNoticesCodebookPaths(t *testing.T) {
	t.Parallel()
	m := roads(t, 24, 24)
	codeOf := func(f Facts) *Codebook {
		code, err := NewLookout(m, f.Options).Codebook(f.State, f.Step)
		if err != nil {
			t.Error(err)
		}
		return code
	}
	for _, c := range []struct {
		name, finding string
		publish       func(f Facts) (first, again mechanism.Outcome, err error)
	}{
		{
			"some cells vote for their second nearest", "depends on more than the vote",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				code := codeOf(f)
				if other := code.Ranks(code.Vote(f.Cell))[1]; f.Cell%3 == 0 {
					for code.Vote(f.Cell) != other {
						f.Cell = (f.Cell + 1) % grid.Cell(m.Grid.Cells())
					}
				}
				return Sanitizers{}.Publish(f)
			},
		},
		{
			"a second draw in the step", "another report of the same step",
			drawAgain,
		},
		{
			"a little of the way to the truth", "depends on more than the vote",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				out, again, err := Sanitizers{}.Publish(f)
				z := plus(out.Release, m.Grid.Centre(f.Cell).Sub(out.Release), 1e-9)
				return moved(out, again, z, err)
			},
		},
		{
			"the own code point in each second release", "another law than the sampler",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				out, again, err := Sanitizers{}.Publish(f)
				if code := codeOf(f); f.User[len(f.User)-1]%2 == 0 {
					return moved(out, again, code.Place(code.Vote(f.Cell)), err)
				}
				return out, again, err
			},
		},
		{
			"the estimate of the own code point", "beside equal releases differs",
			func(f Facts) (mechanism.Outcome, mechanism.Outcome, error) {
				out, again, err := Sanitizers{}.Publish(f)
				code := codeOf(f)
				out.Estimate = code.Place(code.Vote(f.Cell))
				again.Estimate = out.Estimate
				return out, again, err
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := audited(t, law.Codebook, broken{publish: c.publish})
			if r.Passed || !strings.Contains(strings.Join(r.Findings, "\n"), c.finding) {
				t.Errorf("findings %q do not say %q", r.Findings, c.finding)
			}
		})
	}
}

// TestExactLawIsChecked: another T, another vote and another likelihood are no stated law.
func TestExactLawIsChecked(t *testing.T) {
	t.Parallel()
	model := sure(t)
	situation := func(epsilon float64) (*Situation, *law.Quantizer) {
		s := &Situation{grid: model.Grid}
		s.prior.CopyFrom(&model.Initial)
		q, err := s.quantizer(epsilon)
		if err != nil {
			t.Fatal(err)
		}
		s.code = NewCodebook(model.Grid, epsilon, q)
		return s, q
	}
	for _, epsilon := range []float64{.001, .5, 1, 4, 20, 44, 60} {
		var r RatioReport
		s, q := situation(epsilon)
		if r.votes(s, q, epsilon); r.Failures > 0 {
			t.Errorf("ε = %v: %d failures", epsilon, r.Failures)
		}
	}
	s, q := situation(1)
	var otherT, otherVotes RatioReport
	otherT.votes(s, q, math.Nextafter(1, 2))
	// The shortest text of the next float has 16 decimals: T is off in its last digits.
	if otherT.Failures != 1 {
		t.Errorf("another T: %d failures", otherT.Failures)
	}
	s.code.points[0].X += 3 * law.CodeSteps
	if otherVotes.votes(s, q, 1); otherVotes.Failures == 0 {
		t.Error("other votes are not noticed")
	}
}

// TestCodebookSeparationNoticesEachFact leaves one fact at a time, or a bit of one, out of the key
// of the noise.
func TestCodebookSeparationNoticesEachFact(t *testing.T) {
	t.Parallel()
	m, o, situations := scouted(t, law.Codebook)
	facts := []string{
		"key", "user", "vote", "step", "release number", "ε", "code points", "model",
	}
	const lowBit = "low bit of the vote"
	for _, without := range append(facts, lowBit, "") {
		publish := func(f Facts) (first, again mechanism.Outcome, err error) {
			l := NewLookout(f.Model, f.Options)
			code, err := l.Codebook(f.State, f.Step)
			if err != nil {
				return first, again, err
			}
			vote := code.Vote(f.Cell)
			known := map[string]any{
				"user": f.User, "vote": vote, "step": f.Step, "release number": f.State.Releases,
				"ε": f.Options.Epsilon, "code points": code.points, "model": f.Model.ID(),
			}
			if without == "ε" { // which the code points follow from too
				delete(known, "code points")
			}
			key := f.Key
			if without == "key" {
				key = noise.KeyFromSeed(0)
			}
			delete(known, without)
			if without == lowBit {
				known["vote"] = vote &^ 1
			}
			j := l.quantizer.Sample(noise.NewKeyed(key).Stream(fmt.Append(nil, known)), vote)
			first.Release = code.Place(j)
			return first, first, nil
		}
		a := &auditor{
			subject: broken{publish: publish}, model: m, release: o, situations: situations,
			options: Options{Seed: 3}.withDefaults(),
		}
		var r Report
		if err := separateAnswers(a, &r); err != nil {
			t.Fatal(err)
		}
		missed := r.Separation.Details
		want := without
		if without == lowBit {
			want = "vote"
		}
		switch {
		case want == "" && len(missed) > 0:
			t.Errorf("all facts count, but: %q", missed)
		case want != "" && !slices.ContainsFunc(missed, func(d string) bool {
			return strings.HasSuffix(d, " "+want)
		}):
			t.Errorf("without the %s: %q", without, missed)
		case want != "" && want != "user" && want != "ε" && len(missed) != 1:
			t.Errorf("without the %s: %q", without, missed)
		}
	}
}

// TestFit: the probability that Fit gives is uniform, or larger, under the stated law, and tiny
// under another.
func TestFit(t *testing.T) {
	t.Parallel()
	model := sure(t)
	for _, epsilon := range []float64{.01, 1, 4, 8} {
		q, err := law.NewQuantizer(model.Grid, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		q.Prepare(model.Initial.Cells, model.Initial.P)
		code := NewCodebook(model.Grid, epsilon, q)
		src := noise.NewKeyed(noise.KeyFromSeed(7)).Stream(fmt.Append(nil, epsilon))
		const samples, draws = 400, 2000
		below := 0
		cells := make([]grid.Cell, code.Len()) // one for each vote
		for x := range grid.Cell(model.Grid.Cells()) {
			cells[code.Vote(x)] = x
		}
		for i := range samples {
			counts, off := make([]int64, code.Len()), make([]int64, code.Len())
			own := i % code.Len()
			for range draws {
				j := q.Sample(src, own)
				counts[j]++
				off[(j+1)%code.Len()]++
			}
			if code.Fit(counts, cells[own]) < .1 {
				below++
			}
			if p := code.Fit(off, cells[own]); epsilon >= 1 && p > 1e-9 {
				t.Fatalf("ε = %v: the index off by one fits with %v", epsilon, p)
			}
		}
		if below > 70 { // 40 are expected, with a standard deviation of 6
			t.Errorf("ε = %v: %d of %d samples are below .1", epsilon, below, samples)
		}
	}
}
