package main

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/geodither/geodither/cmd/internal/config"
)

// TestRunHelpListsTheKeys: every key of a config is in the help of run, a section in a line, and
// the file that explains them has each of them, in use or commented out.
func TestRunHelpListsTheKeys(t *testing.T) {
	help := succeed(t, "run", "--help").out
	example := read(t, filepath.Join(root, "deploy", "geodither.yml"))
	known := func(key string) bool {
		return regexp.MustCompile(`(?m)^[ #]*` + key + `:`).MatchString(example)
	}
	top, sections := config.KeysOf(reflect.TypeFor[config.File]())
	if len(top) < 9 || len(sections) < 7 || known("nonsense") {
		t.Fatalf("the keys are %q and %+v", top, sections)
	}
	const most = 96 // "How to add" in CONTRIBUTING.md says what to ask first
	keyed := len(top)
	for _, s := range sections {
		keyed += len(s.Keys)
	}
	if keyed > most {
		t.Errorf("a config has %d keys, more than %d", keyed, most)
	}
	sections = append(sections, config.Section{Keys: top})
	for _, s := range sections {
		if _, line, ok := strings.Cut(help, "\n  "+s.Name+": "); s.Name != "" &&
			(!ok || !strings.HasPrefix(line, s.Keys[0])) {
			t.Errorf("the help has no line for %s", s.Name)
		}
		for _, key := range s.Keys {
			if !regexp.MustCompile(`\b` + key + `\b`).MatchString(help) {
				t.Errorf("the help does not name %s of %q", key, s.Name)
			}
			if !known(key) {
				t.Errorf("deploy/geodither.yml does not explain %s of %q", key, s.Name)
			}
		}
	}
	for _, word := range []string{
		"release.budget", "raw, sanitized, changelog", "deploy/geodither.yml",
	} {
		if !strings.Contains(help, word) {
			t.Errorf("the help does not say %q:\n%s", word, help)
		}
	}
	_, keys, _ := strings.Cut(help, "Keys of the config")
	keys, _, _ = strings.Cut(keys, "Usage:")
	for _, line := range strings.Split(keys, "\n") {
		if utf8.RuneCountInString(line) > 100 {
			t.Errorf("a line of %d characters: %q", utf8.RuneCountInString(line), line)
		}
	}
}
