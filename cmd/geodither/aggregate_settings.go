package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

// observerSettings are what a reader has to know: the model in its versions, and the
// options of release as the service has them. Records tell ε, δ and the mechanism.
type observerSettings struct {
	models  readerModels
	options mechanism.Options
	// What flags or a config say; what they do not say, the records do.
	epsilon, delta, mechanism bool
}

// settings resolves the flags, or the config of the service, of which the key is
// neither needed nor read.
func (f *aggregateFlags) settings(flags *pflag.FlagSet) (observerSettings, error) {
	var s observerSettings
	release := f.release
	f.insists = f.personal != ""
	s.epsilon, s.delta, s.mechanism = flags.Changed("epsilon"), flags.Changed("delta"), flags.Changed("mechanism")
	if f.config != "" {
		var own releaseConfig
		names := pflag.NewFlagSet("", pflag.ContinueOnError)
		own.register(names, 0, 0)
		var twice error
		names.VisitAll(func(flag *pflag.Flag) {
			if flags.Changed(flag.Name) && twice == nil {
				twice = cli.Usagef("--%s and --config exclude each other: the config has the options of release", flag.Name)
			}
		})
		if twice != nil {
			return s, twice
		}
		file, err := readConfig(f.config)
		if err != nil {
			return s, configError(f.config, err)
		}
		file.resolve(filepath.Dir(f.config))
		f.fromConfig(file, flags)
		release = file.Release
		s.epsilon, s.delta, s.mechanism = release.Epsilon != nil, release.Delta != nil, true
	}
	var err error
	if s.models, err = f.readModels(); err != nil {
		return s, err
	}
	if release.Epsilon == nil {
		release.Epsilon = new(float64)
	}
	if release.Delta == nil {
		release.Delta = new(float64)
	}
	s.options, err = release.options(s.models.public[0])
	if err != nil {
		return s, cli.Usage(err)
	}
	if s.options.Mechanism == "" {
		s.options.Mechanism = law.Lattice
	}
	return s, nil
}

// fromConfig takes from a config what no flag says.
func (f *aggregateFlags) fromConfig(c configFile, flags *pflag.FlagSet) {
	if len(f.models) == 0 && f.schedule == "" {
		if f.schedule = c.Models; c.Model != "" {
			f.models = []string{c.Model}
		}
		if f.personal == "" {
			f.personal = c.Personal
		}
	}
	if f.topic == "" && len(f.paths) == 0 {
		f.topic = c.Topics.Sanitized
	}
	if !flags.Changed("brokers") && len(c.Brokers) > 0 {
		f.brokers = c.Brokers
	}
	if !flags.Changed("encoding") && c.Encoding.Sanitized != "" {
		f.encoding = string(c.Encoding.Sanitized)
	}
}

// complete takes from a record what nobody has said. It says whether all is known:
// ε is told by records of releases alone.
func (s *observerSettings) complete(r schemas.Sanitized) bool {
	if !s.delta {
		s.options.Delta, s.delta = r.Delta, true
	}
	if !s.mechanism {
		s.options.Mechanism, s.mechanism = schemas.MechanismName(r.Mechanism), true
	}
	if !s.epsilon && r.Kind == schemas.KindReleased {
		s.options.Epsilon, s.epsilon = r.Epsilon, true
	}
	return s.epsilon
}

// check refuses a record that was not made under these settings.
func (s *observerSettings) check(r schemas.Sanitized) error {
	switch {
	case schemas.MechanismName(r.Mechanism) != s.options.Mechanism:
		return fmt.Errorf("the record names the mechanism %.16s, and the settings say %s: leave --mechanism out, or aggregate the records of one setting by themselves", r.Mechanism, s.options.Mechanism)
	case r.Delta != s.options.Delta:
		return fmt.Errorf("the record has δ = %g, and the settings say %g: leave --delta out, or aggregate the records of one setting by themselves", r.Delta, s.options.Delta)
	case r.Kind == schemas.KindReleased && r.Epsilon != s.options.Epsilon:
		return fmt.Errorf("the record has ε = %g, and the settings say %g: leave --epsilon out, or aggregate the records of one setting by themselves", r.Epsilon, s.options.Epsilon)
	case r.Release < 0:
		return errors.New("the record has a negative number of releases")
	}
	return nil
}

// kindsOf are the kinds of records.
var kindsOf = map[string]mechanism.Kind{
	schemas.KindReleased: mechanism.Released, schemas.KindRepeated: mechanism.Repeated, schemas.KindPredicted: mechanism.Predicted,
}
