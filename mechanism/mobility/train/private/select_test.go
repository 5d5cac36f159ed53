package private

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
)

// adversary returns a user who tries to count for more than others: for hours or days in one cell,
// to and fro, everywhere in turn, or at random, in any order of time.
func adversary(g *grid.Grid, random *rand.Rand) []train.Fix {
	n := 1 + random.IntN(600)
	kind, days := random.IntN(4), 1+random.IntN(2)*random.IntN(30)
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
		at := int64(i%days)*24*3600 + int64(60*(i/days)+random.IntN(60))
		seconds, cells = append(seconds, at), append(cells, c)
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
func pairCounts(p *training, tallies []tally) []int64 {
	n := p.grid.Cells()
	counts := make([]int64, p.classes*n*n)
	for _, t := range tallies {
		counts[(t.class*n+int(t.from))*n+int(t.to)] += t.n
	}
	return counts
}

// reach returns how far, in ℓ1 and at most over all levels, the counts of two trainers lie apart.
func reachOf(t testing.TB, a, b *train.Trainer, o Options, spoil func(*training)) (most int64) {
	t.Helper()
	runs := [2]*training{privateRun(t, a, o, 5), privateRun(t, b, o, 5)}
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

// TestOneUserMovesCountsByTheContribution adds a user to others, and removes one, and compares
// every level's exact counts. The limit is reached, and a fault in the choice is noticed.
func TestOneUserMovesCountsByTheContribution(t *testing.T) {
	g := plainGrid(t, 9, 7)
	random := rand.New(rand.NewPCG(1, 2))
	reached, noticed, twice := false, false, false
	for round := range 60 {
		o := Options{Epsilon: "1", Contribution: 1 + random.IntN(40), Radius: 1 + random.IntN(3)}
		options := train.Options{KeepShared: true, MaxGap: time.Duration(round%2) * 2 * time.Minute}
		switch round % 6 {
		case 0, 3:
			options.EveryFix = true
		case 1:
			options.Interpolate, options.MaxGap = true, 10*time.Minute
		case 2:
			options.Calendar = mobility.Calendar{Hours: []int{0, 1}, Weekend: true}
		}
		others := wander(g, 4, 60, uint64(round))
		alone := trainer(t, g, options, others)
		joined := trainer(t, g, options, slices.Concat(adversary(g, random), others))
		far := reachOf(t, alone, joined, o, func(*training) {})
		if far > int64(o.Contribution) {
			t.Errorf("%+v %+v: one user moves the counts by %d", o, options, far)
		}
		reached = reached || far == int64(o.Contribution)
		if back := reachOf(t, joined, alone, o, func(*training) {}); back != far {
			t.Errorf("removing moves the counts by %d, adding by %d", back, far)
		}
		noticed = noticed || reachOf(t, alone, joined, o, func(p *training) {
			p.choose = func(moves []move, _ int, _ noise.Source) []move { return moves }
		}) > int64(o.Contribution)
		twice = twice || reachOf(t, alone, joined, o, func(p *training) {
			p.choose = func(moves []move, n int, random noise.Source) []move {
				return contribute(moves, 2*n, random)
			}
		}) > int64(o.Contribution)
	}
	if !reached {
		t.Error("no user gave the whole contribution: the test says nothing")
	}
	if !noticed || !twice {
		t.Errorf("the test notices no fault: uncapped %t, twice the contribution %t", noticed,
			twice)
	}
}

// TestOneLocationMovesCounts changes one location of one user and compares every level's exact
// counts. A user whose moves all count changes them by 4 at most, one whose moves are chosen from
// by twice the contribution at most. The latter exceeds the contribution, so the model's ε alone
// would be no bound for a user who stays among the users: it is twice that (theorem 9).
func TestOneLocationMovesCounts(t *testing.T) {
	t.Parallel()
	g := plainGrid(t, 9, 7)
	random := rand.New(rand.NewPCG(3, 2))
	const steps, reach = 120, 12 // all moves on this map are within reach
	mostAll, mostChosen := int64(0), int64(0)
	for round := range 60 {
		var seconds []int64
		var cells []grid.Cell
		for i := range steps {
			seconds = append(seconds, int64(60*i))
			cells = append(cells, grid.Cell(random.IntN(g.Cells())))
		}
		others := wander(g, 3, 60, uint64(round))
		before := trainer(t, g, train.Options{KeepShared: true},
			slices.Concat(fixesAt(g, "u", seconds, cells), others))
		cells[random.IntN(steps)] = grid.Cell(random.IntN(g.Cells()))
		after := trainer(t, g, train.Options{KeepShared: true},
			slices.Concat(fixesAt(g, "u", seconds, cells), others))

		all := Options{Epsilon: "1", Contribution: steps, Radius: reach}
		mostAll = max(mostAll, reachOf(t, before, after, all, func(*training) {}))
		chosen := Options{Epsilon: "1", Contribution: 20, Radius: reach}
		mostChosen = max(mostChosen, reachOf(t, before, after, chosen, func(*training) {}))
	}
	if mostAll != 4 {
		t.Errorf("one location of a user whose moves all count moves the counts by %d, want 4",
			mostAll)
	}
	if mostChosen <= 20 || mostChosen > 40 {
		t.Errorf("one location moves counts by %d of 20 chosen moves, want over 20, at most 40",
			mostChosen)
	}
}

// TestSharedFixesMustBeKept: a user who reports what all others did would take their fixes out of
// training, many times the contribution. Where shared fixes are kept nothing of the kind happens,
// and private training refuses to work where they are not.
func TestSharedFixesMustBeKept(t *testing.T) {
	g := plainGrid(t, 9, 7)
	others := wander(g, 4, 60, 1)
	copied := slices.Clone(others)
	for i := range copied {
		copied[i].User = "copyist"
	}
	o := Options{Epsilon: "1", Contribution: 10, Radius: 2}
	moved := func(kept bool) int64 {
		options := train.Options{KeepShared: kept}
		return reachOf(t, trainer(t, g, options, others),
			trainer(t, g, options, slices.Concat(others, copied)), o, func(*training) {})
	}
	if kept, dropped := moved(true), moved(false); kept > 10 || dropped <= 10 {
		t.Errorf("a copyist moves the counts by %d, and where shared fixes are dropped by %d", kept,
			dropped)
	}
	if _, _, err := Train(trainer(t, g, train.Options{}, others), o, pcg(1), nil); err == nil ||
		!strings.Contains(err.Error(), "KeepShared") {
		t.Errorf("a trainer that drops shared fixes: error %v", err)
	}
}

// TestChoiceIsFair: every move has the same chance, n of N, whatever the others. 20,000 choices of
// 7 out of 23; each count has a standard deviation of about 65, and six of them are exceeded once
// in 10⁷ runs.
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
