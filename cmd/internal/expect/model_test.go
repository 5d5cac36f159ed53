package expect

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
             used only where every report leaves a record: not with "between: skip",
             nor with a budget that suppresses
`
	if got := gapLines(gapsOf(law)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := gapLines(gapsOf(nil)); !strings.Contains(got, "none learned") {
		t.Error(got)
	}
}
