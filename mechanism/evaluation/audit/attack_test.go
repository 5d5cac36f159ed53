package audit

import (
	"sync"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestAttackDrawsAfresh looks at the words of every draw of the survey and the last test. If the
// last test drew those of the survey, the pair chosen for its luck would have its luck again, and
// the confidence would not hold.
func TestAttackDrawsAfresh(t *testing.T) {
	t.Parallel()
	m, o, situations := scouted(t, law.Lattice)
	const draws = 3 * chunk * surveyShare
	var mu sync.Mutex
	seen := make(map[uint64]int, draws)
	subject := broken{sampler: func(_ *Situation, _ mechanism.Options, right Sampler) Sampler {
		return func(src noise.Source, cell grid.Cell) grid.Point {
			word := src.Uint64()
			mu.Lock()
			seen[word]++
			mu.Unlock()
			return right(src, cell)
		}
	}}
	a := &auditor{
		subject: subject, model: m, release: o, situations: situations,
		options: Options{Draws: draws, Seed: 3, Workers: 2}.withDefaults(),
	}
	var r Report
	if err := a.attack(&r); err != nil {
		t.Fatal(err)
	}
	again := 0
	for _, times := range seen {
		again += times - 1
	}
	if again > 0 || len(seen) != draws {
		t.Errorf("%d of %d draws have words of another draw", again, len(seen)+again)
	}
}
