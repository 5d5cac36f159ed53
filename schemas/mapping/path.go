package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of a path, far above what any message needs.
const (
	maxPathBytes = 256
	maxSteps     = 16
	maxIndex     = 9999
)

// path leads to a part of a tree.
type path struct {
	text  string // as it was written
	whole bool   // it starts at the whole message
	steps []step
}

// step is one of three: the member of that name; with array, the element of that index; with
// match, the first element whose member of that name is that text.
type step struct {
	name         string
	index        int
	value        string
	array, match bool
}

var errPath = errors.New("write a path as a.b.c, a[0], a[key=Location], or $.a from the whole " +
	"message")

// parsePath reads a path. "$" alone is the whole message.
func parsePath(text string) (path, error) {
	p := path{text: text}
	wrong := func(why string) (path, error) {
		return path{}, fmt.Errorf("%q %s; %w", clip(text), why, errPath)
	}
	switch {
	case text == "":
		return wrong("is empty")
	case len(text) > maxPathBytes:
		return wrong(fmt.Sprintf("is longer than %d bytes", maxPathBytes))
	}
	rest := text
	if p.whole = rest == "$" || strings.HasPrefix(rest, "$.") ||
		strings.HasPrefix(rest, "$["); p.whole {
		rest = strings.TrimPrefix(rest[1:], ".")
		if rest == "" && text != "$" {
			return wrong("has a point with no name behind it")
		}
	}
	for rest != "" {
		var s step
		var err error
		if rest[0] == '[' {
			s, rest, err = parseBracket(rest)
		} else {
			s, rest, err = parseName(rest)
		}
		if err != nil {
			return wrong(err.Error())
		}
		p.steps = append(p.steps, s)
	}
	if len(p.steps) > maxSteps {
		return wrong(fmt.Sprintf("has more than %d steps", maxSteps))
	}
	return p, nil
}

// parseName reads a member's name and the point behind it.
func parseName(text string) (s step, rest string, err error) {
	end := strings.IndexAny(text, ".[")
	if end < 0 {
		end = len(text)
	}
	s.name, rest = text[:end], text[end:]
	switch {
	case s.name == "":
		return s, "", errors.New("has an empty name")
	case strings.ContainsAny(s.name, "]\"=$ \t\r\n"):
		return s, "", errors.New("has a name that needs quotes, a[\"b.c\"]")
	}
	rest, err = behind(rest)
	return s, rest, err
}

// parseBracket reads [0], [key=value] or ["name"], and the point behind it.
func parseBracket(text string) (s step, rest string, err error) {
	if strings.HasPrefix(text, `["`) {
		name, after, ok := strings.Cut(text[2:], `"]`)
		if !ok || name == "" {
			return s, "", errors.New(`lacks "] behind a name in quotes`)
		}
		rest, err = behind(after)
		return step{name: name}, rest, err
	}
	inside, rest, ok := strings.Cut(text[1:], "]")
	if !ok {
		return s, "", errors.New("lacks a closing bracket")
	}
	if name, value, ok := strings.Cut(inside, "="); ok {
		if name == "" || value == "" || strings.ContainsAny(name, ".[\" ") {
			return s, "", errors.New("has brackets without a number or name=value")
		}
		rest, err = behind(rest)
		return step{name: name, value: value, match: true}, rest, err
	}
	index, err := strconv.ParseUint(inside, 10, 32)
	if err != nil || index > maxIndex {
		return s, "", errors.New("has brackets without a number or name=value")
	}
	rest, err = behind(rest)
	return step{index: int(index), array: true}, rest, err
}

// behind returns what comes after the point that separates two names.
func behind(rest string) (string, error) {
	switch {
	case rest == "" || rest[0] == '[':
		return rest, nil
	case rest[0] != '.':
		return "", errors.New("lacks a point behind a bracket")
	case len(rest) == 1 || rest[1] == '[':
		return "", errors.New("has a point with no name behind")
	}
	return rest[1:], nil
}

// clip shortens a text for an error.
func clip(text string) string {
	if len(text) > maxPathBytes {
		return text[:maxPathBytes] + "..."
	}
	return text
}

// find returns what the path leads to, and false if there is nothing. null is something.
func (p path) find(whole, part any) (any, bool) {
	at := part
	if p.whole {
		at = whole
	}
	for _, s := range p.steps {
		var ok bool
		if at, ok = s.takeFrom(at); !ok {
			return nil, false
		}
	}
	return at, true
}

func (s step) takeFrom(tree any) (any, bool) {
	if !s.array && !s.match {
		members, ok := tree.(map[string]any)
		if !ok {
			return nil, false
		}
		member, ok := members[s.name]
		return member, ok
	}
	elements, ok := tree.([]any)
	if !ok {
		return nil, false
	}
	if s.array {
		if s.index >= len(elements) {
			return nil, false
		}
		return elements[s.index], true
	}
	for _, element := range elements {
		members, ok := element.(map[string]any)
		if !ok {
			continue
		}
		if text, ok := scalarText(members[s.name]); ok && text == s.value {
			return element, true
		}
	}
	return nil, false
}

// scalarText is a text, number or truth value as it is written; false for anything else.
func scalarText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}
