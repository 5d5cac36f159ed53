package experiment

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// evenly returns a comparison of nine users whose values lie evenly around a mean: its interval at
// 95 % is the mean ± 2.306·σ/3 with σ = √7.5·spread.
func evenly(where string, mean, spread float64) comparison {
	var sample Sample
	for i := range 9 {
		sample = append(sample, Sums{N: 1, Of: []float64{mean + float64(i-4)*spread}})
	}
	return comparison{where: where, terms: []term{{weight: 1, sample: sample}}}
}

// TestComparison by hand: Student's quantile of 8 degrees is 2.306, so nine values with a spread of
// 1 give a mean ± 2.105.
func TestComparison(t *testing.T) {
	for _, c := range []struct {
		mean float64
		want Verdict
	}{{2.2, Holds}, {2.0, Undecided}, {0, Undecided}, {-2.0, Undecided}, {-2.2, Fails}} {
		of := evenly("", c.mean, 1)
		if b := of.band(Level); math.Abs(b.High-b.Value-2.105) > .001 ||
			math.Abs(b.Value-b.Low-2.105) > .001 {
			t.Errorf("interval %v, want ± 2.105", b)
		}
		if got := of.verdict(Level); got != c.want {
			t.Errorf("%g ± 2.105: %s, want %s", c.mean, got, c.want)
		}
	}
	one := evenly("", 5, 1)
	one.terms[0].sample = one.terms[0].sample[:1]
	if one.verdict(Level) != Undecided {
		t.Error("a single user decides")
	}
	if none := evenly("", 0, 0); none.verdict(Level) != Undecided {
		t.Error("no difference at all decides")
	}
	if same := evenly("", 5, 0); same.verdict(Level) != Undecided {
		t.Error("users of whom none differs decide")
	}
}

func TestVerdicts(t *testing.T) {
	yes, no, open := evenly("a", 100, 1), evenly("a", -100, 1), evenly("a", 0, 1)
	elsewhere := evenly("b", -100, 1)
	for _, c := range []struct {
		name string
		list []comparison
		a, b Verdict // at a, and over all
	}{
		{"all hold", []comparison{yes, yes}, Holds, Holds},
		{"one holds, one is open", []comparison{yes, open}, Holds, Holds},
		{"mostly open", []comparison{yes, open, open}, Undecided, Undecided},
		{"both", []comparison{yes, yes, yes, no}, Depends, Depends},
		{"all fail", []comparison{no, no, open}, Fails, Fails},
		{"here and not there", []comparison{yes, elsewhere}, Holds, Depends},
		{"nothing", nil, Untested, Untested},
	} {
		of := tested{comparisons: c.list}
		if a, all := of.verdict("a"), of.verdict(""); a != c.a || all != c.b {
			t.Errorf("%s: %s at a and %s over all, want %s and %s", c.name, a, all, c.a, c.b)
		}
	}
	for _, c := range []struct {
		list []comparison
		want Verdict
	}{
		{[]comparison{yes, yes}, Holds},
		{[]comparison{yes, open}, Undecided},
		{[]comparison{yes, no}, Fails},
		{[]comparison{yes, elsewhere}, Depends},
		{[]comparison{yes, evenly("b", 0, 1)}, Undecided},
		{[]comparison{no, evenly("b", 0, 1)}, Fails},
		{[]comparison{no, elsewhere}, Fails},
		{nil, Untested},
	} {
		of := tested{claim: claim{strict: true}, comparisons: c.list}
		if got := of.verdict(""); got != c.want {
			t.Errorf("strictly: %s, want %s", got, c.want)
		}
	}
	// The more comparisons, the wider their intervals: 2.2 is enough for one, and not for ten.
	single := tested{comparisons: []comparison{evenly("a", 2.2, 1)}}
	many := tested{}
	for range 10 {
		many.comparisons = append(many.comparisons, evenly("a", 2.2, 1))
	}
	if single.verdict("") != Holds || many.verdict("") != Undecided {
		t.Errorf("one comparison: %s, ten: %s", single.verdict(""), many.verdict(""))
	}
}

// TestTerms: two users of 10 and 20 timestamps; 2·|ΔX| of the first sample less |ΔX| of the second,
// less 3, by hand.
func TestTerms(t *testing.T) {
	users := func(first, second float64) Sample {
		return Sample{{N: 10, Of: []float64{first}}, {N: 20, Of: []float64{second}}}
	}
	c := comparison{constant: -3, terms: []term{
		{2, setScore, "first", users(100, 100)}, {-1, setScore, "then", users(50, 10)},
	}}
	if got, want := c.band(Level).Value, (2*100-50-30+2*100-10-60)/30.; !near(
		got, want) {
		t.Errorf("%g, want %g", got, want)
	}
	if got := c.numbers(); !strings.HasPrefix(got, "first 6.67 (") ||
		!strings.Contains(got, "), then 2 (") {
		t.Errorf("numbers %q", got)
	}
}

