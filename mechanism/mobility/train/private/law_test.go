package private

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
)

// lawFalseAlarm is how often each χ² test fails although nothing is wrong.
const lawFalseAlarm = 1e-6

// faultyDraws are ways to get the noise wrong.
var faultyDraws = map[string]func(count int64, s scale, random noise.Source) float64{
	"half the scale": func(count int64, s scale, random noise.Source) float64 {
		return noisy(count, scale{s.num, 2 * s.den}, random)
	},
	"none on zeros": func(count int64, s scale, random noise.Source) float64 {
		if count == 0 {
			return 0
		}
		return noisy(count, s, random)
	},
	"truncated": func(count int64, s scale, random noise.Source) float64 {
		return float64(count) + math.Trunc(noise.Laplace(random)*s.value())
	},
	"clamped": func(count int64, s scale, random noise.Source) float64 {
		return max(0, noisy(count, s, random))
	},
}

// lawRatio returns the χ² statistic of noise against the discrete Laplace law of the scale, over
// its quantile: above 1 the law is rejected. Values beyond reach share a class, as do both sides of
// it.
func lawRatio(drawn []float64, s scale) float64 {
	// Every class expects ten or so.
	reach := int(s.value() * math.Log(float64(len(drawn))/(20*s.value())))
	counts, p := make([]float64, 2*reach+2), make([]float64, 2*reach+2)
	q := math.Exp(-float64(s.den) / float64(s.num))
	rest := 1.0
	for i := range 2*reach + 1 {
		p[i] = (1 - q) / (1 + q) * math.Pow(q, math.Abs(float64(i-reach)))
		rest -= p[i]
	}
	p[2*reach+1] = rest
	for _, d := range drawn {
		at := int(d) + reach
		if d != math.Trunc(d) || at < 0 || at > 2*reach {
			at = 2*reach + 1
		}
		counts[at]++
	}
	statistic, n := 0.0, float64(len(drawn))
	for i := range p {
		statistic += (counts[i] - n*p[i]) * (counts[i] - n*p[i]) / (n * p[i])
	}
	return statistic / distuv.ChiSquared{K: float64(len(p) - 1)}.Quantile(1-lawFalseAlarm)
}

// TestNoiseOnEveryCount takes the true counts off all noisy ones of a run, of blocks and of single
// cells, zeros and others apart.
func TestNoiseOnEveryCount(t *testing.T) {
	g := plainGrid(t, 60, 50)
	tr := trainer(t, g, train.Options{KeepShared: true, KernelRadius: 3}, wander(g, 800, 40, 9))
	for _, epsilon := range []string{"20", "7.5"} {
		o := Options{Epsilon: epsilon, Contribution: 20, Radius: 3}
		run := privateRun(t, tr, o, 11)
		for kind, drawn := range noiseOf(t, run) {
			for where, list := range drawn {
				if len(list) < 3000 {
					t.Fatalf("%s, %s: %d counts are too few for the test", kind, where, len(list))
				}
				if ratio := lawRatio(list, further(run)); ratio > 1 {
					t.Errorf("ε %s, noise on %s of %s: %.2f times the limit", epsilon, where, kind,
						ratio)
				}
			}
		}
	}
	for name, draw := range faultyDraws {
		run := privateRun(t, tr, Options{Epsilon: "20", Contribution: 20, Radius: 3}, 11)
		run.draw = draw
		for kind, drawn := range noiseOf(t, run) {
			if max(lawRatio(drawn["zeros"], further(run)),
				lawRatio(drawn["others"], further(run))) <= 1 {
				t.Errorf("the test does not notice in %s: %s", kind, name)
			}
		}
	}
}

func further(p *training) scale {
	_, further := p.scales(3)
	return further
}

