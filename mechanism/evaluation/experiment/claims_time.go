package experiment

import (
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/trial"
)

// promised is the paper's time for a release.
const promised = 300 * time.Millisecond

// timing is how long one trace's releases took, in rounded numbers.
type timing struct {
	N, Within           int
	MedianMS, SlowestMS float64
}

func timingPiece(d *study.Data) string { return "time/" + d.Name }

// timeReleases measures the first trace's.
func timeReleases(d *study.Data, o study.Options, tick study.Tick) (*timing, error) {
	t := &d.Traces[0]
	model, err := d.WithoutFold(t.Fold)
	if err != nil {
		return nil, err
	}
	s, err := mechanism.NewSanitizer(model, study.Keyed(o.Seed, 0),
		d.Release(study.PIM, o.Epsilon, o.Delta))
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	before := o.Clock()
	err = study.Releasing(s, t.Track(d.Grid, nil), func(*trial.Result) error {
		now := o.Clock()
		took = append(took, now-before)
		if err := tick(1); err != nil {
			return err
		}
		before = o.Clock()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return timingOf(took), nil
}

func timingOf(took []time.Duration) *timing {
	slices.Sort(took)
	t := &timing{N: len(took)}
	for _, d := range took {
		if d <= promised {
			t.Within++
		}
	}
	t.MedianMS, t.SlowestMS = roundUp(took[(len(took)-1)/2]), roundUp(took[len(took)-1])
	return t
}

// roundUp returns milliseconds, up to the next of 1, 2 and 5 times a power of ten: times are not
// known better.
func roundUp(d time.Duration) float64 {
	ms := float64(d) / float64(time.Millisecond)
	if ms <= .001 {
		return .001
	}
	ten := math.Pow(10, math.Floor(math.Log10(ms)))
	for _, digit := range []float64{1, 2, 5} {
		if ms <= digit*ten {
			return digit * ten
		}
	}
	return 10 * ten
}
