package main

import (
	"fmt"
	"strings"
)

// configError is everything that is wrong with a config, each in a line of its own that names the
// file, so that it can be read and searched for by itself.
func configError(path string, err error) error {
	if err == nil {
		return nil
	}
	faults := eachOf(err)
	for i, fault := range faults {
		faults[i] = fmt.Sprintf("config %s: %s", path, strings.Join(strings.Fields(fault), " "))
	}
	return usageError{configFaults{strings.Join(faults, "\n"), err}}
}

// configFaults is an error with another text.
type configFaults struct {
	text  string
	cause error
}

func (e configFaults) Error() string { return e.text }
func (e configFaults) Unwrap() error { return e.cause }

// eachOf takes an error apart into those that were joined in it. What was put in front of several
// is put in front of each: "release: a, b" is "release: a" and "release: b".
func eachOf(err error) (texts []string) {
	switch e := err.(type) { //nolint:errorlint // it takes the tree apart, and looks for nothing in it
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
