package trial

import (
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Past is what the records of tracks show of the past: to a reader who smooths them, with several
// lags. It observes what is published, as any reader can, and knows the places beside. Each report
// of a track must leave a record. It belongs to one goroutine.
type Past struct {
	sanitizer *mechanism.Sanitizer // which draws nothing
	longest   uint64
	state     mechanism.State
	lanes     []pastLane
	places    []grid.Point // of the reports of the track
}

// pastLane is a track smoothed with one lag.
type pastLane struct {
	smoother  *mechanism.Smoother
	block     mechanism.Block
	moments   []int64      // of each report
	estimates []grid.Point // of each moment
	km        []float64
}

// NewPast returns a Past for tracks under the model and the options, with lags as
// mechanism.NewSmoother takes them.
func NewPast(m *mobility.Model, o mechanism.Options, lags ...int64) (*Past, error) {
	s, err := mechanism.NewSanitizer(m, noise.NewKeyed(noise.KeyFromSeed(0)), o)
	if err != nil {
		return nil, err
	}
	p := &Past{
		sanitizer: s, longest: o.LongestGap(m),
		lanes: make([]pastLane, len(lags)),
	}
	for i, lag := range lags {
		p.lanes[i].smoother = mechanism.NewSmoother(o, lag)
	}
	return p, nil
}

// Add takes the next result of a track.
func (p *Past) Add(r *Result) error {
	seen := mechanism.Seen{Step: r.Step, Kind: r.Outcome.Kind, Release: r.Outcome.Release}
	linked := p.state.Started && uint64(r.Step)-uint64(p.state.Step) <= p.longest
	if err := p.sanitizer.Observe(&p.state, seen); err != nil {
		return err
	}
	p.places = append(p.places, r.Place)
	for i := range p.lanes {
		l := &p.lanes[i]
		l.moments = append(l.moments,
			l.smoother.Note(&l.block, p.sanitizer, &p.state, seen, linked, l.close))
	}
	return nil
}

// End ends a track. Past is ready for the next one then. For each lag it returns how far the
// smoothed estimates are from the places, in kilometres, report by report. They are valid until
// the next End.
func (p *Past) End() (km [][]float64) {
	for i := range p.lanes {
		l := &p.lanes[i]
		l.smoother.Finish(&l.block, l.close)
		l.km = l.km[:0]
		for j, moment := range l.moments {
			l.km = append(l.km, l.estimates[moment].Distance(p.places[j]))
		}
		l.moments, l.estimates = l.moments[:0], l.estimates[:0]
		l.block.Reset()
		km = append(km, l.km)
	}
	p.state, p.places = restarted(p.state), p.places[:0]
	return km
}

func (l *pastLane) close(m mechanism.Smoothed) {
	for int64(len(l.estimates)) <= m.Number {
		l.estimates = append(l.estimates, grid.Point{})
	}
	l.estimates[m.Number] = m.Estimate
}
