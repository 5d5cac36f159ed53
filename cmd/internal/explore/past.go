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
	*hindsight
}

// hindsight takes in the records of one user fix by fix, and waits until later records have said
// what they say of earlier ones.
type hindsight struct {
	growing
	fixes *User
	fed   int // fixes that were taken
	*watching
}

// watching is what a hindsight needs until the last fix.
type watching struct {
	run      *sanitize.Course
	model    *mobility.Model
	observer *mechanism.Sanitizer
	state    mechanism.State
	longest  uint64 // gap after which the filter starts again, steps
	waits    []waiting
	closed   map[int64]func(fix int) // what is known of a moment that has closed
	// note takes in what the observer has observed last. It returns the number of its moment, which
	// grows, and finish closes all moments. Both fill closed.
	note   func(seen mechanism.Seen, linked bool) (moment int64)
	finish func()
	// taken is called for each fix, and nothing in the place of what is known of a fix of which
	// nothing is published.
	taken   func(timeMS int64, spent float64)
	nothing func(fix int)
}

// waiting is a fix whose moment is open; -1: it has no record.
type waiting struct {
	fix    int
	moment int64
}

// newHindsight starts to look back at what is released of a user.
func newHindsight(t *Truth, q courseOf) (*hindsight, error) {
	u, err := t.user(q.user)
	if err != nil {
		return nil, err
	}
	run, err := t.run(q.settings)
	if err != nil {
		return nil, err
	}
	// An observer draws nothing, so any key will do.
	observer, err := mechanism.NewSanitizer(t.model, noise.NewKeyed(noise.KeyFromSeed(0)),
		run.Options())
	return &hindsight{growing: newGrowing(), fixes: u, watching: &watching{
		run: run, model: t.model, observer: observer, longest: run.Options().LongestGap(t.model),
		closed: map[int64]func(int){},
	}}, err
}

// look computes more fixes, as grow does, and calls look.
func (h *hindsight) look(ctx context.Context, within time.Duration, look func()) error {
	return h.grow(ctx, &h.fed, len(h.fixes.Fixes), within, h.next, look)
}

// next takes one fix, and calls what waits.
func (h *hindsight) next(context.Context) error {
	fix := h.fixes.Fixes[h.fed]
	s, err := h.run.Next(fix)
	if err != nil {
		return err
	}
	h.taken(fix.Timestamp, h.run.State().EpsilonSpent)
	w := waiting{h.fed, -1}
	if s.Refused == "" && s.Outcome.Kind.Published() {
		seen := mechanism.Seen{
			Step: h.model.StepAt(fix.Timestamp), Kind: s.Outcome.Kind, Release: s.Outcome.Release,
		}
		linked := h.state.Started && uint64(seen.Step)-uint64(h.state.Step) <= h.longest
		if err := h.observer.Observe(&h.state, seen); err != nil {
			return err
		}
		w.moment = h.note(seen, linked)
	}
	h.waits = append(h.waits, w)
	last := h.fed+1 == len(h.fixes.Fixes)
	if last {
		h.finish()
	}
	h.tell()
	if last {
		h.watching = nil
	}
	return nil
}

// cut leaves of columns the fixes from one on that are done, maxRows at most. It returns the first.
func cut(from, done int, times *[]int64, columns ...*[]number) (first int) {
	first = min(from, done)
	to := min(first+maxRows, done)
	*times = (*times)[first:to]
	for _, column := range columns {
		*column = (*column)[first:to]
	}
	return first
}

// tell calls what is known of fixes, in their order, up to the first one that waits.
func (h *hindsight) tell() {
	n, last := 0, int64(-1)
	for _, w := range h.waits {
		known := h.nothing
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

// pasts are answers about the past, by their questions.
type pasts = shelf[pastOf, *past]

// of returns what is told of a user's past, a kept answer if there is one.
func (q pastOf) of(t *Truth, kept *pasts) (*past, error) {
	return kept.get(q, func() (*past, int, error) {
		h, err := newHindsight(t, q.courseOf)
		if err != nil {
			return nil, 0, err
		}
		p := &past{Past{Total: len(h.fixes.Fixes)}, h}
		smoother, block := mechanism.NewSmoother(h.run.Options(), q.lag), new(mechanism.Block)
		h.note = func(seen mechanism.Seen, linked bool) int64 {
			return smoother.Note(block, h.observer, &h.state, seen, linked, p.smoothed)
		}
		h.finish = func() { smoother.Finish(block, p.smoothed) }
		h.taken = func(timeMS int64, _ float64) { p.TimeMS = append(p.TimeMS, timeMS) }
		h.nothing = func(int) { p.add(math.NaN(), math.NaN(), math.NaN()) }
		return p, h.model.Grid.Cells(), nil
	})
}

// part returns the fixes from one on that are done, maxRows at most, as course.part does.
func (p *past) part(ctx context.Context, from int, within time.Duration) (part *Past, err error) {
	err = p.look(ctx, within, func() {
		rows := p.Past
		rows.Done = len(p.X)
		rows.From = cut(from, rows.Done, &rows.TimeMS, &rows.X, &rows.Y, &rows.OffKM)
		part = &rows
	})
	return part, err
}

// smoothed keeps the estimate of a moment for its fixes.
func (p *past) smoothed(s mechanism.Smoothed) {
	at := s.Estimate
	p.closed[s.Number] = func(fix int) {
		raw := p.fixes.Fixes[fix]
		p.add(at.X, at.Y, at.Distance(s.Grid.ToMap(raw.Latitude, raw.Longitude)))
	}
}

func (p *past) add(x, y, off float64) {
	p.X, p.Y = append(p.X, number(x)), append(p.Y, number(y))
	p.OffKM = append(p.OffKM, number(off))
}
