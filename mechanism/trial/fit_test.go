package trial

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// chain makes a model of a dense matrix over cells of a kilometre.
func chain(
	t *testing.T, width, height int, initial []float64, rows func(from, to grid.Cell) float64,
) *mobility.Model {
	t.Helper()
	g, err := grid.Plain(width, height, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := &mobility.Model{
		Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{{RowStart: []int64{0}}},
	}
	matrix := m.Matrices[0]
	for from := range grid.Cell(g.Cells()) {
		total := 0.0
		for to := range grid.Cell(g.Cells()) {
			total += rows(from, to)
		}
		for to := range grid.Cell(g.Cells()) {
			if p := rows(from, to) / total; p > 0 {
				matrix.Columns, matrix.Values = append(matrix.Columns, to), append(matrix.Values, p)
			}
		}
		matrix.RowStart = append(matrix.RowStart, int64(len(matrix.Columns)))
		p := 1 / float64(g.Cells())
		if initial != nil {
			p = initial[from]
		}
		if p > 0 {
			m.Initial.Cells, m.Initial.P = append(m.Initial.Cells, from), append(m.Initial.P, p)
		}
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// track is a stretch from step 5 on.
func track(user string, cells ...grid.Cell) mobility.Track {
	t := mobility.Track{User: user, Cells: cells}
	for i := range cells {
		t.Steps = append(t.Steps, int64(5+i))
	}
	return t
}

func measure(t *testing.T, m *mobility.Model, tracks []mobility.Track, o FitOptions) mobility.Fit {
	t.Helper()
	fit, err := MeasureFit(m, slices.Values(tracks), o)
	if err != nil {
		t.Fatal(err)
	}
	return fit
}

func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) { // states are float32
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// TestFitByHand measures a chain of two cells with location sets of one cell: their release is the
// cell whatever the truth, so that every figure can be worked out. Priors of a track are (.6, .4),
// (.7, .3), (.75, .25); sets are {0}; releases are at cell 0.
func TestFitByHand(t *testing.T) {
	rows := [2][2]float64{{.9, .1}, {.4, .6}}
	m := chain(t, 2, 1, []float64{.6, .4},
		func(from, to grid.Cell) float64 { return rows[from][to] })
	tracks := []mobility.Track{
		track("b", 1), track("a", 0, 0, 1), track("c", 1), track("d", 1),
	}
	fit := measure(t, m, tracks, FitOptions{
		Release: mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .45, MinCells: -1},
		Deltas:  []float64{}, MinSegment: 1,
	})
	if fit.Users != 4 || fit.Segments != 4 || fit.Steps != 6 || fit.Moves != 2 ||
		len(fit.Calibration) != 1 {
		t.Errorf("counts: %+v", fit)
	}
	about(t, "log-likelihood", fit.LogLikelihood, (math.Log(.9)+math.Log(.1))/2)
	about(t, "popularity", fit.LogPopularity, (math.Log(.6)+math.Log(.4))/2)
	about(t, "uniform", fit.LogUniform, math.Log(.5))
	about(t, "impossible", fit.Impossible, 0)
	about(t, "log prior", fit.LogPrior, (math.Log(.6)+math.Log(.7)+math.Log(.25)+3*math.Log(.4))/6)
	at := fit.Calibration[0]
	about(t, "drift", at.Drift, 4./6) // the last step of a, and b, c, d
	about(t, "low", at.Low, 0)        // four users tell no interval
	about(t, "high", at.High, 0)
	about(t, "set", at.SetMean, 1)
	// Distances to centres: of the estimate .4, .3, .75 and 3 × .6 km; of cell 0 0, 0 and
	// 4 × 1 km.
	about(t, "estimate", fit.Estimate.Mean, 1000*(.4+.3+.75+3*.6)/6)
	about(t, "estimate median", fit.Estimate.Median, 600)
	// Cell 0 is the geometric median of each prior.
	about(t, "blind", fit.Blind.Mean, 4000./6)
}

// TestFitImpossible counts moves and places that the model holds impossible, and lets none of them
// be infinitely bad.
func TestFitImpossible(t *testing.T) {
	m := chain(t, 3, 1, []float64{.5, .5, 0}, func(from, to grid.Cell) float64 {
		if from == to {
			return 1
		}
		return 0
	})
	fit := measure(t, m, []mobility.Track{track("a", 0, 0, 2)},
		FitOptions{Release: mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .01}})
	about(t, "impossible", fit.Impossible, .5)
	about(t, "log-likelihood", fit.LogLikelihood, math.Log(mobility.MinProbability)/2)
}

// wander draws tracks of a model, each of another user.
func wander(m *mobility.Model, users, steps int) []mobility.Track {
	src := rand.NewPCG(1, 2)
	var tracks []mobility.Track
	for u := range users {
		t := mobility.Track{User: fmt.Sprint("user", u)}
		c := m.SampleInitial(src)
		for i := range steps {
			t.Steps, t.Cells = append(t.Steps, int64(i)), append(t.Cells, c)
			c = m.SampleNext(src, c, int64(i))
		}
		tracks = append(tracks, t)
	}
	return tracks
}

// walk moves to the four neighbours with the weight, and stays with the rest.
func walk(t *testing.T, move float64) *mobility.Model {
	t.Helper()
	return chain(t, 12, 12, nil, func(from, to grid.Cell) float64 {
		dx, dy := from%12-to%12, from/12-to/12
		switch dx*dx + dy*dy {
		case 0:
			return 1 - 4*move
		case 1:
			return move
		}
		return 0
	})
}

// TestFitOnTheModel: on tracks of the model itself drift is δ. A set holds at least 1-δ, so the
// expected drift is at most δ, and sets of dozens of cells exceed it by little: it is above .8 δ
// (.088 measured at .1). Drift of 200 independent users of 60 steps is nearly normal with the
// deviation that they show; five of those on each side are a false alarm in 10⁶, for any seed.
func TestFitOnTheModel(t *testing.T) {
	m := walk(t, .15)
	tracks := wander(m, 200, 60)
	o := FitOptions{
		Release: mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .1},
		Deltas:  []float64{.3}, Workers: 2,
	}
	for _, at := range measure(t, m, tracks, o).Calibration {
		deviation := (at.High - at.Low) / 4 // of a normal law, from its 95 %
		if low, high := .8*at.Delta-5*deviation, at.Delta+5*deviation; at.Drift < low ||
			at.Drift > high {
			t.Errorf("drift %.4f at δ = %g is not between %.4f and %.4f",
				at.Drift, at.Delta, low, high)
		}
		if deviation > .02 {
			t.Errorf("200 users leave drift uncertain by %.4f", deviation)
		}
	}
}

