package mechanism

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestStepIsAlgorithm1 follows a walk with every mechanism and inference and compares each step
// with the stages put together by hand, in dense vectors where that is possible.
func TestStepIsAlgorithm1(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	for _, o := range []Options{
		{
			Mechanism: law.PIM, Inference: InferenceSurrogate, Epsilon: 1, Delta: .01, Prune: -1,
			MinCells: -1,
		},
		{Mechanism: law.KNorm, Inference: InferencePaper, Epsilon: 1, Delta: .1, MinCells: -1},
		{
			Mechanism: law.Laplace, Inference: InferenceSurrogate, Epsilon: 3, Delta: .3,
			MinCells: -1,
		},
		{
			Mechanism: law.LaplaceTight, Inference: InferencePaper, Epsilon: .5, Delta: 0,
			MinCells: -1,
		},
		{
			Mechanism: law.Lattice, Inference: InferenceSurrogate, Epsilon: 1.25, Delta: .02,
			Subdivision: 3, MinCells: -1,
		},
	} {
		t.Run(fmt.Sprint(o), func(t *testing.T) {
			t.Parallel()
			s := newSanitizer(t, model, o)
			var state State
			for i, cell := range walk(model, 7, 60) {
				before := copyState(&state)
				out := mustStep(t, s, &state, Input{
					User: "u", Step: int64(i), Cell: cell,
					Release: true,
				})
				want := denseStep(t, s, &before, cell, out)
				got := make([]float64, model.Grid.Cells())
				for j, c := range state.Posterior.Cells {
					got[c] = state.Posterior.P[j]
				}
				// float32 rounding is 2⁻²⁴ of the value; pruning drops at most its share of
				// each cell and raises the rest.
				prune := max(s.options.Prune, 0)
				share := 0x1p-24 + 2*prune*float64(model.Grid.Cells())
				for c, p := range want {
					if math.Abs(got[c]-p) > share*p+prune+1e-12 {
						t.Fatalf("step %d, cell %d: posterior %g, want %g", i, c, got[c], p)
					}
				}
				if out.Kind != Released || out.Epsilon != o.Epsilon || out.Number != uint64(i+1) ||
					state.Releases != out.Number {
					t.Fatalf("step %d: %+v", i, out)
				}
			}
			if want := 60 * o.Epsilon; math.Abs(state.EpsilonSpent-want) > 1e-9 {
				t.Errorf("ε spent: %g, want %g", state.EpsilonSpent, want)
			}
		})
	}
}

// denseStep computes the posterior of a step over all cells from the state before it and the
// release that came out: p·M as a dense product, the set by sorting, surrogates by comparing all,
// densities cell by cell.
func denseStep(t *testing.T, s *Sanitizer, before *State, cell grid.Cell, out Outcome) []float64 {
	t.Helper()
	g := s.model.Grid
	prior := make([]float64, g.Cells())
	if !before.Started {
		for i, c := range s.model.Initial.Cells {
			prior[c] = s.model.Initial.P[i]
		}
	}
	for i, c := range before.Posterior.Cells {
		columns, values := s.model.Matrices[0].Entries(c)
		for j, column := range columns {
			prior[column] += before.Posterior.P[i] * values[j]
		}
	}
	sparse := sparsePrior(prior, max(s.options.Prune, 0))
	set := testcase.LocationSet(sparse, s.options.Delta)
	if len(set) != out.SetSize {
		t.Fatalf("|ΔX| = %d, want %d", out.SetSize, len(set))
	}
	if inside := set[testcase.Surrogate(g, set, cell)] == cell; inside == out.Drift {
		t.Fatalf("drift %t, but the cell's membership is %t", out.Drift, inside)
	}
	var hull law.SensitivityHull
	var places []grid.Point
	for _, c := range set {
		places = append(places, g.Centre(c))
	}
	hull.OfPoints(places)
	m := mustMechanism(t, s.options.Mechanism)
	m.Prepare(&hull, s.options.Epsilon)
	emission := centres(nil, g, sparse.Cells)
	if s.options.Inference == InferenceSurrogate {
		for i, c := range sparse.Cells {
			emission[i] = centres(nil, g, set[testcase.Surrogate(g, set, c):])[0]
		}
	}
	likelihood := make([]float64, len(emission))
	m.Exponents(likelihood, out.Release, emission)
	total := 0.0
	for i, e := range likelihood {
		likelihood[i] = math.Exp(e) * sparse.P[i]
		total += likelihood[i]
	}
	posterior := make([]float64, g.Cells())
	for i, c := range sparse.Cells {
		posterior[c] = likelihood[i] / total
	}
	return posterior
}

