package expect

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// correlationEnv makes TestCorrelation measure eight traces of a day instead of one of two hours.
const correlationEnv = "GEODITHER_CORRELATION"

// TestCorrelation: all releases of a user together change the log odds of one step's place by more
// than ε where releases are near in time, and by little more than each alone where they are far
// apart; never by more than Σε. It prints the figures of GUARANTEES.
func TestCorrelation(t *testing.T) {
	t.Parallel()
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	model, err := fleet.SampleModel(fixes)
	if err != nil {
		t.Fatal(err)
	}
	traces, steps := 1, int(2*time.Hour/model.Step)
	if os.Getenv(correlationEnv) != "" {
		traces, steps = 8, int(24*time.Hour/model.Step)
	}
	measure := func(interval time.Duration) (all []float64, mean float64) {
		o := mechanism.Options{
			Mechanism: law.Codebook, Epsilon: 1, ReleaseInterval: int(interval / model.Step),
		}
		for number := range traces {
			all = append(all, newTrace(t, model, o, steps, uint64(number+1)).changes(t)...)
		}
		for _, change := range all {
			mean += change / float64(len(all))
		}
		t.Logf("ε = 1 every %v, %d traces of %v: %.2f on average, %.1f at most", interval, traces,
			time.Duration(steps)*model.Step, mean, slices.Max(all))
		return all, mean
	}
	often, meanOften := measure(model.Step)
	seldom, meanSeldom := measure(10 * time.Minute)
	if most := slices.Max(often); meanOften < 1.5 || most < 4 || most > float64(steps) {
		t.Errorf("with a release in each step the odds change by %g on average, by %g at most",
			meanOften, most)
	}
	if most := slices.Max(seldom); meanSeldom > .6 || meanSeldom < .1 || most < 1 || most > 3 {
		t.Errorf("with a release in ten minutes the odds change by %g on average, by %g at most",
			meanSeldom, most)
	}
}

// trace is what an observer has of a user who moves by the model, and where the user was.
type trace struct {
	model *mobility.Model
	path  []grid.Cell
	seen  [][]float64 // by step: the likelihood of each cell given the release, nil without one
}

func newTrace(t *testing.T, m *mobility.Model, o mechanism.Options, steps int, seed uint64) trace {
	t.Helper()
	sanitizer, err := mechanism.NewSanitizer(m, noise.NewKeyed(noise.KeyFromSeed(seed)), o)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]grid.Cell, m.Grid.Cells())
	for c := range all {
		all[c] = grid.Cell(c)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	var state mechanism.State
	of := trace{m, make([]grid.Cell, steps), make([][]float64, steps)}
	cell := m.SampleInitial(rng)
	for i := range of.path {
		of.path[i] = cell
		out, err := sanitizer.Step(&state, mechanism.Input{
			User: "u", Step: int64(i), Cell: cell, Release: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if out.Kind == mechanism.Released {
			of.seen[i] = slices.Clone(sanitizer.Emission().Likelihoods(out.Release, all))
		}
		cell = m.SampleNext(rng, cell, int64(i))
	}
	return of
}

// changes returns by how much all releases together change the log odds between the true cell of
// each step and those 1 km to the north, east, south and west of it, where they are on the map:
// those given all releases against those of the chain alone.
func (of trace) changes(t *testing.T) (all []float64) {
	t.Helper()
	with, evidence := of.forward(true)
	without, _ := of.forward(false)
	g := of.model.Grid
	far, end := int(math.Round(1/g.CellKM())), evidence[len(evidence)-1]
	after, scale := make([]float64, g.Cells()), 0.0 // likelihoods of what comes after a step
	for c := range after {
		after[c] = 1
	}
	for i := len(of.path) - 1; i >= 0; i-- {
		total := 0.0
		for c, p := range with[i] {
			total += float64(p * after[c])
		}
		// What the whole trace is worth is the same from each step of it.
		if got := evidence[i] + scale + math.Log(total); math.Abs(got-end) > 1e-6 {
			t.Fatalf("step %d: the evidence is %g, at the end %g", i, got, end)
		}
		told := func(c int) float64 { return math.Log(with[i][c] * after[c] / without[i][c]) }
		x, width := int(of.path[i]), g.Width()
		for _, y := range [][2]int{{0, far}, {far, 0}, {0, -far}, {-far, 0}} {
			column, row := x%width+y[0], x/width+y[1]
			if column < 0 || column >= width || row < 0 || row >= g.Cells()/width {
				continue
			}
			all = append(all, math.Abs(told(x)-told(row*width+column)))
		}
		if i == 0 {
			break
		}
		scale += of.backward(after, i)
	}
	return all
}

// forward returns the distributions of the steps' places given the releases so far, or none, and
// the logarithm of the likelihood of these releases.
func (of trace) forward(released bool) (all [][]float64, evidence []float64) {
	now, sum := make([]float64, of.model.Grid.Cells()), 0.0
	var row mobility.Distribution
	for i, c := range of.model.Initial.Cells {
		now[c] = of.model.Initial.P[i]
	}
	for i := range of.path {
		if i > 0 {
			next := make([]float64, len(now))
			for c, p := range now {
				of.model.Row(&row, of.model.ClassAt(int64(i-1)), grid.Cell(c))
				for j, to := range row.Cells {
					next[to] += float64(p * row.P[j])
				}
			}
			now = next
		}
		if seen := of.seen[i]; released && seen != nil {
			for c := range now {
				now[c] *= seen[c]
			}
		}
		sum += math.Log(normalize(now))
		all, evidence = append(all, now), append(evidence, sum)
	}
	return all, evidence
}

// backward takes the likelihoods of what comes after step i to those of what comes after the step
// before, divided by their sum, whose logarithm it returns.
func (of trace) backward(after []float64, i int) (scale float64) {
	if seen := of.seen[i]; seen != nil {
		for c := range after {
			after[c] *= seen[c]
		}
	}
	before := make([]float64, len(after))
	var row mobility.Distribution
	for c := range before {
		of.model.Row(&row, of.model.ClassAt(int64(i-1)), grid.Cell(c))
		for j, to := range row.Cells {
			before[c] += float64(row.P[j] * after[to])
		}
	}
	copy(after, before)
	return math.Log(normalize(after))
}

// normalize divides numbers by their sum and returns it.
func normalize(all []float64) (sum float64) {
	for _, x := range all {
		sum += x
	}
	for i := range all {
		all[i] /= sum
	}
	return sum
}
