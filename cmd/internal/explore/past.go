package explore

import (
	"context"
	"math"
	"time"

	"github.com/geodither/geodither/cmd/internal/sanitize"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Past is what a user's records tell about each fix with later records taken in: the numbers of
// "smooth". Columns have a number for each fix from one on, null where nothing is published. A fix
// is done when the records have come that it waits for.
type Past struct {
	Total int `json:"total"` // as in Course
	From  int `json:"from"`
	Done  int `json:"done"`

	TimeMS []int64  `json:"time_ms"`
	X      []number `json:"x"` // the estimate, map kilometres
	Y      []number `json:"y"`
	OffKM  []number `json:"off_km"` // distance from the truth to the estimate
}

// pastOf is what a question about the past names.
type pastOf struct {
	courseOf
	lag int64 // steps; mechanism.SmoothAll: all that follows
}

// past is a Past, as far as somebody asked for. The holder of its turn may use it.
type past struct {
	Past
	growing
	fixes *User
	fed   int // fixes that were taken
	*watching
}

// watching is what a past needs until the last fix.
type watching struct {
	run      *sanitize.Course
	model    *mobility.Model
	observer *mechanism.Sanitizer
	state    mechanism.State
	longest  uint64 // gap after which the filter starts again, steps
	smoother *mechanism.Smoother
	block    mechanism.Block
	waits    []waiting
	closed   map[int64]mechanism.Smoothed // what is known of a moment that has closed
}

// waiting is a fix whose moment is open; -1: it has no record.
type waiting struct {
	fix    int
	moment int64
}

// pasts are answers about the past, by their questions.
type pasts = shelf[pastOf, *past]

// of returns what later records tell about a user's fixes, a kept answer if there is one.
func (q pastOf) of(t *Truth, kept *pasts) (*past, error) {
	return kept.get(q, func() (*past, int, error) {
		u, err := t.user(q.user)
		if err != nil {
			return nil, 0, err
		}
		run, err := t.run(q.settings)
		if err != nil {
			return nil, 0, err
		}
		// An observer draws nothing, so any key will do.
		observer, err := mechanism.NewSanitizer(t.model, noise.NewKeyed(noise.KeyFromSeed(0)),
			run.Options())
		if err != nil {
			return nil, 0, err
		}
		return &past{Past{Total: len(u.Fixes)}, newGrowing(), u, 0, &watching{
			run: run, model: t.model, observer: observer,
			longest:  run.Options().LongestGap(t.model),
			smoother: mechanism.NewSmoother(run.Options(), q.lag),
			closed:   map[int64]mechanism.Smoothed{},
		}}, t.model.Grid.Cells(), nil
	})
}

// part returns the fixes from one on that are done, maxRows at most, as course.part does.
func (p *past) part(ctx context.Context, from int, within time.Duration) (part *Past, err error) {
	err = p.grow(ctx, &p.fed, len(p.fixes.Fixes), within, p.next, func() {
		rows := p.Past
		rows.Done = len(p.X)
		rows.From = min(from, rows.Done)
		to := min(rows.From+maxRows, rows.Done)
		rows.TimeMS = rows.TimeMS[rows.From:to]
		for _, column := range []*[]number{&rows.X, &rows.Y, &rows.OffKM} {
			*column = (*column)[rows.From:to]
		}
		part = &rows
	})
	return part, err
}

// next takes one fix, and adds the rows of those whose moments have closed.
func (p *past) next(context.Context) error {
	fix := p.fixes.Fixes[p.fed]
	s, err := p.run.Next(fix)
	if err != nil {
		return err
	}
	p.TimeMS = append(p.TimeMS, fix.Timestamp)
	w := waiting{p.fed, -1}
	if s.Refused == "" && s.Outcome.Kind.Published() {
		seen := mechanism.Seen{
			Step: p.model.StepAt(fix.Timestamp), Kind: s.Outcome.Kind, Release: s.Outcome.Release,
		}
		linked := p.state.Started && uint64(seen.Step)-uint64(p.state.Step) <= p.longest
		if err := p.observer.Observe(&p.state, seen); err != nil {
			return err
		}
		w.moment = p.smoother.Note(&p.block, p.observer, &p.state, seen, linked, p.close)
	}
	p.waits = append(p.waits, w)
	last := p.fed+1 == len(p.fixes.Fixes)
	if last {
		p.smoother.Finish(&p.block, p.close)
	}
	p.addClosed()
	if last {
		p.watching = nil
	}
	return nil
}

// close keeps a moment that has closed. Its posterior is valid during the call alone.
func (p *past) close(s mechanism.Smoothed) { p.closed[s.Number] = s }

// addClosed adds the rows of fixes, in their order, up to the first one that waits.
func (p *past) addClosed() {
	n, last := 0, int64(-1)
	for _, w := range p.waits {
		x, y, off := math.NaN(), math.NaN(), math.NaN()
		if w.moment >= 0 {
			s, known := p.closed[w.moment]
			if !known {
				break
			}
			raw := p.fixes.Fixes[w.fix]
			x, y = s.Estimate.X, s.Estimate.Y
			off = s.Estimate.Distance(s.Grid.ToMap(raw.Latitude, raw.Longitude))
			last = w.moment
		}
		p.X, p.Y = append(p.X, number(x)), append(p.Y, number(y))
		p.OffKM = append(p.OffKM, number(off))
		n++
	}
	p.waits = append(p.waits[:0], p.waits[n:]...)
	for number := range p.closed {
		if number < last {
			delete(p.closed, number)
		}
	}
}
