package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism/mobility"
)

// entry is one version in a schedule of models. A start is a text here: a YAML
// date without a time, such as a file cut short would have, must not pass for one.
type entry struct {
	Model string `yaml:"model"`
	Start string `yaml:"start"`

	start time.Time
}

// readSchedule reads a schedule and the first version, and learns what the later ones are.
func readSchedule(path string) (c Chosen, err error) {
	entries, err := scheduleEntries(path)
	if err != nil {
		return c, err
	}
	if c.Model, err = entries[0].load(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	for _, e := range entries[1:] {
		v, _, err := engine.NewVersion(e.start, e.Model, e.load)
		if err != nil {
			return c, fmt.Errorf("%s: %w", path, err)
		}
		c.Later = append(c.Later, v)
	}
	return c, nil
}

// scheduleEntries reads the entries of a schedule, the first version in front.
func scheduleEntries(path string) ([]entry, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	entries, err := parseSchedule(text, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return entries, nil
}

// absent says what to do about a file that is not there.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: make it with \"geodither train\", or copy it here before the "+
			"schedule names it", err)
	}
	return err
}

// load reads what an entry names.
func (e entry) load() (*mobility.Model, error) {
	m, err := mobility.ReadModelFile(e.Model)
	return m, absent(err)
}

// parseSchedule reads the list, and makes its paths those of the folder it lies in.
func parseSchedule(text []byte, dir string) ([]entry, error) {
	var entries []entry
	found, err := decode(text, &entries)
	if err = cmp.Or(err, found.unset[""]); err != nil && !errors.Is(err, errEmpty) {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, errors.New("it lists no model; write \"- model: FILE\", and below it \"- " +
			"{model: FILE, start: 2026-12-01T04:00:00Z}\" for each later one")
	}
	for i := range entries {
		e := &entries[i]
		var err error
		switch {
		case e.Model == "":
			return nil, fmt.Errorf("version %d: name a model file", i+1)
		case i == 0 && e.Start != "":
			return nil, errors.New("the first version has a start: it is the one before all " +
				"starts, leave its start out")
		case i > 0 && e.Start == "":
			return nil, fmt.Errorf("version %d (%s): say from when on: start: 2026-12-01T04:00:00Z",
				i+1, e.Model)
		case i > 0:
			if e.start, err = time.Parse(time.RFC3339, e.Start); err != nil {
				return nil, fmt.Errorf("version %d (%s): start %q is no time with a zone: write "+
					"2026-12-01T04:00:00Z or 2026-12-01T05:00:00+01:00", i+1, e.Model, e.Start)
			}
		}
		if !filepath.IsAbs(e.Model) {
			e.Model = filepath.Join(dir, e.Model)
		}
	}
	return entries, nil
}

// Chosen reads the first version of the model once, and learns what the later ones are.
func (c *File) Chosen() (Chosen, error) {
	if c.chosen == nil { // a large model takes seconds to read
		chosen, err := Models{c.Model, c.Models}.Read()
		if err != nil {
			return chosen, err
		}
		c.chosen = &chosen
	}
	return *c.chosen, nil
}

// Models is how a config, or a command without one, names the model.
type Models struct {
	Model  string // a file
	Models string // a schedule, instead
}

// Chosen is the model that a config names, in its versions.
type Chosen struct {
	*mobility.Model
	Later []*engine.Version
}

// Read reads the first version, and learns what the later ones are.
func (c Models) Read() (Chosen, error) {
	switch {
	case c.Model != "" && c.Models != "":
		return Chosen{}, errors.New(
			"model and models exclude each other: one file, or a schedule of them")
	case c.Models != "":
		chosen, err := readSchedule(c.Models)
		if err != nil {
			return Chosen{}, fmt.Errorf("models: %w", err)
		}
		return chosen, nil
	case c.Model == "":
		return Chosen{}, errors.New(`model: name a model file; make one with "geodither train"`)
	}
	first, err := entry{Model: c.Model}.load()
	if err != nil {
		return Chosen{}, fmt.Errorf("model: %w", err)
	}
	return Chosen{Model: first}, nil
}

// Versions reads all models that records may name: the named files, or else those of the config.
func (c *File) Versions(files []string) (versions []*mobility.Model, err error) {
	switch {
	case len(files) > 0:
	case c.Models != "":
		entries, err := scheduleEntries(c.Models)
		if err != nil {
			return nil, fmt.Errorf("models: %w", err)
		}
		for _, e := range entries {
			files = append(files, e.Model)
		}
	default:
		files = []string{c.Model}
	}
	for _, file := range files {
		model, err := mobility.ReadModelFile(file)
		if err != nil {
			return nil, err
		}
		if len(versions) > 0 && model.Step != versions[0].Step {
			return nil, fmt.Errorf(
				"%s has a step of %v, and %s of %v: the versions of one service have the same",
				file, model.Step, files[0], versions[0].Step)
		}
		versions = append(versions, model)
	}
	return versions, nil
}
