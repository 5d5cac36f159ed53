package follow

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
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

// Public is what the readers of a service's records know of the service.
type Public struct {
	// Models are the versions of the service's model.
	Models Models
	// Release are the service's options of release.
	Release mechanism.Options
	// TellEpsilon, TellDelta and TellMechanism say that Release does not have the value, and that
	// the records tell it.
	TellEpsilon, TellDelta, TellMechanism bool
}

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

// PlaceError is the error of a record.
type PlaceError struct {
	Where string // the record is
	cause error
}

// Error names the place and the cause.
func (e *PlaceError) Error() string { return e.Where + ": " + e.cause.Error() }

// Unwrap returns the cause.
func (e *PlaceError) Unwrap() error { return e.cause }

// learn takes from a record what is not known, and says whether all is known: records of releases
// alone tell ε.
func (o *Public) learn(p Published) bool {
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
func (o *Public) complete() error {
	if o.Release.Mechanism == "" {
		o.Release.Mechanism = law.Lattice
	}
	if o.TellEpsilon {
		o.Release.Epsilon, o.TellEpsilon = 1, false // there is no release
	}
	if err := o.Release.Validate(); err != nil {
		return &OptionsError{err}
	}
	return nil
}

// check refuses a record that was not made under the settings.
func (o *Public) check(p *Published) error {
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
	case p.Number < 0:
		return errors.New("the record has a negative number of releases")
	}
	return nil
}

// blank says that nobody can follow a record: it is one of a release and does not have it.
func (p *Published) blank() bool { return p.Kind == mechanism.Released && !p.HasRelease }

// locate fills in the release and the estimate of a record in kilometres of the model's map.
func (v *filter) locate(p *Published) {
	g := v.grid()
	if p.Kind == mechanism.Released {
		p.Release = v.sanitizer.Snap(g.ToMap(p.ReleaseLatitude, p.ReleaseLongitude))
	}
	p.Estimate = g.ToMap(p.Latitude, p.Longitude)
}

// seen is what the filter takes of a record. A state that is started goes on over any gap: which
// ways there are over one, the table of ways says.
func (r *Record) seen() mechanism.Seen {
	return mechanism.Seen{Step: r.Step, Kind: r.Kind, Release: r.Release, Carried: true}
}
