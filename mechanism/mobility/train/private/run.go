package private

import (
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"

	"github.com/geodither/geodither/mechanism/parallel"
)

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
	return &training{
		trainer: t, options: o, calendar: calendar, secret: secret,
		pattern: newPattern(t.Grid(), calendar.Classes(), o.Radius),
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
	top := last.kernel(0)
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
		Initial: train.Initial(t.Grid(), popularity, top, t.Options().Uniform),
	}, nil
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
