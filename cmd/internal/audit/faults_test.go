package audit

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// fault is one that is planted.
type fault struct {
	name  string
	plant func(Maker) Maker
	// missed says why a whole probe does not find it; empty means that it does.
	missed string
	// sizes are those of a small probe that finds it, or of the part of a whole one that comes
	// nearest to it.
	sizes Sizes
	// example means that a review named this fault.
	example bool
	group   string
	// settings are what it is planted under, with the rules of ruled.
	settings func(tb testing.TB) Settings
	// quick faults are planted in every run of the tests.
	quick bool
}

func example(f fault) fault {
	f.example = true
	return f
}

// faults are all that are planted: the table of mechanism/PROOFS.md has them in this order.
func faults() []fault {
	return slices.Concat(
		grouped("records", bytesSizes, townSettings, faultsOfRecords()),
		grouped("the border of the map", bytesSizes, townSettings, faultsOfBorder()),
		grouped("states", bytesSizes, townSettings, faultsOfStates()),
		grouped("rules", rulesSizes, townSettings, faultsOfRules()),
		grouped("the law of the noise", lawSizes, townSettings, faultsOfLaw()),
		grouped("location sets", lawSizes, townSettings, faultsOfSets()),
		grouped("streams", factSizes, townSettings, faultsOfStreams()),
		grouped("the codebook", codeSizes, coded, faultsOfCodebooks()),
		grouped("an attack from outside", codeSizes, coded, faultsFromOutside()),
		grouped("another attack", codeSizes, coded, faultsFromAnother()),
	)
}

// What is wrong in bytes shows in few records, another law in more. What the default sizes
// add is their power, so a fault that is found with these is found with them.
var (
	bytesSizes  = Sizes{Users: 64, Vehicles: 2, Steps: 64, RuleSteps: 8}
	rulesSizes  = Sizes{RuleSteps: 64}
	lawSizes    = Sizes{Users: 1 << 13, Shapes: 512}
	walkSizes   = Sizes{Vehicles: 16, Steps: 256}
	codeSizes   = Sizes{Users: 1 << 13, Vehicles: 2, Steps: 64}
	gapSizes    = Sizes{Vehicles: 8, Steps: 128}
	crowdSizes  = Sizes{Users: 1 << 15}
	factSizes   = Sizes{Facts: 512, Visits: 100}
	streamSizes = Sizes{Streams: 1 << 12}
)

func grouped(
	group string, sizes Sizes, settings func(testing.TB) Settings, all []fault,
) []fault {
	for i := range all {
		all[i].group = group
		if all[i].sizes == (Sizes{}) {
			all[i].sizes = sizes
		}
		all[i].settings = settings
	}
	return all
}

func faultsOfRecords() []fault {
	return []fault{
		example(fault{
			name: "the radius grows by 1 % on drift", plant: onDrift(func(b *broken, e *Effect) {
				b.record(e, func(r *schemas.Sanitized) { r.RadiusM *= 1.01 })
			}),
		}),
		{
			name: "the estimate moves a millionth of the way to the truth",
			plant: onTruth(func(b *broken, f Fix, e *Effect) {
				b.record(e, func(r *schemas.Sanitized) {
					r.Latitude += 1e-6 * (f.Latitude - r.Latitude)
				})
			}),
		},
		{name: "the record's ε doubles on drift", plant: onDrift(func(b *broken, e *Effect) {
			b.record(e, func(r *schemas.Sanitized) { r.Epsilon *= 2 })
		})},
		{name: "the record's δ is 0 on drift", plant: onDrift(func(b *broken, e *Effect) {
			b.record(e, func(r *schemas.Sanitized) { r.Delta = 0 })
		})},
		{
			name: "the last bit of the release's latitude is the parity of the cell",
			plant: onTruth(func(b *broken, f Fix, e *Effect) {
				b.record(e, func(r *schemas.Sanitized) {
					bits := math.Float64bits(r.ReleaseLatitude.Number)
					r.ReleaseLatitude.Number = math.Float64frombits(bits&^1 | uint64(b.cell(f)&1))
				})
			}),
		},
		{
			name: "the record keeps the exact time under timestamp: step",
			plant: onTruth(func(b *broken, f Fix, e *Effect) {
				b.record(e, func(r *schemas.Sanitized) { r.Timestamp = f.Timestamp })
			}),
		},
		{
			name: "Kafka's timestamp stays exact under timestamp: step",
			plant: onTruth(func(_ *broken, f Fix, e *Effect) {
				for i := range e.Records {
					e.Records[i].Timestamp = f.KafkaMS
				}
			}),
		},
		{
			name: "the Kafka key stays the user id under user: pseudonym",
			plant: onTruth(func(_ *broken, f Fix, e *Effect) {
				for i := range e.Records {
					e.Records[i].Key = []byte(f.User)
				}
			}),
		},
		{name: "the model id changes on drift", plant: onDrift(func(b *broken, e *Effect) {
			b.record(e, func(r *schemas.Sanitized) { r.ModelID = "0123456789abcdef" })
		})},
		{
			name:  "a record of drift is not published",
			plant: onDrift(func(_ *broken, e *Effect) { e.Records = nil }),
		},
		{name: "a record of drift is published twice", plant: onDrift(func(_ *broken, e *Effect) {
			e.Records = append(e.Records, e.Records...)
		})},
		{
			name: "a late fix's dead letter has the parity of its cell in its timestamp",
			plant: onTruth(func(b *broken, f Fix, e *Effect) {
				for i := range e.DeadLetters {
					e.DeadLetters[i].Timestamp += int64(b.cell(f) & 1)
				}
			}),
		},
		{
			name:  "a counter of set sizes counts drift too",
			plant: onDrift(func(_ *broken, e *Effect) { e.Counts.SetCells++ }),
		},
	}
}

