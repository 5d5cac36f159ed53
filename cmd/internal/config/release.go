package config

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Release says when and how to release, with units in text: the section
// "release" of a config, and the flags of the commands that release without one.
type Release struct {
	Mechanism   string   `yaml:"mechanism"`
	Subdivision int      `yaml:"subdivision"`
	Inference   string   `yaml:"inference"`
	Isotropy    string   `yaml:"isotropy"`
	Epsilon     *float64 `yaml:"epsilon"` // nil: not set, which is an error: neither has a default
	Delta       *float64 `yaml:"delta"`
	Prune       float64  `yaml:"prune"`
	MaxGap      int      `yaml:"max_gap"`

	MinCells  int    `yaml:"min_cells"`
	MinRadius string `yaml:"min_radius"` // a length
	Estimate  string `yaml:"estimate"`

	Interval       time.Duration `yaml:"interval"`
	Between        string        `yaml:"between"`
	AdaptiveRadius string        `yaml:"adaptive_radius"` // a length
	SameStep       string        `yaml:"same_step"`
	Budget         Budget        `yaml:"budget"`
}

// Register makes flags of all that a config's section has, by the same names. ε
// and δ start at the given values.
func (c *Release) Register(flags *pflag.FlagSet, epsilon, delta float64) {
	c.Epsilon, c.Delta = new(float64), new(float64)
	about := "; no default"
	if epsilon > 0 {
		about = ""
	}
	flags.Float64Var(c.Epsilon, "epsilon", epsilon, "what one release may reveal, in natural logarithms; releases add up"+about)
	flags.Float64Var(c.Delta, "delta", delta, "prior mass that the location set may leave out: the size of the noise against drift"+about)
	flags.StringVar(&c.Mechanism, "mechanism", law.Lattice, "lattice, pim, knorm, laplace or laplace-tight")
	flags.IntVar(&c.Subdivision, "subdivision", 0, "steps of the lattice to a cell's side; 0: 256")
	flags.StringVar(&c.Inference, "inference", mechanism.InferenceSurrogate, "surrogate or paper")
	flags.StringVar(&c.Isotropy, "isotropy", law.IsotropyClosedForm, "transform of pim: closed-form or sampled")
	flags.Float64Var(&c.Prune, "prune", 0, "posterior mass below which a cell is forgotten; 0: 1e-7")
	flags.IntVar(&c.MaxGap, "max-gap", 0, "steps without a fix after which a user starts anew; 0: 60")
	flags.IntVar(&c.MinCells, "min-cells", 0, "least number of cells of the location set; 0: 3, negative: no padding")
	flags.StringVar(&c.MinRadius, "min-radius", "", "`LENGTH` of the radius of a disc that the location set holds at least, such as 500m")
	flags.StringVar(&c.Estimate, "estimate", mechanism.EstimateMean, "mean, median or mode of the posterior")
	flags.DurationVar(&c.Interval, "interval", 0, "least time between two releases of a user, a multiple of the model's step; 0: one step")
	flags.StringVar(&c.Between, "between", mechanism.BetweenPredict, "between releases: predict or skip")
	flags.StringVar(&c.AdaptiveRadius, "adaptive-radius", "", "release only where the place is known no better than this `LENGTH`, such as 2km")
	flags.StringVar(&c.SameStep, "same-step", mechanism.SameStepRepeat, "further fixes of a step: repeat, drop or release")
	flags.Float64Var(&c.Budget.Epsilon, "budget", 0, "limit of a user's Σε in each window; 0: none")
	flags.DurationVar(&c.Budget.Window, "budget-window", 0, "length of the window, a multiple of the model's step")
	flags.Float64Var(&c.Budget.Lifetime, "budget-lifetime", 0, "limit of a user's Σε for all time; 0: none")
	flags.StringVar(&c.Budget.Spent, "budget-spent", mechanism.SpentSuppress, "with the budget spent: suppress, repeat or predict")
}

// ReleaseFlags are the settings of release that a command takes beside a config. All others belong in
// the config: they have to agree with the service's.
type ReleaseFlags struct {
	mechanism      string
	epsilon, delta float64
	interval       time.Duration
}

func (f *ReleaseFlags) Register(flags *pflag.FlagSet) {
	flags.Float64Var(&f.epsilon, "epsilon", 0, "what one release may reveal, in natural logarithms; releases add up")
	flags.Float64Var(&f.delta, "delta", 0, "prior mass that the location set may leave out")
	flags.StringVar(&f.mechanism, "mechanism", "", "lattice, pim, knorm, laplace or laplace-tight")
	flags.DurationVar(&f.interval, "interval", 0, "least time between two releases of a user, a multiple of the model's step; 0: one step")
}

// Override puts the flags that are given in the place of a config's settings.
func (f *ReleaseFlags) Override(c *Release, flags *pflag.FlagSet) {
	if flags.Changed("epsilon") {
		c.Epsilon = &f.epsilon
	}
	if flags.Changed("delta") {
		c.Delta = &f.delta
	}
	if flags.Changed("mechanism") {
		c.Mechanism = f.mechanism
	}
	if flags.Changed("interval") {
		c.Interval = f.interval
	}
}

// Options are the mechanism's, for a model: intervals are counted in its steps.
// Whether the values can be used together is left to the options' own Validate.
func (c Release) Options(model *mobility.Model) (mechanism.Options, error) {
	o := mechanism.Options{
		Mechanism: c.Mechanism, Subdivision: c.Subdivision, Inference: c.Inference, Isotropy: c.Isotropy,
		Prune: c.Prune, MaxGap: c.MaxGap, MinCells: c.MinCells, Estimate: c.Estimate,
		Between: c.Between, SameStep: c.SameStep,
		Budget: mechanism.Budget{Epsilon: c.Budget.Epsilon, Lifetime: c.Budget.Lifetime, Spent: c.Budget.Spent},
	}
	// ε decides what a release reveals: it has no default, nor has δ.
	if c.Epsilon == nil || c.Delta == nil {
		return o, errors.New(`set epsilon and delta; neither has a default. "geodither model inspect --epsilon E --delta D MODEL" says what error to expect`)
	}
	o.Epsilon, o.Delta = *c.Epsilon, *c.Delta
	var errs [5]error
	o.MinRadiusKM, errs[0] = cli.Kilometres("min_radius", c.MinRadius)
	o.AdaptiveRadiusKM, errs[1] = cli.Kilometres("adaptive_radius", c.AdaptiveRadius)
	o.ReleaseInterval, errs[2] = cli.InSteps("interval", c.Interval, model.Step)
	o.Budget.WindowSteps, errs[3] = cli.InSteps("budget.window", c.Budget.Window, model.Step)
	errs[4] = c.Budget.agree()
	return o, errors.Join(errs[:]...)
}

// Publish says what records tell beside the place.
type Publish struct {
	Timestamp string `yaml:"timestamp"`
	User      string `yaml:"user"`
	Metric    bool   `yaml:"metric"`
}

func (c *Publish) Register(flags *pflag.FlagSet) {
	flags.StringVar(&c.Timestamp, "publish-timestamp", pipeline.TimestampExact, "time that a record tells: exact, or the start of its step")
	flags.StringVar(&c.User, "publish-user", pipeline.UserPlain, "name that a record carries: plain, or a keyed pseudonym")
	flags.BoolVar(&c.Metric, "publish-metric", false, "add to each release by which factor it tells two places of the location set 200 m and 1 km apart from each other")
}

func (c Publish) Options() pipeline.Publish {
	return pipeline.Publish{Timestamp: c.Timestamp, User: c.User, Metric: c.Metric}
}
