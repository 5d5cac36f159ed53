// Package deploy carries the example configs, and what to do about errors, so that a binary without
// the source has them too.
package deploy

import (
	"embed"
	"strings"
)

// Example is geodither.yml, a complete config that explains every key.
//
//go:embed geodither.yml
var Example string

//go:embed examples/*.yml
var examples embed.FS

// Environments are the names of the short configs in the folder examples, in alphabetical order.
func Environments() (names []string) {
	entries, err := examples.ReadDir("examples")
	if err != nil {
		panic(err) // it is in the binary
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yml"))
	}
	return names
}

// ExampleFor is the short config for an environment, and whether there is one.
func ExampleFor(environment string) (text string, ok bool) {
	data, err := examples.ReadFile("examples/" + environment + ".yml")
	return string(data), err == nil
}
