package audit

import (
	"math/rand/v2"

	"github.com/geodither/geodither/cmd/internal/pipeline"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/grid"
)

// surrogates tests that two cells with one surrogate have the same effect, byte for byte:
// one outside the location set and its surrogate, and two outside it. The fixes lie
// anywhere within their cells and have accuracies of their own. Where records carry the
// step alone, times within the step must not matter either.
func (w *walker) surrogates(f Fix, before []byte, cells []grid.Cell) error {
	g, check := w.settings.Model.Grid, &w.checks.places
	byMember := map[grid.Cell][]grid.Cell{}
	for range placesEach {
		c := grid.Cell(w.rng.IntN(g.Cells()))
		member := attack.NearestMember(g, cells, c)
		byMember[member] = append(byMember[member], c)
		same := append([]grid.Cell{member}, byMember[member]...)
		base, err := w.feed(placed(f, g, same[0], w.rng), before)
		if err != nil {
			return err
		}
		for _, cell := range same[1:] {
			effect, err := w.feed(w.anyTime(placed(f, g, cell, w.rng)), before)
			if err != nil {
				return err
			}
			check.Trials++
			if what := difference(base, effect); what != "" {
				check.fail("%s depends on more than the surrogate", what)
			}
		}
	}
	return nil
}

// placesEach is how many cells are compared with their surrogates at a time.
const placesEach = 3

// anyTime moves the times of a fix within their steps, where records do not carry them.
func (w *walker) anyTime(f Fix) Fix {
	if w.settings.Publish.Timestamp != pipeline.TimestampStep {
		return f
	}
	stepMS := w.settings.Model.Step.Milliseconds()
	within := w.rng.Int64N(stepMS)
	f.Timestamp += within - f.Timestamp%stepMS
	f.KafkaMS += within - f.KafkaMS%stepMS
	return f
}

// again feeds what an instance was fed to another one, which has seen nothing else.
type again struct {
	fix    Fix
	before []byte
	effect Effect
}

func (w *walker) retries(start Maker, kept []again, rng *rand.Rand) error {
	fresh, err := start(w.settings)
	if err != nil {
		return err
	}
	rng.Shuffle(len(kept), func(i, j int) { kept[i], kept[j] = kept[j], kept[i] })
	for _, k := range kept {
		effect, err := fresh.Feed(k.fix, k.before)
		if err != nil {
			return err
		}
		w.checks.fed++
		w.checks.retry.Trials++
		if what := difference(k.effect, effect); what != "" {
			w.checks.retry.fail("another instance changes %s", what)
		}
	}
	return nil
}
