package law

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/oracle"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// codebookSampler draws the index of a release.
type codebookSampler func(q *Quantizer, src noise.Source, x grid.Cell) int

func sampled(q *Quantizer, src noise.Source, x grid.Cell) int { return q.Sample(src, q.Vote(x)) }

// samplerFaults are samplers of another law.
var samplerFaults = map[string]codebookSampler{
	"two draws, and the own answer if either gives it": func(q *Quantizer, src noise.Source,
		x grid.Cell,
	) int {
		if j := q.Sample(src, q.Vote(x)); j == q.Vote(x) {
			return j
		}
		return q.Sample(src, q.Vote(x))
	},
	"the own answer among the others too": func(q *Quantizer, src noise.Source, x grid.Cell) int {
		if j := q.Sample(src, q.Vote(x)); j == q.Vote(x) {
			return j
		}
		return int(noise.Below(src, uint64(len(q.points))))
	},
	"the next answer in place of the last": func(q *Quantizer, src noise.Source, x grid.Cell) int {
		j := q.Sample(src, q.Vote(x))
		if j == len(q.points)-1 && j != q.Vote(x) {
			return (j + 1) % len(q.points)
		}
		return j
	},
	"the vote of the next cell": func(q *Quantizer, src noise.Source, x grid.Cell) int {
		return q.Sample(src, q.Vote((x+7)%grid.Cell(q.grid.Cells())))
	},
	"ε a tenth too large": func(q *Quantizer, src noise.Source, x grid.Cell) int {
		j := q.Sample(src, q.Vote(x))
		if j != q.Vote(x) && noise.Uniform(src) < .1*-math.Log(float64(q.other)*0x1p-64) {
			return q.Vote(x)
		}
		return j
	},
}

// codebookFit compares draws with the law by χ², over all answers of some cells. It returns the
// statistic over oracle.ChiSquareLimit: above 1 the law is rejected.
func codebookFit(q *Quantizer, cells []grid.Cell, draw codebookSampler, seed string) float64 {
	const n = 60_000
	src := noise.NewKeyed(noise.KeyFromSeed(107)).Stream([]byte(seed))
	statistic := 0.0
	other := float64(q.Other()) * 0x1p-64
	total := 1 + float64(len(q.points)-1)*other
	for _, x := range cells {
		counts := make([]float64, len(q.points))
		for range n {
			counts[draw(q, src, x)]++
		}
		for j, count := range counts {
			expected := n * other / total
			if j == q.Vote(x) {
				expected = n / total
			}
			statistic += (count - expected) * (count - expected) / expected
		}
	}
	degrees := float64(len(cells) * (len(q.points) - 1))
	return statistic / oracle.ChiSquareLimit(degrees)
}

// TestCodebookLaw compares draws with the two probabilities, for cells with and without prior mass.
// With fresh seeds each case would fail by chance in one of 10⁶ runs. Every planted
// fault is noticed.
func TestCodebookLaw(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 30, 30, .34)
	d := blobs(g, 2, convex.Vec{X: 10, Y: 12}, convex.Vec{X: 17, Y: 20})
	cells := []grid.Cell{0, 371, 617, 899}
	for _, epsilon := range []float64{.001, 1, 2, 4} {
		q := newQuantizer(t, g, epsilon)
		q.Prepare(d.Cells, d.P)
		if statistic := codebookFit(q, cells, sampled, "law"); statistic > 1 {
			t.Errorf("ε = %v: the law is rejected, %.2f of the limit", epsilon, statistic)
		}
		if epsilon < 1 || len(q.points) < 3 { // no two answers are far apart, or no two are others
			continue
		}
		for name, fault := range samplerFaults {
			if statistic := codebookFit(q, cells, fault, name); statistic <= 1 {
				t.Errorf("ε = %v, %s: not noticed, %.2f of the limit", epsilon, name, statistic)
			}
		}
	}
}

// proposed is the sampler that was not taken: propose an answer, and keep it if it is the own one,
// else with probability e^-ε. The own answer needs no word for that, so the number of words tells
// something.
func proposed(q *Quantizer, src noise.Source, x grid.Cell) int {
	own := q.Vote(x)
	for {
		j := int(noise.Below(src, uint64(len(q.points))))
		if j == own || noise.BernoulliExp(src, 1, 1) {
			return j
		}
	}
}