// beyond is how many kilometres outside the map a fix lies.
func (b *broken) beyond(f Fix) float64 { return b.Model.Grid.Beyond(f.Latitude, f.Longitude) }

func faultsOfBorder() []fault {
	return []fault{
		{
			name: "a fix that is clamped has a radius 1 % larger",
			plant: onTruth(func(b *broken, f Fix, e *Effect) {
				if b.beyond(f) > 0 {
					b.record(e, func(r *schemas.Sanitized) { r.RadiusM *= 1.01 })
				}
			}),
		},
		{
			name: "a fix 10 km outside the map is not clamped but left out",
			plant: onTruth(func(b *broken, f Fix, e *Effect) {
				if b.beyond(f) > 10 {
					e.Records = nil
				}
			}),
		},
		{
			name: "a fix that is refused as outside the map moves the state's step",
			plant: onTruth(func(b *broken, f Fix, e *Effect) {
				if e.Counts.OutsideRefused > 0 && len(e.State) > 0 {
					b.state(e, func(s *mechanism.State) { s.Step = b.step(f) })
				}
			}),
		},
		{
			name: "the dead letter of a fix outside the map says how far",
			plant: onTruth(func(b *broken, f Fix, e *Effect) {
				if e.Counts.OutsideRefused > 0 {
					e.DeadLetters[0].Timestamp += int64(b.beyond(f))
				}
			}),
		},
	}
}

func faultsOfStates() []fault {
	return []fault{
		{
			name: "the state's radius is another float on drift",
			plant: onDrift(func(b *broken, e *Effect) {
				b.state(e, func(s *mechanism.State) { s.RadiusKM = math.Nextafter(s.RadiusKM, 0) })
			}),
		},
		posteriorOnTruth,
		{
			name: "a release of drift is not charged to the ledger",
			plant: wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
				e, err := b.inner.Feed(f, before)
				if err == nil && e.Counts.Releases == 1 && b.drift(f, before) {
					was := decodedState(before)
					b.state(&e, func(s *mechanism.State) {
						s.Ledger, s.EpsilonSpent, s.Rho = was.Ledger,
							was.EpsilonSpent, was.Rho
					})
				}
				return e, err
			}),
		},
		{
			name: "an instance remembers the last true cell, and the next radius shows it",
			plant: onTruth(func(b *broken, f Fix, e *Effect) {
				if b.moved(f) {
					b.record(e, func(r *schemas.Sanitized) { r.RadiusM *= 1.001 })
				}
			}),
		},
		{
			name: "the posterior is the paper's, cells emitting from themselves",
			plant: func(start Maker) Maker {
				return func(s Settings) (Subject, error) {
					s.Release.Inference = mechanism.InferencePaper
					return start(s)
				}
			},
		},
	}
}

// far says that the true cell is far from the state's estimate.
func far(b *broken, f Fix, before []byte) bool {
	s := decodedState(before)
	return s.Started &&
		s.Estimate.Distance(b.Model.Grid.Centre(b.cell(f))) > 3*b.Model.Grid.CellKM()
}

func movedSince(b *broken, f Fix, _ []byte) bool { return b.moved(f) }

