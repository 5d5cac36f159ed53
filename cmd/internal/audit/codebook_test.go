package audit

import (
	"fmt"
	"math"
	"testing"

	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// coded are the settings of the town under the codebook mechanism.
func coded(tb testing.TB) Settings {
	tb.Helper()
	s := townSettings(tb)
	s.Release.Mechanism = law.Codebook
	return s
}

// answer is one release from a codebook that is drawn by a fault in the place of the engine's.
type answer struct {
	*broken
	fix    Fix
	code   *attack.Codebook
	cell   grid.Cell
	vote   int // of the cell
	number uint64
	given  grid.Point // what the engine has drawn
	source noise.Source
}

// answered is drawn for codebooks: it plants another way to draw.
func answered(draw func(a *answer) grid.Point) func(Maker) Maker {
	return wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
		e, err := b.inner.Feed(f, before)
		if err != nil || e.Counts.Releases != 1 {
			return e, err
		}
		code, err := b.observer.code(before, b.step(f))
		if err != nil {
			return e, err
		}
		after := decodedState(e.State)
		a := &answer{
			broken: b, fix: f, code: code, cell: b.cell(f), number: after.Releases,
			given: after.Release,
		}
		a.vote = code.Vote(a.cell)
		a.source = b.stream(fmt.Append(nil, "a fault ", f.User, b.step(f), a.number, a.vote))
		z := draw(a)
		if z == after.Release {
			return e, nil
		}
		return b.republish(f, before, e, z)
	})
}

// draw draws a code point for a vote at an ε that is factor times the stated one.
func (a *answer) draw(vote int, factor float64) grid.Point {
	other := math.Exp(-factor * a.Release.Epsilon)
	u := noise.Uniform(a.source) * (1 + float64(a.code.Len()-1)*other)
	if u < 1 {
		return a.code.Place(vote)
	}
	rank := min(int((u-1)/other), a.code.Len()-2)
	if rank >= vote {
		rank++
	}
	return a.code.Place(rank)
}

// loud draws at another ε where a fault is planted.
func loud(factor float64, where func(a *answer) bool) func(Maker) Maker {
	return answered(func(a *answer) grid.Point {
		if where(a) {
			return a.draw(a.vote, factor)
		}
		return a.given
	})
}

// farthest returns the code point that is farthest from the own one, if it is a third one.
func (a *answer) farthest() (z grid.Point, ok bool) {
	ranks := a.code.Ranks(a.vote)
	return a.code.Place(ranks[len(ranks)-1]), len(ranks) > 2
}

func faultsOfCodebooks() []fault {
	everywhere := func(*answer) bool { return true }
	return []fault{
		{name: "T is that of ε × 1.2", plant: loud(1.2, everywhere)},
		{
			name:  "ε × 1.5 in every 16th step",
			plant: loud(1.5, func(a *answer) bool { return a.step(a.fix)%16 == 0 }), whole: true,
		},
		{
			name: "ε × 1.25 for cells outside the prior",
			plant: loud(1.25, func(a *answer) bool {
				return a.observer.lookout.Prior().At(a.cell) == 0
			}),
		},
		{name: "the farthest code point is never drawn", plant: answered(
			func(a *answer) grid.Point {
				z := a.given
				for far, ok := a.farthest(); ok && z == far; {
					z = a.draw(a.vote, 1)
				}
				return z
			},
		)},
		{name: "the index is off by one", plant: answered(func(a *answer) grid.Point {
			j, _ := a.code.Find(a.given)
			return a.code.Place((j + 1) % a.code.Len())
		})},
		{name: "every third cell votes for its second nearest code point", plant: answered(
			func(a *answer) grid.Point {
				if ranks := a.code.Ranks(a.vote); a.cell%3 == 0 && len(ranks) > 1 {
					return a.draw(ranks[1], 1)
				}
				return a.given
			},
		)},
		{name: "a fix votes from its place, not from its cell's centre", plant: answered(
			func(a *answer) grid.Point {
				g := a.Model.Grid
				at, best, least := g.ToMap(a.fix.Latitude, a.fix.Longitude), 0, math.Inf(1)
				for j := range a.code.Len() {
					if d := a.code.Place(j).Distance(at); d < least {
						best, least = j, d
					}
				}
				if best == a.vote {
					return a.given
				}
				return a.draw(best, 1)
			},
		)},
		{name: "a release lies a millionth of the way to the truth", plant: answered(
			func(a *answer) grid.Point {
				way := a.Model.Grid.Centre(a.cell).Sub(a.given)
				return grid.Point{X: a.given.X + 1e-6*way.X, Y: a.given.Y + 1e-6*way.Y}
			},
		)},
		{
			name: "an own code point's radius is 1 % larger",
			plant: wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
				e, err := b.inner.Feed(f, before)
				if err != nil || e.Counts.Releases != 1 {
					return e, err
				}
				code, err := b.observer.code(before, b.step(f))
				if decodedState(e.State).Release == code.Place(code.Vote(b.cell(f))) {
					b.record(&e, func(r *schemas.Sanitized) { r.RadiusM *= 1.01 })
				}
				return e, err
			}),
		},
		posteriorOnTruth,
		{name: "noise without the vote", plant: streams(func() func(t []byte) []byte {
			return func(t []byte) []byte { return t[:len(t)-1] }
		})},
		{name: "noise without the user", plant: answered(func(a *answer) grid.Point {
			a.source = a.stream(fmt.Append(nil, "no user", a.step(a.fix)))
			return a.draw(a.vote, 1)
		})},
		{
			name: "streams of 16 bits of seed", plant: seedOf(16), whole: true,
			missed: "an answer has two or three bits, so equal seeds of unrelated records " +
				"leave no trace; the streams are those of the lattice, where the audit finds this",
		},
	}
}
