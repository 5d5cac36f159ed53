package audit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
)

const (
	// drawsEach is the number of draws from one situation.
	drawsEach = 256
	// eachTwin is in how many draws two cells are compared that must have the same bytes.
	eachTwin = 4
	// eachSweep is in how many situations the sweep of all cells is made.
	eachSweep = 8
	// releasesOfUser ends a user's history, and so do quietSteps without a release.
	releasesOfUser = 24
	quietSteps     = 40
	// quietUsers without a release that tells places apart end an audit.
	quietUsers = 32
)

// duel is two instances of the service with one user each. The two users have the same id, the
// same history of releases and the same settings, with all rules of release: only the places of
// their next fixes differ. So everything but the release must be the same for both, to the last
// bit, and the release must not tell them apart by more than e^ε.
//
// The instances draw by the streams of the service, from transcripts that end with the number of
// the draw. So each draw has noise of its own, and both instances can be given the same noise.
type duel struct {
	settings  Settings
	sides     [2]Subject
	noise     *numbered
	sanitizer *mechanism.Sanitizer
	emission  *mechanism.Emission
	prior     mobility.Distribution // of the situation
	cells     []grid.Cell           // all cells of the map
	hours     *hours.Hours
	rng       *rand.Rand

	checks       checks
	situations   int
	left         int64 // draws
	hits, misses int64 // right and wrong guesses
	records      int64 // that were fed
}

// numbered are the key's streams with the number of a draw at the end of each transcript.
type numbered struct {
	keyed *noise.Keyed
	draw  uint64
}

// On implements noise.Streams.
func (n *numbered) On(day noise.Day, transcript []byte) (noise.Source, error) {
	return n.keyed.On(day, binary.BigEndian.AppendUint64(transcript, n.draw))
}

func newDuel(start Maker, s Settings, rng *rand.Rand, draws int64) (d *duel, err error) {
	d = &duel{
		noise: &numbered{keyed: noise.NewKeyed(s.Key)}, checks: newChecks(), rng: rng, left: draws,
		cells: make([]grid.Cell, s.Model.Grid.Cells()),
	}
	for i := range d.cells {
		d.cells[i] = grid.Cell(i)
	}
	s.Streams = d.noise
	d.settings = s
	for side := range d.sides {
		if d.sides[side], err = start(s); err != nil {
			return nil, err
		}
	}
	if d.sanitizer, err = mechanism.NewSanitizer(s.Model, d.noise, s.Release); err != nil {
		return nil, err
	}
	if d.emission, err = mechanism.NewEmission(s.Model.Grid, s.Release); err != nil {
		return nil, err
	}
	d.hours, err = hours.New(s.Release.Hours)
	return d, err
}

// run follows one user after the other until all draws are made.
func (d *duel) run(ctx context.Context) error {
	for user, quiet := 0, 0; d.left > 0; user++ {
		before := d.hits + d.misses
		if err := d.follow(ctx, fmt.Sprint("audit-duel-", user)); err != nil {
			return err
		}
		if quiet++; d.hits+d.misses > before {
			quiet = 0
		}
		if quiet == quietUsers {
			return errors.New("no release tells two places apart: set a larger release.epsilon, " +
				"a smaller release.delta, or train a model with smaller cells")
		}
	}
	return nil
}

// follow follows a user who moves by the model, and attacks each release. The steps are those of
// publicSchedule, with ever longer pauses where rules allow no release. The first steps lie before
// release.hours open.
func (d *duel) follow(ctx context.Context, user string) error {
	m := d.settings.Model
	walker, step := trial.NewWalker(m, d.rng), d.firstStep()
	stepMS := m.Step.Milliseconds()
	var state []byte
	for releases, quiet := 0, 0; releases < releasesOfUser && quiet < quietSteps && d.left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := publicSchedule(d.rng, &step, d.sanitizer.Options().MaxGap)
		f := fix(m.Grid, user, at*stepMS+d.rng.Int64N(stepMS), walker.Cell, d.rng)
		f.KafkaMS, f.Offset = f.Timestamp+d.rng.Int64N(stepMS), d.records
		effect, err := d.record(f, state)
		if err != nil {
			return err
		}
		quiet++
		if effect.Counts.Releases > 0 {
			releases, quiet = releases+1, 0
			if err := d.attack(f, state, at); err != nil {
				return err
			}
		}
		state = effect.State
		walker.Move(step)
		step += int64(1)<<(quiet/2) - 1
	}
	return nil
}