func faultsOfRules() []fault {
	return []fault{
		{
			name:  "the release interval ends early where the user has moved",
			plant: otherRules(func(o *mechanism.Options) { o.ReleaseInterval = 1 }, movedSince),
		},
		{
			name:  "a fix far away is released beyond the budget",
			plant: otherRules(func(o *mechanism.Options) { o.Budget = mechanism.Budget{} }, far),
		},
		{
			name: "a further fix of a step draws afresh where the cell is another",
			plant: wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
				if s := decodedState(before); b.moved(f) && s.Started && s.Step == b.step(f) {
					s.Step, s.ReleaseStep = s.Step-1, s.ReleaseStep-1
					before = s.AppendBinary(nil)
				}
				return b.inner.Feed(f, before)
			}),
		},
		{
			name: "between releases it skips or predicts by the true cell",
			plant: otherRules(func(o *mechanism.Options) {
				if o.Between = mechanism.BetweenSkip; o.ReleaseInterval%2 == 0 {
					o.Between = mechanism.BetweenPredict
				}
			}, far),
		},
		{
			name: "a spent budget repeats where the user is far away",
			plant: otherRules(func(o *mechanism.Options) { o.Budget.Spent = mechanism.SpentRepeat },
				far),
		},
		{
			name: "a late fix from another cell is dropped in silence",
			plant: onTruth(func(b *broken, f Fix, e *Effect) {
				if e.Counts.Late > 0 && b.cell(f)%2 == 1 {
					e.DeadLetters = nil
				}
			}),
		},
	}
}

// stretched draws with another ε where a fault is planted, and infers as stated.
func stretched(factor float64, where func(r *redraw) bool) func(Maker) Maker {
	return drawn(func(r *redraw) grid.Point {
		if where(r) {
			return r.sample(r.cells, r.site, r.epsilon*factor)
		}
		return r.honest()
	})
}

// cut redraws what lies in the tail.
func cut(beyond float64) func(Maker) Maker {
	return drawn(func(r *redraw) grid.Point {
		k, z := r.hull(), r.honest()
		for r.epsilon*k.gauge(r.noise(z)) > beyond {
			z = r.again()
		}
		return z
	})
}

func every(n int64) func(r *redraw) bool {
	return func(r *redraw) bool { return r.step(r.fix)%n == 0 }
}

func faultsOfLaw() []fault {
	return []fault{
		example(fault{
			name: "ε × 1.5 in every 16th step", plant: stretched(1.5, every(16)), sizes: walkSizes,
		}),
		{
			name:  "ε × 1.5 in every 8th release",
			plant: stretched(1.5, func(r *redraw) bool { return r.number%8 == 0 }),
			sizes: walkSizes,
		},
		{name: "ε × 1.2 everywhere", plant: stretched(1.2, func(*redraw) bool { return true })},
		{
			name:  "ε × 1.25 on drift",
			plant: stretched(1.25, func(r *redraw) bool { return r.cell != r.site }),
		},
		{
			name:  "ε × 2 on lines",
			plant: stretched(2, func(r *redraw) bool { return r.hull().dim() == 1 }),
		},
		example(fault{
			name: "a tail that is cut at a norm of 8/ε (.3 % of releases)", plant: cut(8),
		}),
		{
			name: "a tail that is cut at a norm of 11/ε (.02 %)", plant: cut(11),
			sizes: Sizes{Users: wholeDraws},
		},
		{name: "the nearer of two draws", plant: drawn(func(r *redraw) grid.Point {
			first, second, k := r.honest(), r.again(), r.hull()
			if k.gauge(r.noise(second)) < k.gauge(r.noise(first)) {
				return second
			}
			return first
		})},
		{
			name: "directions uniform on K's perimeter", plant: drawn(perimeter),
			sizes: Sizes{Users: 1 << 13, Shapes: 2048},
		},
		{name: "lines get noise on one side only", plant: drawn(func(r *redraw) grid.Point {
			z := r.honest()
			if x, y := r.noise(z); r.hull().dim() == 1 {
				return r.at(math.Abs(x), math.Abs(y)*math.Copysign(1, x*y))
			}
			return z
		})},
		{
			name:  "noise in even steps goes with that of the step before",
			sizes: walkSizes,
			plant: drawn(func(r *redraw) grid.Point {
				r.source = r.stream(fmt.Append(nil, "pair", r.fix.User, (r.step(r.fix)+1)/2))
				return r.again()
			}),
		},
		{
			name: "ε × 1.5 in every 100th step", plant: stretched(1.5, every(100)),
			sizes: Sizes{Vehicles: 16, Steps: 512},
			missed: "periods are looked at up to 64, and an ε that is .3 % too large on the " +
				"whole is within the scatter of 8,000 releases",
		},
		{
			name: "a tail that is cut at a norm of 14/ε (.001 %)", plant: cut(14),
			sizes: Sizes{Users: wholeDraws},
			missed: "two of 131,072 releases should lie there, so none is no wonder; the proof " +
				"covers tails (Theorem 1), draws cannot",
		},
		{
			name: "half the noise for one user in a thousand",
			plant: stretched(2, func(r *redraw) bool {
				return noise.NewKeyed(noise.KeyFromSeed(5)).Stream([]byte(r.fix.User)).
					Uint64()%1000 == 0
			}), sizes: Sizes{Users: wholeDraws},
		},
	}
}

