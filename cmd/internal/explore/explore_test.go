package explore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/sanitize"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// bus is a vehicle of the sample.
const bus = "bus-4720"

var sample = sync.OnceValues(SampleTruth)

// sampleTruth is the truth about the sample, one for all tests.
func sampleTruth(t *testing.T) *Truth {
	t.Helper()
	truth, err := sample()
	if err != nil {
		t.Fatal(err)
	}
	return truth
}

// computed is a course that is computed to its end.
func computed(ctx context.Context, truth *Truth, name string, s Settings) (*course, error) {
	c, err := truth.course(name, s)
	if err != nil {
		return nil, err
	}
	_, err = c.part(ctx, 0, maxRows, 0)
	return c, err
}

// cases are settings of every kind of mechanism, and every rule that the page can turn.
func cases() map[string]Settings {
	return map[string]Settings{
		"codebook":  {Mechanism: law.Codebook, Epsilon: 1, Interval: 1, Seed: 7},
		"interval":  {Mechanism: law.Codebook, Epsilon: 4, Interval: 4, Seed: 3},
		"lattice":   {Mechanism: law.Lattice, Epsilon: 1, Delta: .3, Interval: 1, Seed: 7},
		"pim":       {Mechanism: law.PIM, Epsilon: 1, Delta: .01, Interval: 1, Seed: 1},
		"laplace":   {Mechanism: law.Laplace, Epsilon: 2, Delta: .1, Interval: 2, Seed: 1},
		"sure":      {Mechanism: law.Codebook, Epsilon: 10, Interval: 1, Seed: 7},
		"all cells": {Mechanism: law.Lattice, Epsilon: 1, Interval: 10, Seed: 7},
	}
}

// configured are settings as flags and a config say them to "sanitize".
func configured(s Settings) config.Release {
	c := config.Release{
		Mechanism: s.Mechanism, Epsilon: &s.Epsilon,
		Interval: time.Duration(s.Interval) * fleet.SampleStep,
	}
	if s.Delta != 0 || s.Mechanism != law.Codebook {
		c.Delta = &s.Delta
	}
	return c
}

