package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// Error returns everything that is wrong with a config, as an error of the user's: each fault on a
// line of its own that names the file. It returns an error that it has made before as it is.
func Error(path string, err error) error {
	if _, done := errors.AsType[allFaults](err); err == nil || done {
		return err
	}
	faults := eachOf(err)
	for i, fault := range faults {
		faults[i] = fmt.Sprintf("config %s: %s", path, strings.Join(strings.Fields(fault), " "))
	}
	return cli.Usage(allFaults{strings.Join(faults, "\n"), err})
}

// allFaults is an error with another text.
type allFaults struct {
	text  string
	cause error
}

// Error implements error.
func (e allFaults) Error() string { return e.text }

// Unwrap returns the error in its own words.
func (e allFaults) Unwrap() error { return e.cause }

// eachOf takes an error apart into those that were joined in it. It repeats a prefix of several for
// each of them: "release: a, b" becomes "release: a" and "release: b".
func eachOf(err error) (texts []string) {
	if err == nil {
		return nil
	}
	switch e := err.(type) { //nolint:errorlint // it takes the tree apart and looks for nothing
	case interface{ Unwrap() []error }:
		all := []string{}
		for _, one := range e.Unwrap() {
			all = append(all, one.Error())
			texts = append(texts, eachOf(one)...)
		}
		if strings.Join(all, "\n") == err.Error() {
			return texts
		}
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		if inner == nil {
			break
		}
		texts = eachOf(inner)
		if before, ok := strings.CutSuffix(err.Error(), inner.Error()); ok {
			for i := range texts {
				texts[i] = before + texts[i]
			}
			return texts
		}
	}
	return []string{err.Error()}
}
