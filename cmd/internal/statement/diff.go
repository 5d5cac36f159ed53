package statement

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// madeAt is the field that always differs.
const madeAt = "geodither.made_at"

// passed over in a difference: when a statement or an audit was made, and the config's file name.
func passed(path string) bool {
	return path == madeAt || path == "geodither.config" ||
		strings.HasPrefix(path, "geodither.measured.") && strings.HasSuffix(path, ".at")
}

// evidence are the fields that a statement has only if a flag asks for them. Simulated figures
// vary with few users and few tracks, so a difference in them is listed apart and does not count.
var evidence = map[string][]string{
	"--audit":    {"geodither.measured"},
	"--simulate": append([]string{"geodither.one_moment"}, simulations...),
}

var simulations = []string{"geodither.expected_error", "geodither.home"}

// effects say what a changed field does to the accounts of ε.
var effects = map[string]string{
	"geodither.group": "another group starts each user's account of ε at 0. What it releases " +
		"adds to what was released before.",
	"geodither.topics.raw": "an account of ε is of one raw topic. What is released of another " +
		"one about the same people adds to it.",
	"geodither.key.id": "another key draws other noise. Fixes that are released again under it " +
		"are released a second time.",
	"geodither.max_ahead_s": "a clock that is wrong by this much may move a fix into a later " +
		"day's budget.",
}

// Diff writes in which fields a statement differs from an earlier one, which is YAML of this
// package, and returns how many these are. Of texts it writes the sentences that differ, and of
// fingerprints the settings. It compares evidence only where both have it, and nothing that the
// earlier statement fills in and the new one asks for.
func Diff(out io.Writer, earlier []byte, now *Sheet) (differences int, err error) {
	var text strings.Builder
	if err := YAML(&text, now); err != nil {
		return 0, err
	}
	before, err := fields(earlier)
	if err != nil {
		return 0, err
	}
	after, err := fields([]byte(text.String()))
	if err != nil {
		return 0, err
	}
	before, after, left := compared(before, after, asks(now))
	changed, figures := "", ""
	for _, f := range after {
		old := before.value(f.path)
		switch {
		case passed(f.path) || old == f.value:
		case below(simulations)(f):
			figures += "\n" + difference(f.path, old, f.value)
		default:
			changed += "\n" + difference(f.path, old, f.value) + now.effect(f.path, old)
			differences++
		}
	}
	for _, f := range before {
		if !after.has(f.path) {
			changed += "\n" + difference(f.path, f.value, "")
			differences++
		}
	}
	verdict := "no field differs."
	if figures != "" {
		figures = "\nSimulated figures, not counted: small differences mean nothing.\n" + figures
		verdict = "only simulated figures differ."
	}
	if differences > 0 {
		verdict = fmt.Sprintf("differences: %d.", differences)
	}
	_, err = fmt.Fprintf(out, "Compared with the statement of %s, %s\n%s%s%s",
		before.value(madeAt), verdict, left, changed, figures)
	return differences, err
}

// compared leaves out what only one of two statements can have: evidence, and what the earlier
// one's reader has filled in. left has a line for each.
func compared(before, after fieldList, asks []string) (_, _ fieldList, left string) {
	for _, flag := range slices.Sorted(maps.Keys(evidence)) {
		paths := evidence[flag]
		if has := after.evident(paths); has != before.evident(paths) {
			before, after = before.without(paths), after.without(paths)
			left += fmt.Sprintf("Not compared: what %s adds, which only the %s statement has.\n",
				flag, either(has, "new", "earlier"))
		}
	}
	var filled, names []string
	for _, f := range after {
		if slices.Contains(asks, f.why) && before.evident([]string{f.path}) {
			name := strings.TrimPrefix(f.path, "deployment.basic.")
			filled, names = append(filled, f.path),
				append(names, strings.TrimPrefix(name, "geodither."))
		}
	}
	if len(filled) > 0 {
		left += "Not compared: what you filled in: " + strings.Join(names, ", ") + ".\n"
	}
	// The figures of such a warning are compared where they stand.
	simulated := func(f field) bool { return strings.HasPrefix(f.value, homeWarning) }
	return slices.DeleteFunc(before.without(filled), simulated),
		slices.DeleteFunc(after.without(filled), simulated), left
}

// effect says what a changed field means, beyond its values.
func (s *Sheet) effect(path, old string) (text string) {
	if why := effects[path]; why != "" && old != "" {
		text = "  " + strings.Join(cli.Wrap("WARNING: "+why, width-4), "\n  ") + "\n"
	}
	if other, err := hex.DecodeString(old); path == "geodither.settings" && err == nil &&
		s.differences != nil {
		text += "  different: " + s.differences(other) + "\n"
	}
	return text
}

// field is a value of a statement, such as geodither.step_s, as text, and why it is null.
type field struct{ path, value, why string }

type fieldList []field

func (l fieldList) at(path string) int {
	return slices.IndexFunc(l, func(f field) bool { return f.path == path })
}

func (l fieldList) has(path string) bool { return l.at(path) >= 0 }

// value is empty where there is no such field.
func (l fieldList) value(path string) string {
	if at := l.at(path); at >= 0 {
		return l[at].value
	}
	return ""
}

// below reports whether a field is one of some, or lies below one of them.
func below(paths []string) func(field) bool {
	return func(f field) bool {
		return slices.ContainsFunc(paths, func(path string) bool {
			return f.path == path || strings.HasPrefix(f.path, path+".")
		})
	}
}

// evident reports whether one of the fields has a value.
func (l fieldList) evident(paths []string) bool {
	is := below(paths)
	return slices.ContainsFunc(l, func(f field) bool { return is(f) && f.value != "null" })
}

func (l fieldList) without(paths []string) fieldList { return slices.DeleteFunc(l, below(paths)) }

var errNoStatement = errors.New("it is no statement in YAML: make one with --format yaml")

// fields reads the YAML of a statement, in its order.
func fields(text []byte) (list fieldList, err error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil || len(root.Content) == 0 {
		return nil, errNoStatement
	}
	var walk func(path string, n *yaml.Node)
	walk = func(path string, n *yaml.Node) {
		under := func(key string) string { return strings.TrimPrefix(path+"."+key, ".") }
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(under(n.Content[i].Value), n.Content[i+1])
			}
		case yaml.SequenceNode:
			for i, item := range n.Content {
				walk(under(strconv.Itoa(i+1)), item)
			}
		case yaml.ScalarNode:
			list = append(list, field{path, n.Value, strings.TrimPrefix(n.LineComment, "# ")})
		default: // a statement has neither aliases nor further documents
		}
	}
	walk("", root.Content[0])
	if !list.has(madeAt) {
		return nil, errNoStatement
	}
	return list, nil
}

// difference writes the sentences of a field that only one of two statements has.
func difference(path, before, after string) string {
	was, is := sentences(before), sentences(after)
	text := path + "\n"
	only := func(sign string, list, other []string) {
		for _, s := range list {
			if !slices.Contains(other, s) {
				text += sign + strings.Join(cli.Wrap(s, width-4), "\n    ") + "\n"
			}
		}
	}
	only("  - ", was, is)
	only("  + ", is, was)
	return text
}

// sentences cuts a text into its sentences. A short value is one.
func sentences(text string) (list []string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		words := strings.Join(strings.Fields(paragraph), " ")
		list = append(list, strings.SplitAfter(words, ". ")...)
	}
	for i, s := range list {
		list[i] = strings.TrimSpace(s)
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}