// sanitized releases one vehicle of the sample by the code of "sanitize".
func sanitized(t *testing.T, truth *Truth, s Settings) ([]schemas.Sanitized, sanitize.Summary) {
	t.Helper()
	lines, err := io.ReadAll(fleet.SampleFile())
	if err != nil {
		t.Fatal(err)
	}
	var one strings.Builder
	for i, line := range strings.SplitAfter(string(lines), "\n") {
		if i == 0 || strings.Contains(line, bus) {
			one.WriteString(line)
		}
	}
	reader, err := traces.Open(t.Context(), []string{"-"}, strings.NewReader(one.String()),
		traces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "out.ndjson")
	out, err := files.NewOutput(path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	options, err := configured(s).Options(truth.model.Step)
	if err != nil {
		t.Fatal(err)
	}
	run, err := sanitize.New(sanitize.Settings{Settings: engine.Settings{
		Model: truth.model, Key: noise.KeyFromSeed(s.Seed), Release: options,
	}}, out)
	if err != nil {
		t.Fatal(err)
	}
	err = run.All(t.Context(), reader, cli.NewProgress(io.Discard, reader.Progress))
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	var found []schemas.Sanitized
	written := files.Records(path, strings.NewReader(""), func(int) {})
	err = written(t.Context(), func(r schemas.Sanitized, _ string) error {
		found = append(found, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, run.Summary(reader.Skips())
}

// TestCourseEqualsSanitize: what the page shows is what "sanitize --seed" writes, record for
// record, and the errors are those of its report.
func TestCourseEqualsSanitize(t *testing.T) {
	truth := sampleTruth(t)
	for name, s := range cases() {
		t.Run(name, func(t *testing.T) {
			c, err := computed(t.Context(), truth, bus, s)
			if err != nil {
				t.Fatal(err)
			}
			want, report := sanitized(t, truth, s)
			equal(t, c, want)
			sum := c.Summary
			if int64(sum.Releases) != report.Releases || sum.Spent != report.EpsilonMax ||
				sum.Estimate != report.Estimate || sum.Blind != report.Blind ||
				sum.Releases == 0 {
				t.Errorf("the page sums up %+v, sanitize %+v", sum, report)
			}
		})
	}
}

// equal compares a course with records, which are written in degrees with seven decimals or more.
func equal(t *testing.T, c *course, want []schemas.Sanitized) {
	t.Helper()
	const tolerance = 1e-4 // kilometres: the last decimal of a degree
	g, n := c.model.Grid, 0
	for i, kind := range c.Kind {
		if kind == kindRefused || kind == mechanism.Late.String() {
			continue
		}
		if n == len(want) {
			t.Fatalf("sanitize writes %d records, the page has more", n)
		}
		r := want[n]
		n++
		place := g.ToMap(r.Latitude, r.Longitude)
		off := math.Hypot(place.X-float64(c.EstimateX[i]), place.Y-float64(c.EstimateY[i]))
		if r.Timestamp != c.TimeMS[i] || r.Kind != kind || off > tolerance ||
			math.Abs(r.RadiusM/1000-float64(c.RadiusKM[i])) > tolerance {
			t.Fatalf("fix %d: the page has a %s at %d, %g km off and radius %g; sanitize %s at "+
				"%d, radius %g m", i, kind, c.TimeMS[i], off, float64(c.RadiusKM[i]), r.Kind,
				r.Timestamp, r.RadiusM)
		}
		if r.ReleaseLatitude.Known == math.IsNaN(float64(c.ReleaseX[i])) {
			t.Fatalf("fix %d: one of the two has a release, the other none", i)
		}
		if !r.ReleaseLatitude.Known {
			continue
		}
		place = g.ToMap(r.ReleaseLatitude.Number, r.ReleaseLongitude.Number)
		off = math.Hypot(place.X-float64(c.ReleaseX[i]), place.Y-float64(c.ReleaseY[i]))
		if off > tolerance {
			t.Fatalf("fix %d: the releases are %g km apart", i, off)
		}
	}
	if n != len(want) {
		t.Fatalf("sanitize writes %d records, the page has %d", len(want), n)
	}
}

// values decodes a field: the values of cells, by column and row.
func values(t *testing.T, f *Field) map[[2]int]float64 {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(f.Data)
	if err != nil || len(data) != 2*f.Width*f.Height {
		t.Fatalf("a field of %d × %d cells has %d bytes (%v)", f.Width, f.Height, len(data), err)
	}
	found := map[[2]int]float64{}
	for at := range f.Width * f.Height {
		if q := binary.LittleEndian.Uint16(data[2*at:]); q > 0 {
			share := float64(q) / math.MaxUint16
			found[[2]int{f.Column + at%f.Width, f.Row + at/f.Width}] = f.Max * share * share
		}
	}
	if len(found) != f.Blocks {
		t.Fatalf("a field says %d cells and has %d", f.Blocks, len(found))
	}
	return found
}

// TestAnatomy: the parts of a step are those of the course, the posterior is the prior times the
// likelihood, and no likelihood is more than e^ε times another one.
func TestAnatomy(t *testing.T) {
	truth := sampleTruth(t)
	for name, s := range cases() {
		t.Run(name, func(t *testing.T) {
			c, err := computed(t.Context(), truth, bus, s)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]int{}
			for i := 0; i < len(c.Kind); i += 7 {
				a, err := dissect(t.Context(), truth, c, i, nil)
				if err != nil {
					t.Fatal(err)
				}
				seen[a.Kind]++
				if a.Kind != c.Kind[i] || number(a.Estimate.X) != c.EstimateX[i] ||
					number(a.RadiusKM) != c.RadiusKM[i] || number(a.Spent) != c.SpentEps[i] {
					t.Fatalf("fix %d: the step has %+v, the course another one", i, a)
				}
				if a.Kind == mechanism.Released.String() {
					checkRelease(t, a, c, i)
				}
			}
			if seen[mechanism.Released.String()] == 0 {
				t.Errorf("no release was looked at: %v", seen)
			}
		})
	}
}

// checkRelease checks one release that was taken apart.
func checkRelease(t *testing.T, a *Anatomy, c *course, i int) {
	t.Helper()
	if number(a.Release.X) != c.ReleaseX[i] || number(a.Release.Y) != c.ReleaseY[i] {
		t.Fatalf("fix %d: the step's release is not the course's", i)
	}
	if limit := math.Exp(c.Settings.Epsilon) * (1 + 1e-9); a.LikelihoodRange > limit ||
		a.LikelihoodRange < 1 {
		t.Errorf("fix %d: likelihoods differ by a factor of %g", i, a.LikelihoodRange)
	}
	prior, likelihood, posterior := values(t, a.Prior), values(t, a.Likelihood),
		values(t, a.Posterior)
	sum := 0.
	for cell, p := range prior {
		sum += p * likelihood[cell]
	}
	for cell, p := range posterior {
		want := prior[cell] * likelihood[cell] / sum
		rounding := 1e-3 * a.Posterior.Max
		if a.Codebook != nil { // to short masses, and then their sum to 1
			rounding += want/4 + 2*mechanism.LeastMass
		}
		if math.Abs(p-want) > rounding {
			t.Fatalf("fix %d: cell %v has %g, prior times likelihood is %g", i, cell, p, want)
		}
	}
	switch {
	case a.Codebook != nil:
		checkCodebook(t, a.Codebook, a, i)
	case a.Set == nil:
		t.Errorf("fix %d: a release of neither a codebook nor a set", i)
	case a.Set.Cells.Blocks != a.Set.Size || len(a.Set.Hull) == 0 ||
		a.Set.Drift != (a.Set.Surrogate != a.Cell):
		t.Errorf("fix %d: the set has %d cells, and shows %d", i, a.Set.Size, a.Set.Cells.Blocks)
	}
}

func checkCodebook(t *testing.T, b *Codebook, a *Anatomy, i int) {
	t.Helper()
	before := 0.
	for _, p := range b.Points {
		before += p.Prior
	}
	if math.Abs(before-1) > 1e-9 {
		t.Errorf("fix %d: the code points hold %g of the prior", i, before)
	}
	if b.Points[b.Drawn].Place != *a.Release {
		t.Errorf("fix %d: the release is not the code point that is said to be drawn", i)
	}
	chances := b.OwnChance + float64(len(b.Points)-1)*b.OtherChance
	if !math.IsNaN(chances) && math.Abs(chances-1) > 1e-12 {
		t.Errorf("fix %d: the chances sum to %g", i, chances)
	}
}

// TestKept: the same question is not computed twice, and few answers are kept.
func TestKept(t *testing.T) {
	truth := sampleTruth(t)
	s := cases()["interval"]
	first, err := computed(t.Context(), truth, bus, s)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := computed(t.Context(), truth, bus, s)
	if first != again {
		t.Error("the same course was computed twice")
	}
	for seed := range uint64(keptCourses + 2) {
		s.Seed = 100 + seed
		if _, err := computed(t.Context(), truth, bus, s); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(truth.courses.kept); n > keptCourses {
		t.Errorf("%d courses are kept", n)
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	s.Seed = 1000
	if _, err := computed(gone, truth, bus, s); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for this course any more: %v", err)
	}
}

// TestReadTruth: traces of one's own are refused where they cannot be shown.
func TestReadTruth(t *testing.T) {
	model := sampleTruth(t).model
	read := func(text string) (*Truth, error) {
		reader, err := traces.Open(t.Context(), []string{"-"}, strings.NewReader(text),
			traces.Options{Format: traces.CSV})
		if err != nil {
			t.Fatal(err)
		}
		return ReadTruth(model, reader)
	}
	const head = "user_id,timestamp,latitude,longitude\n"
	if _, err := read(head); err == nil {
		t.Error("traces without a fix are shown")
	}
	truth, err := read(head + "b,2026-01-26T16:00:00Z,53.41,-2.95\n" +
		"a,2026-01-26T16:00:00Z,53.42,-2.96\na,2026-01-26T16:01:00Z,10,10\n")
	if err != nil {
		t.Fatal(err)
	}
	c, err := computed(t.Context(), truth, "a", DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Kind) != 2 || c.Kind[1] != kindRefused {
		t.Errorf("a fix far outside the map: %v, %+v", c.Kind, c.Summary)
	}
	a, err := dissect(t.Context(), truth, c, 1, nil)
	if err != nil || a.Estimate != nil || a.Prior != nil {
		t.Errorf("a refused fix: %+v, %v", a, err)
	}
}

// TestSpentDay: what a course says of a budget of 24 hours is what its releases cost from 24 hours
// before the start of a fix's step on. It reaches the budget and never exceeds it.
func TestSpentDay(t *testing.T) {
	truth := newTruth(sampleTruth(t).model)
	step := truth.model.Step.Milliseconds()
	start := time.Date(2026, 1, 26, 16, 0, 0, 0, time.UTC).UnixMilli()
	for i := range int64(140) { // three days, at the ends and the starts of steps
		at := start + i*30*60_000 - i%2
		truth.add(schemas.Raw{UserID: "a", Timestamp: at, Latitude: 53.42, Longitude: -2.96})
	}
	s := DefaultSettings()
	s.Budget = 10
	c, err := computed(t.Context(), truth, "a", s)
	if err != nil {
		t.Fatal(err)
	}
	most := 0.
	for i, now := range c.TimeMS {
		want, before := 0., 0.
		for k := range i + 1 {
			if c.TimeMS[k]/step >= now/step-24*3600*1000/step {
				want += float64(c.SpentEps[k]) - before
			}
			before = float64(c.SpentEps[k])
		}
		if got := float64(c.SpentDay[i]); math.Abs(got-want) > 1e-9 || got > s.Budget {
			t.Fatalf("fix %d: Σε %g counts, want %g of %g", i, got, want, s.Budget)
		}
		most = max(most, float64(c.SpentDay[i]))
	}
	if most < s.Budget || float64(c.SpentEps[len(c.SpentEps)-1]) < 2*s.Budget {
		t.Errorf("at most %g of %g, %g in all", most, s.Budget, c.SpentEps[len(c.SpentEps)-1])
	}
}

// TestParts: a course that is computed bit by bit, by several who ask at a time, is the whole one.
func TestParts(t *testing.T) {
	truth := sampleTruth(t)
	s := cases()["lattice"]
	whole, err := computed(t.Context(), truth, bus, s)
	if err != nil {
		t.Fatal(err)
	}
	fresh := newTruth(truth.model)
	fresh.users, fresh.byName = truth.users, truth.byName
	var asking sync.WaitGroup
	for range 3 {
		asking.Go(func() {
			c, err := fresh.course(bus, s)
			for from := 0; err == nil && from < len(whole.Kind); {
				var part *Course
				if part, err = c.part(t.Context(), from, maxRows, time.Nanosecond); err != nil {
					break
				}
				from = part.From + len(part.Kind)
				if part.Done < from || part.Total != len(whole.Kind) || len(part.Kind) == 0 {
					t.Errorf("from %d on: %d of %d, %d done", part.From, len(part.Kind),
						part.Total, part.Done)
					return
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	c, err := fresh.course(bus, s)
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.part(t.Context(), 0, maxRows, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, want := asJSON(t, all), asJSON(t, &whole.Course)
	if got != want || c.run != nil {
		t.Errorf("the course in parts is another one:\n%.300s\n%.300s", got, want)
	}
	if last, err := c.part(t.Context(), 277, maxRows, 0); err != nil || last.From != 277 ||
		len(last.Kind) != 1 || len(last.SpentEps) != 1 {
		t.Errorf("the last fix: %v, %+v", err, last)
	}
	if none, err := c.part(t.Context(), 5000, maxRows, 0); err != nil || len(none.Kind) != 0 {
		t.Errorf("beyond the last fix: %v, %+v", err, none)
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestViews: what a view has of a map adds up to the map, in blocks that are few enough.
func TestViews(t *testing.T) {
	box := grid.Box{South: 52, West: -2, North: 54.2478, East: 1.7422}
	g, err := grid.New(box, 250)
	if err != nil {
		t.Fatal(err)
	}
	cells, ones := make([]grid.Cell, g.Cells()), make([]float64, g.Cells())
	for i := range cells {
		cells[i], ones[i] = grid.Cell(i), 1
	}
	side := g.CellKM()
	for _, c := range []struct {
		name  string
		shown area
		block int
		cells float64 // that the view has at least
		more  float64 // and at most
	}{
		{"all", nil, 2, 1003 * 1001, 1003 * 1001},
		{"a part", area{10.1, 20.1, 30.1, 25.1}, 1, 81 * 21, 81 * 21},
		{"a corner", area{-5, -5, side / 2, side / 2}, 1, 1, 1},
		{"beside the map", area{-9, -9, -8, -8}, 1, 1, 1},
		{"the far corner", area{250, 249, 1e9, 1e9}, 1, 1, 30},
		{"a coarse part", area{1.1, 1.1, 200.1, 200.1}, 2, 797 * 797, 799 * 799},
	} {
		v := c.shown.of(g)
		f := fieldOf(v, cells, ones, sum, 0)
		total := 0.
		for _, x := range values(t, f) {
			total += math.Round(x)
		}
		if n := f.Width * f.Height; f.Block != c.block || total < c.cells || total > c.more ||
			n > maxBlocks || n != f.Blocks || n != len(v.middles()) {
			t.Errorf("%s: %d blocks of %d cells have %g cells, want %g to %g", c.name, f.Blocks,
				f.Block, total, c.cells, c.more)
		}
		for i, m := range v.middles() {
			column, row, ok := v.of(m)
			if !ok || row*v.blocksWide()+column != i {
				t.Fatalf("%s: the middle of block %d lies in (%d, %d)", c.name, i, column, row)
			}
		}
		if most := fieldOf(v, cells, ones, math.Max, 0); most.Max != 1 {
			t.Errorf("%s: the largest value is %g", c.name, most.Max)
		}
	}
	f := fieldOf(area{1, 1, 2, 2}.of(g), cells[:1], ones[:1], sum, 0)
	if f.Blocks != 0 || f.Data != "" {
		t.Errorf("a view without any mass: %+v", f)
	}
}
