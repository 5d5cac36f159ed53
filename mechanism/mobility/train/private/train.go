// Package private trains mobility models with differential privacy: a model tells little about any
// one user whose traces it was learned from. [Train] takes the fixes from a [train.Trainer].
//
// Everything random comes from one source that the caller gives; the rest is a function of the
// fixes and the options. PROOFS.md has the guarantee and its proof.
package private

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

// Options are the public parameters of private training. Choose them without looking at the traces,
// as well as the grid, the step and all options of training.
type Options struct {
	// Epsilon bounds what the whole model tells about any one user. It is a positive decimal number
	// with at most nine decimals, and it is taken as exactly that rational number.
	Epsilon string
	// Contribution is the largest number of transitions that count of each user. A larger number
	// uses more of the data of users who have as many, and the noise grows with it. Little is
	// gained beyond what most users have.
	Contribution int
	// Radius is how far a counted move may go, in cells. Longer moves are dropped. 0 means the
	// kernel radius of training.
	Radius int
}

// maxContribution keeps the sums of all users who fit into memory below saturation, and scales
// within a word.
const maxContribution = 1_000_000

// Validate returns an error for the first option that private training cannot use.
func (o Options) Validate() error {
	if _, _, err := parseEpsilon(o.Epsilon); err != nil {
		return err
	}
	switch {
	case o.Contribution < 1 || o.Contribution > maxContribution:
		return fmt.Errorf("private: the contribution is not 1 to %d; 100 is good", maxContribution)
	case o.Radius < 0 || o.Radius > train.MaxKernelRadius:
		return fmt.Errorf("private: the radius of counted moves is not 1 to %d",
			train.MaxKernelRadius)
	}
	return nil
}

// Train returns a differentially private model of all fixes added to the trainer. Whether any one
// user's traces are among them changes the probability of any set of models by at most the factor
// e^ε (PROOFS.md, private.Train).
//
// random must be secret and as good as uniform words. Train takes 256 bits from it, and the same
// bits give the same model. Anybody with these bits can take the noise off the model.
//
// The model has no law of gaps: a gap of so many steps is as many moves. Learning one would take
// another query of the traces, and a share of ε that the matrix needs more.
//
// At most Contribution transitions of each user count. They are counted exactly, in whole numbers,
// at several levels from the whole map to single pairs of cells. Each level spends a part of ε on
// exact discrete Laplace noise on every one of its counts, zeros included. The noisy counts of the
// first level decide how many levels there are: as many as have enough users to rise above the
// noise. Everything else, from the kernel to the initial distribution, is computed from noisy
// counts alone.
//
// The option UserCap is not used. The trainer must keep shared fixes. A trainer without a fix in
// the box is no error, since an error would tell about the traces: the model then consists of
// noise, and the report says why.
//
// The report is exact and not private: it is for those who may see the traces. The model's own
// provenance counts only the entries of its matrix, which are public. progress is told how much is
// done, in units of training's own, by one goroutine at a time, and its first error ends the
// training; nil reports nothing.
func Train(t *train.Trainer, o Options, random noise.Source,
	progress func(done, total int64) error,
) (*mobility.Model, mobility.Report, error) {
	counted, options := t.Seen(), t.Options()
	options.NoGapLaw = true // its weights would need a share of ε
	if err := o.Validate(); err != nil {
		return nil, counted, err
	}
	if !options.KeepShared {
		return nil, counted, errors.New("private: the trainer must have KeepShared")
	}
	if o.Radius == 0 {
		o.Radius = options.KernelRadius
	}
	if random == nil {
		return nil, counted, errors.New("private: training needs a source of random words")
	}
	run, err := newTraining(t, o, random, progress)
	if err != nil {
		return nil, counted, err
	}
	model, err := run.model()
	if err != nil {
		return nil, counted, err
	}
	model.Provenance = mobility.Provenance{
		Source: options.Source, Tool: options.Tool, Options: options.String(),
		Report: mobility.Report{MatrixEntries: int64(model.Transitions())},
		Privacy: &mobility.Privacy{
			Epsilon: o.Epsilon, Contribution: o.Contribution,
			Radius: o.Radius,
		},
	}
	counted.Transitions = run.transitions
	counted.MatrixEntries = model.Provenance.Report.MatrixEntries
	return model, counted, nil
}

// training is one run of private training.
type training struct {
	*pattern
	trainer     *train.Trainer
	options     Options
	calendar    mobility.Calendar
	secret      secrets
	work        parallel.Progress
	transitions int64 // within the radius, before some are chosen

	// Privacy rests on these two steps, [contribute] and [noisy]. They are fields so that a test
	// can plant faults in them and show that it notices.
	choose func(moves []move, contribution int, random noise.Source) []move
	draw   func(count int64, s scale, random noise.Source) float64
}

