package main

import (
	"reflect"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// configKeys lists the keys of a config, a section in a line, in the file's order: what the
// decoder takes, so that no list has to be kept beside it.
func configKeys() string {
	var b strings.Builder
	top, sections := keysOf(reflect.TypeFor[configFile]())
	for _, line := range cli.Wrap(strings.Join(top, ", "), cli.Columns) {
		b.WriteString("  " + line + "\n")
	}
	for _, s := range sections {
		for i, line := range cli.Wrap(s.name+": "+strings.Join(s.keys, ", "), cli.Columns-2) {
			b.WriteString("  " + strings.Repeat("  ", min(i, 1)) + line + "\n")
		}
	}
	return b.String()
}

// section is a key of a config that has others below it.
type section struct {
	name string
	keys []string
}

// keysOf returns the keys of a struct that have a value, and those that have others below them.
func keysOf(t reflect.Type) (keys []string, sections []section) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, ok := field.Tag.Lookup("yaml")
		if !ok {
			continue
		}
		if field.Type.Kind() != reflect.Struct {
			keys = append(keys, name)
			continue
		}
		own, below := keysOf(field.Type)
		sections = append(sections, section{name, own})
		for _, s := range below {
			sections = append(sections, section{name + "." + s.name, s.keys})
		}
	}
	return keys, sections
}
