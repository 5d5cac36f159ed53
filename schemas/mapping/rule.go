package mapping

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Rule is a condition that a fix must meet. Otherwise it is skipped. One of Equals, NotEquals and
// Exists is set.
type Rule struct {
	Path string `yaml:"path"`
	// Equals and NotEquals are a text, a number (int, int64, uint64 or float64) or a truth value.
	// A text and a number are compared as they are written, two numbers by their value. Nothing
	// and null equal nothing, so NotEquals holds for them.
	Equals    any `yaml:"equals,omitempty"`
	NotEquals any `yaml:"not_equals,omitempty"`
	// Exists asks whether there is something other than null.
	Exists *bool `yaml:"exists,omitempty"`
}

// Rules that every mapping has, by their number; the rules of Options.Where follow.
const (
	NoRule        = 0 // not skipped
	RuleTombstone = 1 // no value
	RuleDeleted   = 2 // unwrap leads to null: the row is gone
	RuleEmpty     = 3 // each leads to an empty array
	firstWhere    = 4

	// MaxRules is the number of rules there can be, NoRule included.
	MaxRules = 20
	maxWhere = MaxRules - firstWhere
)

// BuiltIn are the names of the rules that every mapping has, by their number.
func BuiltIn() []string { return []string{"", "tombstone", "deleted", "empty"} }

// rule is a Rule that was checked.
type rule struct {
	path     path
	not      bool // of an equality
	want     string
	number   float64 // of want, if it is one
	numeric  bool
	presence bool // it asks whether there is something
	exists   bool
}

func newRule(r Rule) (rule, error) {
	p, err := parsePath(r.Path)
	if err != nil {
		return rule{}, fmt.Errorf("path: %w", err)
	}
	given := 0
	for _, is := range []bool{r.Equals != nil, r.NotEquals != nil, r.Exists != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		return rule{}, errors.New("write equals, not_equals or exists beside the path")
	}
	out := rule{path: p, not: r.NotEquals != nil, presence: r.Exists != nil}
	if out.presence {
		out.exists = *r.Exists
		return out, nil
	}
	want := r.Equals
	if out.not {
		want = r.NotEquals
	}
	switch v := want.(type) {
	case string:
		out.want = v
		return out, nil // a text that looks like a number is compared as it is written
	case bool:
		out.want = strconv.FormatBool(v)
		return out, nil
	case int, int64, uint64:
		out.want = fmt.Sprint(v)
	case float64:
		out.want = strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return rule{}, errors.New("equals and not_equals take text, number or boolean")
	}
	out.number, err = strconv.ParseFloat(out.want, 64)
	if err != nil || math.IsInf(out.number, 0) || math.IsNaN(out.number) {
		return rule{}, errors.New("equals and not_equals take a finite number")
	}
	out.numeric = true
	return out, nil
}

// String says the rule in words, for the name of its counter.
func (r rule) String() string {
	switch {
	case r.presence && r.exists:
		return r.path.text + " exists"
	case r.presence:
		return r.path.text + " does not exist"
	case r.not:
		return r.path.text + " is not " + r.want
	}
	return r.path.text + " is " + r.want
}

// holds reports whether a fix meets the rule.
func (r rule) holds(whole, part any) bool {
	found, ok := r.path.find(whole, part)
	if r.presence {
		return r.exists == (ok && found != nil)
	}
	return r.not != r.equal(found)
}

// equal compares as Rule.Equals says.
func (r rule) equal(v any) bool {
	text, ok := scalarText(v)
	switch {
	case !ok:
		return false
	case text == r.want:
		return true
	case !r.numeric:
		return false
	}
	switch v.(type) {
	case string, bool:
		return false
	}
	number, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return err == nil && number == r.number
}
