package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// Budget limits a user's sum of ε. It has no default: how much a service may ever reveal about a
// person is a decision, so "none" has to be written out. Commands on files need no budget if they
// take ε and δ from flags: they make one result and end.
type Budget struct {
	Epsilon  float64       `yaml:"epsilon"`
	Window   time.Duration `yaml:"window"`
	Lifetime float64       `yaml:"lifetime"`

	decided bool // the file has a budget, or says that there is none
}

// noBudget is the word for no limit at all.
const noBudget = "none"

// UnmarshalYAML reads the word none, or the limits. The decoder does not look for unknown keys
// below a type that reads itself, so this does.
func (b *Budget) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		if node.Value != noBudget {
			return wrongYAML(node, "release.budget: `%s` cannot be used here: write %s, or its "+
				"settings, such as {epsilon: 18, window: 24h}",
				node.Value, noBudget)
		}
		*b = Budget{decided: true}
		return nil
	}
	if err := knownKeys(node, reflect.TypeFor[Budget]()); err != nil {
		return err
	}
	type plain Budget // without this method
	read := plain{decided: true}
	if err := node.Decode(&read); err != nil {
		return err
	}
	*b = Budget(read)
	if b.Epsilon == 0 && b.Lifetime == 0 {
		return wrongYAML(node, "release.budget: it limits nothing: set epsilon and window, or "+
			"lifetime, or write \"budget: %s\"", noBudget)
	}
	return nil
}

// wrongYAML is an error that the decoder reports beside its own.
func wrongYAML(node *yaml.Node, format string, args ...any) error {
	return &yaml.TypeError{
		Errors: []string{fmt.Sprintf("line %d: %s", node.Line, fmt.Sprintf(format, args...))},
	}
}

// knownKeys refuses the keys of a mapping that a struct has no field for, in the decoder's words,
// which explainYAML puts into others.
func knownKeys(node *yaml.Node, t reflect.Type) error {
	if node.Kind != yaml.MappingNode {
		return nil // the decoder says what is wrong
	}
	var known []string
	for i := range t.NumField() {
		known = append(known, t.Field(i).Tag.Get("yaml"))
	}
	var wrong []string
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key := node.Content[i]; !slices.Contains(known, key.Value) {
			wrong = append(wrong, fmt.Sprintf("line %d: field %s not found in type budget",
				key.Line, key.Value))
		}
	}
	if len(wrong) > 0 {
		return &yaml.TypeError{Errors: wrong}
	}
	return nil
}

// required refuses a config that says nothing about the budget.
func (b *Budget) required() error {
	if b.decided {
		return nil
	}
	return errors.New("release.budget is not set and has no default: write " +
		"{epsilon: 18, window: 24h} for Σε = 18 in any 24 hours at most, or \"none\" for no limit")
}

// agree refuses limits that contradict each other. Whether each is a number that can be used, and
// leaves room for one release, is left to the mechanism's own Validate.
func (b *Budget) agree() error {
	if b.Lifetime > 0 && b.Lifetime < b.Epsilon {
		return fmt.Errorf("budget.lifetime of Σε = %s is below the Σε = %s that budget.epsilon "+
			"allows in one window, which could never be spent: raise lifetime or lower epsilon",
			strings.TrimSpace(cli.Sum(b.Lifetime)), strings.TrimSpace(cli.Sum(b.Epsilon)))
	}
	return nil
}