// firstStep returns the first step of a user: somewhere in ten years, shortly before releases may
// be drawn.
func (d *duel) firstStep() int64 {
	const someDay, day, years, week = 1_700_000_000_000, 24 * time.Hour, 3650, 7
	m := d.settings.Model
	step := m.StepAt(someDay + d.rng.Int64N(years*day.Milliseconds()))
	for range int64(week*day/m.Step) + 1 {
		if d.hours.Open(step * m.Step.Milliseconds()) {
			break
		}
		step++
	}
	return step - d.rng.Int64N(4)
}

// publicSchedule returns the step of the next fix: mostly the next step, but sometimes the same
// step, the one before, or one after a gap. It moves step to the latest.
func publicSchedule(rng *rand.Rand, step *int64, maxGap int) int64 {
	switch n := rng.IntN(32); {
	case n < 4:
		return *step
	case n < 6:
		return *step - 1
	case n < 9:
		*step += 2 + rng.Int64N(3)
	case n == 9:
		*step += int64(maxGap) + 3
	default:
		*step++
	}
	return *step
}

// feed gives one instance a fix, under the noise of a draw.
func (d *duel) feed(side int, draw uint64, f Fix, before []byte) (Effect, error) {
	d.noise.draw = draw
	d.records++
	return d.sides[side].Feed(f, before)
}

// anywhere returns a fix that differs from f in its place alone.
func (d *duel) anywhere(f Fix) Fix {
	g := d.settings.Model.Grid
	return placed(f, g, grid.Cell(d.rng.IntN(g.Cells())), d.rng)
}

// record feeds both instances one fix, the second one from another place. Whether a release is
// drawn must be the same for both, and without one all bytes must be. The history goes on from the
// first.
func (d *duel) record(f Fix, before []byte) (Effect, error) {
	first, err := d.feed(0, d.rng.Uint64(), f, before)
	if err != nil {
		return first, err
	}
	second, err := d.feed(1, d.rng.Uint64(), d.anywhere(f), before)
	if err != nil {
		return first, err
	}
	c := &d.checks.rules
	c.Trials++
	if first.Counts.Releases != second.Counts.Releases {
		c.fail("whether a release is drawn depends on the place")
	} else if what := difference(first, second); first.Counts.Releases == 0 && what != "" {
		c.fail("%s depends on the place without a release", what)
	}
	return first, nil
}

// attack draws releases of two places in one situation, which a coin chooses, and guesses from each
// release which of the two it was. All effects with the same release must be the same bytes.
func (d *duel) attack(f Fix, before []byte, step int64) error {
	if err := d.prepare(before, step); err != nil {
		return err
	}
	if d.situations++; d.situations%eachSweep == 1 {
		sweep(&d.checks.sweep, d.emission, d.cells, d.rng)
	}
	pair := d.pair()
	if pair[0] == pair[1] {
		return nil
	}
	seen := map[grid.Point]Effect{}
	for n := int64(0); n < drawsEach && d.left > 0; n, d.left = n+1, d.left-1 {
		if err := d.draw(f, before, pair, seen); err != nil {
			return err
		}
		if n%eachTwin == 0 {
			if err := d.twins(f, before); err != nil {
				return err
			}
		}
	}
	return nil
}

// draw draws one release, guesses, and compares the effect with the first one seen with the same
// release.
func (d *duel) draw(f Fix, before []byte, pair [2]grid.Cell, seen map[grid.Point]Effect) error {
	coin := d.rng.IntN(2)
	other := placed(f, d.settings.Model.Grid, pair[coin], d.rng)
	effect, err := d.feed(coin, d.rng.Uint64(), other, before)
	if err != nil {
		return err
	}
	if effect.Counts.Releases != 1 {
		d.checks.rules.fail("whether a release is drawn depends on the place")
		return nil
	}
	var after mechanism.State
	if err := after.DecodeBinary(effect.State); err != nil {
		return err
	}
	d.guess(pair, after.Release, coin)
	first, ok := seen[after.Release]
	if !ok {
		seen[after.Release] = effect
		return nil
	}
	d.checks.equal.Trials++
	if what := difference(first, effect); what != "" {
		d.checks.equal.fail("%s depends on the place beside equal releases", what)
	}
	return nil
}

