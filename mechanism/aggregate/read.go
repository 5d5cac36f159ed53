package aggregate

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Published is one record as it is published: in degrees, with what it says about the settings.
type Published struct {
	Record
	// Mechanism is the mechanism's name, without notes.
	Mechanism string
	// Latitude and Longitude are the estimate.
	Latitude, Longitude float64
	// HasRelease says that the record has the release: ReleaseLatitude and ReleaseLongitude.
	HasRelease                        bool
	ReleaseLatitude, ReleaseLongitude float64
	// Epsilon is the cost of a record of Kind Released.
	Epsilon, Delta float64
}

// ReadOptions say what a Reader knows and what it is to find.
type ReadOptions struct {
	// Models are the versions of the service's model.
	Models Models
	// Release are the service's options of release.
	Release mechanism.Options
	// TellEpsilon, TellDelta and TellMechanism say that Release does not have the value, and that
	// the records tell it.
	TellEpsilon, TellDelta, TellMechanism bool

	Collect  CollectOptions
	Estimate EstimateOptions
}

// Summary says what a Reader has found over all windows.
type Summary struct {
	Counts Counts
	// After counts records of windows that end after what is wanted, which are not looked at.
	After int64
	// MaxGap is the number of steps after which a user that was lost can be found again.
	MaxGap int
	// Windows counts the windows with a vehicle, and Empty those without.
	Windows, Empty int
	// Vehicles and Lost are sums over these windows.
	Vehicles, Lost int
	// Smallest is the number of vehicles in the window with fewest.
	Smallest int
	// Moved is the mean share of the fleet that the releases move against the model alone.
	Moved float64
	// Taught counts the windows whose prior is fitted to the fleet.
	Taught int
	// Most is the estimate with most vehicles, that of the window that starts at MostMS.
	Most   Density
	MostMS int64
}

// ErrAfter is what Finish returns where no window is left: all of them end after what is wanted.
var ErrAfter = errors.New("aggregate: every record is of a window that ends after " +
	"the last one wanted")

// ErrNoRelease is what Add wraps for a record of a new release that does not have the release.
// Where the fleet is cannot be computed from estimates, which count every release again and again.
var ErrNoRelease = errors.New("aggregate: the record does not have its release")

// OptionsError says that the options, completed by the records, cannot be used.
type OptionsError struct{ cause error }

// Error is the cause's.
func (e *OptionsError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *OptionsError) Unwrap() error { return e.cause }

// SettingError says that a record was made under another setting than those before it, or than the
// reader has been told.
type SettingError struct {
	Name string // mechanism, delta or epsilon
	text string
}

// Error says what the record has and what the settings say.
func (e *SettingError) Error() string { return e.text }

// A Reader estimates where a fleet is from published records, window by window. It is a Collector
// that learns from the records what it has not been told. Its methods belong to one goroutine.
type Reader struct {
	options   ReadOptions
	each      func(*Window, Density) error
	collector *Collector // nil until the settings are complete
	waiting   []Published
	estimates sync.Map // of windows that are being closed, by window
	records   int64
	summary   Summary
}

// NewReader returns a Reader that calls each for every window with a vehicle, in order of time. An
// error of each ends the work.
func NewReader(o ReadOptions, each func(*Window, Density) error) (*Reader, error) {
	if err := o.Models.validate(); err != nil {
		return nil, err
	}
	if o.Collect.WindowSteps < 1 {
		return nil, errWindow
	}
	if o.Release.Mechanism == "" {
		o.Release.Mechanism = law.Lattice
	}
	return &Reader{options: o, each: each}, nil
}

// Zones returns the zones, nil before the first record that is wanted.
func (r *Reader) Zones() *Zones {
	if r.collector == nil {
		return nil
	}
	return r.collector.Zones()
}

// Add takes the next record. Records of a user come in their order; those of different users in
// any, as far as CollectOptions.Open allows. It does not look at records of windows that end after
// CollectOptions.BeforeMS: nothing that is wanted depends on them. With several
// CollectOptions.Workers the error may be that of an earlier record, which is a PlaceError then.
func (r *Reader) Add(p Published) error {
	r.records++
	p.Place.Number = r.records
	if r.After(p.Step) {
		r.summary.After++
		return nil
	}
	if r.collector == nil {
		// Until a release has told ε, what was predicted waits.
		if !r.options.learn(p) {
			r.waiting = append(r.waiting, p)
			return nil
		}
		if err := r.start(); err != nil {
			return err
		}
	}
	return r.add(p)
}

// Taken returns how many records are done at least: no earlier one can have an error any more.
func (r *Reader) Taken() int64 {
	if r.collector == nil || r.collector.tasks == nil {
		return r.records
	}
	return r.collector.taken
}

// Flush waits until all records that were added are done. Its error is that of one of them, and a
// PlaceError.
func (r *Reader) Flush() error {
	if r.collector == nil {
		return nil
	}
	return r.collector.flush()
}

// Close ends the goroutines of a Reader that has not finished. It may be called twice.
func (r *Reader) Close() {
	if r.collector != nil {
		r.collector.Close()
	}
}

