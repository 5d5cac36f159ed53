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

	TimeMS   []int64  `json:"time_ms"`
	X        []number `json:"x"` // the estimate, map kilometres
	Y        []number `json:"y"`
	RadiusKM []number `json:"radius_km"`
	OffKM    []number `json:"off_km"` // distance from the truth to the estimate
}

// pastOf is what a question about the past names.
type pastOf struct {
	courseOf
	lag int64 // steps; mechanism.SmoothAll: all that follows
}

// past computes a Past fix by fix, as far as somebody asked for. The holder of its turn may use it.
type past struct {
	Past
	growing
	fixes *User
	pastOf
	fed  int // fixes that were taken
	run  *sanitize.Course
	back *hindsight
}

// hindsight smooths the records of one user, as "smooth" does.
type hindsight struct {
	model    *mobility.Model
	smoother *mechanism.Smoother
	observer *mechanism.Sanitizer
	block    mechanism.Block
	state    mechanism.State
	waits    []waiting
	closed   map[int64]func(fix int) // what is known of a moment that has closed
	// smoothed keeps what it needs of a moment, and returns what to do for each of its fixes.
	smoothed func(mechanism.Smoothed) func(fix int)
}

// waiting is a fix whose moment is open; -1: it has no record.
type waiting struct {
	fix    int
	moment int64
}

func newHindsight(m *mobility.Model, o mechanism.Options, lag int64,
	smoothed func(mechanism.Smoothed) func(fix int),
) (*hindsight, error) {
	// An observer draws nothing, so any key will do.
	observer, err := mechanism.NewSanitizer(m, noise.NewKeyed(noise.KeyFromSeed(0)), o)
	if err != nil {
		return nil, err
	}
	return &hindsight{
		model: m, smoother: mechanism.NewSmoother(o, lag), observer: observer,
		closed: map[int64]func(int){}, smoothed: smoothed,
	}, nil
}

// see takes the next fix and what was published of it, and calls what waits.
func (h *hindsight) see(fix int, timeMS int64, out *mechanism.Outcome, none func(fix int)) error {
	w := waiting{fix, -1}
	if out != nil && out.Kind.Published() {
		seen := mechanism.Seen{
			Step: h.model.StepAt(timeMS), Kind: out.Kind, Release: out.Release,
		}
		var err error
		w.moment, err = h.smoother.Observe(&h.block, h.observer, &h.state, seen, h.close)
		if err != nil {
			return err
		}
	}
	h.waits = append(h.waits, w)
	h.tell(none)
	return nil
}

// finish closes all moments.
func (h *hindsight) finish(none func(fix int)) {
	h.smoother.Finish(&h.block, h.close)
	h.tell(none)
}

func (h *hindsight) close(s mechanism.Smoothed) { h.closed[s.Number] = h.smoothed(s) }

// tell calls what is known of fixes, in their order, up to the first one that waits.
func (h *hindsight) tell(none func(fix int)) {
	n, last := 0, int64(-1)
	for _, w := range h.waits {
		known := none
		if w.moment >= 0 {
			if known = h.closed[w.moment]; known == nil {
				break
			}
			last = w.moment
		}
		known(w.fix)
		n++
	}
	h.waits = append(h.waits[:0], h.waits[n:]...)
	for number := range h.closed {
		if number < last {
			delete(h.closed, number)
		}
	}
}

// pastsOf are answers about the past.
type pastsOf struct {
	truth *Truth
	kept  shelf[pastOf, *past]
}

func newPastsOf(truth *Truth) *pastsOf {
	return &pastsOf{truth, shelf[pastOf, *past]{least: 2, most: 4}}
}

// past returns what is told of a user's past, a kept answer if there is one.
func (k *pastsOf) past(q pastOf) (*past, error) {
	return k.kept.get(q, func() (*past, int, error) {
		u, err := k.truth.user(q.user)
		if err != nil {
			return nil, 0, err
		}
		run, model, err := k.truth.run(q.settings)
		if err != nil {
			return nil, 0, err
		}
		p := &past{growing: newGrowing(), fixes: u, pastOf: q, run: run}
		p.Total = len(u.Fixes)
		p.back, err = newHindsight(model, run.Options(), q.lag, p.smoothed)
		return p, model.Grid.Cells(), err
	})
}

// part returns the fixes from one on that are done, maxRows at most, as course.part does.
func (p *past) part(ctx context.Context, from int, within time.Duration) (part *Past, err error) {
	err = p.grow(ctx, &p.fed, p.Total, within, p.next, func() {
		rows := p.Past
		rows.Done = len(p.X)
		rows.From = min(from, rows.Done)
		to := min(from+maxRows, rows.Done)
		rows.TimeMS = rows.TimeMS[rows.From:to]
		for _, column := range []*[]number{&rows.X, &rows.Y, &rows.RadiusKM, &rows.OffKM} {
			*column = (*column)[rows.From:to]
		}
		part = &rows
	})
	return part, err
}

// next takes one fix.
func (p *past) next(context.Context) error {
	fix := p.fixes.Fixes[p.fed]
	step, err := p.run.Next(fix)
	if err != nil {
		return err
	}
	out := &step.Outcome
	if step.Refused != "" {
		out = nil
	}
	p.TimeMS = append(p.TimeMS, fix.Timestamp)
	if err := p.back.see(p.fed, fix.Timestamp, out, p.nothing); err != nil {
		return err
	}
	if p.fed+1 == p.Total {
		p.back.finish(p.nothing)
		p.run, p.back = nil, nil
	}
	return nil
}

// smoothed keeps the estimate of a moment for its fixes.
func (p *past) smoothed(s mechanism.Smoothed) func(fix int) {
	at, radius := s.Estimate, s.RadiusKM
	return func(fix int) {
		raw := p.fixes.Fixes[fix]
		p.add(at.X, at.Y, radius, at.Distance(s.Grid.ToMap(raw.Latitude, raw.Longitude)))
	}
}

// nothing is what is told of a fix of which nothing is published.
func (p *past) nothing(int) { p.add(math.NaN(), math.NaN(), math.NaN(), math.NaN()) }

func (p *past) add(x, y, radius, off float64) {
	p.X, p.Y = append(p.X, number(x)), append(p.Y, number(y))
	p.RadiusKM, p.OffKM = append(p.RadiusKM, number(radius)), append(p.OffKM, number(off))
}