func newTraining(t *train.Trainer, o Options, random noise.Source,
	progress func(done, total int64) error,
) (*training, error) {
	secret, err := newSecrets(random)
	if err != nil {
		return nil, err
	}
	calendar := t.Options().Calendar
	pattern := newPattern(t.Grid(), calendar.Classes(), o.Radius)
	if err := t.CheckSize(int64(t.Grid().Cells() * len(pattern.offsets))); err != nil {
		return nil, err
	}
	return &training{
		trainer: t, options: o, calendar: calendar, secret: secret, pattern: pattern,
		work: parallel.Progress{
			Report: progress,
			Total:  t.Seen().Users + passes*int64(calendar.Classes()*t.Grid().Cells()),
		},
		choose: contribute,
		draw:   noisy,
	}, nil
}

// How ε is divided among the levels, and when a level is worth a part of it. The numbers were
// chosen once, on Geolife's users, and are the same for all data.
const (
	// budgetParts is the number of equal parts of ε. The first level gets one of them.
	budgetParts = 4
	// minUsersForLevels is the least number of users, in units of the scale of the first level's
	// noise, for which further levels get a part of ε. With fewer users it is better to spend all
	// of ε on the one kernel for the whole map.
	minUsersForLevels = 250
	// minUsersPerBlock is the same for an average block of a further level.
	minUsersPerBlock = 5
)

// scales returns the scale of the first level's noise, and the scale of each of n further levels,
// which share the rest of ε evenly. A scale is the contribution over the level's part of ε; the
// parts add up to ε.
func (p *training) scales(n int) (first, further scale) {
	num, den, _ := parseEpsilon(p.options.Epsilon) // validated
	size := uint64(p.options.Contribution) * den * budgetParts
	return scale{size, num}, scale{size * uint64(max(n, 1)), num * (budgetParts - 1)}
}

// depth returns how many levels after the first one are worth counting: levels by length and,
// beyond these, single cells. total is the first level's noisy number of moves. Both conditions ask
// how many users' whole contributions rise above the noise.
func (p *training) depth(levels []level, total float64) int {
	first, _ := p.scales(0)
	if total < float64(minUsersForLevels*first.value()) {
		return 0
	}
	for n := len(levels); n > 0; n-- {
		blocks := p.classes * p.grid.Cells()
		if n < len(levels) {
			blocks = levels[n].blocks()
		}
		_, further := p.scales(n)
		if total/float64(blocks) >= float64(minUsersPerBlock*further.value()) {
			return n
		}
	}
	return 0
}

// model counts, adds noise and estimates, level by level.
func (p *training) model() (*mobility.Model, error) {
	tallies, err := p.contributions()
	if err != nil {
		return nil, err
	}
	streams := p.secret.streams()
	levels := p.levels()
	whole := levels[0]
	scale, _ := p.scales(0)
	counts := p.noisyBlocks(whole, tallies, scale, streams.Stream(levelName(whole.side)))
	total := 0.0
	for _, n := range counts {
		total += n
	}
	n := p.depth(levels, total)
	_, further := p.scales(n)
	if n == 0 {
		// The rest of ε goes to the same counts again. The second noise has a third of the scale
		// of the first one, so the mean weighs it by the square, nine times. The law of the mean's
		// noise is close to the law of the second noise.
		again := p.noisyBlocks(whole, tallies, further, streams.Stream(levelName(-whole.side)))
		const weight = (budgetParts - 1) * (budgetParts - 1)
		for i := range counts {
			counts[i] = (counts[i] + float64(weight*again[i])) / (1 + weight)
		}
		scale = further
	}
	last := whole.first(counts, scale)
	top := last
	for _, l := range levels[1:min(1+n, len(levels))] {
		counts := p.noisyBlocks(l, tallies, further, streams.Stream(levelName(l.side)))
		last = l.next(last, counts, further, p.trainer.Options().Backoff)
	}
	var cells *cellCounts
	if n == len(levels) {
		cells = &cellCounts{tallies: tallies, scale: further}
	}
	matrices, popularity, err := p.rows(last, cells)
	if err != nil {
		return nil, err
	}
	t := p.trainer
	return &mobility.Model{
		Grid: t.Grid(), Step: t.Step(), Calendar: p.calendar, Matrices: matrices,
		Jumps:   p.jumps(),
		Initial: train.Initial(t.Grid(), top.moved(popularity), t.Options().Uniform),
	}, nil
}

// jumps returns those of the model, which the options determine.
func (p *training) jumps() mobility.Jumps {
	return train.JumpsOf(p.radius, p.trainer.Options().Jumps)
}

// contributions chooses the moves that count of each user.
func (p *training) contributions() ([]tally, error) {
	streams := p.secret.streams()
	var chosen, own []move
	user := ""
	finish := func() {
		p.transitions += int64(len(own))
		random := streams.Stream(userName(user))
		chosen = append(chosen, p.choose(own, p.options.Contribution, random)...)
		own = own[:0]
	}
	stepMS := p.trainer.Step().Milliseconds()
	for track := range p.trainer.Tracks(nil) {
		if track.User != user {
			finish()
			user = track.User
			if err := p.work.Add(1); err != nil {
				return nil, err
			}
		}
		for i := 1; i < len(track.Cells); i++ {
			class := p.calendar.ClassAt(track.Steps[i-1] * stepMS)
			m := move{class, track.Cells[i-1], track.Cells[i]}
			if _, ok := p.ringOf(train.Displacement(p.grid, m.from, m.to)); ok {
				own = append(own, m)
			}
		}
	}
	finish()
	return tallied(chosen), nil
}

