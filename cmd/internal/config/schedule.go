package config

import (
	"bytes"
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

// schedule reads a schedule of models again and again, and keeps what has not changed.
// It is for one goroutine.
type schedule struct {
	path string

	text    []byte // that the last answer is of
	pending []byte // that was seen last, and not twice yet
	stamps  []fileStamp
	entries []entry
	first   engine.VersionID
	later   []*engine.Version
}

// fileStamp tells whether a file is the same one as before, without reading it.
type fileStamp struct {
	info    os.FileInfo
	size    int64
	changed time.Time
}

// open reads the schedule for the first time, and the first version's files.
func (s *schedule) open() (*mobility.Model, error) {
	text, err := os.ReadFile(s.path)
	if err != nil {
		return nil, err
	}
	first, err := s.take(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	s.text, s.pending = text, text
	return first, nil
}

// watch is service.Options.Watch. A text that has changed is taken when it has stayed
// the same from one look to the next: half of a schedule can be a whole one, with another
// meaning, and a version that was adopted cannot be taken back. Files that are others now
// make it a change too: so is a file put back that should not have been touched.
func (s *schedule) watch() (engine.Schedule, error) {
	text, err := os.ReadFile(s.path)
	if err != nil {
		return engine.Schedule{}, err
	}
	same := bytes.Equal(text, s.pending)
	s.pending = text
	if same && (!bytes.Equal(text, s.text) || s.moved()) {
		if _, err := s.take(text); err != nil {
			return engine.Schedule{}, fmt.Errorf("%s: %w", s.path, err)
		}
		s.text = text
	}
	return engine.Schedule{First: s.first, Later: s.later}, nil
}

// take makes the versions of a text, and changes nothing on an error. Versions whose
// entry and files are as they were are the same ones.
func (s *schedule) take(text []byte) (first *mobility.Model, err error) {
	entries, err := parseSchedule(text, filepath.Dir(s.path))
	if err != nil {
		return nil, err
	}
	stamps := make([]fileStamp, len(entries))
	later := make([]*engine.Version, len(entries)-1)
	id := s.first
	for i, e := range entries {
		if stamps[i], err = stampOf(e); err != nil {
			return nil, err
		}
		known := s.known(e, stamps[i])
		switch {
		case i == 0 && known == 0:
		case i == 0:
			if first, err = e.load(); err == nil {
				id, err = engine.NewVersionID(first, 0)
			}
		case known > 0:
			later[i-1] = s.later[known-1]
		default:
			later[i-1], _, err = engine.NewVersion(e.start, e.Model, e.load)
		}
		if err != nil {
			return nil, err
		}
	}
	s.entries, s.stamps, s.first, s.later = entries, stamps, id, later
	return first, nil
}

// known is the place of an entry that is there already, with the same file; -1: it is not.
func (s *schedule) known(e entry, file fileStamp) int {
	for i, old := range s.entries {
		if old == e && file.same(s.stamps[i]) {
			return i
		}
	}
	return -1
}

// moved reports whether files are not those that the last answer is of.
func (s *schedule) moved() bool {
	for i, e := range s.entries {
		if now, err := stampOf(e); err != nil || !now.same(s.stamps[i]) {
			return true
		}
	}
	return false
}

func stampOf(e entry) (fileStamp, error) {
	info, err := os.Stat(e.Model)
	if err != nil {
		return fileStamp{}, absent(err)
	}
	return fileStamp{info, info.Size(), info.ModTime()}, nil
}

func (s fileStamp) same(o fileStamp) bool {
	return os.SameFile(s.info, o.info) && s.size == o.size && s.changed.Equal(o.changed)
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
	return mobility.ReadModelFile(e.Model)
}

// parseSchedule reads the list, and makes its paths those of the folder it lies in.
func parseSchedule(text []byte, dir string) ([]entry, error) {
	var entries []entry
	if _, err := decode(text, &entries); err != nil {
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
	Watch func() (engine.Schedule, error) // nil: nothing changes
}

// Read reads the first version, and learns what the later ones are.
func (c Models) Read() (Chosen, error) {
	switch {
	case c.Model != "" && c.Models != "":
		return Chosen{}, errors.New(
			"model and models exclude each other: one file, or a schedule of them")
	case c.Models != "":
		s := &schedule{path: c.Models}
		first, err := s.open()
		if err != nil {
			return Chosen{}, fmt.Errorf("models: %w", err)
		}
		return Chosen{first, s.later, s.watch}, nil
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
		text, err := os.ReadFile(c.Models)
		if err != nil {
			return nil, fmt.Errorf("models: %w", err)
		}
		entries, err := parseSchedule(text, filepath.Dir(c.Models))
		if err != nil {
			return nil, fmt.Errorf("models: %s: %w", c.Models, err)
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