func sparsePrior(dense []float64, prune float64) *mobility.Distribution {
	d := &mobility.Distribution{}
	for c, p := range dense {
		if p > 0 {
			d.Cells, d.P = append(d.Cells, grid.Cell(c)), append(d.P, p)
		}
	}
	d.Normalize()
	if prune > 0 {
		d.Prune(prune)
	}
	return d
}

func TestTimeRules(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	s := newSanitizer(t, model, Options{Epsilon: 1, Delta: .1, MaxGap: 5, MinCells: -1})
	var state State
	cell := model.Initial.Cells[0]
	report := func(step int64, release bool) Outcome {
		t.Helper()
		return mustStep(t, s, &state, Input{User: "u", Step: step, Cell: cell, Release: release})
	}
	first := report(100, true)
	if first.Kind != Released || first.SetSize != 1 || first.Release != model.Grid.Centre(cell) {
		t.Errorf("a new user starts at the initial distribution, one cell here: %+v", first)
	}
	second := report(102, true)
	stored := state.AppendBinary(nil)
	again := report(102, true)
	if again.Kind != Repeated || again.Release != second.Release ||
		again.Estimate != second.Estimate || again.RadiusKM != second.RadiusKM ||
		again.Epsilon != 0 || again.Number != second.Number || again.Drift {
		t.Errorf("the same step: got %+v after %+v", again, second)
	}
	if quiet := report(102, false); quiet.Kind != Repeated || quiet.Release != second.Release {
		t.Errorf("a release of this step exists: %+v", quiet)
	}
	late := report(101, true)
	if late != (Outcome{Kind: Late, Number: 2}) || !bytes.Equal(state.AppendBinary(nil), stored) {
		t.Errorf("an earlier step: %+v", late)
	}
	predicted := report(103, false)
	if predicted.Kind != Predicted || predicted.Epsilon != 0 ||
		predicted.Release != predicted.Estimate || predicted.Number != 2 {
		t.Errorf("prediction: %+v", predicted)
	}
	stored = state.AppendBinary(nil)
	predicted.Changed = false
	if twice := report(103, false); twice != predicted ||
		!bytes.Equal(state.AppendBinary(nil), stored) {
		t.Errorf("a second prediction in a step: got %+v, want %+v", twice, predicted)
	}
	if now := report(103, true); now.Kind != Released || now.Number != 3 {
		t.Errorf("a release in a step only predicted so far: %+v", now)
	}
	if far := report(103+5, true); far.SetSize == 1 {
		t.Errorf("a gap of MaxGap predicts: %+v", far)
	}
	if gone := report(108+6, true); gone.SetSize != 1 || gone.Release != model.Grid.Centre(cell) {
		t.Errorf("a longer gap starts at the initial distribution: %+v", gone)
	}
	if end := report(math.MaxInt64, false); end.Kind != Predicted {
		t.Errorf("the last step there is: %+v", end)
	}
	if state.EpsilonSpent != 5 || state.Releases != 5 {
		t.Errorf("spent %g in %d releases, want 5 in 5", state.EpsilonSpent, state.Releases)
	}
}

