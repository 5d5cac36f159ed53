package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

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

// numbers puts variables into the numbers, durations and switches of a config's text, whose
// decoder would take no variable for one. What a variable holds has to be such a value as a whole,
// and is written again, so that it cannot change the document. Texts keep their variables.
type numbers struct {
	lines [][]byte // of the text
	found []number // in the document's order
	errs  []error
}

// number is a value with variables in it.
type number struct {
	line, column int // from 0, in bytes
	raw          string
	value        string // takes the place of raw
}

// putNumbers returns the text of a config, which is decoded into a type, with its numbers in it.
// Line numbers stay as they are.
func putNumbers(data []byte, root *yaml.Node, t reflect.Type) ([]byte, error) {
	n := &numbers{lines: bytes.Split(data, []byte("\n"))}
	for _, document := range root.Content {
		n.walk(document, t, "")
	}
	for _, at := range slices.Backward(n.found) {
		line := n.lines[at.line]
		n.lines[at.line] = slices.Concat(line[:at.column], []byte(at.value),
			line[at.column+len(at.raw):])
	}
	return bytes.Join(n.lines, []byte("\n")), errors.Join(n.errs...)
}

// walk looks for variables in a node of the document that is decoded into a type.
func (n *numbers) walk(node *yaml.Node, t reflect.Type, path string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case node.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i].Value, node.Content[i+1]
			if key == "<<" {
				n.walk(value, t, path)
			} else if below, ok := fieldOf(t, key); ok {
				n.walk(value, below, strings.TrimPrefix(path+"."+key, "."))
			}
		}
	case node.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, one := range node.Content {
			n.walk(one, t.Elem(), path)
		}
	case node.Kind == yaml.ScalarNode && isNumber(t) && variable.MatchString(node.Value):
		if err := n.put(node, t); err != nil {
			n.errs = append(n.errs, fmt.Errorf("line %d: %s: %w", node.Line, path, err))
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

// put adds a value with variables. Errors name the variables, and not what they hold: it may be a
// secret that was meant for another line.
func (n *numbers) put(node *yaml.Node, t reflect.Type) error {
	var names []string
	for _, parts := range variable.FindAllStringSubmatch(node.Value, -1) {
		names = append(names, "${"+parts[1]+"}")
	}
	named := strings.Join(names, ", ")
	quotes := map[yaml.Style]string{yaml.DoubleQuotedStyle: `"`, yaml.SingleQuotedStyle: "'"}
	quote := quotes[node.Style]
	at := number{line: node.Line - 1, raw: quote + node.Value + quote}
	if at.line < len(n.lines) {
		at.column = byteAt(n.lines[at.line], node.Column-1)
		if !bytes.HasPrefix(n.lines[at.line][at.column:], []byte(at.raw)) {
			return fmt.Errorf("write \"%s\" in quotes, on one line", named)
		}
	}
	text, err := expandText(node.Value)
	if err != nil {
		return err
	}
	var ok bool
	if at.value, ok = literal(text, t); !ok {
		return fmt.Errorf("%s gives something else than %s", named, kindOf(t.String()))
	}
	n.found = append(n.found, at)
	return nil
}

// byteAt returns the byte at which a character of a line begins.
func byteAt(line []byte, column int) (at int) {
	for ; column > 0 && at < len(line); column-- {
		_, size := utf8.DecodeRune(line[at:])
		at += size
	}
	return at
}

// literal returns a value of a type as YAML writes it. Nothing, and null, are no such value: an
// empty variable must not turn a limit off.
func literal(text string, t reflect.Type) (string, bool) {
	node, value := yaml.Node{Kind: yaml.ScalarNode, Value: strings.TrimSpace(text)}, reflect.New(t)
	if node.ShortTag() == "!!null" || node.Decode(value.Interface()) != nil {
		return "", false
	}
	written, err := yaml.Marshal(value.Interface())
	return strings.TrimSpace(string(written)), err == nil
}

// kindOf says what a Go type wants to see in YAML.
func kindOf(goType string) string {
	switch {
	case goType == "time.Duration":
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
