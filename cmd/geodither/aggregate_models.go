package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// readerModels are the models that a reader has: the public ones, and inside a company
// perhaps users' own.
type readerModels struct {
	public aggregate.Models
	own    []*mobility.Personals // over each of the public ones; nil: none
	rule   mobility.Succession   // which of the public ones counts when
}

// readModels reads all models that records may name. Users' own models, which a schedule
// or a config name, are not for readers: where the folder is away, their users are left
// out. The folder that --personal names has to be there.
func (f *aggregateFlags) readModels() (readerModels, error) {
	var m readerModels
	var entries []scheduleEntry
	switch {
	case len(f.models) > 0 && f.schedule != "":
		return m, cli.Usagef("--model and --models exclude each other: files, or the service's list of them")
	case f.schedule != "" && f.personal != "":
		return m, cli.Usagef("--personal belongs to --model: in a schedule each version names its own")
	case len(f.models) > 1 && f.personal != "":
		return m, cli.Usagef("--personal belongs to one --model: for several versions write a schedule, and name it with --models")
	case f.schedule != "":
		text, err := os.ReadFile(f.schedule)
		if err != nil {
			return m, fmt.Errorf("models: %w", err)
		}
		if entries, err = parseSchedule(text, filepath.Dir(f.schedule)); err != nil {
			return m, fmt.Errorf("models: %s: %w", f.schedule, err)
		}
	case len(f.models) == 0:
		return m, cli.Usagef("name the model of the releases with --model, the service's list of models with --models, or its config with -c")
	}
	for _, file := range f.models {
		entries = append(entries, scheduleEntry{Model: file, Personal: f.personal})
	}
	for i, e := range entries {
		if _, err := os.Stat(e.Personal); !f.insists && errors.Is(err, fs.ErrNotExist) {
			e.Personal = ""
		}
		material, err := e.load(defaultPersonalCache)
		if err != nil {
			return m, err
		}
		if model := material.Model; i > 0 && model.Step != m.public[0].Step {
			return m, fmt.Errorf("%s has a step of %v, and %s of %v: the versions of one service have the same", e.Model, model.Step, entries[0].Model, m.public[0].Step)
		}
		own, _ := material.Personals.(*mobility.Personals)
		m.public, m.own = append(m.public, material.Model), append(m.own, own)
		if i == 0 {
			m.rule = mobility.Succession{StepMS: material.Model.Step.Milliseconds(), GridID: material.Model.Grid.ID()}
			continue
		}
		later := mobility.Successor{GridID: material.Model.Grid.ID()}
		if !e.start.IsZero() {
			later.StartMS = e.start.UnixMilli()
		}
		m.rule.Later = append(m.rule.Later, later)
	}
	return m, nil
}

// ownOf returns the user's own model under which a record was made that names no public
// model, and the public one that it lies over: that of the version of the record's time,
// as the service chooses it. own is nil if the reader does not have it.
func (m readerModels) ownOf(r schemas.Sanitized) (own *mobility.Personal, over string, err error) {
	at := 1 + m.rule.At(math.MaxInt64, r.Step, mobility.LastStep{})
	if m.own[at] == nil {
		return nil, "", nil
	}
	own, err = m.own[at].Load(r.UserID)
	return own, m.public[at].ID(), err
}