func TestGapPredictsStepByStep(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	s := newSanitizer(t, model, Options{Epsilon: 1, Delta: .1})
	var state State
	path := walk(model, 3, 10)
	for i, cell := range path {
		mustStep(t, s, &state, Input{User: "u", Step: int64(i), Cell: cell, Release: true})
	}
	one := copyState(&state)
	jump := mustStep(t, s, &state, Input{User: "u", Step: 13})
	var slow Outcome
	for step := int64(10); step <= 13; step++ {
		slow = mustStep(t, s, &one, Input{User: "u", Step: step})
	}
	if d := jump.Estimate.Distance(slow.Estimate); d > 1e-4 {
		t.Errorf("a gap of four steps and four predictions differ by %g km", d)
	}
}

// TestBlindBaseline checks that a state without releases is the initial distribution times M^k, and
// costs nothing.
func TestBlindBaseline(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	s := newSanitizer(t, model, Options{Epsilon: 1, Delta: .1, Prune: -1})
	var blind State
	dense := make([]float64, model.Grid.Cells())
	dense[model.Initial.Cells[0]] = 1
	for step := range int64(30) {
		out := mustStep(t, s, &blind, Input{User: "u", Step: step, Cell: -1})
		if out.Kind != Predicted || out.Epsilon != 0 {
			t.Fatalf("step %d: %+v", step, out)
		}
		var mean grid.Point
		for c, p := range dense {
			mean = mean.Add(model.Grid.Centre(grid.Cell(c)).Scale(p))
		}
		if d := out.Estimate.Distance(mean); d > 1e-5 {
			t.Fatalf("step %d: the estimate is off by %g km", step, d)
		}
		next := make([]float64, len(dense))
		for c, p := range dense {
			columns, values := model.Matrices[0].Entries(grid.Cell(c))
			for j, column := range columns {
				next[column] += p * values[j]
			}
		}
		dense = next
	}
	if blind.Releases != 0 || blind.EpsilonSpent != 0 || blind.HasRelease {
		t.Errorf("a blind state was charged: %+v", blind)
	}
}

// TestOutcomeSaysWhatTheStepDid: the prior is there where the step predicted and was asked, and is
// what the set was chosen from; the metric is there where something was released, the map where
// something is published.
func TestOutcomeSaysWhatTheStepDid(t *testing.T) {
	t.Parallel()
	model := denseModel(t, 20, 20)
	s := newSanitizer(t, model, Options{Epsilon: 1, Delta: .05, ReleaseInterval: 2})
	var state State
	for _, c := range []struct {
		step           int64
		release        bool
		kind           Kind
		prior, changed bool
	}{
		{1, true, Released, true, true},
		{1, true, Repeated, false, false},
		{0, true, Late, false, false},
		{2, true, Predicted, true, true},
		{2, true, Predicted, true, false},
		{2, false, Predicted, false, false}, // answered from the state
		{3, true, Released, false, true},    // not asked for
	} {
		in := Input{User: "u", Step: c.step, Cell: 210, Release: c.release, Prior: c.step != 3}
		out := mustStep(t, s, &state, in)
		if out.Kind != c.kind || out.Changed != c.changed || (out.Prior != nil) != c.prior {
			t.Errorf("step %d: %+v, prior %v", c.step, out, out.Prior)
		}
		if (out.Metric != law.Metric{}) != (c.kind == Released) {
			t.Errorf("step %d, %v: metric %+v", c.step, c.kind, out.Metric)
		}
		if (out.Grid == model.Grid) != c.kind.Published() {
			t.Errorf("step %d, %v: map %v", c.step, c.kind, out.Grid)
		}
		if c.kind != Released || !c.prior {
			continue
		}
		set := testcase.LocationSet(out.Prior, .05)
		if math.Abs(out.Prior.Total()-1) > 1e-9 || out.SetSize != max(len(set), DefaultMinCells) {
			t.Errorf("step %d: a set of %d cells, but the prior's has %d", c.step, out.SetSize,
				len(set))
		}
	}
}

