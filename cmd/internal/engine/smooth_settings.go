package engine

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// SmoothSettings determine the bytes of smoothed records, dead letters and states, given the
// sanitized topic: all that Fingerprint covers, and the numbers of schemas. There is no key among
// them. Required: Model, Release.Epsilon and LagSteps.
type SmoothSettings struct {
	// Model is the first version of the mobility model: see Settings.
	Model *mobility.Model
	// Later are the versions of the model that follow the first one.
	Later []*Version
	// Scheduled says that a schedule names later versions. A record under a model that is not in it
	// yet waits for the model; without a schedule it passes unsmoothed.
	Scheduled bool
	// Release is the options of releases. Records name the mechanism, ε and δ that they were made
	// with, and are smoothed by these; the other options are those of all records.
	Release mechanism.Options
	// LagSteps is the lag of mechanism.NewSmoother, one step at least. A service has no end at
	// which all that follows has come, so mechanism.SmoothAll is refused.
	LagSteps int64
	// Encoding is that of the smoothed and dead-letter topics; default Avro. Records of the
	// sanitized topic tell theirs.
	Encoding  schemas.Encoding
	SchemaIDs schemas.IDs // see Settings
	// Ends, if set, says that the topic is whole: where each of its partitions ends.
	Ends []End
}

// End is where a partition ends.
type End struct {
	// Last has the offsets of the last records of users. Each closes its user's block, as the end
	// of a file does.
	Last map[int64]bool
	// Next is the offset behind the last record of all.
	Next int64
}

// WithDefaults returns the settings with an empty encoding filled in.
func (s SmoothSettings) WithDefaults() SmoothSettings {
	s.Encoding = cmp.Or(s.Encoding, schemas.Avro)
	return s
}

// Validate reports everything that is missing or out of range, in one error.
func (s SmoothSettings) Validate() error {
	errs := []error{s.Release.Validate(), s.WithDefaults().Encoding.ValidatePublished()}
	if s.Model == nil {
		errs = append(errs, errors.New("smoothing needs the mobility model of the releases"))
	}
	if s.LagSteps < 1 {
		errs = append(errs, errors.New("a service smooths with a lag of one step at least: set "+
			"one release interval; only files have an end, up to which \"all\" could wait"))
	}
	return errors.Join(errs...)
}

// settings lists what determines the bytes: Settings.settings has the rules. Nil for settings that
// Validate refuses.
func (s SmoothSettings) settings() []setting {
	s = s.WithDefaults()
	if s.Validate() != nil {
		return nil
	}
	sanitizer, err := s.sanitizer(s.Model)
	if err != nil {
		return nil
	}
	r := sanitizer.Options() // with its defaults filled in
	list := []setting{
		{"geodither's version", text("%d %d %d %d", settingsVersion, mechanism.Version,
			mechanism.StateVersion, smoothVersion)},
		{"model", s.Model.ID()},
		{"models", text("a schedule: %t", s.Scheduled)},
	}
	list = append(list, releaseSettings(r)...)
	list = append(list, setting{hoursKey, hoursSetting(r.Hours)},
		setting{"smooth.lag", text("%d", s.LagSteps)},
		setting{"encoding.sanitized", text("%q", s.Encoding)})
	if s.Ends != nil { // up to there the topic alone says which the last records are
		ends := make([]int64, len(s.Ends))
		for n, end := range s.Ends {
			ends[n] = end.Next
		}
		list = append(list, setting{"where the sanitized topic ends", text("%d", ends)})
	}
	return list
}

// sanitizer returns one whose key is never used: nothing is drawn.
func (s SmoothSettings) sanitizer(m *mobility.Model) (*mechanism.Sanitizer, error) {
	return mechanism.NewSanitizer(m, noise.NewKeyed(noise.KeyFromSeed(0)), s.Release)
}

// Fingerprint is as in Settings.
func (s SmoothSettings) Fingerprint() []byte { return fingerprint(s.settings()) }

// GroupFingerprint is what an instance tells its group: the fingerprint.
func (s SmoothSettings) GroupFingerprint() []byte { return s.Fingerprint() }

// Differences is as in Settings.
func (s SmoothSettings) Differences(other []byte) string { return differences(s.settings(), other) }

// DifferencesInGroup is Differences for what another instance has told the group.
func (s SmoothSettings) DifferencesInGroup(other []byte) string { return s.Differences(other) }

// Try refuses a version that the options of releases cannot be used with, and gets its model ready.
func (s SmoothSettings) Try(v *Version) (*mobility.Model, error) {
	model, err := v.Load()
	if err == nil {
		_, err = s.sanitizer(model)
	}
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", v.Where, err)
	}
	return model, nil
}