// prepare prepares the law of the next release. It follows from public facts: from the prior of a
// report without a release.
func (d *duel) prepare(before []byte, step int64) error {
	var state mechanism.State
	if err := state.DecodeBinary(before); err != nil {
		return err
	}
	out, err := d.sanitizer.Step(&state, mechanism.Input{Step: step, Prior: true})
	if err != nil {
		return err
	}
	prior := out.Prior
	if prior == nil { // a further release of a step starts at the posterior of the one before
		prior = &state.Posterior
	}
	d.prior.CopyFrom(prior)
	d.emission.Prepare(&d.prior)
	return nil
}

// pair returns two cells, ascending, that a release can tell apart by the whole of e^ε: two cells
// with different votes, one of them of the prior, or two members of the location set on opposite
// sides of it. They are equal if nothing tells any two cells apart.
func (d *duel) pair() [2]grid.Cell {
	var a, b grid.Cell
	if q := d.emission.Codebook(); q != nil {
		a = d.prior.Cells[d.rng.IntN(d.prior.Len())]
		first := d.rng.IntN(len(d.cells))
		for b = a; first < 2*len(d.cells) && q.Vote(a) == q.Vote(b); first++ {
			b = d.cells[first%len(d.cells)]
		}
	} else {
		hull, set := corners(d.emission), d.emission.Set()
		normal, _ := edge(hull, d.rng.IntN(len(hull)))
		low, high := extremes(members(d.emission.Grid(), set), normal)
		a, b = set[low], set[high]
	}
	return [2]grid.Cell{min(a, b), max(a, b)}
}

// guess counts a guess of where a release comes from, which is made if it speaks for one of the two
// cells by the whole of ε.
func (d *duel) guess(pair [2]grid.Cell, z grid.Point, truth int) {
	likelihoods := d.emission.Likelihoods(z, pair[:])
	odds, guessed := math.Log(likelihoods[0]/likelihoods[1]), 0
	if math.Abs(odds) < d.settings.Release.Epsilon*(1-1e-6) {
		return
	}
	if odds < 0 {
		guessed = 1
	}
	if guessed == truth {
		d.hits++
	} else {
		d.misses++
	}
}

// twins compares two cells that are released as one: with the same vote, or the same surrogate.
// Under the same noise all bytes must be the same, wherever in the cells the fixes lie, with any
// accuracy, and if records carry only the step, at any time within it.
func (d *duel) twins(f Fix, before []byte) error {
	g := d.settings.Model.Grid
	x, y := grid.Cell(d.rng.IntN(g.Cells())), grid.Cell(0)
	for range 100 { // else the cell is its own twin, with a fix elsewhere in it
		if y = grid.Cell(d.rng.IntN(g.Cells())); d.together(x, y) {
			break
		}
		y = x
	}
	draw := d.rng.Uint64()
	one, err := d.feed(0, draw, placed(f, g, x, d.rng), before)
	if err != nil {
		return err
	}
	other, err := d.feed(1, draw, anyTime(d.settings, placed(f, g, y, d.rng), d.rng), before)
	d.checks.places.Trials++
	if what := difference(one, other); what != "" {
		d.checks.places.fail("%s depends on more than the vote or the surrogate", what)
	}
	return err
}

// anyTime moves the times of a fix within their steps if records do not carry the times.
func anyTime(s Settings, f Fix, rng *rand.Rand) Fix {
	if s.Publish.Timestamp != engine.TimestampStep {
		return f
	}
	stepMS := s.Model.Step.Milliseconds()
	within := rng.Int64N(stepMS)
	f.Timestamp += within - f.Timestamp%stepMS
	f.KafkaMS += within - f.KafkaMS%stepMS
	return f
}

// together says that two cells have the same vote or the same surrogate.
func (d *duel) together(x, y grid.Cell) bool {
	if q := d.emission.Codebook(); q != nil {
		return q.Vote(x) == q.Vote(y)
	}
	return d.emission.Surrogate(x) == d.emission.Surrogate(y)
}
