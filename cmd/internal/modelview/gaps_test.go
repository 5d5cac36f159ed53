package modelview

import (
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
`
	if got := gapLines(gapsOf(law)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := gapLines(gapsOf(nil)); !strings.Contains(got, "none learned") {
		t.Error(got)
	}
}

func TestChangesOfGaps(t *testing.T) {
	a := &mobility.Model{Gaps: mobility.GapLaw{{Chain: 1}, {Chain: 1}}}
	b := &mobility.Model{Gaps: mobility.GapLaw{{Chain: .5, Anew: .5}}}
	text := strings.Join(changes(a, b), "\n")
	for _, want := range []string{
		"law of gaps: up to 4 steps, then up to 2 steps",
		"gaps of 2 steps: 100 % a move a step, then 50 % a move a step, 50 % start over",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}