// noiseOf returns the noise of blocks of four cells and of pairs of cells: noisy counts less true
// ones.
func noiseOf(t *testing.T, run *training) map[string]map[string][]float64 {
	t.Helper()
	tallies, err := run.contributions()
	if err != nil {
		t.Fatal(err)
	}
	blocks, cells := map[string][]float64{}, map[string][]float64{}
	note := func(to map[string][]float64, noisy float64, count int64) {
		where := "others"
		if count == 0 {
			where = "zeros"
		}
		to[where] = append(to[where], noisy-float64(count))
	}
	l := run.level(1, 1)
	counts := l.count(tallies)
	for i, n := range run.noisyBlocks(l, tallies, further(run), pcg(12)) {
		note(blocks, n, counts[i])
	}
	last := run.levels()[0].first(make([]float64, len(run.rings)), further(run))
	r := &rowMaker{
		training: run, last: last, cells: &cellCounts{tallies, further(run)},
	}
	r.allocate()
	truth := map[[2]grid.Cell]int64{}
	for _, n := range tallies {
		truth[[2]grid.Cell{n.from, n.to}] = n.n
	}
	var own rowOf
	random := pcg(13)
	for c := range grid.Cell(run.grid.Cells()) {
		r.readRow(&own, 0, c)
		r.count(&own, 0, c, random)
		for i, to := range own.columns {
			note(cells, own.values[i], truth[[2]grid.Cell{c, to}])
		}
	}
	return map[string]map[string][]float64{"blocks": blocks, "cells": cells}
}

// TestNoisySaturates: draws beyond all counts give the same result for every count.
func TestNoisySaturates(t *testing.T) {
	for _, negative := range []bool{false, true} {
		results := map[float64]bool{}
		for _, count := range []int64{0, 1, 1 << 40} {
			random := &huge{negative: negative}
			results[noisy(count, scale{1 << 62, 1}, random)] = true
		}
		want := float64(saturation)
		if negative {
			want = -want
		}
		if len(results) != 1 || !results[want] {
			t.Errorf("results %v, want %v only", results, want)
		}
	}
}

// huge is a source for one draw near the scale: u of the law is large and stays, v is 0.
type huge struct {
	at       int
	negative bool
}

func (h *huge) Uint64() uint64 {
	h.at++
	switch h.at {
	case 1: // u = 2⁶¹
		return 1 << 63
	case 2: // exp(-u/num): the first Bernoulli(1/2) fails, which keeps u
		return math.MaxUint64
	case 3: // 1/e: Bernoulli(1/2) fails at once, which ends v at 0
		return math.MaxUint64
	}
	if h.negative {
		return math.MaxUint64
	}
	return 0
}

// neighbours are two inputs that differ by one user, on a map of three cells.
func neighbours(t *testing.T) (without, with *train.Trainer) {
	t.Helper()
	g := plainGrid(t, 3, 1)
	options := train.Options{KeepShared: true, KernelRadius: 1, Jumps: -1, Backoff: 0.01}
	var seconds []int64
	for i := range int64(41) {
		seconds = append(seconds, 60*i)
	}
	stay := make([]grid.Cell, len(seconds))
	swing := make([]grid.Cell, len(seconds))
	for i := range swing {
		swing[i] = grid.Cell(i % 2)
	}
	others := slices.Concat(fixesAt(g, "a", seconds, stay), fixesAt(g, "b", seconds, swing))
	victim := fixesAt(g, "victim", seconds, stay)
	return trainer(t, g, options, others), trainer(t, g, options, slices.Concat(others, victim))
}

// claimed is the ε that is attacked.
const claimed = "2"

// attack trains many models of both inputs, learns from some which side of which threshold of the
// chance to stay tells them apart best, and returns the lower bound of ε that the rest proves: a
// model beyond the threshold is a guess. Given ε-differential privacy hits are binomial of at most
// e^ε/(1+e^ε) among guesses; see audit.EpsilonLowerBound for the bound.
func attack(t *testing.T, runs int, alpha float64, spoil func(*training)) float64 {
	t.Helper()
	without, with := neighbours(t)
	o := Options{Epsilon: claimed, Contribution: 40, Radius: 1}
	seed := uint64(0)
	sample := func(tr *train.Trainer) []float64 {
		list := make([]float64, runs)
		for i := range list {
			seed++
			run := privateRun(t, tr, o, seed)
			spoil(run)
			m, err := run.model()
			if err != nil {
				t.Fatal(err)
			}
			_, values := m.Matrices[0].Entries(0)
			list[i] = values[0]
		}
		return list
	}
	beyond := func(list []float64, threshold, side float64) (n int64) {
		for _, v := range list {
			if float64(side*v) >= float64(side*threshold) {
				n++
			}
		}
		return n
	}
	bound := func(hits, misses int64) float64 {
		if hits == 0 {
			return 0
		}
		q := distuv.Beta{Alpha: float64(hits), Beta: float64(misses) + 1}.Quantile(alpha)
		return math.Log(q / (1 - q))
	}
	a, b := sample(without), sample(with)
	best, threshold, side := math.Inf(-1), 0.0, 1.0
	for i := 0; i < runs; i += 5 {
		for _, s := range []float64{-1, 1} {
			if e := bound(beyond(b, b[i], s), beyond(a, b[i], s)); e > best {
				best, threshold, side = e, b[i], s
			}
		}
	}
	a, b = sample(without), sample(with)
	return bound(beyond(b, threshold, side), beyond(a, threshold, side))
}