// wordFit tests by χ² whether answers are independent of the numbers of words that they took;
// above 1 they are not.
func wordFit(q *Quantizer, x grid.Cell, draw codebookSampler) float64 {
	const n, columns = 60_000, 12
	src := &countedSource{Source: noise.NewKeyed(noise.KeyFromSeed(108)).Stream(nil)}
	counts := make([][columns]float64, len(q.points))
	var words [columns]float64
	answers := make([]float64, len(q.points))
	for range n {
		src.words = 0
		j := draw(q, src, x)
		w := min(src.words, columns-1)
		counts[j][w]++
		words[w]++
		answers[j]++
	}
	statistic, used := 0.0, 0
	for w := range words {
		if words[w]*slices.Min(answers)/n < 10 {
			continue
		}
		used++
		for j := range counts {
			expected := words[w] * answers[j] / n
			statistic += (counts[j][w] - expected) * (counts[j][w] - expected) / expected
		}
	}
	degrees := float64(max(used, 2) * (len(q.points) - 1))
	return statistic / oracle.ChiSquareLimit(degrees)
}

// TestCodebookWords: how many words an answer takes is independent of the answer, and from one
// stream all cells take the same words.
func TestCodebookWords(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 30, 30, .34)
	d := blobs(g, 2, convex.Vec{X: 10, Y: 12}, convex.Vec{X: 17, Y: 20})
	q := newQuantizer(t, g, 1)
	for _, epsilon := range []float64{1, 2, 4} {
		q = newQuantizer(t, g, epsilon)
		q.Prepare(d.Cells, d.P)
		if statistic := wordFit(q, 371, sampled); statistic > 1 {
			t.Errorf("ε = %v: answers and words are not independent, %.2f of the limit", epsilon,
				statistic)
		}
		if statistic := wordFit(q, 371, proposed); statistic <= 1 {
			t.Errorf("ε = %v: the words of proposals are not noticed, %.2f of the limit", epsilon,
				statistic)
		}
	}
	streams := noise.NewKeyed(noise.KeyFromSeed(109))
	for i := range 200 {
		want := -1
		for _, x := range []grid.Cell{0, 371, 617, 899} {
			src := &countedSource{Source: streams.Stream([]byte(strconv.Itoa(i)))}
			q.Sample(src, q.Vote(x))
			if want < 0 {
				want = src.words
			}
			if src.words != want || want%2 == 1 {
				t.Fatalf("cell %d took %d words, another %d", x, src.words, want)
			}
		}
	}
}

var updateGolden = flag.Bool("update", false,
	"write testdata/codebook.json again, for a new version")

// goldenCodebook is one release in numbers that another implementation can compare with. All
// indices begin at 0, and cells are numbered by row, from the south-west.
type goldenCodebook struct {
	Name    string  `json:"name"`
	Width   int     `json:"width"`
	Height  int     `json:"height"`
	CellKM  float64 `json:"cell_km"`
	Epsilon float64 `json:"epsilon"`
	// Prior is pairs of a cell and its mass, in decimals that give the very float64.
	Prior []goldenMass `json:"prior"`
	// Other is T. The weight of a cell's own code point is 2⁶⁴, that of each other one T.
	Other string `json:"other"`
	// Points are columns and rows of code points in 1/4096 of a cell's side, from the centre of
	// cell 0; Places are the same in kilometres from the map's corner.
	Points [][2]int64   `json:"points"`
	Places [][2]float64 `json:"places_km"`
	// Votes has an index for every cell of the map.
	Votes []int `json:"votes"`
	// Posterior has for each code point the posterior of the prior's cells after its release.
	Posterior [][]float64 `json:"posterior"`
	// GainKM2 is the predicted reduction of the expected squared error.
	GainKM2 float64 `json:"gain_km2"`
}

type goldenMass struct {
	Cell grid.Cell `json:"cell"`
	P    float64   `json:"p"`
}

func goldenOf(tb testing.TB, name string, g *grid.Grid, epsilon float64, d *mobility.Distribution,
) goldenCodebook {
	tb.Helper()
	return goldenFrom(newQuantizer(tb, g, epsilon), name, g, epsilon, d)
}

func goldenFrom(q *Quantizer, name string, g *grid.Grid, epsilon float64, d *mobility.Distribution,
) goldenCodebook {
	q.Prepare(d.Cells, d.P)
	c := goldenCodebook{
		Name: name, Width: g.Width(), Height: g.Height(), CellKM: g.CellKM(), Epsilon: epsilon,
		Other: strconv.FormatUint(q.Other(), 10), GainKM2: q.gain(),
	}
	for i, cell := range d.Cells {
		c.Prior = append(c.Prior, goldenMass{cell, d.P[i]})
	}
	for j, p := range q.Points() {
		c.Points = append(c.Points, [2]int64{p.X, p.Y})
		c.Places = append(c.Places, [2]float64{q.Place(j).X, q.Place(j).Y})
		var posterior mobility.Distribution
		mobility.Update(&posterior, d, q.Likelihoods(nil, j, d.Cells))
		c.Posterior = append(c.Posterior, posterior.P)
	}
	for _, x := range testcase.AllCells(g) {
		c.Votes = append(c.Votes, q.Vote(x))
	}
	return c
}

