package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/trial"
)

// scout follows users who move through their releases, and keeps a few of the different situations
// that it meets, at random.
type scout struct {
	plan   *plan
	walker *walker
	states map[string][]byte // of the users
	seen   map[string]bool   // situations, by what determines the law
	kept   []situation
	visits int
}

// mostScouted bounds the situations that are kept.
const mostScouted = 4

func newScout(p *plan) (*scout, error) {
	s := p.settings
	s.Release = p.plain
	w, err := newWalker(p.start, s, p.rng("scout", 0))
	return &scout{
		plan: p, walker: w, states: map[string][]byte{}, seen: map[string]bool{},
	}, err
}

// visit takes one fix of a user. A late one and another one of the same step are left out; then
// fresh is false.
func (s *scout) visit(user string, step int64, cell grid.Cell) (fresh bool, err error) {
	w, m, before := s.walker, s.walker.settings.Model, s.states[user]
	var state mechanism.State
	if err := state.DecodeBinary(before); err != nil || state.Started && step <= state.Step {
		return false, err
	}
	if state.Started {
		if err := s.consider(before, step); err != nil {
			return false, err
		}
	}
	effect, err := w.feed(fix(m.Grid, user, step*m.Step.Milliseconds(), cell, w.rng), before)
	s.states[user] = effect.State
	s.visits++
	return true, err
}

// consider decides whether to keep the situation that comes with a step.
func (s *scout) consider(before []byte, step int64) error {
	law, err := s.walker.observer.law(before, step)
	if err != nil || !law.tells() || s.seen[lawFacts(law)] {
		return err
	}
	s.seen[lawFacts(law)] = true
	slot := len(s.kept)
	if slot < mostScouted {
		s.kept = append(s.kept, situation{})
	} else if slot = s.walker.rng.IntN(len(s.seen)); slot >= mostScouted {
		return nil
	}
	at := situation{
		name: fmt.Sprintf("met %d", slot+1), settings: s.walker.settings, state: before,
		step: step, scouted: true, users: s.plan.sizes.Shapes,
	}
	at.law, err = lawOf(&at)
	s.kept[slot] = at
	return err
}

// lawFacts is what determines the law.
func lawFacts(l *stated) string {
	if l.code != nil {
		return fmt.Sprint(l.code.points)
	}
	return fmt.Sprint(l.cells)
}

// mostOfAUser is how many steps of one user are followed: no user is to have all location sets.
const mostOfAUser = 200

// follow sends the fixes of traces past the scout.
func (s *scout) follow(ctx context.Context, reader *traces.Reader) error {
	m, seen := s.plan.settings.Model, map[string]int{}
	for fix, err := range reader.Fixes() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if seen[fix.UserID] == mostOfAUser {
			continue
		}
		cell := m.Grid.Locate(fix.Latitude, fix.Longitude)
		fresh, err := s.visit(fix.UserID, m.StepAt(fix.Timestamp), cell)
		if err != nil {
			return err
		}
		if fresh {
			seen[fix.UserID]++
		}
		if s.visits >= s.plan.sizes.Visits {
			break
		}
	}
	return nil
}

// simulate sends vehicles past the scout that move by the model, at times in which releases may be
// drawn.
func (s *scout) simulate(ctx context.Context) error {
	const vehicles = 20
	for v := range vehicles {
		walker := trial.NewWalker(s.plan.settings.Model, s.walker.rng)
		step := s.plan.moments(v).next()
		for range s.plan.sizes.Visits / vehicles {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := s.visit(userName("simulated", v), step, walker.Cell); err != nil {
				return err
			}
			walker.Move(step)
			step = s.plan.open(step + 1)
		}
	}
	return nil
}
