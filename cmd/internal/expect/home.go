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
	Users     int     `json:"users"`     // simulated
	MedianM   float64 `json:"median_m"`  // distance from the adversary's estimate to the home
	Posterior float64 `json:"posterior"` // mean probability that the home's own cell is given
	Releases  float64 `json:"releases"`  // mean number of those that were used
}

// Nights are the numbers of nights after which Homes looks at the adversary.
var Nights = []int{1, 7, 30, 90}

// The habit, in hours of the local time, and the time before and after it in which the adversary
// looks at releases too.
const (
	bedHour, riseHour = 21, 6
	besideHours       = 1
)

// homeUsers are simulated where homeWork allows it, and at least fewestHomeUsers of as many nights
// as mostHomeWork allows. A step costs 1 for each transition, and a release releaseWork for each
// cell of the map: about 1 ns.
const (
	homeUsers, fewestHomeUsers = 16, 4
	homeWork, mostHomeWork     = 12e9, 60e9
	releaseWork                = 40
	reportEvery                = 10 * time.Minute // where a report had no release
)

// Homes simulates users with a habit, whom the adversary knows to have it, and says how well the
// releases give their homes away. A user's home is a cell of the model's initial distribution. The
// user is there every night from 21 to 6 h, walks by the model from 6 to 20 h, and is on a way of
// the model that ends at home in the hour before 21 h. The user reports around the clock, so the
// filter knows its way in the evening: whenever interval and hours allow a release, and where there
// was none, ten minutes later. The first report is at any time of an interval that starts at 20 h.
// The clock is that of the first zone of the hours, else that of the model's calendar, and the
// first night that of a Monday in January.
//
// The adversary knows habit, model and options, and starts at the initial distribution. It
// multiplies the likelihoods of the home given each release of the night, and of the hour before
// and after it, in which the user may have moved by the model. Its estimate is the place of least
// expected distance.
//
// The user reports without a release in each step between. Each such step has to be made: the
// rounding of its masses narrows priors, which tells the adversary more than one prediction over
// the gap would.
//
// Only Tracks, Seed and Progress of e count; progress is in nights. By default there are 16 tracks,
// or fewer, and fewer nights, where that would take long: some 40 s of one processor on maps of a
// thousand cells with steps of a minute, and about a minute at most. The result depends on the
// arguments alone. All processors are used.
func Homes(ctx context.Context, model *mobility.Model, release mechanism.Options, nights []int,
	e Options,
) ([]Home, error) {
	h, err := newHabit(model, release, nights, e)
	if err != nil {
		return nil, err
	}
	var done atomic.Int64
	all := int64(h.users) * int64(h.nights())
	guesses := make([][]guess, h.users)
	err = h.pool.Each(h.users, func(user int) error {
		s, err := h.newSleeper(user)
		if err != nil {
			return err
		}
		guesses[user], err = s.live(func() error {
			n := done.Add(1)
			if e.Progress != nil && user == 0 { // one goroutine alone tells it
				return errors.Join(ctx.Err(), e.Progress(n, all))
			}
			return ctx.Err()
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return homesOf(guesses, h.after), nil
}

// habit is what all simulated users share.
type habit struct {
	model   *mobility.Model
	release mechanism.Options // with their defaults filled in
	after   []int             // numbers of nights after which to guess
	seed    uint64
	users   int
	zone    *time.Location
	hours   *hours.Hours
	pool    parallel.Pool
}

func newHabit(model *mobility.Model, release mechanism.Options, nights []int, e Options,
) (*habit, error) {
	sanitizer, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(e.Seed)),
		release)
	if err != nil {
		return nil, err
	}
	h := &habit{
		model: model, release: sanitizer.Options(), after: nights, seed: e.Seed, users: e.Tracks,
		zone: time.FixedZone("", int(model.Calendar.UTCOffset/time.Second)),
		pool: parallel.Pool{Workers: runtime.GOMAXPROCS(0)},
	}
	if len(release.Hours) > 0 {
		if h.zone, err = hours.Zone(release.Hours[0].Zone); err != nil {
			return nil, err
		}
	}
	if h.hours, err = hours.New(release.Hours); err != nil {
		return nil, err
	}
	h.plan()
	return h, nil
}

// nights is how many nights are simulated.
func (h *habit) nights() int { return h.after[len(h.after)-1] }

// interval is the least number of steps from one release to the next.
func (h *habit) interval() int64 { return int64(max(h.release.ReleaseInterval, 1)) }

// plan chooses the number of users, and leaves nights out that would take too long.
func (h *habit) plan() {
	if h.users != 0 {
		return
	}
	steps, interval := float64(24*time.Hour/h.model.Step), float64(h.interval())
	cells := float64(h.model.Grid.Cells())
	entries := float64(rowLength(h.model) * cells)
	daily := steps*entries + max(1, steps/interval)*releaseWork*cells
	for len(h.after) > 1 && daily*float64(fewestHomeUsers*h.nights()) > mostHomeWork {
		h.after = h.after[:len(h.after)-1]
	}
	h.users = min(max(int(homeWork/(daily*float64(h.nights()))), fewestHomeUsers), homeUsers)
}

func homesOf(guesses [][]guess, nights []int) (homes []Home) {
	for i, n := range nights {
		h, away := Home{Nights: n, Users: len(guesses)}, make([]float64, 0, len(guesses))
		for _, of := range guesses {
			away = append(away, 1000*of[i].errorKM)
			h.Posterior += of[i].posterior
			h.Releases += float64(of[i].releases)
		}
		h.Posterior /= float64(len(guesses))
		h.Releases /= float64(len(guesses))
		slices.Sort(away)
		h.MedianM = (away[len(away)/2] + away[(len(away)-1)/2]) / 2
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
	*habit
	rng       *rand.Rand
	sanitizer *mechanism.Sanitizer
	backward  *mobility.Backward
	state     mechanism.State
	user      string
	home      grid.Cell
	next      int64       // step of the next report
	cells     []grid.Cell // all of the map
	belief    []float64   // ln of each cell's probability to be the home, up to a constant
	releases  int
	beside    map[int64][]float64 // likelihoods of the places in steps before and after the habit
	back, now []float64
}

func (h *habit) newSleeper(number int) (*sleeper, error) {
	sanitizer, err := mechanism.NewSanitizer(h.model, noise.NewKeyed(noise.KeyFromSeed(h.seed)),
		h.release)
	if err != nil {
		return nil, err
	}
	n := h.model.Grid.Cells()
	s := &sleeper{
		habit: h, sanitizer: sanitizer, backward: mobility.NewBackward(h.model),
		// an arbitrary word, which keeps the stream apart from those of other simulations
		rng:  rand.New(rand.NewPCG(h.seed, 0x686f6d6573<<20+uint64(number))),
		user: fmt.Sprintf("simulated-%d", number+1), cells: make([]grid.Cell, n),
		belief: make([]float64, n), back: make([]float64, n), now: make([]float64, n),
	}
	s.home = h.model.SampleInitial(s.rng)
	s.next = s.at(0, bedHour-besideHours) + s.rng.Int64N(s.interval())
	for c := range s.cells {
		s.cells[c], s.belief[c] = grid.Cell(c), math.Inf(-1)
	}
	for i, c := range h.model.Initial.Cells {
		s.belief[c] = math.Log(h.model.Initial.P[i])
	}
	return s, nil
}

// at is the step in which an hour of a day begins. Day 0 is the one of the first night.
func (h *habit) at(day, hour int) int64 {
	return h.model.StepAt(time.Date(2026, 1, 5+day, hour, 0, 0, 0, h.zone).UnixMilli())
}

// live simulates nights, each of which ends with a call of ended, and returns the adversary's
// guesses after some of them.
func (s *sleeper) live(ended func() error) (guesses []guess, err error) {
	for night := range s.nights() {
		if err := s.spend(night); err != nil {
			return nil, err
		}
		if slices.Contains(s.after, night+1) {
			guesses = append(guesses, s.guess())
		}
		if err := ended(); err != nil {
			return nil, err
		}
	}
	return guesses, nil
}

// spend simulates a night and the day that follows it.
func (s *sleeper) spend(night int) error {
	bed, rise := s.at(night, bedHour), s.at(night+1, riseHour)
	first, last := s.at(night, bedHour-besideHours), s.at(night+1, riseHour+besideHours)
	path := s.path(night)
	s.beside = map[int64][]float64{}
	for s.next < first+int64(len(path)) {
		step := s.next
		if !s.hours.Open(step * s.model.Step.Milliseconds()) {
			s.next++
			continue
		}
		likelihoods, err := s.report(step, path[step-first])
		switch {
		case err != nil:
			return err
		case likelihoods == nil:
			s.next += max(1, int64(reportEvery/s.model.Step))
			continue
		}
		s.next += s.interval()
		switch {
		case bed <= step && step <= rise:
			s.releases++
			s.learn(likelihoods)
		case step <= last:
			s.releases++
			s.beside[step] = slices.Clone(likelihoods)
		}
	}
	s.goBack(first, bed, 1)
	s.goBack(last, rise, -1)
	return nil
}

// path returns the cells of the steps from an hour before a night to an hour before the next one.
// The way home is one of the model's from home, backwards.
func (s *sleeper) path(night int) []grid.Cell {
	first := s.at(night, bedHour-besideHours)
	bed, rise := s.at(night, bedHour)-first, s.at(night+1, riseHour)-first
	path := make([]grid.Cell, s.at(night+1, bedHour-besideHours)-first)
	for i := range path {
		path[i] = s.home
	}
	for i := bed - 1; i >= 0; i-- {
		path[i] = s.model.SampleNext(s.rng, path[i+1], first+i)
	}
	for i := rise; i+1 < int64(len(path)); i++ {
		path[i+1] = s.model.SampleNext(s.rng, path[i], first+i)
	}
	return path
}

// report reports a cell and returns the likelihood of each cell given the release, nil if there is
// none. It is valid until the next call.
func (s *sleeper) report(step int64, cell grid.Cell) ([]float64, error) {
	for at := s.state.Step + 1; s.state.Started && at < step; at++ {
		between := mechanism.Input{User: s.user, Step: at}
		if _, err := s.sanitizer.Step(&s.state, between); err != nil {
			return nil, err
		}
	}
	out, err := s.sanitizer.Step(&s.state, mechanism.Input{
		User: s.user, Step: step, Cell: cell, Release: true,
	})
	if err != nil || out.Kind != mechanism.Released {
		return nil, err
	}
	return s.sanitizer.Emission().Likelihoods(out.Release, s.cells), nil
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
			s.step(min(t, t+towards))
		}
	}
	if some {
		s.learn(s.back)
	}
}

// step makes the likelihoods given the place in a step those given the place one step nearer to
// home, and scales them so that the largest is 1.
func (s *sleeper) step(at int64) {
	later := &mobility.Distribution{Cells: s.cells, P: s.back}
	s.now = s.backward.Back(s.now, later, at, 1, 0, later)
	largest := slices.Max(s.now)
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
