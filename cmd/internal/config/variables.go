package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
)

// variable is ${NAME} or ${NAME:default}; a second $ before it makes it a plain text.
var variable = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)(:[^}]*)?\}`)

// noVariable is the name of a variable that the environment does not have.
type noVariable string

// Error implements error.
func (name noVariable) Error() string {
	return fmt.Sprintf("the environment has no variable %s: set it, write ${%[1]s:DEFAULT}, or "+
		"$${%[1]s} for the text itself", string(name))
}

// connections are the sections that only what connects needs: other commands do without variables
// that hold passwords. Any value in them may be a secret that was meant for another line.
var connections = []string{"kafka", "registry"}

// expandText puts variables into a text.
func expandText(text string) (string, error) {
	var errs []error
	text = variable.ReplaceAllStringFunc(text, func(found string) string {
		if found[1] == '$' {
			return found[1:]
		}
		parts := variable.FindStringSubmatch(found)
		if value, ok := os.LookupEnv(parts[1]); ok {
			return value
		}
		if parts[2] == "" {
			errs = append(errs, noVariable(parts[1]))
			return found
		}
		return parts[2][1:]
	})
	return text, errors.Join(errs...)
}

// document is what one pass over the nodes of a YAML document finds, before it is decoded into a
// type.
type document struct {
	written map[string]bool // keys that it has, such as topics.raw, also without a value
	unknown []error         // keys that the type does not have
	wrong   []error         // variables that do not hold what the type wants
	// unset are variables of texts that the environment does not have, by section for connections,
	// and all others under an empty name.
	unset map[string]error
	done  map[*yaml.Node]bool // variables that were put in: an alias repeats its node
	seen  map[visit]bool      // mappings: one may be part of itself
}

// visit is a mapping that is decoded into a type at a place.
type visit struct {
	node *yaml.Node
	into reflect.Type
	path string
}

// walk looks at a node that is decoded into a type. It collects unknown keys: a misspelt setting
// must not silently keep its default. It puts the variables in. That is after YAML was parsed, so
// what a variable holds cannot change the document.
func (d *document) walk(node *yaml.Node, t reflect.Type, path string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch node.Kind {
	case yaml.AliasNode:
		d.walk(node.Alias, t, path)
	case yaml.DocumentNode:
		d.walk(node.Content[0], t, path)
	case yaml.SequenceNode:
		for _, one := range node.Content {
			if t.Kind() == reflect.Slice {
				d.walk(one, t.Elem(), path)
			}
		}
	case yaml.MappingNode:
		if d.seen[visit{node, t, path}] {
			return
		}
		d.seen[visit{node, t, path}] = true
		for i := 0; i+1 < len(node.Content); i += 2 {
			d.key(node.Content[i], node.Content[i+1], t, path)
		}
	case yaml.ScalarNode:
		if variable.MatchString(node.Value) && !d.done[node] {
			d.done[node] = true
			d.put(node, t, path)
		}
	}
}

// key looks at a key of a mapping that is decoded into a type, and at its value.
func (d *document) key(key, value *yaml.Node, t reflect.Type, path string) {
	below := strings.TrimPrefix(path+"."+key.Value, ".")
	switch of, known := fieldOf(t, key.Value); {
	case key.Value == "<<":
		d.walk(value, t, path)
	case known:
		d.written[below] = true
		d.walk(value, of, below)
	case t.Kind() == reflect.Map:
		d.written[below] = true
		d.walk(value, t.Elem(), below)
	case t.Kind() == reflect.Struct:
		d.unknown = append(d.unknown, fmt.Errorf("line %d: %s", key.Line, unknown(key.Value)))
	}
}

// put puts variables into a node.
func (d *document) put(node *yaml.Node, t reflect.Type, path string) {
	switch {
	case isNumber(t):
		if err := putNumber(node, t); err != nil {
			d.wrong = append(d.wrong, fmt.Errorf("line %d: %s: %w", node.Line, path, err))
		}
	case t.Kind() == reflect.String, t.Kind() == reflect.Interface,
		t == reflect.TypeFor[kafkaconn.Secret](),
		reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]()):
		text, err := expandText(node.Value)
		node.Value, node.Tag, node.Style = text, "!!str", yaml.DoubleQuotedStyle
		section, _, _ := strings.Cut(path, ".")
		if !slices.Contains(connections, section) {
			section = ""
		}
		d.unset[section] = errors.Join(d.unset[section], err)
	}
}

// isNumber reports whether a type is that of a number, a duration or a switch.
func isNumber(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return true
	default:
		return false
	}
}

// fieldOf returns the type that a struct has for a key.
func fieldOf(t reflect.Type, key string) (reflect.Type, bool) {
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name == key && key != "" {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}

// putNumber puts what variables hold into a node. That has to be a value of the type as a whole, so
// it cannot change the document. Nothing, and null, are no such value: an empty variable must not
// turn a limit off. Errors name the variables, and not what they hold: it may be a secret that was
// meant for another line.
func putNumber(node *yaml.Node, t reflect.Type) error {
	text, err := expandText(node.Value)
	if err != nil {
		return err
	}
	plain := yaml.Node{
		Kind: yaml.ScalarNode, Value: strings.TrimSpace(text), Line: node.Line, Column: node.Column,
	}
	if plain.ShortTag() == "!!null" || plain.Decode(reflect.New(t).Interface()) != nil {
		var names []string
		for _, parts := range variable.FindAllStringSubmatch(node.Value, -1) {
			names = append(names, "${"+parts[1]+"}")
		}
		return fmt.Errorf("%s gives something else than %s", strings.Join(names, ", "),
			kindOf(t.String()))
	}
	*node = plain
	return nil
}

// kindOf says what a Go type wants to see in YAML.
func kindOf(goType string) string {
	switch {
	case goType == "time.Duration", goType == "config.Ahead":
		return "a duration with its unit, such as 100ms, 30s or 1h"
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "int") || strings.HasPrefix(goType, "float"):
		return "a number"
	case strings.HasPrefix(goType, "[]"):
		return "a list, [one, two]"
	case goType == "string" || strings.HasSuffix(goType, "Encoding") ||
		strings.HasSuffix(goType, "Secret"):
		return "a text"
	}
	return "settings below it, each on its line"
}

// unknown says that a key does not exist, and which one may have been meant.
func unknown(key string) string {
	message := fmt.Sprintf("unknown key %q: ", key)
	if key == "smooth" || key == "smoothed" {
		return message + "no service smooths; use geodither consume | geodither smooth --in -"
	}
	near := cli.Nearest(key, allKeys())
	if len(near) == 0 {
		return message + "a misspelling? geodither run --help lists the keys"
	}
	return message + "did you mean " + strings.Join(near, " or ") + "?"
}
