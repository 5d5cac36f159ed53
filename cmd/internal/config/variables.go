package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
)

// variable is ${NAME} or ${NAME:default}; a second $ before it makes it a plain text.
var variable = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)(:[^}]*)?\}`)

// expand puts environment variables into the texts of a value that was read from YAML. They come
// in after YAML was parsed, so what a variable holds cannot change the document.
func expand(v reflect.Value) error {
	var errs []error
	if v.CanAddr() {
		if secret, ok := v.Addr().Interface().(*kafkaconn.Secret); ok {
			return secret.Expand(expandText)
		}
	}
	switch v.Kind() {
	case reflect.String:
		text, err := expandText(v.String())
		v.SetString(text)
		return err
	case reflect.Interface: // of a rule
		if text, ok := v.Interface().(string); ok {
			text, err := expandText(text)
			v.Set(reflect.ValueOf(text))
			return err
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				errs = append(errs, expand(v.Field(i)))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			errs = append(errs, expand(v.Index(i)))
		}
	case reflect.Map:
		if v.IsNil() {
			return nil
		}
		expanded := reflect.MakeMap(v.Type()) // another one: the section may be expanded again
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			errs = append(errs, expand(value))
			expanded.SetMapIndex(key, value)
		}
		v.Set(expanded)
	default:
	}
	return errors.Join(errs...)
}

// noVariable is the name of a variable that the environment does not have.
type noVariable string

// Error implements error.
func (name noVariable) Error() string {
	return fmt.Sprintf("the environment has no variable %s: set it, write ${%[1]s:DEFAULT}, or "+
		"$${%[1]s} for the text itself", string(name))
}

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

// document looks at the nodes of a YAML document before it is decoded into a type.
type document struct {
	seen    map[visit]bool
	unknown []error // keys that the type does not have
	wrong   []error // variables that do not hold what the type wants
}

// visit is one look at a node, which an alias may repeat.
type visit struct {
	node *yaml.Node
	as   reflect.Type
}

// walk looks at a node that is decoded into a type. It collects unknown keys: a misspelt setting
// must not silently keep its default. It puts variables into numbers, durations and switches, for
// which the decoder would take no variable. Texts keep their variables.
func (d *document) walk(node *yaml.Node, t reflect.Type, path string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if d.seen[visit{node, t}] {
		return
	}
	d.seen[visit{node, t}] = true
	switch {
	case node.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			if key.Value == "<<" {
				d.walk(value, t, path)
			} else if below, ok := fieldOf(t, key.Value); ok {
				d.walk(value, below, strings.TrimPrefix(path+"."+key.Value, "."))
			} else {
				d.unknown = append(d.unknown,
					fmt.Errorf("line %d: %s", key.Line, unknown(key.Value)))
			}
		}
	case node.Kind == yaml.DocumentNode:
		d.walk(node.Content[0], t, path)
	case node.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, one := range node.Content {
			d.walk(one, t.Elem(), path)
		}
	case node.Kind == yaml.ScalarNode && isNumber(t) && variable.MatchString(node.Value):
		if err := putNumber(node, t); err != nil {
			d.wrong = append(d.wrong, fmt.Errorf("line %d: %s: %w", node.Line, path, err))
		}
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
