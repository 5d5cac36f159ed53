package law

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/oracle"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/noise"
)

// jointSampler draws a release and returns it with the number of words that the draw took.
type jointSampler func(m *lattice, src *countedSource, x grid.Cell) (grid.Point, int)

func joint(m *lattice, src *countedSource, x grid.Cell) (grid.Point, int) {
	src.words = 0
	z := m.Sample(src, x)
	return z, src.words
}

// unpadded is the sampler as it was before it took blocks.
func unpadded(m *lattice, src *countedSource, x grid.Cell) (grid.Point, int) {
	src.words = 0
	for {
		if z, ok := m.propose(src, m.hull.site(x)); ok {
			return z, src.words
		}
	}
}

// jointFaults are samplers of the right law whose number of words tells something.
var jointFaults = map[string]jointSampler{
	"no padding": unpadded,
	"padding for far draws only": func(m *lattice, src *countedSource,
		x grid.Cell,
	) (grid.Point, int) {
		z, words := unpadded(m, src, x)
		if m.gaugeFrom(x, z) > 2/m.epsilon {
			words = usualBlock
		}
		return z, words
	},
	smallBlock: func(m *lattice, src *countedSource, x grid.Cell) (grid.Point, int) {
		m.block = noise.WordUnit
		return joint(m, src, x)
	},
	"a unit more for one of the cells": func(m *lattice, src *countedSource,
		x grid.Cell,
	) (grid.Point, int) {
		z, words := joint(m, src, x)
		return z, words + noise.WordUnit*int(x&1)
	},
}

// smallBlock is the weakest fault: a tenth of all proposals needs more than 32 words. The bound of
// ε does not see it, and the test of independence sees it where nothing else varies, on a line.
const smallBlock = "a block of one unit"

// gaugeFrom returns ‖z-x‖_K.
func (m *lattice) gaugeFrom(x grid.Cell, z grid.Point) float64 {
	centre := m.place(m.hull.site(x), convex.Lattice{})
	return m.hull.body.Gauge(convex.Vec{X: z.X - centre.X, Y: z.Y - centre.Y})
}

// jointCase is a pair of cells at the greatest distance, ‖x1-x2‖_K = 1. One cell's number is
// even, the other's is odd.
type jointCase struct {
	name  string
	cells []grid.Cell
	pair  [2]grid.Cell
}

var jointCases = []jointCase{
	{"line", []grid.Cell{0, 1, 3}, [2]grid.Cell{0, 3}},
	{"square", []grid.Cell{0, 1, 2, 20, 21, 22, 40, 41, 42, 63}, [2]grid.Cell{0, 63}},
}

const (
	jointDraws = 40_000 // of each cell, on average
	shells     = 10     // of ‖z-x1‖_K, each half of 1/ε wide; the last one is open
	sides      = 5      // of ‖z-x2‖_K - ‖z-x1‖_K, from -1 to 1
	jointWords = 40     // numbers of words that are told apart, in order of appearance
)

// jointCounts are numbers of draws by shell, side and number of words.
type jointCounts [shells][sides]map[int]int

// count draws from both cells of the pair, each draw from the one that a fair coin says, and
// returns the counts of both. Shells and sides are about the first cell.
func (c jointCase) count(
	m *lattice, src *countedSource, draw jointSampler,
) (counts [2]*jointCounts) {
	for k := range counts {
		counts[k] = new(jointCounts)
		for i := range counts[k] {
			for j := range counts[k][i] {
				counts[k][i][j] = map[int]int{}
			}
		}
	}
	coin := rand.New(rand.NewPCG(93, 1))
	for range 2 * jointDraws {
		k := coin.IntN(2)
		z, words := draw(m, src, c.pair[k])
		near, far := m.gaugeFrom(c.pair[0], z), m.gaugeFrom(c.pair[1], z)
		shell := min(int(near*m.epsilon*2), shells-1)
		side := min(max(int(math.Round((far-near+1)/2*(sides-1))), 0), sides-1)
		counts[k][shell][side][words]++
	}
	return counts
}

// most returns the greatest number of words.
func (c *jointCounts) most() int {
	most := 0
	for i := range c {
		for j := range c[i] {
			for words := range c[i][j] {
				most = max(most, words)
			}
		}
	}
	return most
}

// events returns the counts of events about release and words together: the release lies within a
// shell, or on a side or beyond, and the words are at most so many, or more.
func (c *jointCounts) events(limits []int) []int {
	var events []int
	for shell := range shells {
		for side := range sides {
			for _, limit := range limits {
				few, many := 0, 0
				for i := range shell + 1 {
					for j := side; j < sides; j++ {
						for words, n := range c[i][j] {
							if words <= limit {
								few += n
							} else {
								many += n
							}
						}
					}
				}
				events = append(events, few, many)
			}
		}
	}
	return events
}