// noisyBlocks returns the noisy counts of a level, for every block and ring.
func (p *training) noisyBlocks(l level, tallies []tally, s scale, random noise.Source) []float64 {
	counts := l.count(tallies)
	result := make([]float64, len(counts))
	for i, n := range counts {
		result[i] = p.draw(n, s, random)
	}
	return result
}

// scale is the scale of a discrete Laplace law: the rational number num/den.
type scale struct{ num, den uint64 }

func (s scale) value() float64 { return float64(s.num) / float64(s.den) }

// variance returns the variance of the law: 2q/(1-q)² with q = exp(-den/num).
func (s scale) variance() float64 {
	q := math.Exp(-float64(s.den) / float64(s.num))
	return 2 * q / float64((1-q)*(1-q))
}

// saturation is the largest noisy count. It is far beyond any count that occurs, and whole numbers
// up to it are exact in float64.
const saturation = 1 << 53

// noisy returns the count plus an exact discrete Laplace draw, limited to ±saturation.
//
// Guarantee: for counts in [0, saturation] the result is the sum, saturated. It is a function of
// the sum alone. A draw of two words exceeds twice the saturation, so whatever the count is, the
// sum lies beyond the saturation on the draw's side.
func noisy(count int64, s scale, random noise.Source) float64 {
	size, negative := noise.DiscreteLaplace(random, s.num, s.den)
	drawn := int64(2 * saturation)
	if size.Hi == 0 && size.Lo < 2*saturation {
		drawn = int64(size.Lo)
	}
	if negative {
		drawn = -drawn
	}
	return float64(min(max(count+drawn, -saturation), saturation))
}

// secrets hands out streams of random words for the parts of one training run. A part's stream
// depends on the secret and on the part's name only. So the model depends neither on the order of
// the work nor on the number of cores.
type secrets struct{ key noise.Key }

// newSecrets takes 256 bits from a source.
func newSecrets(random noise.Source) (secrets, error) {
	var words []byte
	for range noise.KeySize / 8 {
		words = binary.LittleEndian.AppendUint64(words, random.Uint64())
	}
	key, err := noise.ParseKey(hex.EncodeToString(words))
	return secrets{key}, err
}

// streams returns the family of streams, for one goroutine.
func (s secrets) streams() *noise.Keyed { return noise.NewKeyed(s.key) }

// userName, levelName and rowName keep the streams of users and of noise apart.
func userName(user string) []byte {
	return append([]byte("geodither private training, moves of "), user...)
}

func levelName(side int) []byte {
	return fmt.Appendf(nil, "geodither private training: noise of blocks of %d", side)
}

// move is one transition that counts, and the calendar's class of its time.
type move struct {
	class    int
	from, to grid.Cell
}

func (m move) compare(n move) int {
	return cmp.Or(cmp.Compare(m.class, n.class), cmp.Compare(m.from, n.from),
		cmp.Compare(m.to, n.to))
}

// tally is how often a move counts, over all users.
type tally struct {
	move
	n int64
}

// contribute returns the moves of one user that count: at most contribution of them, in no
// particular order. moves are all of the user's moves within the radius; they are sorted in place.
// The choice depends on these and on a secret random source of the user's own, so no user's choice
// depends on who else is there.
//
// Each move has the same chance. The moves kept are evenly spaced in the order of classes and
// cells, so every part of the map and every kind of move has its share of them, to within one. The
// alternative, the same number of moves for each cell, would fill up with short visits and
// underrate staying: for Geolife's users it cost 0.1 to 0.2 of the logarithm of a step's
// likelihood.
func contribute(moves []move, contribution int, random noise.Source) []move {
	slices.SortFunc(moves, move.compare)
	return thin(moves, contribution, random)
}

// thin keeps n of the moves, evenly spaced from a random start, or all if there are no more than n.
// It works in place.
func thin(moves []move, n int, random noise.Source) []move {
	if len(moves) <= n {
		return moves
	}
	// A move is kept where a multiple of n, plus the random start, passes a multiple of len(moves).
	at := noise.Below(random, uint64(len(moves)))
	kept := moves[:0]
	for _, m := range moves {
		if at += uint64(n); at >= uint64(len(moves)) {
			at -= uint64(len(moves))
			kept = append(kept, m)
		}
	}
	return kept
}

// tallied counts equal moves and returns them in ascending order.
func tallied(moves []move) []tally {
	slices.SortFunc(moves, move.compare)
	var list []tally
	for i, m := range moves {
		if i == 0 || moves[i-1] != m {
			list = append(list, tally{move: m})
		}
		list[len(list)-1].n++
	}
	return list
}