// TestNeighboursLookAlike attacks the whole of training, from traces to the model. The bound is
// wrong once in 10⁶ runs, the planted faults are found with room to spare.
func TestNeighboursLookAlike(t *testing.T) {
	if raceDetector {
		t.Skip("a statistical test: the race detector would see one goroutine many times over")
	}
	const runs, alpha = 400, 1e-6
	bound := attack(t, runs, alpha, func(*training) {})
	t.Logf("ε is at least %.2f", bound)
	if bound > 2 {
		t.Errorf("the models prove that ε is at least %.2f, and %s is claimed", bound, claimed)
	}
	for name, spoil := range map[string]func(*training){
		"a tenth of the noise": func(p *training) {
			p.draw = func(n int64, s scale, random noise.Source) float64 {
				return noisy(n, scale{s.num, 10 * s.den}, random)
			}
		},
		"the kernel from raw counts": func(p *training) {
			p.draw = func(n int64, s scale, random noise.Source) float64 {
				if first, again := p.scales(0); s == first || s == again {
					return float64(n)
				}
				return noisy(n, s, random)
			}
		},
		"ten times the contribution": func(p *training) {
			p.choose = func(moves []move, _ int, _ noise.Source) []move {
				return slices.Repeat(moves, 10)
			}
		},
	} {
		bound := attack(t, runs, alpha, spoil)
		t.Logf("%s: ε is at least %.2f", name, bound)
		if bound <= 2 {
			t.Errorf("the attack does not notice: %s (%.2f)", name, bound)
		}
	}
}

// TestModelIsAFunctionOfNoisyCounts: with noise that hides every count, whatever is published of a
// training is the same for any traces, at every number of levels: nothing but noisy counts enters
// the model, its id and its file.
func TestModelIsAFunctionOfNoisyCounts(t *testing.T) {
	t.Parallel()
	g := plainGrid(t, 24, 20)
	inputs := map[string][]train.Fix{
		"nobody": nil, "a user": wander(g, 1, 300, 1), "a fleet": wander(g, 900, 60, 2),
	}
	options := train.Options{KeepShared: true, KernelRadius: 2}
	o := Options{Epsilon: "40", Contribution: 40, Radius: 2}
	var mu sync.Mutex // rows are drawn on all cores
	scales := map[scale]bool{}
	for _, mean := range []float64{0, 300, 3000, 30_000, 1e7} {
		files := map[string]string{}
		for name, fixes := range inputs {
			run := privateRun(t, trainer(t, g, options, fixes), o, 3)
			run.draw = func(_ int64, s scale, random noise.Source) float64 {
				mu.Lock()
				scales[s] = true
				mu.Unlock()
				return mean + float64(noise.Below(random, 9))
			}
			files[name] = published(t, run)
		}
		for name, file := range files {
			if file != files["nobody"] {
				t.Errorf("noisy counts about %g: the model of %s is that of its counts", mean, name)
			}
		}
	}
	if len(scales) < 4 { // of the first level, and one for each number of further ones
		t.Errorf("%d scales are compared: too few", len(scales))
	}
}

// published is what a run writes: the model's id and file.
func published(t *testing.T, run *training) string {
	t.Helper()
	m, err := run.model()
	if err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	if err := m.Write(&file); err != nil {
		t.Fatal(err)
	}
	return m.ID() + file.String()
}
