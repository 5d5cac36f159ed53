package mobility

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

func quietly(int64, int64) error { return nil }

// privateRun prepares one run, for tests that look inside.
func privateRun(t testing.TB, tr *Trainer, o PrivacyOptions, seed uint64) *private {
	t.Helper()
	run, err := newPrivate(tr, o, pcg(seed), quietly)
	if err != nil {
		t.Fatal(err)
	}
	tr.settle()
	return run
}

func privateModel(t testing.TB, tr *Trainer, o PrivacyOptions, seed uint64) *Model {
	t.Helper()
	m, _, err := tr.FinishPrivate(o, pcg(seed), quietly)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// adversary returns a user who tries to count for more than others: for weeks in one cell, to and fro, everywhere in turn, or at
// random, in any order of time.
func adversary(g *grid.Grid, random *rand.Rand) []Fix {
	n := 1 + random.IntN(600)
	kind := random.IntN(4)
	var seconds []int64
	var cells []grid.Cell
	for i := range n {
		c := grid.Cell(random.IntN(g.Cells()))
		switch kind {
		case 0:
			c = 7
		case 1:
			c = grid.Cell(20 + i%2)
		case 2:
			c = grid.Cell(i % g.Cells())
		}
		seconds, cells = append(seconds, int64(60*i+random.IntN(60))), append(cells, c)
	}
	fixes := fixesAt(g, fmt.Sprint("adversary", random.IntN(5)), seconds, cells)
	random.Shuffle(len(fixes), func(i, j int) { fixes[i], fixes[j] = fixes[j], fixes[i] })
	return fixes
}

func distance(a, b []int64) (sum int64) {
	for i := range a {
		sum += max(a[i]-b[i], b[i]-a[i])
	}
	return sum
}

// pairCounts returns the counts of all pairs of cells.
func pairCounts(p *private, tallies []tally) []int64 {
	n := p.grid.Cells()
	counts := make([]int64, p.classes*n*n)
	for _, t := range tallies {
		counts[(t.class*n+int(t.from))*n+int(t.to)] += t.n
	}
	return counts
}

// reach returns how far, in ℓ1 and at most over all levels, the counts of two trainers lie apart.
func reachOf(t testing.TB, a, b *Trainer, o PrivacyOptions, spoil func(*private)) (most int64) {
	t.Helper()
	runs := [2]*private{privateRun(t, a, o, 5), privateRun(t, b, o, 5)}
	var tallies [2][]tally
	for i, run := range runs {
		spoil(run)
		var err error
		if tallies[i], err = run.contributions(); err != nil {
			t.Fatal(err)
		}
	}
	most = distance(pairCounts(runs[0], tallies[0]), pairCounts(runs[1], tallies[1]))
	for _, l := range runs[0].levels() {
		most = max(most, distance(l.count(tallies[0]), l.count(tallies[1])))
	}
	return most
}

// TestOneUserMovesCountsByTheContribution adds a user to others, and removes one, and compares every level's exact counts. The limit
// is reached, and a fault in the choice is noticed.
func TestOneUserMovesCountsByTheContribution(t *testing.T) {
	g := plainGrid(t, 9, 7)
	random := rand.New(rand.NewPCG(1, 2))
	reached, noticed, twice := false, false, false
	for round := range 60 {
		o := PrivacyOptions{Epsilon: "1", Contribution: 1 + random.IntN(40), Radius: 1 + random.IntN(3)}
		options := TrainOptions{KeepShared: true, MaxGap: time.Duration(round%2) * 2 * time.Minute}
		switch round % 6 {
		case 0, 3:
			options.EveryFix = true
		case 1:
			options.Interpolate, options.MaxGap = true, 10*time.Minute
		case 2:
			options.Calendar = Calendar{Hours: []int{0, 1}, Weekend: true}
		}
		others := wander(g, 4, 60, uint64(round))
		alone := trainer(t, g, options, others)
		joined := trainer(t, g, options, slices.Concat(adversary(g, random), others))
		far := reachOf(t, alone, joined, o, func(*private) {})
		if far > int64(o.Contribution) {
			t.Errorf("%+v %+v: one user moves the counts by %d", o, options, far)
		}
		reached = reached || far == int64(o.Contribution)
		if back := reachOf(t, joined, alone, o, func(*private) {}); back != far {
			t.Errorf("removing moves the counts by %d, adding by %d", back, far)
		}
		noticed = noticed || reachOf(t, alone, joined, o, func(p *private) {
			p.choose = func(moves []move, _ int, _ noise.Source) []move { return moves }
		}) > int64(o.Contribution)
		twice = twice || reachOf(t, alone, joined, o, func(p *private) {
			p.choose = func(moves []move, n int, random noise.Source) []move { return contribute(moves, 2*n, random) }
		}) > int64(o.Contribution)
	}
	if !reached {
		t.Error("no user gave the whole contribution: the test says nothing")
	}
	if !noticed || !twice {
		t.Errorf("the test notices no fault: uncapped %t, twice the contribution %t", noticed, twice)
	}
}

// TestSharedFixesMustBeKept: a user who reports what all others did would take their fixes out of training, many times the
// contribution. Where shared fixes are kept nothing of the kind happens, and private training refuses to work where they are not.
func TestSharedFixesMustBeKept(t *testing.T) {
	g := plainGrid(t, 9, 7)
	others := wander(g, 4, 60, 1)
	copied := slices.Clone(others)
	for i := range copied {
		copied[i].User = "copyist"
	}
	o := PrivacyOptions{Epsilon: "1", Contribution: 10, Radius: 2}
	moved := func(kept bool) int64 {
		options := TrainOptions{KeepShared: kept}
		return reachOf(t, trainer(t, g, options, others), trainer(t, g, options, slices.Concat(others, copied)), o, func(*private) {})
	}
	if kept, dropped := moved(true), moved(false); kept > 10 || dropped <= 10 {
		t.Errorf("a copyist moves the counts by %d, and where shared fixes are dropped by %d", kept, dropped)
	}
	if _, _, err := trainer(t, g, TrainOptions{}, others).FinishPrivate(o, pcg(1), quietly); err == nil || !strings.Contains(err.Error(), "KeepShared") {
		t.Errorf("a trainer that drops shared fixes: error %v", err)
	}
}

// TestChoiceIsFair: every move has the same chance, n of N, whatever the others. 20,000 choices of 7 out of 23; each count has a
// standard deviation of about 65, and six of them are exceeded once in 10⁷ runs.
func TestChoiceIsFair(t *testing.T) {
	const rounds, size, n = 20_000, 23, 7
	random := pcg(3)
	var chosen [size]int
	for range rounds {
		moves := make([]move, size)
		for i := range moves {
			moves[i].to = grid.Cell(i)
		}
		kept := contribute(moves, n, random)
		if len(kept) != n {
			t.Fatalf("%d chosen, want %d", len(kept), n)
		}
		for _, m := range kept {
			chosen[m.to]++
		}
	}
	for i, c := range chosen {
		if c < rounds*n/size-390 || c > rounds*n/size+390 {
			t.Errorf("move %d was chosen %d times of %d", i, c, rounds)
		}
	}
}

// TestPrivateModelIgnoresOrder: with the same secret the order of fixes and the number of cores change nothing; another secret does.
func TestPrivateModelIgnoresOrder(t *testing.T) {
	g := plainGrid(t, 30, 20)
	fixes := wander(g, 12, 200, 4)
	for _, o := range []PrivacyOptions{
		{Epsilon: "0.5", Contribution: 20, Radius: 2},
		{Epsilon: "999", Contribution: 150}, // single cells are heard
	} {
		want := privateModel(t, trainer(t, g, TrainOptions{KeepShared: true, KernelRadius: 3}, fixes), o, 1).ID()
		for seed := range uint64(3) {
			mixed := slices.Clone(fixes)
			rand.New(rand.NewPCG(seed, 1)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
			before := runtime.GOMAXPROCS(1 + int(seed))
			got := privateModel(t, trainer(t, g, TrainOptions{KeepShared: true, KernelRadius: 3}, mixed), o, 1).ID()
			runtime.GOMAXPROCS(before)
			if got != want {
				t.Errorf("%+v: another order gives another model", o)
			}
		}
		if privateModel(t, trainer(t, g, TrainOptions{KeepShared: true, KernelRadius: 3}, fixes), o, 2).ID() == want {
			t.Errorf("%+v: another secret gives the same model", o)
		}
	}
}

// TestPrivateModelTellsNoCounts: what the file says beside the model is a function of public parameters, also where there is
// nobody, and the entries of the matrix are the same whoever is there.
func TestPrivateModelTellsNoCounts(t *testing.T) {
	g := plainGrid(t, 30, 20)
	o := PrivacyOptions{Epsilon: "900", Contribution: 100}
	options := TrainOptions{KeepShared: true, KernelRadius: 3, Source: "a walk", Tool: "test"}
	full := privateModel(t, trainer(t, g, options, wander(g, 12, 200, 4)), o, 1)
	empty := privateModel(t, trainer(t, g, options, nil), o, 1)
	if got, want := fmt.Sprintf("%+v", full.Provenance), fmt.Sprintf("%+v", empty.Provenance); strings.ReplaceAll(got, fmt.Sprintf("%p", full.Provenance.Privacy), "") !=
		strings.ReplaceAll(want, fmt.Sprintf("%p", empty.Provenance.Privacy), "") {
		t.Errorf("provenance %s, with nobody %s", got, want)
	}
	if *full.Provenance.Privacy != (Privacy{Epsilon: "900", Contribution: 100, Radius: 3}) {
		t.Errorf("privacy %+v", full.Provenance.Privacy)
	}
	if !slices.Equal(full.Matrices[0].Columns, empty.Matrices[0].Columns) || !slices.Equal(full.Initial.Cells, empty.Initial.Cells) {
		t.Error("the entries of the model depend on the traces")
	}
}

// TestPrivateJumps: every row jumps as often as the others, whatever is heard of it.
func TestPrivateJumps(t *testing.T) {
	g := plainGrid(t, 60, 60)
	tr := trainer(t, g, TrainOptions{KeepShared: true, Jumps: .24}, roads(g, 300))
	for _, epsilon := range []string{"0.1", "900"} {
		m := privateModel(t, tr, PrivacyOptions{Epsilon: epsilon, Contribution: 100}, 1)
		columns, values := m.Matrices[0].Row(grid.Cell(30*60 + 30))
		far := 0.0
		for i, c := range columns {
			if dx, dy := g.Column(c)-30, g.Row(c)-30; dx*dx+dy*dy > 25 {
				far += values[i]
			}
		}
		// As in TestJumps: 20 of 24 jumps lie on the map.
		if want := .24 * 20 / 24; math.Abs(far-want/(want+.76)) > 1e-8 {
			t.Errorf("ε %s: %v of the mass is beyond the kernel", epsilon, far)
		}
	}
}

// TestManyUsersGiveTheirModel: where the noise is small the private model is close to the one learned without privacy.
func TestManyUsersGiveTheirModel(t *testing.T) {
	g := plainGrid(t, 12, 10)
	tr := trainer(t, g, TrainOptions{KeepShared: true, KernelRadius: 2, UserCap: 1e6, Jumps: -1}, roads(g, 200))
	want, _, err := tr.Finish()
	if err != nil {
		t.Fatal(err)
	}
	apart := func(epsilon string) (sum float64) {
		m := privateModel(t, tr, PrivacyOptions{Epsilon: epsilon, Contribution: 200}, 1)
		for c := range grid.Cell(g.Cells()) {
			a, b := denseRow(want.Matrices[0], c, g.Cells()), denseRow(m.Matrices[0], c, g.Cells())
			for i := range a {
				sum += max(a[i]-b[i], b[i]-a[i]) / 2 / float64(g.Cells())
			}
		}
		return sum
	}
	near, far := apart("100"), apart("0.01")
	if near > 0.1 || far < 0.3 {
		t.Errorf("rows differ by %.3f at ε = 100 and by %.3f at 0.01", near, far)
	}
}

func denseRow(m *Matrix, c grid.Cell, cells int) []float64 {
	row := make([]float64, cells)
	columns, values := m.Row(c)
	for i, column := range columns {
		row[column] = values[i]
	}
	return row
}

// roads returns users who go round their own row of the map, eastwards: no kernel alone can tell it.
func roads(g *grid.Grid, users int) (fixes []Fix) {
	for u := range users {
		var seconds []int64
		var cells []grid.Cell
		for i := range 200 {
			seconds, cells = append(seconds, int64(i*60)), append(cells, grid.Cell(u%g.Height()*g.Width()+i/2%g.Width()))
		}
		fixes = append(fixes, fixesAt(g, fmt.Sprint("user", u), seconds, cells)...)
	}
	return fixes
}

func TestPrivacyOptionsValidate(t *testing.T) {
	for _, text := range []string{"0.5", "1", "4", "999.999999999", ".5", "5.", "0.000000001", "007"} {
		if err := (PrivacyOptions{Epsilon: text, Contribution: 1}).Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", ".", "0", "0.0", "-1", "+1", "1e3", "1000", "0.0000000001", "1,5", "½", "0x1", "1.2.3", "NaN", "∞", " 1"} {
		if err := (PrivacyOptions{Epsilon: text, Contribution: 1}).Validate(); err == nil {
			t.Errorf("%q is no ε", text)
		}
	}
	for _, o := range []PrivacyOptions{{"1", 0, 5}, {"1", -1, 5}, {"1", 1_000_001, 5}, {"1", 1, -1}, {"1", 1, 126}} {
		if o.Validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if num, den, err := parseEpsilon("12.5"); num != 125 || den != 10 || err != nil {
		t.Errorf("12.5 is %d/%d, %v", num, den, err)
	}
}