// TestCodebookGolden compares codebooks with testdata/codebook.json bit for bit: the same on every
// architecture, from one program to the next of one CodebookVersion. Under the same version the
// file is not written again with other codebooks: cases may only be added to its end.
func TestCodebookGolden(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "codebook.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var stored struct {
		Version   int              `json:"version"`
		Codebooks []goldenCodebook `json:"codebooks"`
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	switch {
	case stored.Version == CodebookVersion:
		checkGolden(t, stored.Codebooks)
	case !*updateGolden:
		t.Fatalf("%s is of version %d, the program of %d: run with -update", file, stored.Version,
			CodebookVersion)
	}
	cases := goldenCases(t)
	if stored.Version == CodebookVersion {
		for i, want := range stored.Codebooks {
			if i >= len(cases) || cases[i].Name != want.Name {
				t.Errorf("%s is not among the cases any more", want.Name)
			}
		}
	}
	if !*updateGolden || t.Failed() {
		return
	}
	text = fmt.Appendf(nil, "{\"version\":%d,\"codebooks\":[\n", CodebookVersion)
	for i, c := range cases {
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			text = append(text, ",\n"...)
		}
		text = append(text, line...)
	}
	if err := os.WriteFile(file, append(text, "\n]}\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkGolden computes codebooks from their priors again.
func checkGolden(t *testing.T, codebooks []goldenCodebook) {
	t.Helper()
	for _, want := range codebooks {
		g := testcase.Grid(t, want.Width, want.Height, want.CellKM)
		d := &mobility.Distribution{}
		for _, m := range want.Prior {
			d.Cells, d.P = append(d.Cells, m.Cell), append(d.P, m.P)
		}
		got := goldenOf(t, want.Name, g, want.Epsilon, d)
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s: undo the change, or raise CodebookVersion and run with -update: got\n"+
				"%+v, want\n%+v", want.Name, got, want)
		}
	}
}

func goldenCases(tb testing.TB) []goldenCodebook {
	tb.Helper()
	r := rand.New(rand.NewPCG(110, 1))
	var cases []goldenCodebook
	add := func(name string, g *grid.Grid, d *mobility.Distribution, epsilons ...float64) {
		for _, epsilon := range epsilons {
			cases = append(cases, goldenOf(tb, fmt.Sprintf("%s, ε=%v", name, epsilon), g, epsilon,
				d))
		}
	}
	g := testcase.Grid(tb, 12, 9, .34)
	add("one cell", g, &mobility.Distribution{Cells: []grid.Cell{50}, P: []float64{1}}, 1)
	add("two cells", g, &mobility.Distribution{
		Cells: []grid.Cell{3, 90}, P: []float64{.25, .75},
	}, .001, 1, 20)
	add("gaussian", g, blobs(g, 1.4, convex.Vec{X: 5.3, Y: 4.1}), .1, 1, 4, 8)
	add("bimodal", g, blobs(g, 1, convex.Vec{X: 2, Y: 2}, convex.Vec{X: 9, Y: 6}), 1, 2, 4)
	for i := range 6 {
		g := testcase.Grid(tb, 3+r.IntN(7), 3+r.IntN(7), .34)
		add(fmt.Sprintf("random %d", i), g, testcase.Prior(r, g.Cells()), []float64{1, 4, 6}[i%3])
	}
	return cases
}

// TestCodebookFacts: codebooks and votes that differ in anything have different facts.
func TestCodebookFacts(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 6, 6, 1)
	r := rand.New(rand.NewPCG(111, 1))
	seen := map[string]string{}
	for range 300 {
		q := newQuantizer(t, g, []float64{1, 2, 5}[r.IntN(3)])
		d := testcase.Prior(r, g.Cells())
		q.Prepare(d.Cells, d.P)
		for own := range q.points {
			what := fmt.Sprint(q.points, own)
			facts := string(q.AppendFacts(nil, own))
			if other, ok := seen[facts]; ok && other != what {
				t.Fatalf("%s and %s have the same facts", what, other)
			}
			seen[facts] = what
		}
	}
}
