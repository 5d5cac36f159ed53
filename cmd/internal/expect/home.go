package expect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

// Home says what the releases of some nights tell about where somebody sleeps.
type Home struct {
	Nights    int     `json:"nights"`
	MedianM   float64 `json:"median_m"`  // distance from the adversary's estimate to the home
	Posterior float64 `json:"posterior"` // mean probability that the home's own cell is given
	Releases  float64 `json:"releases"`  // mean number of those that were used
}

// Nights are the numbers of nights after which Homes looks at the adversary.
var Nights = []int{1, 7, 30, 90}

// The habit, in hours of the local time, and the time before and after it that is simulated too.
const (
	bedHour, riseHour = 21, 6
	besideHours       = 1
	homeUsers         = 24
)

// Homes simulates users with a habit, whom the adversary knows to have it, and says how well the
// releases give their homes away. A user's home is a cell of the model's initial distribution. The
// user is there every night from 21 to 6 h, comes and leaves by the model's moves, and reports in
// each step from 20 to 7 h. At other times the user does not report, so that the budget is unspent
// in the evening. The clock is that of the first zone of the hours, else that of the model's
// calendar, and the first night that of a Monday in January.
//
// The adversary knows habit, model and options, and starts at the initial distribution. It
// multiplies the likelihoods of the home given each release of the night, and of the hour before
// and after it, in which the user may have moved by the model. Its estimate is the place of least
// expected distance.
//
// Only Tracks, which is 24 by default, Seed and Progress of e count; progress is in nights. The
// result depends on the arguments alone. A night of a user takes 80 ms of one processor on a map of
// a thousand cells with steps of 30 s; all processors are used.
func Homes(ctx context.Context, model *mobility.Model, release mechanism.Options, nights []int,
	e Options,
) ([]Home, error) {
	users := e.Tracks
	if users == 0 {
		users = homeUsers
	}
	zone := time.FixedZone("", int(model.Calendar.UTCOffset/time.Second))
	if len(release.Hours) > 0 {
		var err error
		if zone, err = hours.Zone(release.Hours[0].Zone); err != nil {
			return nil, err
		}
	}
	var done atomic.Int64
	all := int64(users) * int64(nights[len(nights)-1])
	guesses := make([][]guess, users)
	pool := parallel.Pool{Workers: runtime.GOMAXPROCS(0)}
	err := pool.Each(users, func(user int) error {
		s, err := newSleeper(model, release, zone, e.Seed, user)
		if err != nil {
			return err
		}
		guesses[user], err = s.live(nights, func() error {
			n := done.Add(1)
			if e.Progress != nil && user == 0 {
				return errors.Join(ctx.Err(), e.Progress(n, all))
			}
			return ctx.Err()
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return homesOf(guesses, nights), nil
}

func homesOf(guesses [][]guess, nights []int) (homes []Home) {
	for i, n := range nights {
		h, errors := Home{Nights: n}, make([]float64, 0, len(guesses))
		for _, of := range guesses {
			errors = append(errors, 1000*of[i].errorKM)
			h.Posterior += of[i].posterior
			h.Releases += float64(of[i].releases)
		}
		h.Posterior /= float64(len(guesses))
		h.Releases /= float64(len(guesses))
		slices.Sort(errors)
		middle := len(errors) / 2
		h.MedianM = (errors[middle] + errors[(len(errors)-1)/2]) / 2
		homes = append(homes, h)
	}
	return homes
}

// guess is what the adversary thinks of one home.
type guess struct {
	errorKM, posterior float64
	releases           int
}

// sleeper is a simulated user, and what the adversary has found out.
type sleeper struct {
	model     *mobility.Model
	zone      *time.Location
	rng       *rand.Rand
	sanitizer *mechanism.Sanitizer
	emission  *mechanism.Emission
	state     mechanism.State
	user      string
	home      grid.Cell
	cells     []grid.Cell // all of the map
	belief    []float64   // ln of each cell's probability to be the home, up to a constant
	releases  int
	beside    map[int64][]float64 // likelihoods of the places in steps before and after the habit
	back, now []float64
}

func newSleeper(model *mobility.Model, release mechanism.Options, zone *time.Location,
	seed uint64, number int,
) (*sleeper, error) {
	sanitizer, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(seed)),
		release)
	if err != nil {
		return nil, err
	}
	emission, err := mechanism.NewEmission(model.Grid, release)
	if err != nil {
		return nil, err
	}
	n := model.Grid.Cells()
	s := &sleeper{
		model: model, zone: zone, sanitizer: sanitizer, emission: emission,
		// an arbitrary word, which keeps the stream apart from those of other simulations
		rng:  rand.New(rand.NewPCG(seed, 0x686f6d6573<<20+uint64(number))),
		user: fmt.Sprintf("simulated-%d", number+1), cells: make([]grid.Cell, n),
		belief: make([]float64, n), back: make([]float64, n), now: make([]float64, n),
	}
	s.home = model.SampleInitial(s.rng)
	for c := range s.cells {
		s.cells[c], s.belief[c] = grid.Cell(c), math.Inf(-1)
	}
	for i, c := range model.Initial.Cells {
		s.belief[c] = math.Log(model.Initial.P[i])
	}
	return s, nil
}

// live simulates nights, each of which ends with a call of after, and returns the adversary's
// guesses after some of them.
func (s *sleeper) live(nights []int, after func() error) (guesses []guess, err error) {
	for night := range nights[len(nights)-1] {
		if err := s.sleep(night); err != nil {
			return nil, err
		}
		if slices.Contains(nights, night+1) {
			guesses = append(guesses, s.guess())
		}
		if err := after(); err != nil {
			return nil, err
		}
	}
	return guesses, nil
}

// sleep simulates a night. The way home is one of the model's from home, backwards.
func (s *sleeper) sleep(night int) error {
	at := func(day, hour int) int64 {
		return s.model.StepAt(time.Date(2026, 1, 5+night+day, hour, 0, 0, 0, s.zone).UnixMilli())
	}
	bed, rise := at(0, bedHour), at(1, riseHour)
	first, last := at(0, bedHour-besideHours), at(1, riseHour+besideHours)
	path := make([]grid.Cell, last-first+1)
	for i := range path {
		path[i] = s.home
	}
	for t := bed - 1; t >= first; t-- {
		path[t-first] = s.model.SampleNext(s.rng, path[t+1-first], t)
	}
	for t := rise; t < last; t++ {
		path[t+1-first] = s.model.SampleNext(s.rng, path[t-first], t)
	}
	s.beside = map[int64][]float64{}
	for t := first; t <= last; t++ {
		out, err := s.sanitizer.Step(&s.state, mechanism.Input{
			User: s.user, Step: t, Cell: path[t-first], Release: true, Prior: true,
		})
		if err != nil {
			return err
		}
		if out.Kind != mechanism.Released {
			continue
		}
		s.releases++
		s.emission.Prepare(out.Prior)
		likelihoods := s.emission.Likelihoods(out.Release, s.cells)
		if t < bed || t > rise {
			s.beside[t] = slices.Clone(likelihoods)
			continue
		}
		s.learn(likelihoods)
	}
	s.goBack(first, bed, 1)
	s.goBack(last, rise, -1)
	return nil
}

// learn multiplies the belief by likelihoods of the home.
func (s *sleeper) learn(likelihoods []float64) {
	for c, l := range likelihoods {
		s.belief[c] += math.Log(l)
	}
}

// goBack learns from the releases beside the habit: from the step furthest away up to the one at
// home it computes the likelihood of all that was seen, given the place. The walk from home and the
// walk to it both move by the model.
func (s *sleeper) goBack(from, home, towards int64) {
	for c := range s.back {
		s.back[c] = 1
	}
	some := false
	for t := from; t != home; t += towards {
		if seen, ok := s.beside[t]; ok {
			some = true
			for c, l := range seen {
				s.back[c] = float64(s.back[c] * l)
			}
		}
		if some {
			s.step(s.model.MatrixAt(min(t, t+towards)))
		}
	}
	if some {
		s.learn(s.back)
	}
}

// step makes the likelihoods given the place in a step those given the place one step nearer to
// home, and scales them so that the largest is 1.
func (s *sleeper) step(m *mobility.Matrix) {
	largest := 0.0
	for _, c := range s.cells {
		columns, values := m.Row(c)
		sum := 0.0
		for i, to := range columns {
			sum += float64(values[i] * s.back[to])
		}
		s.now[c], largest = sum, max(largest, sum)
	}
	for c := range s.now {
		s.now[c] /= largest
	}
	s.back, s.now = s.now, s.back
}

// guess is the adversary's present one.
func (s *sleeper) guess() guess {
	largest, total := slices.Max(s.belief), 0.0
	var posterior mobility.Distribution
	at := -1
	for c, b := range s.belief {
		if p := math.Exp(b - largest); p > 0 {
			if grid.Cell(c) == s.home {
				at = len(posterior.P)
			}
			posterior.Cells = append(posterior.Cells, grid.Cell(c))
			posterior.P = append(posterior.P, p)
			total += p
		}
	}
	estimator := mechanism.Estimator{Place: mechanism.EstimateMedian}
	place, _ := estimator.Estimate(s.model.Grid, &posterior)
	g := guess{
		errorKM: place.Distance(s.model.Grid.Centre(s.home)), releases: s.releases,
	}
	if at >= 0 {
		g.posterior = posterior.P[at] / total
	}
	return g
}
