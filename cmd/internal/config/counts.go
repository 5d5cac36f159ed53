package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// FilesSource names the data of files in the transcript of the noise. A key is for one fleet.
const FilesSource = "files"

// withDefaults fills in what was left empty.
func (c Counts) withDefaults() Counts {
	c.Window = cmp.Or(c.Window, time.Hour)
	c.TimeZone = cmp.Or(c.TimeZone, "UTC")
	c.Grace = cmp.Or(c.Grace, 5*time.Minute)
	c.Skew = cmp.Or(c.Skew, time.Minute)
	c.Edition = cmp.Or(c.Edition, 1)
	return c
}

// Counted returns what to count by the section counts. name names a setting for errors, such as
// counts.epsilon. What only a service knows is missing: First is 0 where the section has none.
func (c *File) Counted(name func(key string) string) (s counting.Settings, err error) {
	n := c.Counts.withDefaults()
	s.Settings = counts.Settings{
		Source: FilesSource, Edition: uint32(n.Edition), Epsilon: n.Epsilon, PerDay: n.PerDay,
	}
	if n.Edition < 0 || n.Edition > 1<<31 {
		return s, fmt.Errorf("%s %d: the first edition is 1", name("edition"), n.Edition)
	}
	switch {
	case n.Epsilon == 0:
		return s, fmt.Errorf("%s is not set", name("epsilon"))
	case n.PerDay == 0:
		return s, fmt.Errorf("%s is not set", name("per_day"))
	}
	if err := s.Settings.Validate(); err != nil {
		return s, fmt.Errorf("%s, %s: %w", name("epsilon"), name("per_day"), err)
	}
	if s.Plan, err = counts.NewPlan(n.TimeZone, n.Window); err != nil {
		return s, fmt.Errorf("%s, %s: %w", name("window"), name("time_zone"), err)
	}
	if most := int(24 * time.Hour / n.Window); n.PerDay > most {
		return s, fmt.Errorf("%s %d: a day has only %d windows of %v", name("per_day"), n.PerDay,
			most, n.Window)
	}
	if n.First != "" {
		if s.First, err = counts.ParseDate(n.First); err != nil {
			return s, fmt.Errorf("%s: %w", name("first"), err)
		}
	}
	if n.Grace < 0 || n.Skew < time.Millisecond {
		return s, fmt.Errorf("%s, %s: must not be negative, the second not 0", name("grace"),
			name("skew"))
	}
	s.SkewMS, s.Admission.GraceMS = n.Skew.Milliseconds(), n.Grace.Milliseconds()
	ahead := c.withoutFiles().WithDefaults().MaxAhead
	if ahead == schemas.AnyAhead && c.CountsUsers() {
		return s, errors.New("max_ahead: off is not for counts: set a duration")
	}
	s.Admission.MaxAheadMS = ahead.Milliseconds()
	if s.Zones, err = c.zones(name); err == nil {
		err = s.Validate()
	}
	if err != nil {
		return s, err
	}
	// A user under two names, or in two partitions, would count twice.
	how, err := yaml.Marshal([]any{c.Input, c.Encoding.Raw, c.Topics.Partitioner})
	s.Input = string(how)
	return s, err
}

// zones returns the zones of the section counts.
func (c *File) zones(name func(key string) string) (*counts.Zones, error) {
	n := c.Counts
	switch {
	case n.Zone == "" && n.Zones == "":
		file := "a GeoJSON file of polygons"
		if name("zones") != name("zone") { // in a config
			file += " as " + name("zones")
		}
		return nil, fmt.Errorf("%s: set a square's side, such as 1km, or %s", name("zone"), file)
	case n.Zone != "" && n.Zones != "":
		return nil, fmt.Errorf("%s, %s: both are set: keep one", name("zone"), name("zones"))
	case n.Zones != "" && n.Box != "":
		return nil, fmt.Errorf("%s needs no map: leave %s out", name("zones"), name("box"))
	case n.Zones != "":
		zones, _, err := Polygons(name("zones"), n.Zones)
		return zones, err
	}
	g, err := c.squares(name)
	if err != nil {
		return nil, err
	}
	return counts.Squares(g)
}

// Polygons reads zones from a GeoJSON file, which a setting names.
func Polygons(setting, path string) (*counts.Zones, []counts.Area, error) {
	read, err := files.ReadZones(path)
	if err != nil {
		return nil, nil, err
	}
	areas := make([]counts.Area, len(read))
	for i, a := range read {
		areas[i] = counts.Area(a)
	}
	zones, err := counts.Polygons(areas)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", setting, path, err)
	}
	return zones, areas, nil
}

