package config

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// Input is the section "input": how raw records are read, and what becomes of fixes that cannot be
// used.
type Input struct {
	Outside string `yaml:"outside"`

	Preset    mapping.Preset `yaml:"preset"`
	Format    mapping.Format `yaml:"format"`
	Unwrap    string         `yaml:"unwrap"`
	Each      string         `yaml:"each"`
	Where     []mapping.Rule `yaml:"where"`
	User      mapping.User   `yaml:"user"`
	Latitude  string         `yaml:"latitude"`
	Longitude string         `yaml:"longitude"`
	Timestamp mapping.Time   `yaml:"timestamp"`

	Key      mapping.Key      `yaml:"key"`
	KeyCheck mapping.KeyCheck `yaml:"key_check"`
}

// Options returns the service's options without the mapping, which files of fixes do without.
func (c Input) Options() engine.Input {
	return engine.Input{Outside: c.Outside}
}

// mapping returns the options of the mapping.
func (c Input) mapping() mapping.Options {
	return mapping.Options{
		Preset: c.Preset, Format: c.Format, Unwrap: c.Unwrap, Each: c.Each, Where: c.Where,
		User: c.User, Latitude: c.Latitude, Longitude: c.Longitude, Timestamp: c.Timestamp,
		Key: c.Key, KeyCheck: c.KeyCheck,
	}
}

// read returns the section's options with the mapping, if there is one, beside encoding.raw.
func (c Input) read(raw schemas.Encoding) (engine.Input, error) {
	input, options := c.Options(), c.mapping()
	if options.IsZero() {
		return input, nil
	}
	if raw != "" {
		return input, errors.New("encoding.raw and the section input exclude each other: set " +
			"input.format")
	}
	var err error
	if input.Mapping, err = mapping.New(options); err != nil {
		err = fmt.Errorf("input: %w", err)
	}
	return input, err
}