// TestSlopes: the weights give the slope of a line over ln x, and 0 of a constant.
func TestSlopes(t *testing.T) {
	values := []float64{.1, .2, 1, 2}
	var line, constant float64
	for i, w := range slopes(values) {
		line += w * (7 + 3*math.Log(values[i]))
		constant += w * 7
	}
	if !near(line, 3) || math.Abs(constant) > 1e-12 {
		t.Errorf("slopes %g and %g, want 3 and 0", line, constant)
	}
}

// claimStudy is small, with a δ so wide that drift shows, and a clock that runs a millisecond a
// look.
func claimStudy(t *testing.T) *Study {
	t.Helper()
	d := testDefinition()
	d.Folds = 2
	data, err := NewData(d, wandering(t, wanderGrid(t), train.Options{}, 12, 60))
	if err != nil {
		t.Fatal(err)
	}
	var now atomic.Int64
	s, err := New([]*Data{data}, Options{
		Seed: 6, TimeRuns: 3, Runs: 4, Epsilons: []float64{.5, 2}, Deltas: []float64{.001, .01, .3},
		MechanismEpsilons: []float64{2}, MechanismDeltas: []float64{.01, .3}, Tool: "test",
		Clock: func() time.Duration { return time.Duration(now.Add(1)) * time.Millisecond },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestClaimsNotice plants a fault: the results of LM and PIM change places, and those of the least
// and the largest δ. What held must fail.
func TestClaimsNotice(t *testing.T) {
	s := claimStudy(t)
	r, err := s.Measure([]Experiment{paperClaims}, Run{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	verdicts := func(r Results) map[string]Verdict {
		section, err := paperClaims.section(s, r)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]Verdict{}
		for _, part := range section.Parts {
			if table, ok := part.(*report.Table); ok && table.Name == "claims" {
				for _, row := range table.Rows {
					got[row[0].(string)] = Verdict(row[1].(string))
				}
			}
		}
		return got
	}
	const (
		closer = "PIM's releases are closer to the truth than LM's everywhere"
		rises  = "The drift ratio rises with δ"
		above  = "|ΔX| > 4 at δ = 0.01"
		timed  = "Most releases come within 0.3 s"
		recall = "Recall grows with k' (k = 5)"
	)
	right := verdicts(r)
	for _, sentence := range []string{closer, rises, above, timed, recall} {
		if right[sentence] != Holds {
			t.Errorf("%s: %s", sentence, right[sentence])
		}
	}
	const optimal = "PIM's noise is optimal: no mechanism of the same ε has a smaller error"
	if len(right) != 12 || right["|ΔX| = 1 at δ = 0.1 with a personal M"] != Fails ||
		right[optimal] != Fails {
		t.Errorf("the claims are %v", right)
	}
	swap := strings.NewReplacer("pim/", "laplace/", "laplace/", "pim/", "δ 0.001/",
		"δ 0.3/", "δ 0.3/", "δ 0.001/")
	turned := Results{}
	for name, data := range r {
		turned[name] = data // what is measured of PIM alone stays
	}
	for name, data := range r {
		if to := swap.Replace(name); r[to] != nil {
			turned[to] = data
		}
	}
	wrong := verdicts(turned)
	if wrong[closer] != Fails || wrong[rises] != Fails {
		t.Errorf("with LM and PIM exchanged and δ turned round: %s and %s",
			wrong[closer], wrong[rises])
	}
}

// TestTiming: three releases within the paper's time and one beyond it leave the claim open.
func TestTiming(t *testing.T) {
	s := claimStudy(t)
	var now time.Duration
	var looks int
	s.Options.Clock = func() time.Duration {
		if looks++; looks%16 == 0 { // two looks a release, and one at the start
			now += time.Second
		}
		now += time.Millisecond
		return now
	}
	timed := Experiment{Plan: func(s *Study) []Piece {
		return releaseTimes.Pieces(s, watchedAt(s.Data[0]))
	}}
	r, err := s.Measure([]Experiment{timed}, Run{})
	if err != nil {
		t.Fatal(err)
	}
	verdicts := &report.Table{Columns: []string{"", "", "", ""}}
	where := &report.Table{Columns: []string{"", "", "", "", ""}}
	p := &Page{Study: s, Results: r}
	p.addTimes(verdicts, where)
	if got := where.Rows[0]; got[2] != "depends" || got[4] != "18 of 20 releases" {
		t.Errorf("timed as %v", got)
	}
}
