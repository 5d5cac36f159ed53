package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decode reads a YAML text of one document into a value, with the variables of the environment. It
// returns what it has found; of an empty text nothing is written. The errors are the author's.
func decode(text []byte, into any) (document, error) {
	d := document{
		written: map[string]bool{}, unset: map[string]error{}, done: map[*yaml.Node]bool{},
		seen: map[visit]bool{},
	}
	root := new(yaml.Node)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(root); errors.Is(err, io.EOF) {
		return d, errEmpty
	} else if err != nil {
		return d, explainTab(text, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return d, errors.New("a second YAML document follows the first (---)")
	}
	d.walk(root, reflect.TypeOf(into).Elem(), "")
	if len(d.wrong) > 0 {
		return d, errors.Join(d.wrong...)
	}
	err := explainYAML(root.Decode(into), secretLines(root))
	return d, errors.Join(append(d.unknown, err)...)
}

// errEmpty says that a text has no document.
var errEmpty = errors.New("the file is empty")

var wrongKind = regexp.MustCompile("cannot unmarshal \\S+( `.*`)? into (.*)")

// explainYAML translates the decoder's errors, which name Go types, for the author of the file. It
// leaves out what stands on a line that may hold a secret.
func explainYAML(err error, secret func(line int) bool) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return err
	}
	lines := make([]error, 0, len(wrong.Errors))
	for _, line := range wrong.Errors {
		if parts := wrongKind.FindStringSubmatch(line); parts != nil {
			value, number := parts[1], 0
			_, err := fmt.Sscanf(line, "line %d:", &number)
			if value != "" && (err != nil || secret(number)) {
				value = "a single value"
			}
			line = wrongKind.ReplaceAllLiteralString(line, strings.TrimSpace(
				value+" cannot be used here: write "+kindOf(parts[2])))
		}
		lines = append(lines, errors.New(line))
	}
	return errors.Join(lines...)
}

var (
	// tabError is what the decoder says about a tab; without that word it may mean another
	// character.
	tabError = regexp.MustCompile(
		`^yaml: (?:line (\d+): )?found (?:a tab|character that cannot start)`)
	// tabIndent is a tab before a line's key, or behind the "-" of an item.
	tabIndent = regexp.MustCompile(`^[ -]*\t`)
)

// explainTab says on which line a tab indents, if that is what a decoder's error is about. The
// decoder counts the line too low where the tab follows other keys, so the line is looked up.
func explainTab(text []byte, err error) error {
	parts := tabError.FindStringSubmatch(err.Error())
	if parts == nil {
		return err
	}
	first, _ := strconv.Atoi(parts[1]) // 0 where the decoder names no line: look at all of them
	number := 0
	for line := range bytes.Lines(text) {
		if number++; number >= first && tabIndent.Match(line) {
			return fmt.Errorf("line %d: a tab indents this line; YAML takes spaces", number)
		}
	}
	return err
}

// secretLines reports of a line of a document whether it is in a section that may hold secrets.
func secretLines(root *yaml.Node) func(line int) bool {
	var ranges [][2]int
	for _, document := range root.Content {
		for i := 0; i+1 < len(document.Content); i += 2 {
			if !slices.Contains(connections, document.Content[i].Value) {
				continue
			}
			lines := [2]int{document.Content[i].Line, math.MaxInt}
			if i+2 < len(document.Content) {
				lines[1] = document.Content[i+2].Line
				if document.Style&yaml.FlowStyle == 0 {
					lines[1]-- // the next key begins a line
				}
			}
			ranges = append(ranges, lines)
		}
	}
	return func(line int) bool {
		return slices.ContainsFunc(ranges, func(lines [2]int) bool {
			return line >= lines[0] && line <= lines[1]
		})
	}
}
