package aggregate

import (
	"fmt"

	"github.com/geodither/geodither/mechanism/mobility"
)

// blindFilter computes where the model alone has a user, from the step at which the user's filter started. It is not pruned, so that no cell
// of a posterior lies where it says never.
type blindFilter struct {
	model     *mobility.Model
	predictor *mobility.Predictor
	known     map[blindKey]*mobility.Distribution // of users that started and stand together
	last      mobility.Distribution
}

type blindKey struct{ from, step int64 }

// maxBlind bounds what is kept for users that stand together.
const maxBlind = 64

func newBlindFilter(model *mobility.Model) blindFilter {
	return blindFilter{model: model, predictor: mobility.NewPredictor(model), known: map[blindKey]*mobility.Distribution{}}
}

// at returns the user's distribution at the last record, valid until the next call but one.
func (b *blindFilter) at(u *user) (*mobility.Distribution, error) {
	key := blindKey{u.origin, u.last}
	if d := b.known[key]; d != nil {
		return d, b.keep(u, d)
	}
	from, step := &b.last, u.blindStep
	if len(u.blind) == 0 || u.blindFrom != u.origin || u.blindStep > u.last {
		b.last.CopyFrom(&b.model.Initial)
		step = u.origin
	} else if _, err := b.last.DecodeBinary(u.blind); err != nil {
		return nil, fmt.Errorf("aggregate: %w", err)
	}
	d := new(mobility.Distribution)
	b.predictor.Predict(d, from, step, int(u.last-step))
	d.Round()
	if len(b.known) >= maxBlind {
		clear(b.known)
	}
	b.known[key] = d
	return d, b.keep(u, d)
}

// keep stores a distribution, to go on from at the user's next window.
func (b *blindFilter) keep(u *user, d *mobility.Distribution) error {
	if u.blindFrom == u.origin && u.blindStep == u.last && len(u.blind) > 0 {
		return nil
	}
	u.blind = d.AppendBinary(u.blind[:0])
	u.blindFrom, u.blindStep = u.origin, u.last
	return nil
}
