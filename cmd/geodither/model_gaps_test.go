package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/mobility"
)

func TestGapLines(t *testing.T) {
	law := mobility.GapLaw{
		{Moves: [len(mobility.GapMoves)]float64{0: .25, 1: .25}, Chain: .5}, {Chain: 1}, {Anew: 1},
	}
	const want = `gaps         2 steps            50 % a move a step, 50 % fewer moves (0.5)
             3 to 4 steps       100 % a move a step
             5 to 8 steps       100 % start over
             used only where every report leaves a record: not with "between: skip",
             nor with a budget that suppresses
`
	if got := gapLines(modelGaps(law)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := gapLines(modelGaps(nil)); !strings.Contains(got, "none learned") {
		t.Error(got)
	}
}

func TestChangesOfGaps(t *testing.T) {
	a := &mobility.Model{Gaps: mobility.GapLaw{{Chain: 1}, {Chain: 1}}}
	b := &mobility.Model{Gaps: mobility.GapLaw{{Chain: .5, Anew: .5}}}
	const want = "law of gaps: 2 steps: 100 % a move a step; 3 to 4 steps: 100 % a move a step, " +
		"then 2 steps: 50 % a move a step, 50 % start over"
	if got := modelChanges(a, b); !slices.Contains(got, want) {
		t.Errorf("no %q in %q", want, got)
	}
}
