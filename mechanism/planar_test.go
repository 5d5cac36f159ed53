package mechanism

import (
	"compress/gzip"
	"encoding/csv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// planarEnv names a model and traces for TestBesidePlanarLaplace to measure on, instead of a
// walk: "gl.avro,TEST/*.csv.gz". The columns of the traces are user, time (RFC 3339), latitude and
// longitude.
const planarEnv = "GEODITHER_PLANAR"

// planarStep is where somebody is in a step, on the map.
type planarStep struct {
	user  string
	step  int64
	place grid.Point
}

// TestBesidePlanarLaplace compares the codebook to planar Laplace noise that tells places 340 m
// apart by the factor 2: rate ln 2 / 340 m, drawn from the true place. Both have the same filter,
// with a release in each step. The noise keeps no bound e^ε; the codebook promises nothing for near
// places. GUARANTEES.md has the errors.
func TestBesidePlanarLaplace(t *testing.T) {
	t.Parallel()
	model, steps := denseModel(t, 32, 32), []planarStep(nil)
	for i, cell := range walk(model, 41, 1500) {
		steps = append(steps, planarStep{"u", int64(i), model.Grid.Centre(cell)})
	}
	if text := os.Getenv(planarEnv); text != "" {
		file, traces, _ := strings.Cut(text, ",")
		var err error
		if model, err = mobility.ReadModelFile(file); err != nil {
			t.Fatal(err)
		}
		steps = readPlanar(t, model, traces)
	}
	rate := math.Ln2 / .34
	codebook := newSanitizer(t, model, Options{Mechanism: law.Codebook, Epsilon: 4})
	filter := newSanitizer(t, model, Options{Mechanism: law.Lattice, Epsilon: 1})
	random := rand.New(rand.NewPCG(42, 1))
	raw, errors := []float64(nil), map[string][]float64{}
	states := map[string]map[string]*State{}
	for _, at := range steps {
		of := states[at.user]
		if of == nil {
			of = map[string]*State{"planar": {}, "codebook": {}, "blind": {}}
			states[at.user] = of
		}
		note := func(name string, place grid.Point) {
			errors[name] = append(errors[name], place.Distance(at.place))
		}
		cell := model.Grid.CellAt(at.place)
		note("codebook", mustStep(t, codebook, of["codebook"],
			Input{User: at.user, Step: at.step, Cell: cell, Release: true}).Estimate)
		silent := Input{User: at.user, Step: at.step}
		note("blind", mustStep(t, filter, of["blind"], silent).Estimate)

		angle := 2 * math.Pi * random.Float64()
		r := (random.ExpFloat64() + random.ExpFloat64()) / rate
		z := at.place.Add(grid.Point{X: r * math.Cos(angle), Y: r * math.Sin(angle)})
		raw = append(raw, r)
		filter.predict(of["planar"], at.step)
		likelihood := make([]float64, filter.prior.Len())
		for i, c := range filter.prior.Cells {
			likelihood[i] = math.Exp(-rate * model.Grid.Centre(c).Distance(z))
		}
		filter.advance(of["planar"], at.step, likelihood)
		note("planar", of["planar"].Estimate)
	}
	medians := map[string]float64{}
	for name, all := range errors {
		mean := 0.0
		for _, e := range all {
			mean += e / float64(len(all))
		}
		slices.Sort(all)
		medians[name] = all[len(all)/2]
		t.Logf("%-8s mean %.3f median %.3f km of %d steps", name, mean, medians[name], len(all))
	}
	slices.Sort(raw)
	// The radius of planar Laplace noise is a Gamma(2) of the rate, with its median at 1.678/rate.
	if got, want := raw[len(raw)/2], 1.67835/rate; math.Abs(got/want-1) > .1 {
		t.Errorf("planar Laplace noise is off by %.3f km in the median, want %.3f", got, want)
	}
	if !(medians["codebook"] < medians["planar"] && medians["planar"] < medians["blind"]) {
		t.Errorf("another order than GUARANTEES.md has: %v", medians)
	}
}

// readPlanar reads traces: the first fix of each step, ascending by step for each user.
func readPlanar(t *testing.T, model *mobility.Model, pattern string) []planarStep {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	last := map[string]int64{}
	var steps []planarStep
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		var text io.Reader = f
		if strings.HasSuffix(name, ".gz") {
			if text, err = gzip.NewReader(f); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := csv.NewReader(text).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] {
			at, err := time.Parse(time.RFC3339, row[1])
			lat, err1 := strconv.ParseFloat(row[2], 64)
			lon, err2 := strconv.ParseFloat(row[3], 64)
			if err != nil || err1 != nil || err2 != nil {
				t.Fatalf("%s: a row is no fix", name)
			}
			step := model.StepAt(at.UnixMilli())
			if before, ok := last[row[0]]; ok && step <= before ||
				model.Grid.Beyond(lat, lon) > model.Grid.CellKM() {
				continue
			}
			last[row[0]] = step
			steps = append(steps, planarStep{row[0], step, model.Grid.ToMap(lat, lon)})
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return steps
}
