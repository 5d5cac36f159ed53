package config

import (
	"errors"
	"fmt"
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

// UnmarshalYAML reads the word none, or the limits.
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
