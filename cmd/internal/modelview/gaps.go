package modelview

import (
	"fmt"
	"strings"

	"github.com/geodither/geodither/mechanism/mobility"
)

// Gap is a row of a model's law of gaps, as "model inspect" shows it.
type Gap struct {
	From int64 `json:"from_steps"`
	To   int64 `json:"to_steps"`
	// Chain, Fewer and Anew sum to 1: a move in each step, fewer moves than steps, and a start from
	// the initial distribution.
	Chain float64 `json:"chain"`
	Fewer float64 `json:"fewer_moves"`
	Anew  float64 `json:"anew"`
	// MeanMoves is the mean number of moves where there were fewer than steps.
	MeanMoves float64 `json:"mean_moves"`
}

// gapsOf lists a model's law of gaps, nil if it has none.
func gapsOf(law mobility.GapLaw) (rows []Gap) {
	for i, w := range law {
		g := Gap{From: 1<<i + 1, To: 2 << i, Chain: w.Chain, Anew: w.Anew}
		for part, moves := range mobility.GapMoves {
			g.Fewer += w.Moves[part]
			g.MeanMoves += float64(w.Moves[part] * float64(moves))
		}
		if g.Fewer > 0 {
			g.MeanMoves /= g.Fewer
		}
		rows = append(rows, g)
	}
	return rows
}

// steps names the gaps of a row.
func (g Gap) steps() string {
	if g.From == g.To {
		return fmt.Sprintf("%d steps", g.To)
	}
	return fmt.Sprintf("%d to %d steps", g.From, g.To)
}

// shares puts the row's numbers into words.
func (g Gap) shares() string {
	var parts []string
	add := func(share float64, format string, args ...any) {
		if share > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% ", 100*share)+fmt.Sprintf(format, args...))
		}
	}
	add(g.Chain, "a move a step")
	add(g.Fewer, "fewer moves (%.1f)", g.MeanMoves)
	add(g.Anew, "start over")
	return strings.Join(parts, ", ")
}

// gapLines are the lines of "model inspect" on the law of gaps.
func gapLines(rows []Gap) string {
	if len(rows) == 0 {
		return "gaps         none learned: a gap of so many steps is as many moves\n"
	}
	var b strings.Builder
	for i, g := range rows {
		name := ""
		if i == 0 {
			name = "gaps"
		}
		fmt.Fprintf(&b, "%-12s %-18s %s\n", name, g.steps(), g.shares())
	}
	fmt.Fprintf(&b, "%13sused only where every report leaves a record: not with \"between: "+
		"skip\",\n%13snor with a budget that suppresses\n", "", "")
	return b.String()
}

// gapsWord is the law of gaps in one line.
func gapsWord(law mobility.GapLaw) string {
	if len(law) == 0 {
		return "none"
	}
	var parts []string
	for _, g := range gapsOf(law) {
		parts = append(parts, g.steps()+": "+g.shares())
	}
	return strings.Join(parts, "; ")
}
