package aggregate

import (
	"fmt"
	"sync"

	"github.com/geodither/geodither/mechanism/mobility"
)

// blindFilter computes where the model alone has a user, from the step at which the user's filter
// started. It is not pruned, so that no cell of a posterior lies where it has none.
type blindFilter struct {
	predictors map[*filter]*mobility.Predictor
	known      *blindCache
	last       mobility.Distribution
}

// blindCache has the distributions of users who started and reported together. Several filters use
// it.
type blindCache struct {
	mu    sync.Mutex
	known map[blindKey]*mobility.Distribution
}

// of returns a distribution, nil if it is not known. Nobody changes it.
func (c *blindCache) of(key blindKey) *mobility.Distribution {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[key]
}

func (c *blindCache) add(key blindKey, d *mobility.Distribution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxBlind {
		clear(c.known)
	}
	c.known[key] = d
}

// blindKey is all that such a distribution depends on.
type blindKey struct {
	from, step int64
	filter     *filter
	turns      string
}

// maxBlind bounds how many distributions are kept.
const maxBlind = 64

func newBlindFilter() blindFilter {
	return blindFilter{
		predictors: map[*filter]*mobility.Predictor{},
		known:      &blindCache{known: map[blindKey]*mobility.Distribution{}},
	}
}

// fork returns a filter for another goroutine, which shares what is known.
func (b *blindFilter) fork() blindFilter {
	return blindFilter{predictors: map[*filter]*mobility.Predictor{}, known: b.known}
}

// at returns the user's distribution at the last record, valid until the next call but one.
func (b *blindFilter) at(u *user) (*mobility.Distribution, error) {
	goesOn := len(u.alone) > 0 && u.aloneFrom == u.origin && u.aloneStep <= u.last
	if !goesOn {
		u.turns = ""
	}
	key := blindKey{u.origin, u.last, u.filter, u.turns}
	if d := b.known.of(key); d != nil && u.own == nil {
		return d, b.keep(u, d)
	}
	from, step := &b.last, u.aloneStep
	if !goesOn {
		b.initial(u)
		b.last.Round()
		step = u.origin
	} else if _, err := b.last.DecodeBinary(u.alone); err != nil {
		return nil, fmt.Errorf("aggregate: %w", err)
	}
	predictor := b.predictor(u.filter)
	predictor.Use(u.own)
	d := new(mobility.Distribution)
	d.CopyFrom(from)
	// Rounded in each step, it does not depend on the steps at which it was asked for before, so
	// not on the order of users' records.
	for ; step < u.last; step++ {
		predictor.Predict(d, d, step, 1)
		d.Round()
	}
	if u.own != nil {
		return d, b.keep(u, d) // it is nobody else's
	}
	b.known.add(key, d)
	return d, b.keep(u, d)
}

// turn takes the user's distribution up to the last record, from where it goes on under another
// model of the same map. Steps of reports without a record count under the new model.
func (b *blindFilter) turn(u *user) error {
	if _, err := b.at(u); err != nil {
		return err
	}
	u.turns += fmt.Sprintf("%s %s %d ", u.filter.model.ID(), idOf(u.own), u.last)
	return nil
}

// bridge takes the user's distribution over the gap before a record, by the law of gaps under which
// the service's filter does it too. Without a law the steps of the gap are those of the chain.
func (b *blindFilter) bridge(u *user, v *filter, own *mobility.Personal, step int64) error {
	gap := uint64(step) - uint64(u.last)
	if !v.byLaw || gap < 2 || gap > v.longest || !u.filter.sameMap(v) {
		return nil
	}
	d, err := b.at(u)
	if err != nil {
		return err
	}
	after := new(mobility.Distribution)
	predictor := b.predictor(v)
	predictor.Use(own)
	predictor.PredictGap(after, d, u.last, gap, 0)
	after.Round()
	u.turns += fmt.Sprintf("%d to %d ", u.last, step)
	u.alone, u.aloneStep, u.aloneFrom = after.AppendBinary(u.alone[:0]), step, u.origin
	return nil
}

// predictor returns the predictor of a model.
func (b *blindFilter) predictor(v *filter) *mobility.Predictor {
	p := b.predictors[v]
	if p == nil {
		p = mobility.NewPredictor(v.model)
		b.predictors[v] = p
	}
	return p
}

// initial sets b.last to where a user's model has the user start.
func (b *blindFilter) initial(u *user) {
	if u.own != nil {
		u.own.Initial(&b.last)
		return
	}
	b.last.CopyFrom(&u.filter.model.Initial)
}

// idOf names a user's own model, empty if there is none.
func idOf(own *mobility.Personal) string {
	if own == nil {
		return ""
	}
	return own.ID()
}

// keep stores a distribution, to go on from at the user's next window.
func (b *blindFilter) keep(u *user, d *mobility.Distribution) error {
	if u.aloneFrom == u.origin && u.aloneStep == u.last && len(u.alone) > 0 {
		return nil
	}
	u.alone = d.AppendBinary(u.alone[:0])
	u.aloneFrom, u.aloneStep = u.origin, u.last
	return nil
}
