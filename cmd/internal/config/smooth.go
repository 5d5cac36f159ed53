package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/mechanism/noise"
)

// Smoothing is what the config says of the service that smooths.
type Smoothing struct {
	service.Options // whose topics are those of this service; without a key
	Smooth          engine.SmoothSettings
}

// ReadSmoothing reads the config of the service that smooths, and what it names, except the key.
// The errors are the user's and name the file.
func ReadSmoothing(path string) (s Smoothing, file File, err error) {
	if file, err = Read(path); err == nil {
		s, err = file.smoothing()
	}
	return s, file, Error(path, err)
}

func (c *File) smoothing() (s Smoothing, err error) {
	o := c.withoutFiles()
	for _, p := range parts {
		if p.name == "input" || p.name == "key_file" {
			continue
		}
		if err := p.fill(c, &o); err != nil {
			return s, err
		}
	}
	return c.SmoothingOf(o)
}

// SmoothingOf returns the service that smooths what a service of the config publishes, which has
// these options.
func (c *File) SmoothingOf(o service.Options) (s Smoothing, err error) {
	if o.Publish.OmitRelease {
		return s, errors.New("publish.release: false leaves nothing to smooth: records need " +
			"their releases")
	}
	connection := o.Connection
	if o.Cluster, err = c.SmoothingCluster(); err != nil {
		return s, err
	}
	o.Connection, o.Key = connection, noise.Key{}
	if o.StateDir != "" {
		o.StateDir = filepath.Clean(o.StateDir) + "-smooth"
	}
	step := time.Second // without a model, as in "release"
	if o.Model != nil {
		step = o.Model.Step
	}
	lag, err := cli.InSteps("smooth.lag", c.Smooth.Lag, step)
	lag = cmp.Or(lag, o.Release.ReleaseInterval, 1)
	return Smoothing{o, engine.SmoothSettings{
		Model: o.Model, Later: o.Later, Scheduled: c.Models != "", Release: o.Release,
		LagSteps: int64(lag), Encoding: o.SanitizedEncoding,
	}}, err
}

// Smooths reports whether the config speaks of the service that smooths.
func (c *File) Smooths() bool { return c.written["smooth"] || c.written["topics.smoothed"] }

// SmoothingCluster returns the place in Kafka of the service that smooths, without a connection.
func (c *File) SmoothingCluster() (topics.Cluster, error) {
	first := c.Cluster().WithDefaults()
	switch {
	case first.Topics.Sanitized == "":
		return first, errors.New("topics.sanitized: name the topic of sanitized records")
	case first.Group == "" && c.Smooth.Group == "":
		return first, errors.New("group: name the consumer group")
	}
	all := first.Smoothing(c.Smooth.Group, c.Topics.Smoothed)
	if all.Group == first.Group {
		return all, errors.New("smooth.group: it is the group of the service that sanitizes; " +
			"give each its own")
	}
	t, made := first.Topics, all.Topics
	taken := []string{t.Raw, t.Changelog, t.DeadLetters}
	for _, own := range []string{made.Sanitized, made.Changelog, made.DeadLetters} {
		if slices.Contains(taken, own) {
			return all, fmt.Errorf("topics.smoothed, smooth.group: the topic %q is one of the "+
				"service that sanitizes; choose other names", own)
		}
	}
	return all, all.Validate()
}

// Schemas returns the schemas that the registry has to have for the services of a config.
func (c *File) Schemas() ([]service.Schema, error) {
	o := c.withoutFiles()
	switch {
	case o.Topics.Sanitized == "":
		return nil, errors.New("topics.sanitized: name the topic of sanitized records")
	case o.Topics.DeadLetters == "" && o.Group == "":
		return nil, errors.New("group: name the consumer group")
	}
	list := service.Schemas(o.Cluster)
	if c.Smooths() {
		second, err := c.SmoothingCluster()
		if err != nil {
			return nil, err
		}
		list = append(list, service.Schemas(second)...)
	}
	if c.CountsUsers() {
		_, totals, err := c.CountingClusters()
		if err != nil {
			return nil, err
		}
		list = append(list, service.Schemas(totals)...)
	}
	return list, nil
}
