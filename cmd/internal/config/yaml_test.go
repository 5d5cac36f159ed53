package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTabs: a tab that indents is told by its line and remedy, without YAML's words. Other faults
// of the text are not taken for one.
func TestTabs(t *testing.T) {
	for text, line := range map[string]int{
		"brokers: [a]\n\tgroup: x\n":              2,
		"kafka:\n\ttls: {}\n":                     2,
		"kafka:\n  tls: {}\n\t sasl: {}\n":        3,
		"kafka:\n  tls:\n \t enabled: true\n":     3,
		"kafka:\n  tls: {}\n\t\n  rack: a\n":      3,
		"brokers:\n  - a\n  -\tb: 1\n\t  c: 2\n":  3,
		"brokers: [\n\ta]\nkafka:\n\ttls: {}\n":   4,
		"brokers: [\n\ta]\ngroup: `a\nmodel: b\n": 0,
		"group:\ta\n":                     0,
		"group: @a\n":                     0,
		"# \tfirst\ngroup: a\nmodel: [\n": 0,
	} {
		path := filepath.Join(t.TempDir(), "geodither.yml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Read(path)
		if err == nil {
			err = errors.New("")
		}
		want := fmt.Sprintf(
			"geodither.yml: line %d: a tab indents this line; YAML takes spaces", line)
		if told := strings.HasSuffix(err.Error(), want); told != (line > 0) ||
			!told && strings.Contains(err.Error(), "a tab indents") {
			t.Errorf("%q: %v, want a tab told on line %d", text, err, line)
		}
	}
}

// TestCyclicYAML: a mapping that is part of itself ends no stack.
func TestCyclicYAML(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"kafka: &k\n  <<: *k\n", "release: &r {budget: *r}\n", "counts: &c {first: [*c, *c]}\n",
	} {
		path := filepath.Join(t.TempDir(), "loop.yml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}
