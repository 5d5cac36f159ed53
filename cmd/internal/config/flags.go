package config

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas/mapping"
)

// Flags are the settings of release that a command takes beside a config. All other settings
// belong in the config, so that a command on files releases as the service does.
type Flags struct {
	Path           string // of the config; empty: none
	mechanism      string
	epsilon, delta float64
	interval       time.Duration
}

// Register registers --mechanism, --epsilon and --delta. mechanisms are the names that the command
// takes.
func (f *Flags) Register(flags *pflag.FlagSet, mechanisms string) {
	flags.StringVar(&f.mechanism, "mechanism", law.Codebook, "`NAME`: "+mechanisms+
		"; default: the config's, and codebook without a config")
	flags.Lookup("mechanism").DefValue = "" // it would be printed as the default beside a config
	flags.Float64Var(&f.epsilon, "epsilon", 0,
		"what one release may reveal, a natural logarithm; releases add up")
	flags.Float64Var(&f.delta, "delta", 0,
		"prior mass that the location set may leave out; not with codebook, which has no set")
}

// RegisterInterval registers --interval.
func (f *Flags) RegisterInterval(flags *pflag.FlagSet) {
	flags.DurationVar(&f.interval, "interval", 0,
		"least `DURATION` between two releases of a user; default: one step of the model")
}

// File returns the config that is named, or an empty one, with the flags in the place of its
// settings. Without a config the mechanism is that of --mechanism, which has a default.
func (f *Flags) File(flags *pflag.FlagSet) (c File, err error) {
	if f.Path != "" {
		if c, err = Read(f.Path); err != nil {
			return c, err
		}
	}
	if flags.Changed("epsilon") {
		c.Release.Epsilon = &f.epsilon
	}
	if flags.Changed("delta") {
		c.Release.Delta = &f.delta
	}
	switch {
	case flags.Changed("mechanism"):
		c.Release.Mechanism = f.mechanism
		if f.mechanism == law.Codebook && !flags.Changed("delta") {
			c.Release.Delta = nil // the config's, for a mechanism that has a location set
		}
	case f.Path == "":
		c.Release.Mechanism = f.mechanism
	}
	if flags.Changed("interval") {
		c.Release.Interval = f.interval
	}
	return c, nil
}

// Mapping returns how the section input of the config reads a message of a file; nil: there is no
// config, or a message is a raw record.
func (f *Flags) Mapping() (*mapping.Mapping, error) {
	if f.Path == "" {
		return nil, nil //nolint:nilnil // there is no mapping
	}
	c, err := Read(f.Path)
	if err != nil {
		return nil, err
	}
	input, err := c.Input.read(c.Encoding.Raw)
	return input.Mapping, f.Error(err)
}

// FileError names the config in an error of reading a file that the config names. Without a config
// the error stays as it is.
func (f *Flags) FileError(err error) error {
	if f.Path == "" {
		return err
	}
	return Error(f.Path, err)
}

// Error marks an error of the settings as the user's. It names the config, if there is one.
func (f *Flags) Error(err error) error {
	switch {
	case err == nil:
		return nil
	case f.Path == "":
		return cli.Usage(err)
	}
	return Error(f.Path, err)
}
