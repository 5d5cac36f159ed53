package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// Error is everything that is wrong with a config, each in a line of its own that names the
// file, so that it can be read and searched for by itself.
func Error(path string, err error) error {
	if err == nil {
		return nil
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

func (e allFaults) Error() string { return e.text }
func (e allFaults) Unwrap() error { return e.cause }

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

// unknown says of a key that there is none, and which one may have been meant.
func unknown(key string) string {
	message := fmt.Sprintf("unknown key %q: ", key)
	near := nearKeys(key)
	if len(near) == 0 {
		return message + "a misspelling? geodither run --help lists the keys"
	}
	return message + "did you mean " + strings.Join(near, " or ") + "?"
}

// nearKeys are the known keys, of whatever section, that differ least from one, if that is
// little. cobra compares, as it does for commands: two letters in the wrong order are two
// differences. What is near many keys says nothing.
func nearKeys(key string) (near []string) {
	most := max(2, len(key)/3)
	if len(key) <= 3 {
		most = 1
	}
	for within := 1; within <= most && len(near) == 0; within++ {
		keys := &cobra.Command{SuggestionsMinimumDistance: within}
		for _, known := range allKeys() {
			keys.AddCommand(&cobra.Command{Use: known, Run: func(*cobra.Command, []string) {}})
		}
		near = keys.SuggestionsFor(key)
	}
	if len(near) > 3 {
		return nil
	}
	return near
}

// allKeys are the keys of configs and schedules, each once.
func allKeys() []string {
	top, sections := KeysOf(reflect.TypeFor[File]())
	versions, _ := KeysOf(reflect.TypeFor[entry]())
	all := append(top, versions...)
	for _, s := range sections {
		all = append(append(all, s.Name[strings.LastIndex(s.Name, ".")+1:]), s.Keys...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
