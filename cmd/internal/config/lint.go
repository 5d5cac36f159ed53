package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/schemas/mapping"
	"github.com/geodither/geodither/schemas/registry"
)

// Lint reads a config, as [Read] does, and checks it by its text, and by those of its files that
// are here. It connects to nothing. The error has everything that would keep "geodither run" from
// starting. The warnings name what was not checked, because a file is not here, and settings that
// are seldom meant.
func Lint(path string) (file File, warnings []string, err error) {
	file, err = Read(path)
	if err == nil {
		err = Error(path, file.Release.Budget.required())
	}
	if err != nil {
		return File{}, nil, err
	}
	l := &linter{file: file, dir: filepath.Dir(path)}
	l.check()
	return file, l.warnings, Error(path, errors.Join(l.faults...))
}

type linter struct {
	file     File
	dir      string
	warnings []string
	faults   []error
}

func (l *linter) check() {
	options := l.file.withoutFiles()
	// What Validate would say again of a part that has a fault, or was not checked.
	said := map[string]bool{}
	for _, p := range parts {
		err := p.fill(&l.file, &options)
		said[p.name] = l.fault(p.name, err)
	}
	if l.file.CountsUsers() {
		_, _, err := l.file.CountingClusters()
		if err == nil {
			_, err = l.file.Counted(InCounts)
		}
		l.fault("counts", err)
	}
	delete(said, "input") // Validate looks at other keys of it
	if said["registry"] {
		options.Registry = new(registry.Client) // there is one, though perhaps not here
	}
	for _, text := range eachOf(l.file.validate(options)) {
		if section, _, _ := strings.Cut(text, ":"); !said[section] {
			l.faults = append(l.faults, errors.New(text))
		}
	}
	for _, f := range l.file.Checks(options) {
		switch {
		case f.Level == checks.Failure:
			l.faults = append(l.faults, fmt.Errorf("%s: %s", f.Check, f.Detail))
		case f.Level == checks.Warning && (f.Check != "release.budget" || len(l.faults) == 0):
			l.warn("%s: %s", f.Check, f.Detail)
		}
	}
}

// Checks makes the checks that need no broker, of options of the config. What could not be read,
// such as a key that is elsewhere, is left out.
func (c *File) Checks(o service.Options) []checks.Finding {
	start := o.Start()
	start.Config = c.Beside()
	return checks.ByText(start)
}

// Beside is what the config says beside the options of its service.
func (c *File) Beside() *checks.Config {
	return &checks.Config{
		KeyFile: c.KeyFile, KeyCheckOff: c.Input.KeyCheck == mapping.KeyCheckOff,
		Counts: c.CountsUsers(), PlainLogin: c.Kafka.SASL.AllowPlaintext,
	}
}

func (l *linter) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

// fault takes an error of a part, and reports whether there was one. A file or a variable that is
// not here is no fault: a config is often checked where the service will not run.
func (l *linter) fault(part string, err error) bool {
	if err == nil {
		return false
	}
	variables, paths := away(err)
	for i, path := range paths {
		if relative, err := filepath.Rel(l.dir, path); err == nil && filepath.IsLocal(relative) {
			paths[i] = relative
		}
	}
	switch {
	case len(variables) > 0:
		l.warn("%s: not checked, because the environment has no variable %s", part,
			strings.Join(variables, ", and no "))
	case len(paths) == 1:
		l.warn("%s: not checked, because %s is not here", part, paths[0])
	case len(paths) > 1:
		l.warn("%s: not checked, because these are not here: %s", part,
			strings.Join(paths, ", "))
	default:
		l.faults = append(l.faults, err)
	}
	return true
}

// away returns the variables and the files that are missing according to an error and all that it
// joins, each once.
func away(err error) (variables, paths []string) {
	add := func(to []string, name string) []string {
		if slices.Contains(to, name) {
			return to
		}
		return append(to, name)
	}
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case noVariable:
		return []string{string(e)}, nil
	case *fs.PathError:
		if errors.Is(e, fs.ErrNotExist) {
			return nil, []string{e.Path}
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			names, files := away(one)
			for _, name := range names {
				variables = add(variables, name)
			}
			for _, path := range files {
				paths = add(paths, path)
			}
		}
	case interface{ Unwrap() error }:
		return away(e.Unwrap())
	}
	return variables, paths
}
