package audit

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

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

// answered is drawn where there is a codebook: the check of streams has none.
func answered(draw func(r *redraw) grid.Point) func(Maker) Maker {
	return drawn(func(r *redraw) grid.Point {
		if r.law.code == nil {
			return r.own
		}
		return draw(r)
	})
}

// answer draws a code point for a vote at an ε that is factor times the stated one.
func (r *redraw) answer(vote int, factor float64) grid.Point {
	other := math.Exp(-factor * r.Release.Epsilon)
	u := noise.Uniform(r.source) * (1 + float64(r.law.code.size()-1)*other)
	if u < 1 {
		return r.law.code.places[vote]
	}
	rank := min(int((u-1)/other), r.law.code.size()-2)
	if rank >= vote {
		rank++
	}
	return r.law.code.places[rank]
}

// loud draws at another ε where a fault is planted.
func loud(factor float64, where func(r *redraw) bool) func(Maker) Maker {
	return answered(func(r *redraw) grid.Point {
		if where(r) {
			return r.answer(r.vote, factor)
		}
		return r.own
	})
}

// farthest returns the code point that is farthest from the own one, if it is a third one.
func (r *redraw) farthest() (z grid.Point, ok bool) {
	ranks := r.law.code.ranks(r.vote)
	return r.law.code.places[ranks[len(ranks)-1]], len(ranks) > 2
}

func faultsOfCodebooks() []fault {
	everywhere := func(*redraw) bool { return true }
	return []fault{
		{name: "T is that of ε × 1.2", plant: loud(1.2, everywhere)},
		{
			name:  "ε × 1.5 in every 16th step",
			plant: loud(1.5, func(r *redraw) bool { return r.step(r.fix)%16 == 0 }),
			sizes: Sizes{Vehicles: 16, Steps: 512},
		},
		{
			name: "ε × 1.25 for cells outside the prior",
			plant: loud(1.25, func(r *redraw) bool {
				return r.law.drifts(r.cell)
			}),
		},
		{name: "the farthest code point is never drawn", plant: answered(
			func(r *redraw) grid.Point {
				z := r.own
				for far, ok := r.farthest(); ok && z == far; {
					z = r.answer(r.vote, 1)
				}
				return z
			},
		)},
		{name: "the index is off by one", plant: answered(func(r *redraw) grid.Point {
			j, _ := r.law.code.find(r.own)
			return r.law.code.places[(j+1)%r.law.code.size()]
		})},
		{name: "every third cell votes for its second nearest code point", plant: answered(
			func(r *redraw) grid.Point {
				if ranks := r.law.code.ranks(r.vote); r.cell%3 == 0 && len(ranks) > 1 {
					return r.answer(ranks[1], 1)
				}
				return r.own
			},
		)},
		{name: "a fix votes from its place, not from its cell's centre", plant: answered(
			func(r *redraw) grid.Point {
				g := r.Model.Grid
				at, best, least := g.ToMap(r.fix.Latitude, r.fix.Longitude), 0, math.Inf(1)
				for j := range r.law.code.size() {
					if d := r.law.code.places[j].Distance(at); d < least {
						best, least = j, d
					}
				}
				if best == r.vote {
					return r.own
				}
				return r.answer(best, 1)
			},
		)},
		{name: "a release lies a millionth of the way to the truth", plant: answered(
			func(r *redraw) grid.Point {
				way := r.Model.Grid.Centre(r.cell).Sub(r.own)
				return grid.Point{X: r.own.X + 1e-6*way.X, Y: r.own.Y + 1e-6*way.Y}
			},
		)},
		{
			name: "an own code point's radius is 1 % larger",
			plant: wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
				e, err := b.inner.Feed(f, before)
				if err != nil || e.Counts.Releases != 1 {
					return e, err
				}
				code := b.law(f, before).code
				if decodedState(e.State).Release == code.places[code.vote(b.cell(f))] {
					b.record(&e, func(r *schemas.Sanitized) { r.RadiusM *= 1.01 })
				}
				return e, err
			}),
		},
		posteriorOnTruth,
		{
			name: "noise without the vote", sizes: factSizes,
			plant: streams(func(_ *broken, _ Fix, _, t []byte) []byte { return t[:len(t)-1] }),
		},
		{name: "noise without the user", sizes: factSizes, plant: answered(
			func(r *redraw) grid.Point {
				r.source = r.stream(fmt.Append(nil, "no user", r.step(r.fix)))
				return r.answer(r.vote, 1)
			},
		)},
		{name: "streams of 16 bits of seed", plant: seedOf(16), sizes: streamSizes},
	}
}

// faultsFromAnother are of another attack. Other tests find what a probe misses.
func faultsFromAnother() []fault {
	return []fault{
		{
			name: "ids that differ in case share noise", sizes: factSizes, quick: true,
			plant: streams(func(_ *broken, f Fix, _, t []byte) []byte {
				return bytes.Replace(t, []byte(f.User), []byte(strings.ToLower(f.User)), 1)
			}),
		},
		{
			name: "the own vote in 3 % of releases", sizes: Sizes{Users: wholeDraws},
			plant: answered(func(r *redraw) grid.Point {
				if noise.Uniform(r.source) < .03 {
					return r.law.code.places[r.vote]
				}
				return r.own
			}),
		},
		{
			name: "3 % of the votes are for the second nearest code " +
				"point", sizes: Sizes{Users: wholeDraws},
			plant: answered(func(r *redraw) grid.Point {
				ranks := r.law.code.ranks(r.vote)
				if noise.Uniform(r.source) < .03 && len(ranks) > 1 {
					return r.answer(ranks[1], 1)
				}
				return r.own
			}),
			missed: "of 131,072 draws a probe finds the own vote in 3 % of releases, and " +
				"neither in 1 % nor this; TestCodebookLaw finds it",
		},
	}
}

// faultsFromOutside are the six that an attack from outside planted, and that were missed before.
func faultsFromOutside() []fault {
	own := func(where func(r *redraw) bool) func(Maker) Maker {
		return answered(func(r *redraw) grid.Point {
			if where(r) {
				return r.law.code.places[r.vote]
			}
			return r.own
		})
	}
	return []fault{
		{
			name: "the own vote after gaps of more than four steps", sizes: gapSizes,
			plant: own(func(r *redraw) bool { return r.gap() > 4 }), quick: true,
		},
		{
			name: "the own vote from 3 to 4 in the morning", sizes: crowdSizes,
			plant: own(func(r *redraw) bool {
				return time.UnixMilli(r.fix.Timestamp).UTC().Hour() == 3
			}),
		},
		{
			name: "the own vote for one user in 50", sizes: crowdSizes,
			plant: own(func(r *redraw) bool {
				return noise.NewKeyed(noise.KeyFromSeed(5)).Stream([]byte(r.fix.User)).
					Uint64()%50 == 0
			}),
		},
		{
			name: "ids are cut to 32 bytes in the transcript", sizes: factSizes, quick: true,
			plant: streams(func(_ *broken, f Fix, _, t []byte) []byte {
				return bytes.Replace(t, []byte(f.User), []byte(f.User[:min(len(f.User), 32)]), 1)
			}),
		},
		{
			name: "streams of 32 bits of seed", plant: seedOf(32),
			sizes: Sizes{Streams: wholeStreams},
		},
		{
			name: "one key for all days", sizes: Sizes{Users: 64}, quick: true,
			plant: keyed(func(k *noise.Keyed) noise.Streams { return oneDay{k} }),
		},
	}
}