// Finish closes all windows and returns what was found over all of them.
func (r *Reader) Finish() (Summary, error) {
	switch {
	case r.records == 0:
		return r.summary, errors.New("there is no record in the input: nothing to aggregate")
	case r.summary.After == r.records:
		return r.summary, ErrAfter
	}
	if r.collector == nil {
		if err := r.start(); err != nil {
			return r.summary, err
		}
	}
	err := r.collector.Finish()
	s := &r.summary
	s.Counts, s.MaxGap = r.collector.Counts(), r.collector.MaxGap()
	if s.Windows > 0 {
		s.Moved /= float64(s.Windows)
	}
	return *s, err
}

// learn takes from a record what the options do not say, and says whether all is known: records of
// releases alone tell ε.
func (o *ReadOptions) learn(p Published) bool {
	if o.TellDelta {
		o.Release.Delta, o.TellDelta = p.Delta, false
	}
	if o.TellMechanism {
		o.Release.Mechanism, o.TellMechanism = p.Mechanism, false
	}
	if o.TellEpsilon && p.Kind == mechanism.Released {
		o.Release.Epsilon, o.TellEpsilon = p.Epsilon, false
	}
	return !o.TellEpsilon
}

// complete ends the learning. What no record has told has a value that can be used.
func (o *ReadOptions) complete() error {
	if o.TellEpsilon {
		o.Release.Epsilon, o.TellEpsilon = 1, false // there is no release
	}
	if err := o.Release.Validate(); err != nil {
		return &OptionsError{err}
	}
	return nil
}

// start makes the collector and hands it the records that waited.
func (r *Reader) start() error {
	o := &r.options
	if err := o.complete(); err != nil {
		return err
	}
	var err error
	if r.collector, err = NewCollector(o.Models, o.Release, o.Collect, r.window); err != nil {
		return &OptionsError{err}
	}
	r.collector.prepare = func(w *Window) {
		if w.Vehicles() > 0 {
			r.estimates.Store(w, w.Estimate(r.options.Estimate))
		}
	}
	where := ""
	for _, p := range r.waiting {
		if where, err = p.Place.Where, r.add(p); err != nil {
			break
		}
	}
	if r.waiting = nil; err == nil {
		err = r.collector.flush()
	}
	if placed, ok := errors.AsType[*PlaceError](err); ok {
		where, err = placed.Place.Where, placed.cause
	}
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

// add hands a record to the collector, in kilometres of its model's map.
func (r *Reader) add(p Published) error {
	if err := r.options.check(p); err != nil {
		return r.collector.after(err)
	}
	if v := r.collector.follower.filters[p.Model]; v != nil {
		v.locate(&p)
	}
	return r.collector.Add(p.Record)
}

// locate fills in the release and the estimate of a record in kilometres of the model's map.
func (v *filter) locate(p *Published) {
	g := v.grid()
	if p.Kind == mechanism.Released {
		p.Release = v.sanitizer.Snap(g.ToMap(p.ReleaseLatitude, p.ReleaseLongitude))
	}
	p.Estimate = g.ToMap(p.Latitude, p.Longitude)
}

// check refuses a record that was not made under the settings.
func (o *ReadOptions) check(p Published) error {
	release := &o.Release
	switch {
	case !p.Kind.Published():
		return errors.New("the record is of a kind that this program does not know: " +
			"run a newer one")
	case p.Mechanism != release.Mechanism:
		return &SettingError{"mechanism", fmt.Sprintf(
			"the record names the mechanism %.16s, and the settings say %s",
			p.Mechanism, release.Mechanism)}
	case p.Delta != release.Delta:
		return &SettingError{"delta", fmt.Sprintf(
			"the record has δ = %g, and the settings say %g", p.Delta, release.Delta)}
	case p.Kind == mechanism.Released && p.Epsilon != release.Epsilon:
		return &SettingError{"epsilon", fmt.Sprintf(
			"the record has ε = %g, and the settings say %g", p.Epsilon, release.Epsilon)}
	case p.Kind == mechanism.Released && !p.HasRelease:
		return ErrNoRelease
	case p.Number < 0:
		return errors.New("the record has a negative number of releases")
	}
	return nil
}

// After says whether a step's window ends after what is wanted, so that Add does not look at its
// records.
func (r *Reader) After(step int64) bool {
	c := &r.options.Collect
	if c.LagSteps < 0 {
		return false
	}
	if c.LagSteps > 0 { // later records count too
		step -= c.wait(r.options.Release.ReleaseInterval)
	}
	end := (mobility.StepOf(step, c.WindowSteps) + 1) * c.WindowSteps *
		r.options.Models[0].Step.Milliseconds()
	return c.BeforeMS != 0 && end > c.BeforeMS
}

// window takes one window, which is estimated, into the summary.
func (r *Reader) window(w *Window) error {
	s := &r.summary
	if w.Vehicles() == 0 {
		s.Empty++
		return nil
	}
	estimate, _ := r.estimates.LoadAndDelete(w)
	d := estimate.(Density)
	s.Windows++
	s.Vehicles += d.Vehicles
	s.Lost += w.Lost
	if s.Smallest == 0 || d.Vehicles < s.Smallest {
		s.Smallest = d.Vehicles
	}
	s.Moved += Variation(d.Fitted, d.Blind)
	if !math.IsInf(d.Kappa, 1) {
		s.Taught++
	}
	if d.Vehicles > s.Most.Vehicles {
		s.Most, s.MostMS = d, w.StartMS
	}
	return r.each(w, d)
}