// perimeter draws the direction uniform on K's boundary by length, not by area.
func perimeter(r *redraw) grid.Point {
	k := r.hull()
	if k.dim() != 2 {
		return r.honest()
	}
	corners := k.corners
	length, lengths := 0.0, make([]float64, len(corners))
	for i, c := range corners {
		d := corners[(i+1)%len(corners)].Sub(c)
		lengths[i] = math.Hypot(float64(d.X), float64(d.Y))
		length += lengths[i]
	}
	at, i := length*noise.Uniform(r.source), 0
	for ; i < len(corners)-1 && at > lengths[i]; i++ {
		at -= lengths[i]
	}
	c, d := corners[i], corners[(i+1)%len(corners)]
	share, size := at/lengths[i], noise.Gamma(r.source, 2)/r.epsilon
	return r.at(size*(float64(c.X)+share*float64(d.X-c.X)),
		size*(float64(c.Y)+share*float64(d.Y-c.Y)))
}

func faultsOfSets() []fault {
	return []fault{
		{name: "a release is added up in kilometres", plant: drawn(func(r *redraw) grid.Point {
			return r.Model.Grid.Centre(r.site).Add(r.own.Sub(r.Model.Grid.Centre(r.site)))
		})},
		{name: "K of half the set", plant: drawn(func(r *redraw) grid.Point {
			return r.sample(r.cells[:(len(r.cells)+1)/2], r.site, r.epsilon)
		})},
		{name: "K without the padded cells", plant: drawn(func(r *redraw) grid.Point {
			bare := *r.broken
			bare.Release.MinCells = -1
			lookout, err := newObserver(bare.Settings)
			if err != nil {
				panic(err)
			}
			law, err := lookout.law(nil, r.step(r.fix))
			if err != nil || r.number > 1 {
				return r.honest()
			}
			return r.sample(law.cells, r.site, r.epsilon)
		})},
		{name: "K without its last corner", plant: drawn(func(r *redraw) grid.Point {
			if len(r.cells) < 4 {
				return r.honest()
			}
			return r.sample(r.cells[:len(r.cells)-1], r.site, r.epsilon)
		})},
		{name: "the true cell joins the location set", plant: drawn(func(r *redraw) grid.Point {
			return r.sample(r.cells, r.cell, r.epsilon)
		})},
		{
			name: "a cell beside the set is released as itself",
			plant: drawn(func(r *redraw) grid.Point {
				g := r.Model.Grid
				if r.cell != r.site &&
					g.Centre(r.cell).Distance(g.Centre(r.site)) < 1.1*g.CellKM() {
					return r.sample(r.cells, r.cell, r.epsilon)
				}
				return r.honest()
			}),
		},
		{
			name: "a single cell is released as the true one",
			plant: drawn(func(r *redraw) grid.Point {
				if len(r.cells) == 1 {
					return r.Model.Grid.Centre(r.cell)
				}
				return r.honest()
			}),
		},
	}
}

func faultsOfStreams() []fault {
	all := []fault{
		example(fault{
			name: "streams of 16 bits of seed", plant: seedOf(16), sizes: streamSizes, quick: true,
		}),
		{
			name: "streams of 26 bits of seed", plant: seedOf(26),
			sizes: Sizes{Streams: 1 << 16},
		},
		{
			name: "streams of 48 bits of seed", plant: seedOf(48),
			sizes: Sizes{Streams: wholeStreams},
			missed: "262,144 streams have a ten-thousandth of a collision; the key's streams " +
				"have 256 bits, and the code is short",
		},
		{
			name: "a retry draws afresh", sizes: bytesSizes,
			plant: func() func(Maker) Maker {
				return func(start Maker) Maker {
					tries := 0
					return streams(func(_ *broken, _ Fix, _, t []byte) []byte {
						tries++
						return fmt.Append(nil, "try ", tries, t)
					})(start)
				}
			}(),
		},
	}
	for _, name := range factNames {
		all = append(all, fault{name: "noise without the " + name, plant: without(name)})
	}
	return all
}

// posteriorOnTruth is planted under every mechanism.
var posteriorOnTruth = fault{
	name: "the posterior gives the true cell 1 % more",
	plant: onTruth(func(b *broken, f Fix, e *Effect) {
		b.state(e, func(s *mechanism.State) {
			for i, c := range s.Posterior.Cells {
				if c == b.cell(f) {
					s.Posterior.P[i] = float64(float32(s.Posterior.P[i] * 1.01))
				}
			}
		})
	}),
}