// TestReplayGivesTheSameBytes stores and restores the state after every step, in another sanitizer,
// and repeats steps as a retry would.
func TestReplayGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	model := denseModel(t, 20, 20)
	options := Options{Epsilon: 1, Delta: .05}
	a, b := newSanitizer(t, model, options), newSanitizer(t, model, options)
	var live State
	var stored []byte
	for i, cell := range walk(model, 5, 80) {
		in := Input{User: "u", Step: int64(i), Cell: cell, Release: i%3 != 1}
		want := mustStep(t, a, &live, in)
		for range 2 { // the first attempt's effects are lost
			var restored State
			if err := restored.DecodeBinary(stored); err != nil {
				t.Fatal(err)
			}
			if got := mustStep(t, b, &restored, in); got != want {
				t.Fatalf("step %d: got %+v, want %+v", i, got, want)
			}
			if next := restored.AppendBinary(nil); !bytes.Equal(next, live.AppendBinary(nil)) {
				t.Fatalf("step %d: the restored state went another way", i)
			}
		}
		stored = live.AppendBinary(nil)
	}
}

func TestStepErrorsLeaveTheState(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	s := newSanitizer(t, model, Options{Epsilon: 1, Delta: .1})
	state := *sampleState()
	before := state.AppendBinary(nil)
	if _, err := s.Step(&state, Input{User: "u", Step: 1, Cell: 0, Release: true}); !errors.Is(err,
		ErrOtherModel) {
		t.Errorf("another model: %v", err)
	}
	state.Model, state.Grid = s.modelID, s.gridID
	for _, c := range []grid.Cell{-1, 32 * 32, math.MaxInt32} {
		_, err := s.Step(&state, Input{
			User: "secret", Step: state.Step + 1, Cell: c,
			Release: true,
		})
		if err == nil {
			t.Errorf("cell %d was taken", c)
		} else if strings.Contains(err.Error(), fmt.Sprint(c)) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
	state.Posterior.Cells[2] = 32 * 32
	if _, err := s.Step(&state, Input{User: "u", Step: state.Step + 1}); !errors.Is(err, ErrState) {
		t.Errorf("a posterior beyond the grid: %v", err)
	}
	state.Posterior.Cells[2] = 700
	state.Model, state.Grid = ID{1, 2, 3}, ID{4, 5}
	if !bytes.Equal(state.AppendBinary(nil), before) {
		t.Error("an error changed the state")
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	road := newSanitizer(t, roadModel(t), Options{Epsilon: 1, Delta: .1})
	var state State
	for i, cell := range walk(road.model, 3, 20) {
		mustStep(t, road, &state, Input{User: "u", Step: int64(i), Cell: cell, Release: true})
	}
	if got := road.Migrate(&state); got != Unchanged {
		t.Errorf("its own state: %v", got)
	}
	if got := road.Migrate(&State{}); got != Unchanged {
		t.Errorf("a new user: %v", got)
	}
	same := newSanitizer(t, denseModel(t, 32, 32), Options{Epsilon: 1, Delta: .1})
	kept := copyState(&state)
	if got := same.Migrate(&kept); got != PosteriorKept ||
		kept.Posterior.Len() != state.Posterior.Len() || kept.Step != 19 || !kept.HasRelease {
		t.Errorf("same grid: %v, %+v", got, kept)
	}
	out := mustStep(t, same, &kept, Input{User: "u", Step: 19, Cell: 0, Release: true})
	if out.Kind != Repeated || out.Release != state.Release {
		t.Errorf("same grid, same step: %+v", out)
	}
	other := denseModel(t, 20, 20)
	other.Step = 30 * time.Second
	anew := newSanitizer(t, other, Options{Epsilon: 1, Delta: .1})
	moved := copyState(&state)
	if got := anew.Migrate(&moved); got != StartedAnew ||
		moved.Posterior.Len() != other.Initial.Len() || moved.Step != 39 || moved.HasRelease {
		t.Errorf("another grid: %v, %+v", got, moved)
	}
	if moved.EpsilonSpent != state.EpsilonSpent || moved.Releases != 20 {
		t.Errorf("the ledger was lost: %g in %d", moved.EpsilonSpent, moved.Releases)
	}
	out = mustStep(t, anew, &moved, Input{User: "u", Step: 38, Release: true})
	if out.Kind != Late {
		t.Errorf("late reports stay late: %+v", out)
	}
	out = mustStep(t, anew, &moved, Input{User: "u", Step: 39, Cell: 5, Release: true})
	if out.Kind != Predicted || out.Number != 20 {
		t.Errorf("within the step that had its release: %+v", out)
	}
	out = mustStep(t, anew, &moved, Input{User: "u", Step: 40, Cell: 5, Release: true})
	if out.Kind != Released || out.Number != 21 {
		t.Errorf("after migration: %+v", out)
	}
	for _, c := range []struct{ step, from, to, want int64 }{
		{7, 60_000, 60_000, 7},
		{7, 60_000, 30_000, 15},
		{7, 60_000, 45_000, 10},
		{7, 10_000, 60_000, 1},
		{5, 10_000, 60_000, 0},
		{-1, 60_000, 30_000, -1},
		{-1, 10_000, 60_000, -1},
		{-6, 10_000, 60_000, -1},
		{-7, 10_000, 60_000, -2},
		{math.MaxInt64, 60_000, 1000, math.MaxInt64},
		{math.MaxInt64 / 60_000, 60_000, 1000, math.MaxInt64 / 60_000},
		{math.MinInt64, 60_000, 1000, math.MinInt64},
	} {
		if got := convertStep(c.step, c.from, c.to); got != c.want {
			t.Errorf("step %d of %d ms in steps of %d ms: got %d, want %d", c.step, c.from, c.to,
				got, c.want)
		}
	}
}

// TestLateStaysLate converts steps to shorter and to equal ones: whatever was late is late after
// the change, to the millisecond.
func TestLateStaysLate(t *testing.T) {
	t.Parallel()
	floor := func(ms, length int64) int64 {
		return int64(math.Floor(float64(ms) / float64(length)))
	}
	for _, c := range []struct{ from, to int64 }{
		{60, 60},
		{60, 30},
		{60, 45},
		{60, 59},
		{60, 7},
		{60, 1},
	} {
		for step := int64(-20); step < 20; step++ {
			converted := convertStep(step, c.from, c.to)
			if last := step*c.from - 1; floor(last, c.to) >= converted {
				t.Errorf("step %d of %d ms in steps of %d ms: a report before it is not late", step,
					c.from, c.to)
			}
			if next := (step + 1) * c.from; floor(next, c.to) < converted {
				t.Errorf("step %d of %d ms in steps of %d ms: a report after it is late", step,
					c.from, c.to)
			}
		}
	}
}

func TestStepDoesNotAllocate(t *testing.T) {
	model := roadModel(t)
	for _, o := range []Options{
		{Epsilon: 1, Delta: .01},
		{Epsilon: 1, Delta: .01, Mechanism: law.KNorm, Inference: InferencePaper},
		{Epsilon: 1, Delta: .01, Mechanism: law.LaplaceTight},
		{Epsilon: 1, Delta: .01, Mechanism: law.Lattice},
	} {
		s := newSanitizer(t, model, o)
		path := walk(model, 1, 300)
		var state State
		var bytes []byte
		i := 0
		next := func() {
			mustStep(t, s, &state, Input{
				User: "user", Step: int64(i), Cell: path[i%len(path)],
				Release: i%4 != 3,
			})
			bytes = state.AppendBinary(bytes[:0])
			if err := state.DecodeBinary(bytes); err != nil {
				t.Fatal(err)
			}
			i++
		}
		for range len(path) {
			next()
		}
		// the same path again, with all memory grown
		state, i = State{Posterior: state.Posterior}, 0
		if n := testing.AllocsPerRun(len(path)-1, next); n != 0 {
			t.Errorf("%+v: %g allocations a step", o, n)
		}
	}
}

func TestInputsNeverPrint(t *testing.T) {
	t.Parallel()
	in := Input{User: "u", Cell: 12345}
	for _, verb := range []string{"%v", "%+v", "%#v", "%d", "%s", "%x"} {
		if text := fmt.Sprintf(verb, in); strings.Contains(text, "12345") ||
			strings.Contains(text, "3039") {
			t.Errorf("%s prints the cell: %s", verb, text)
		}
	}
	if in.LogValue().String() != "[redacted]" {
		t.Error("the log shows the cell")
	}
}

// TestOutcomesNeverPrintDrift prints an outcome in every way, with and without drift: the texts
// must be the same and show the rest.
func TestOutcomesNeverPrintDrift(t *testing.T) {
	t.Parallel()
	text := func(drift bool) string {
		out := Outcome{
			Kind: Released, Release: grid.Point{X: 1.5}, SetSize: 7, Drift: drift,
			Number: 3,
		}
		var b bytes.Buffer
		for _, v := range []any{out, &out, []Outcome{out}, struct{ Out Outcome }{out}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%d", "%s", "%t", "%x"} {
				if verb != "%#v" || v != any(&out) {
					fmt.Fprintf(&b, verb+"\n", v)
				}
			}
			if err := json.NewEncoder(&b).Encode(v); err != nil {
				t.Fatal(err)
			}
			plain := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}
			slog.New(slog.NewTextHandler(&b, plain)).Info("step", "outcome", v)
			slog.New(slog.NewJSONHandler(&b, plain)).Info("step", "outcome", v)
		}
		return b.String()
	}
	with, without := text(true), text(false)
	if with != without {
		t.Error("a printed outcome shows its drift")
	}
	if !strings.Contains(with, "Drift:[redacted]") || !strings.Contains(with, "SetSize:7") ||
		!strings.Contains(with, `"Number":3`) {
		t.Errorf("the rest does not show: %s", with)
	}
}

