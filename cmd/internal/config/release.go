package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
)

// Release is the section "release": when and how to release, with units in text.
type Release struct {
	Mechanism string   `yaml:"mechanism"` // empty: not set, which is an error
	Epsilon   *float64 `yaml:"epsilon"`   // nil: not set, which is an error: ε has no default
	Delta     *float64 `yaml:"delta"`     // nil: not set, which only codebook takes

	Hours    []Hours       `yaml:"hours"`
	Interval time.Duration `yaml:"interval"`
	Between  string        `yaml:"between"`
	Budget   Budget        `yaml:"budget"`

	estimate string // publish.estimate, which the mechanism computes
}

// Hours is an entry of the list "release.hours": a stretch of every week in which releases are
// drawn.
type Hours struct {
	Days string `yaml:"days"` // empty: every day
	From string `yaml:"from"`
	To   string `yaml:"to"`
	Zone string `yaml:"zone"`
}

// spans returns the mechanism's. An empty list is an error: it could mean never or always.
func spans(entries []Hours) ([]hours.Span, error) {
	if entries == nil {
		return nil, nil
	}
	if len(entries) == 0 {
		return nil, errors.New("hours: the list is empty; leave it out to release at all times")
	}
	all, errs := make([]hours.Span, len(entries)), make([]error, len(entries))
	for i, c := range entries {
		var err error
		if all[i], err = c.span(); err != nil {
			errs[i] = fmt.Errorf("hours: entry %d: %w", i+1, err)
		}
	}
	return all, errors.Join(errs...)
}

func (c Hours) span() (s hours.Span, err error) {
	if c.From == "" || c.To == "" || c.Zone == "" {
		return s, errors.New("set from, to and zone: \"{days: mon-fri, from: 06:00, to: 18:00, " +
			"zone: Europe/London}\"")
	}
	var errs [3]error
	s.Zone = c.Zone
	s.Days, errs[0] = hours.ParseDays(c.Days)
	s.From, errs[1] = hours.ParseClock(c.From)
	s.To, errs[2] = hours.ParseClock(c.To)
	return s, errors.Join(errs[:]...)
}

// Options returns the mechanism's options for a model of a step: they count intervals in its steps.
// Whether the values can be used together is left to the options' own Validate.
func (c Release) Options(step time.Duration) (mechanism.Options, error) {
	o := mechanism.Options{
		Mechanism: c.Mechanism, Between: c.Between, Estimate: c.estimate,
		// Where the budget is spent, records are what they are between two releases.
		Budget: mechanism.Budget{
			Epsilon: c.Budget.Epsilon, Lifetime: c.Budget.Lifetime, Spent: mechanism.SpentPredict,
		},
	}
	if c.Between == mechanism.BetweenSkip {
		o.Budget.Spent = mechanism.SpentSuppress
	}
	if c.Epsilon != nil {
		o.Epsilon = *c.Epsilon
	}
	if c.Delta != nil {
		o.Delta = *c.Delta
	}
	if err := c.complete(); err != nil {
		return o, err
	}
	var errs [4]error
	o.ReleaseInterval, errs[0] = cli.InSteps("interval", c.Interval, step)
	o.Budget.WindowSteps, errs[1] = cli.InSteps("budget.window", c.Budget.Window, step)
	errs[2] = c.Budget.agree()
	o.Hours, errs[3] = spans(c.Hours)
	return o, errors.Join(errs[:]...)
}

// complete refuses a section that leaves open what has no default, or sets what has no effect. ε
// decides what a release reveals, δ how large the noise is, and the mechanism what ε means for
// places that are near each other. A default mechanism would also change what a service releases
// when an upgrade brings another one. That ε is missing under codebook, the options' own Validate
// says.
func (c Release) complete() error {
	switch {
	case c.Mechanism == "":
		return errors.New("set mechanism: codebook has the least error, lattice is the paper's")
	case !slices.Contains(law.Names(), c.Mechanism):
		return nil // Validate reports it, and what its ε and δ would be is not known
	case c.Mechanism == law.Codebook && c.Delta != nil:
		return fmt.Errorf("delta: mechanism %s has no location set; choose mechanism %s",
			law.Codebook, law.Lattice)
	case c.Mechanism != law.Codebook && (c.Epsilon == nil || c.Delta == nil):
		missing := "epsilon and delta, which have no default"
		switch {
		case c.Epsilon != nil:
			missing = "delta, which has no default"
		case c.Delta != nil:
			missing = "epsilon, which has no default"
		}
		return fmt.Errorf("mechanism %s needs %s (\"geodither model inspect -c FILE MODEL\" "+
			"shows the error)", c.Mechanism, missing)
	}
	return nil
}

// proved refuses for a service what has no proof: the guarantees of the lattice and of the codebook
// are proved for the very bytes that are published. The mechanisms of the paper compute in floating
// point, whose low bits can give the place away.
func (c Release) proved() error {
	if warning := c.ProofWarning(); warning != "" {
		return errors.New(warning + `. To protect people, write "mechanism: codebook" or lattice`)
	}
	return nil
}

// ProofWarning says that no proof covers the mechanism, so that only experiments on files take it;
// empty: one does. An unknown mechanism is left to the options' own Validate.
func (c Release) ProofWarning() string {
	o := law.Options{Name: c.Mechanism}
	if o.Validate() != nil || o.Exact() {
		return ""
	}
	return fmt.Sprintf("mechanism %s is for experiments: no proof covers the published values, "+
		"so they may reveal more than ε", c.Mechanism)
}

// Publish is the section "publish": what records tell besides the place.
type Publish struct {
	Timestamp string `yaml:"timestamp"`
	User      string `yaml:"user"`
	Release   *bool  `yaml:"release"` // default: true
	// Estimate is the place that stands for a posterior; default: the mean.
	Estimate string `yaml:"estimate"`
}

// check refuses an estimate that no record has.
func (c Publish) check() error {
	switch c.Estimate {
	case "", mechanism.EstimateMean, mechanism.EstimateMedian:
		return nil
	}
	return fmt.Errorf("publish.estimate %q: write %s or %s", c.Estimate, mechanism.EstimateMean,
		mechanism.EstimateMedian)
}

// Options returns the service's options.
func (c Publish) Options() engine.Publish {
	return engine.Publish{
		Timestamp: c.Timestamp, User: c.User,
		OmitRelease: c.Release != nil && !*c.Release,
	}
}

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
	return errors.New("release.budget is not set: write {epsilon: 18, window: 24h}, or \"none\" " +
		"for no limit")
}

// agree refuses limits that contradict each other. Whether each is a number that can be used, and
// leaves room for one release, is left to the mechanism's own Validate.
func (b *Budget) agree() error {
	if b.Lifetime > 0 && b.Lifetime < b.Epsilon {
		return fmt.Errorf("budget.lifetime of Σε = %s is below the Σε = %s of one window",
			strings.TrimSpace(cli.Sum(b.Lifetime)), strings.TrimSpace(cli.Sum(b.Epsilon)))
	}
	return nil
}