// TestFitFindsFaults: models that move less, or more, than people do are called too sure and too
// unsure, and the model of the tracks neither.
func TestFitFindsFaults(t *testing.T) {
	tracks := wander(walk(t, .15), 60, 60)
	still := wander(walk(t, 0), 60, 60)
	o := FitOptions{
		Release: mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .1},
		Deltas:  []float64{}, Workers: 2,
	}
	for _, c := range []struct {
		name   string
		model  *mobility.Model
		tracks []mobility.Track
		want   Calibration
	}{
		{"right", walk(t, .15), tracks, Calibrated},
		{"too sure", walk(t, .01), tracks, TooSure},
		{"too unsure", walk(t, .2), still, TooUnsure},
	} {
		if got, at := Judge(measure(t, c.model, c.tracks, o)); got != c.want {
			t.Errorf("%s is called %v: drift %.3f (%.3f to %.3f) at δ = %g",
				c.name, got, at.Drift, at.Low, at.High, at.Delta)
		}
	}
}

// TestFitRepeats: the figures depend on the seed alone.
func TestFitRepeats(t *testing.T) {
	m := walk(t, .1)
	tracks := wander(m, 7, 20)
	o := FitOptions{
		Release: mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .05},
		Seed:    3, MaxSteps: 100, MinSegment: 1,
	}
	want := measure(t, m, tracks, o)
	for workers := 2; workers <= 5; workers++ {
		o.Workers = workers
		if got := measure(t, m, tracks, o); !reflect.DeepEqual(got, want) {
			t.Errorf("%d goroutines measure %+v, one %+v", workers, got, want)
		}
	}
	o.Seed = 4
	if got := measure(t, m, tracks, o); got.Estimate == want.Estimate {
		t.Error("another seed draws the same noise")
	}
}

// TestFitStops: an error of the callback ends it, and it is told of all the work.
func TestFitStops(t *testing.T) {
	m := walk(t, .1)
	tracks := wander(m, 5, 10)
	o := FitOptions{
		Release: mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .1},
		Deltas:  []float64{},
	}
	var last, all int64
	o.Progress = func(done, total int64) error {
		last, all = done, total
		return nil
	}
	measure(t, m, tracks, o)
	if last != 100 || all != 100 {
		t.Errorf("told of %d of %d steps, want 100 of 100", last, all)
	}
	stop, calls := errors.New("stop"), 0
	o.Progress = func(int64, int64) error {
		calls++
		return stop
	}
	if _, err := MeasureFit(m, slices.Values(tracks), o); !errors.Is(err, stop) || calls != 1 {
		t.Errorf("error %v after %d calls, want that of the first", err, calls)
	}
}

// TestFitRefuses what it cannot measure.
func TestFitRefuses(t *testing.T) {
	m := walk(t, .1)
	tracks := slices.Values(wander(m, 2, 10))
	good := mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .1}
	if _, err := MeasureFit(
		m, tracks, FitOptions{Release: good, MinSegment: 11},
	); !errors.Is(err, ErrNoTracks) {
		t.Errorf("tracks that are too short give %v", err)
	}
	for _, o := range []FitOptions{
		{},
		{Release: mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: 1}},
		{Release: good, Deltas: []float64{2}},
		{Release: good, MaxSteps: -1},
	} {
		if _, err := MeasureFit(m, tracks, o); err == nil {
			t.Errorf("%+v is measured", o)
		}
	}
}