func TestNewSanitizerRefuses(t *testing.T) {
	t.Parallel()
	model, streams := roadModel(t), noise.NewKeyed(noise.KeyFromSeed(1))
	if _, err := NewSanitizer(nil, streams, Options{Epsilon: 1}); err == nil {
		t.Error("no model")
	}
	if _, err := NewSanitizer(model, nil, Options{Epsilon: 1}); err == nil {
		t.Error("no noise")
	}
	if _, err := NewSanitizer(model, streams, Options{}); err == nil {
		t.Error("no ε")
	}
	if _, err := NewSanitizer(model, streams, Options{
		Epsilon:   math.Ln2,
		Mechanism: law.Lattice,
	}); err == nil || !strings.Contains(err.Error(), "decimals") {
		t.Errorf("an ε of sixteen decimals on a lattice: %v", err)
	}
	if err := (Options{Mechanism: law.Lattice}).law().CheckGrid(.123456789,
		testcase.Grid(t, 46000, 46000, .1)); err == nil ||
		!strings.Contains(err.Error(), "shorten epsilon") {
		t.Errorf("nine decimals on two thousand million cells: %v", err)
	}
	s := newSanitizer(t, model, Options{Epsilon: 2, Delta: .5})
	if o := s.Options(); o.Mechanism != law.Lattice || o.Inference != InferenceSurrogate ||
		o.Isotropy != law.IsotropyClosedForm ||
		o.Subdivision != law.DefaultSubdivision || o.Prune != DefaultPrune ||
		o.MaxGap != DefaultMaxGap || s.Model() != model {
		t.Errorf("defaults: %+v", o)
	}
}
