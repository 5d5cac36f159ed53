package follow

import (
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// SumOptions say what Sums add up.
type SumOptions struct {
	Public Public
	// WindowSteps is the length of a window in steps of the model. Windows start at multiples of it
	// since 1970.
	WindowSteps int64
	// Zones is the number of zones, and ZoneOf that of a place in degrees, from 0. A cell of a map
	// belongs to the zone of its centre.
	Zones  int
	ZoneOf func(lat, lon float64) int32
	// Open is how many windows are open at once, 0 for all until the end. The record of a window
	// that is closed is followed, but has no part in the window.
	Open int
	// FromMS and BeforeMS bound the windows that are wanted: those that start at FromMS or later
	// and end at BeforeMS or earlier, milliseconds since 1970; 0 is no bound.
	FromMS, BeforeMS int64
	Workers          int // as in Options
}

// Window is where the vehicles of one window are.
type Window struct {
	// StartMS and EndMS are when the window starts and ends, milliseconds since 1970.
	StartMS, EndMS int64
	// Vehicles counts those whose posterior is known, and Lost the others.
	Vehicles, Lost int
	// Posterior is the sum of the vehicles' posteriors by zone.
	Posterior []float64
}

// Summary says what Sums have found.
type Summary struct {
	Counts
	// After counts records of windows that end after what is wanted, which are not looked at;
	// Before those of earlier windows, which are followed and have no part in a sum; and Late those
	// whose window was closed.
	After, Before, Late int64
	// Wanted counts the records of windows that are wanted, and Followed those of them whose
	// posterior is known.
	Wanted, Followed int64
	// MaxGap is the number of steps after which a user that was lost can be found again.
	MaxGap int
	// Windows counts the windows with a vehicle. Vehicles is the sum over them, and Smallest the
	// number of vehicles in the window with fewest.
	Windows, Vehicles, Smallest int
}

// Sums add up where users are, by zone and window: the sum of their posteriors, as the filter has
// them (Reader). A user counts once in a window, where the user last reported. A sum has the error
// of the model and of the noise in it, and no interval. Its methods belong to one goroutine.
//
// Memory: that of a Reader, for each user 16 bytes for each cell of the posterior, and 8 for each
// zone of an open window.
type Sums struct {
	options SumOptions
	each    func(*Window) error
	reader  *Reader[reported, []share]
	zones   map[*grid.Grid][]int32 // by cell
	stepMS  int64
	users   map[string]*summand
	order   []*summand
	windows map[int64]*Window // open ones, by number
	latest  int64             // number of the latest window
	closed  int64             // windows before this one are closed
	summary Summary
}

// reported is what Sums keep beside a record.
type reported struct {
	user, model string
	window      int64
}

// share is a part of a posterior.
type share struct {
	zone int32
	p    float64
}

// summand is a user, who counts in a window when a later one begins for the user or it is closed.
type summand struct {
	waits  bool // for the end of a window
	window int64
	shares []share // of the last record; nil: it cannot be followed
}

// ErrAfter is what Finish returns where no window is left: all of them end after what is wanted.
var ErrAfter = errors.New("every record is of a window that ends after the last one wanted")

// ErrNoRelease is what Add returns for a record of a new release that does not have the release.
var ErrNoRelease = errors.New("the record does not have its release")

// NewSums returns Sums that call each for every window with a vehicle, in order, when the window is
// closed. An error of each ends the work.
func NewSums(o SumOptions, each func(*Window) error) (*Sums, error) {
	if o.WindowSteps < 1 {
		return nil, errors.New("a window needs at least one step")
	}
	s := &Sums{
		options: o, each: each, zones: map[*grid.Grid][]int32{}, users: map[string]*summand{},
		windows: map[int64]*Window{}, latest: -1 << 62, closed: -1 << 62,
	}
	var err error
	s.reader, err = NewReader(Options{Public: o.Public, Workers: o.Workers}, s.tell, s.addRecord)
	if err != nil {
		return nil, err
	}
	for _, m := range o.Public.Models {
		s.stepMS = m.Step.Milliseconds()
		of := make([]int32, m.Grid.Cells())
		for c := range of {
			of[c] = o.ZoneOf(m.Grid.ToDegrees(m.Grid.Centre(grid.Cell(c))))
		}
		s.zones[m.Grid] = of
	}
	return s, nil
}

// Add takes the next record: see Reader.Add. Records of different users come in any order, as far
// as SumOptions.Open allows. It does not look at records of windows that end after
// SumOptions.BeforeMS: nothing that is wanted depends on them.
func (s *Sums) Add(p Published) error {
	window := mobility.StepOf(p.Step, s.options.WindowSteps)
	if before := s.options.BeforeMS; before != 0 && s.start(window+1) > before {
		s.summary.After++
		return nil
	}
	return s.reader.Add(p, reported{p.User, p.Model, window})
}

// Close ends the goroutines of Sums that have not finished. It may be called twice.
func (s *Sums) Close() { s.reader.Close() }

// Finish closes all windows.
func (s *Sums) Finish() error {
	if s.summary.After > 0 && s.reader.counts.Records == 0 {
		return ErrAfter
	}
	if err := s.reader.Finish(); err != nil {
		return err
	}
	return s.close(s.latest + 1)
}

// Summary returns what was found, after Finish or Close.
func (s *Sums) Summary() Summary {
	all := s.summary
	all.Counts, all.MaxGap = s.reader.Counts(), s.reader.MaxGap()
	return all
}

// start is when a window starts, milliseconds since 1970.
func (s *Sums) start(window int64) int64 { return window * s.options.WindowSteps * s.stepMS }

// tell adds up a posterior by zones, of which neighbours in a row of the map are mostly one.
func (s *Sums) tell(m mechanism.Smoothed) []share {
	of, total := s.zones[m.Grid], m.Posterior.Total()
	shares := make([]share, 0, m.Posterior.Len())
	for i, c := range m.Posterior.Cells {
		p := m.Posterior.P[i] / total
		if n := len(shares); n > 0 && shares[n-1].zone == of[c] {
			shares[n-1].p += p
		} else {
			shares = append(shares, share{of[c], p})
		}
	}
	return shares
}

// addRecord takes what is told of a record.
func (s *Sums) addRecord(r reported, told *[]share, why Unfollowed) error {
	u := s.users[r.user]
	if u == nil {
		u = new(summand)
		s.users[r.user], s.order = u, append(s.order, u)
	}
	if u.waits && u.window != r.window {
		s.count(u)
	}
	if s.start(r.window) < s.options.FromMS && s.options.FromMS != 0 {
		s.summary.Before++
		return nil
	}
	s.summary.Wanted++
	switch {
	case told != nil:
		s.summary.Followed++
	case why == NoRelease:
		return ErrNoRelease
	case why == NoModel: // without its users a window would be one of another fleet
		return fmt.Errorf("%w: records were made under the model %.16s, which is not among those "+
			"given", ErrModel, r.model)
	}
	if r.window < s.closed {
		s.summary.Late++
		return nil
	}
	u.waits, u.window, u.shares = true, r.window, nil
	if told != nil {
		u.shares = *told
	}
	if r.window <= s.latest {
		return nil
	}
	s.latest = r.window
	if s.options.Open > 0 {
		return s.close(r.window - int64(s.options.Open) + 1)
	}
	return nil
}

// count adds a user to the window that the user waits for.
func (s *Sums) count(u *summand) {
	w := s.windows[u.window]
	if w == nil {
		w = &Window{
			StartMS: s.start(u.window), EndMS: s.start(u.window + 1),
			Posterior: make([]float64, s.options.Zones),
		}
		s.windows[u.window] = w
	}
	u.waits = false
	if u.shares == nil {
		w.Lost++
		return
	}
	w.Vehicles++
	for _, share := range u.shares {
		w.Posterior[share.zone] += share.p
	}
}

// close closes the windows before one.
func (s *Sums) close(before int64) error {
	for _, u := range s.order {
		if u.waits && u.window < before {
			s.count(u)
		}
	}
	var done []int64
	for window := range s.windows {
		if window < before {
			done = append(done, window)
		}
	}
	slices.Sort(done)
	s.closed = max(s.closed, before)
	for _, window := range done {
		w := s.windows[window]
		delete(s.windows, window)
		if w.Vehicles == 0 {
			continue
		}
		sum := &s.summary
		if sum.Windows++; sum.Windows == 1 || w.Vehicles < sum.Smallest {
			sum.Smallest = w.Vehicles
		}
		sum.Vehicles += w.Vehicles
		if err := s.each(w); err != nil {
			return err
		}
	}
	return nil
}