// leastEpsilon returns a lower bound of the ε of the pair of release and words: the greatest one
// over all events and both orders of the cells, or 0. If the pair has an ε of its own, an event
// that happened n times came from one of the cells with a probability of at most q = e^ε/(1+e^ε)
// each time, so k times or more with at most exp(-n·D(k/n ‖ q)), D being the divergence of two
// coins (Chernoff). All events share oracle.FalseAlarm evenly, so that the bound exceeds the
// pair's ε with a probability of at most that.
func leastEpsilon(counts [2]*jointCounts) float64 {
	var limits []int
	for i, most := 0, max(counts[0].most(), counts[1].most()); i < jointWords; i++ {
		limits = append(limits, most*i/jointWords)
	}
	for i := range 16 { // the small numbers of a line one by one, and the first totals
		limits = append(limits, i+1, usualBlock+i*noise.WordUnit)
	}
	events := [2][]int{counts[0].events(limits), counts[1].events(limits)}
	surprise := math.Log(float64(2*len(events[0])) / oracle.FalseAlarm)
	least := 0.0
	for i := range events[0] {
		n := float64(events[0][i] + events[1][i])
		k := float64(max(events[0][i], events[1][i]))
		exceeds := func(epsilon float64) bool {
			q := 1 / (1 + math.Exp(-epsilon))
			return k > n*q && n*divergence(k/n, q) > surprise
		}
		for exceeds(least + .01) {
			least += .01
		}
	}
	return least
}

// divergence returns D(p ‖ q) of two coins.
func divergence(p, q float64) float64 {
	d := p * math.Log(p/q)
	if p < 1 {
		d += (1 - p) * math.Log((1-p)/(1-q))
	}
	return d
}

// dependence returns the χ² statistic of shells against numbers of words over its quantile at
// oracle.FalseAlarm: above 1 they are not independent. Numbers of words that are rare share a
// column.
func (c *jointCounts) dependence() float64 {
	var byShell [shells]map[int]int
	totals := map[int]int{}
	for i := range c {
		byShell[i] = map[int]int{}
		for j := range c[i] {
			for words, n := range c[i][j] {
				byShell[i][words] += n
				totals[words] += n
			}
		}
	}
	all := 0
	for _, n := range totals {
		all += n
	}
	column := map[int]int{} // of a number of words
	columns := 1            // column 0 is for the rare ones
	for words, n := range totals {
		if n >= all/50 {
			column[words] = columns
			columns++
		}
	}
	table, sums := make([][]float64, shells), make([]float64, columns)
	for i := range table {
		table[i] = make([]float64, columns)
		for words, n := range byShell[i] {
			table[i][column[words]] += float64(n)
			sums[column[words]] += float64(n)
		}
	}
	statistic, used := 0.0, 0
	for _, sum := range sums {
		if sum > 0 {
			used++
		}
	}
	for _, row := range table {
		total := 0.0
		for _, n := range row {
			total += n
		}
		for j, sum := range sums {
			if expected := total * sum / float64(all); expected > 0 {
				statistic += (row[j] - expected) * (row[j] - expected) / expected
			}
		}
	}
	if used < 2 {
		return 0
	}
	return statistic / oracle.ChiSquareLimit(float64((shells-1)*(used-1)))
}

// TestReleaseAndWordsArePrivate checks the pair of release and number of words, for two cells at
// the greatest distance: no event may tell them apart by more than e^ε, and in the draws of one
// cell the number of words is independent of the release. Each false alarm has a probability of
// 10⁻⁶.
func TestReleaseAndWordsArePrivate(t *testing.T) {
	t.Parallel()
	for _, c := range jointCases {
		for _, epsilon := range []float64{1, 2, 4} {
			t.Run(fmt.Sprint(c.name, " ", epsilon), func(t *testing.T) {
				t.Parallel()
				m := newLattice(t, DefaultSubdivision)
				m.Prepare(hullOf(testcase.Grid(t, 20, 20, .34), c.cells...), epsilon)
				words := noise.NewKeyed(noise.KeyFromSeed(91)).Stream([]byte(t.Name()))
				src := &countedSource{Source: words}
				counts := c.count(m, src, joint)
				if got := leastEpsilon(counts); got > epsilon {
					t.Errorf("release and words together have an ε of %.2f or more", got)
				}
				if ratio := max(counts[0].dependence(), counts[1].dependence()); ratio > 1 {
					t.Errorf("words depend on the release: %.2f times the limit", ratio)
				}
			})
		}
	}
}

// TestJointTestNoticesFaults plants samplers whose releases have the right law and whose words tell
// more: the bound of the pair exceeds ε for each of them but the weakest.
func TestJointTestNoticesFaults(t *testing.T) {
	t.Parallel()
	for fault, draw := range jointFaults {
		for _, c := range jointCases {
			for _, epsilon := range []float64{1, 2, 4} {
				if fault == smallBlock && c.name != "line" {
					continue
				}
				t.Run(fmt.Sprint(fault, " ", c.name, " ", epsilon), func(t *testing.T) {
					t.Parallel()
					m := newLattice(t, DefaultSubdivision)
					m.Prepare(hullOf(testcase.Grid(t, 20, 20, .34), c.cells...), epsilon)
					words := noise.NewKeyed(noise.KeyFromSeed(92)).Stream([]byte(t.Name()))
					src := &countedSource{Source: words}
					counts := c.count(m, src, draw)
					least, ratio := leastEpsilon(counts),
						max(counts[0].dependence(), counts[1].dependence())
					t.Logf("ε ≥ %.2f, dependence %.2f", least, ratio)
					if least <= epsilon && (fault != smallBlock || ratio <= 1) {
						t.Errorf("not noticed: ε ≥ %.2f, dependence %.2f of its limit", least,
							ratio)
					}
				})
			}
		}
	}
}
