package sanitize

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

// Past is what the records of a run show of the past: to "geodither smooth", and to every reader
// who does the same. Errors are over the same records as those of the estimate, in metres.
type Past struct {
	Interval expect.Errors `json:"smoothed_interval_m"` // with a lag of one release interval
	All      expect.Errors `json:"smoothed_all_m"`      // with all records taken in
	// Unsmoothed of the records cannot be followed, and keep their estimate.
	Unsmoothed int64 `json:"unsmoothed"`

	lag string // of Interval
}

// pastUser is what is kept of a user until all records are there.
type pastUser struct {
	id      string // in the records
	records []keptRecord
}

// keptRecord is what is kept of a record until all of its user's are there: some 120 bytes.
type keptRecord struct {
	kind, model         string
	step, number        int64
	latitude, longitude float64
	release             [2]float64 // degrees
	truth               [2]float64 // degrees; secret
	filterKM            float64    // distance of the estimate to the truth
	hasRelease          bool
}

// published is the record as it was published.
func (k *keptRecord) published(user string, o *mechanism.Options) schemas.Sanitized {
	s := schemas.Sanitized{
		UserID: user, Latitude: k.latitude, Longitude: k.longitude, Kind: k.kind,
		Delta: o.Delta, Mechanism: o.Mechanism, ModelID: k.model, Step: k.step, Release: k.number,
	}
	if k.hasRelease {
		s.ReleaseLatitude = schemas.Some(k.release[0])
		s.ReleaseLongitude = schemas.Some(k.release[1])
	}
	if k.kind == schemas.KindReleased {
		s.Epsilon = o.Epsilon
	}
	return s
}

// lookBack measures what the records of users show of the past, as "geodither smooth" computes it.
// Cost: a filter and a smoother for each of two lags.
func lookBack(
	ctx context.Context, models follow.Models, o *mechanism.Options, users []*pastUser,
	progress *cli.Progress,
) (*Past, error) {
	slices.SortFunc(users, func(a, b *pastUser) int { return cmp.Compare(a.id, b.id) })
	interval := int64(max(o.ReleaseInterval, 1))
	past := &Past{lag: cli.Duration(models[0].Step * time.Duration(interval))}
	var one, all trial.Distances
	for _, pass := range []struct {
		lag int64
		to  *trial.Distances
	}{{interval, &one}, {mechanism.SmoothAll, &all}} {
		counts, err := smooth(ctx, users, follow.Options{
			Public:   follow.Public{Models: models, Release: *o},
			LagSteps: pass.lag, Workers: runtime.GOMAXPROCS(0),
		}, pass.to, progress)
		if err != nil {
			return nil, err
		}
		if pass.lag == interval {
			for _, n := range counts.Unfollowed {
				past.Unsmoothed += n
			}
		}
	}
	past.Interval, past.All = expect.ErrorsOf(&one), expect.ErrorsOf(&all)
	return past, nil
}

// smooth smooths the records of users, one user after another, so that no more blocks are open than
// there are workers. It adds the distance of each record to the truth.
func smooth(
	ctx context.Context, users []*pastUser, o follow.Options, to *trial.Distances,
	progress *cli.Progress,
) (c follow.Counts, err error) {
	if len(users) == 0 {
		return c, nil
	}
	each := func(k *keptRecord, past *follow.Past, _ follow.Unfollowed) error {
		km := k.filterKM
		if past != nil {
			km = past.Estimate.Distance(past.Grid.ToMap(k.truth[0], k.truth[1]))
		}
		to.Add(km)
		return nil
	}
	smoothing, err := follow.NewReader(o, follow.PastOf, each)
	if err != nil {
		return c, err
	}
	defer smoothing.Close()
	done := int64(0)
	for _, u := range users {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		for i := range u.records {
			k := &u.records[i]
			record := engine.Published(k.published(u.id, &o.Public.Release), "")
			if err := smoothing.Add(record, k); err != nil {
				return c, err
			}
			if done++; done%1024 == 0 {
				progress.Show(done)
			}
		}
		if err := smoothing.End(u.id); err != nil {
			return c, err
		}
	}
	err = smoothing.Finish()
	return smoothing.Counts(), err
}