// squares returns the grid whose cells are the zones.
func (c *File) squares(name func(key string) string) (*grid.Grid, error) {
	n := c.Counts
	km, err := cli.Kilometres(name("zone"), n.Zone)
	if err != nil {
		return nil, err
	}
	if n.Box != "" {
		g, err := cli.ParseMap(n.Box, n.Zone)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name("box"), err)
		}
		return g, nil
	}
	if c.Model == "" && c.Models == "" {
		return nil, fmt.Errorf("name what %s divides: %s BOX, or a model", name("zone"),
			name("box"))
	}
	model, err := c.Chosen()
	if err != nil {
		return nil, err
	}
	return model.Grid.Coarser(km)
}

// InCounts names a key of the section counts.
func InCounts(key string) string { return "counts." + key }

// Counting is what the config says of the two services that count.
type Counting struct {
	Windows, Totals service.Options // the second has the key
	Count           *service.Counting
	Settings        counting.Settings
}

// ReadCounting reads the config of the services that count, and what it names. The errors are the
// user's and name the file.
func ReadCounting(path string) (n Counting, file File, err error) {
	if file, err = Read(path); err == nil {
		n, err = file.Counting()
	}
	return n, file, Error(path, err)
}

// Counting returns the services that count what the config's raw topic has.
func (c *File) Counting() (n Counting, err error) {
	if !c.CountsUsers() {
		return n, errors.New("there is no section counts (geodither config example)")
	}
	windows, totals, err := c.CountingClusters()
	if err != nil {
		return n, err
	}
	if n.Settings, err = c.Counted(InCounts); err != nil {
		return n, err
	}
	o := c.withoutFiles()
	for _, p := range parts {
		if p.name == "model" || p.name == "release" {
			continue // zones have what they need of it
		}
		if err := p.fill(c, &o); err != nil {
			return n, err
		}
	}
	d := o.WithDefaults()
	if err := errors.Join(d.Partitioner.Validate(), d.Input.Validate(),
		d.RawEncoding.ValidateRaw(), d.SanitizedEncoding.ValidatePublished()); err != nil {
		return n, err
	}
	n.Windows, n.Totals = o, o
	n.Windows.Cluster, n.Totals.Cluster = windows, totals
	n.Windows.Connection, n.Totals.Connection = o.Connection, o.Connection
	n.Windows.Key, n.Windows.SanitizedEncoding = noise.Key{}, ""
	if n.Windows.StateDir = c.CountsDir(); o.StateDir != "" {
		n.Totals.StateDir = n.Windows.StateDir + "-totals"
	}
	n.Count = service.NewCounting(n.Settings, windows)
	return n, nil
}

// CountsDir returns the folder of the service that counts by raw partition; empty: there is none.
func (c *File) CountsDir() string {
	if c.StateDir == "" {
		return ""
	}
	return filepath.Clean(c.StateDir) + "-counts"
}

// CountingClusters returns the places in Kafka of the services that count, without a connection.
func (c *File) CountingClusters() (windows, totals topics.Cluster, err error) {
	first := c.Cluster()
	switch {
	case first.Topics.Sanitized == "" && c.Topics.Counts == "":
		return windows, totals, errors.New("topics.counts: name the topic of counts")
	case first.Group == "" && c.Counts.Group == "":
		return windows, totals, errors.New("group: name the consumer group")
	}
	windows, totals = first.Counting(c.Counts.Group, c.Topics.Counts)
	taken := []string{}
	if first.Group != "" {
		t := first.WithDefaults().Topics
		taken = append(taken, t.Sanitized, t.Changelog, t.DeadLetters)
	}
	own := slices.Concat(windows.Topics.Names()[1:], totals.Topics.Names()[1:])
	for i, name := range own {
		if slices.Contains(taken, name) || slices.Contains(own[:i], name) ||
			name == windows.Topics.Raw {
			return windows, totals, fmt.Errorf("topics.counts, counts.group: the topic %q has "+
				"another use", name)
		}
	}
	if windows.Group == first.Group || totals.Group == first.Group {
		return windows, totals, errors.New("counts.group: the service that sanitizes has it")
	}
	// The errors name keys of the first service, whose topics have other keys here.
	fix := strings.NewReplacer("topics.sanitized: ", "topics.counts: ")
	if err := errors.Join(windows.Validate(), totals.Validate()); err != nil {
		return windows, totals, errors.New(fix.Replace(err.Error()))
	}
	return windows, totals, nil
}
