package bound_test

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/bound"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
)

const (
	busStep = 30 * time.Second
	// priorsEach is how many priors each of the eight buses gives at each ε.
	priorsEach = 3
	// priorCells bounds a prior's cells: the bound takes about .1 s for 40, and more than ten times
	// that for twice as many.
	priorCells = 40
)

// buses are the shipped sample: a model that is trained on it, and the buses' tracks.
func buses(t *testing.T) (*mobility.Model, []trial.Track) {
	t.Helper()
	name := filepath.Join("..", "..", "..", "cmd", "internal", "fleet", "sample", "liverpool.csv")
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	g, err := grid.New(grid.Box{South: 53.40, West: -2.99, North: 53.47, East: -2.89}, 250)
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := train.New(g, busStep, train.Options{})
	if err != nil {
		t.Fatal(err)
	}
	reports := map[string][]trial.Report{}
	var users []string
	for _, line := range lines[1:] {
		at, err := time.Parse(time.RFC3339, line[1])
		if err != nil {
			t.Fatal(err)
		}
		lat, errLat := strconv.ParseFloat(line[2], 64)
		lon, errLon := strconv.ParseFloat(line[3], 64)
		if err := cmp.Or(errLat, errLon); err != nil {
			t.Fatal(err)
		}
		user, ms := line[0], at.UnixMilli()
		trainer.Add(train.Fix{User: user, TimeMS: ms, Lat: lat, Lon: lon})
		if reports[user] == nil {
			users = append(users, user)
		}
		reports[user] = append(reports[user], trial.Report{
			Step: ms / busStep.Milliseconds(), Cell: g.Locate(lat, lon), Place: g.ToMap(lat, lon),
		})
	}
	model, _, err := trainer.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var tracks []trial.Track
	for _, user := range users {
		tracks = append(tracks, trial.Track{User: user, Reports: slices.Values(reports[user])})
	}
	return model, tracks
}

// priors returns what the filter expects of each bus before some of its releases at ε, evenly
// spread: the most probable cells.
func priors(t *testing.T, model *mobility.Model, tracks []trial.Track, epsilon float64,
) (kept []*mobility.Distribution) {
	t.Helper()
	s, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(1)),
		mechanism.Options{Mechanism: law.Codebook, Epsilon: epsilon})
	if err != nil {
		t.Fatal(err)
	}
	runner := trial.Runner{Sanitizer: s, Release: true}
	for _, track := range tracks {
		var all []*mobility.Distribution
		if err := runner.Run(track, func(r *trial.Result) error {
			if r.Outcome.Kind == mechanism.Released {
				all = append(all, mostProbable(r.Outcome.Prior, priorCells))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for k := range priorsEach {
			kept = append(kept, all[(k+1)*(len(all)-1)/priorsEach])
		}
	}
	return kept
}

// mostProbable returns the n most probable cells of a prior. Given that a place is one of them,
// they are the prior of it.
func mostProbable(prior *mobility.Distribution, n int) *mobility.Distribution {
	order := make([]int, prior.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(prior.P[b], prior.P[a]), cmp.Compare(a, b))
	})
	order = order[:min(n, len(order))]
	slices.Sort(order)
	d := &mobility.Distribution{}
	for _, i := range order {
		d.Cells, d.P = append(d.Cells, prior.Cells[i]), append(d.P, prior.P[i])
	}
	d.Normalize()
	return d
}

// response returns the probability of each code point at each cell of a prior, for the codebook
// that some masses of these cells have.
func response(t *testing.T, g *grid.Grid, cells []grid.Cell, mass []float64, epsilon float64,
) (rows [][]float64) {
	t.Helper()
	q, err := law.NewQuantizer(g, epsilon)
	if err != nil {
		t.Fatal(err)
	}
	q.Prepare(cells, mass)
	all := 1 + float64(len(q.Points())-1)*float64(q.Other())*0x1p-64
	for j := range q.Points() {
		row := q.Likelihoods(nil, j, cells)
		for i := range row {
			row[i] /= all
		}
		rows = append(rows, row)
	}
	return rows
}

// TestCodebookComesNearTheBound takes priors of real runs, and compares the expected squared error
// after one release of the codebook with the least that any mechanism can have: within 2.5 %, and
// within 10 % at ε = 6. Codebooks of other priors, with the same masses in reverse order, are
// noticed. At ε = 1, where the best release gains 10 %, they are often within 2.5 % too.
func TestCodebookComesNearTheBound(t *testing.T) {
	t.Parallel()
	model, tracks := buses(t)
	for _, epsilon := range []float64{1, 2, 4, 6} {
		t.Run(fmt.Sprint(epsilon), func(t *testing.T) {
			t.Parallel()
			slack := .025
			if epsilon > 4 {
				slack = .1
			}
			var worst, sum float64
			noticed := 0
			all := priors(t, model, tracks, epsilon)
			for i, d := range all {
				var places []grid.Point
				for _, c := range d.Cells {
					places = append(places, model.Grid.Centre(c))
				}
				r, err := bound.SquaredError(places, d.P, epsilon)
				if err != nil {
					t.Fatal(err)
				}
				// left is the error with the codebook of some masses.
				left := func(mass []float64) float64 {
					rows := response(t, model.Grid, d.Cells, mass, epsilon)
					return bound.Error(places, d.P, rows)
				}
				gap := left(d.P)/r.Bound - 1
				if !(gap > -1e-9 && gap < slack) {
					t.Errorf("prior %d, %d cells: %.2f %% above the bound", i, len(places), 100*gap)
				}
				sum += gap / float64(len(all))
				worst = max(worst, gap)
				reversed := slices.Clone(d.P)
				slices.Reverse(reversed)
				if left(reversed)/r.Bound-1 > slack {
					noticed++
				}
			}
			t.Logf("%d priors: %.2f %% above the bound on the average, %.2f %% at most; codebooks "+
				"of other priors are noticed on %d", len(all), 100*sum, 100*worst, noticed)
			if len(all) < 20 || noticed < len(all)/5 {
				t.Errorf("%d priors, and codebooks of other priors are noticed on %d", len(all),
					noticed)
			}
		})
	}
}
