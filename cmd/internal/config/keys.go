package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// Keys lists the keys of a config, a section in a line, in the file's order: what the
// decoder takes, so that no list has to be kept beside it.
func Keys() string {
	var b strings.Builder
	top, sections := KeysOf(reflect.TypeFor[File]())
	for _, line := range cli.Wrap(strings.Join(top, ", "), cli.Columns) {
		b.WriteString("  " + line + "\n")
	}
	for _, s := range sections {
		for i, line := range cli.Wrap(s.Name+": "+strings.Join(s.Keys, ", "), cli.Columns-2) {
			b.WriteString("  " + strings.Repeat("  ", min(i, 1)) + line + "\n")
		}
	}
	return b.String()
}

// Section is a key of a config that has others below it.
type Section struct {
	Name string
	Keys []string
}

// KeysOf returns the keys of a struct that have a value, and those that have others below them.
func KeysOf(t reflect.Type) (keys []string, sections []Section) {
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
		own, below := KeysOf(field.Type)
		sections = append(sections, Section{name, own})
		for _, s := range below {
			sections = append(sections, Section{name + "." + s.Name, s.Keys})
		}
	}
	return keys, sections
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
