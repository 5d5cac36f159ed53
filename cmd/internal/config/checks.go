package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas/mapping"
)

// Levels of checks.
const (
	OK      = "ok"
	Warning = "warning" // the service would run, perhaps not as it is meant to
	Failure = "failure" // the service would not start
)

// Check is one thing that is looked at before a start, without a broker.
type Check struct {
	Name   string // a key of the config
	Level  string
	Remedy string // what was found, and what to do
}

// Checks looks at settings that can be read and are perhaps not meant. "run" stops at the first
// failure and logs the warnings, "doctor" prints all, and "config lint" what is not OK. What could
// not be read, such as a key that is elsewhere, is left out.
func (c *File) Checks(o service.Options) (all []Check) {
	add := func(name, level, format string, args ...any) {
		all = append(all, Check{name, level, fmt.Sprintf(format, args...)})
	}
	if o.Key.HasNoise() {
		c.checkKey(o.Key, add)
	}
	step := time.Second
	if o.Model != nil {
		step = o.Model.Step
		checkHours(o.Release.Hours, step, add)
		if text := engine.HoursAdvice(o.Release, step); text != "" {
			add("release.hours", Warning, "%s", text)
		}
	}
	if o.Release.Validate() == nil {
		text, warn := engine.BudgetAdvice(o.Release, step)
		level := OK
		if warn {
			level = Warning
		}
		add("release.budget", level, "%s", text)
	}
	if o.Publish.OmitRelease {
		add("publish.release", OK, "records have no release, so \"smooth\" and \"aggregate\" "+
			"cannot follow %s", o.Topics.Sanitized)
	}
	c.checkAccounts(o, add)
	if o.MaxAhead == engine.AnyAhead {
		add("max_ahead", Warning, "off accepts a fix of any time, after which all earlier ones of "+
			"its user are late")
	}
	if c.Kafka.SASL.AllowPlaintext {
		add("kafka.sasl.allow_plaintext", Warning, "the login can be read on the network")
	}
	return all
}

// checkAccounts looks whether a user may be in two partitions. topics.partitions says how many
// there are, or nothing does before there are brokers.
func (c *File) checkAccounts(
	o service.Options, add func(name, level, format string, args ...any),
) {
	level, also := Warning, ""
	switch n := c.Topics.Partitions; {
	case n == 1 || !o.Release.Budget.Limited() && !c.CountsUsers():
	case n > 1:
		level, also = Failure, fmt.Sprintf(". With release.budget or counts that is refused of a "+
			"raw topic of %d partitions", n)
	default:
		also = ". With release.budget or counts it is refused unless the raw topic has one " +
			"partition"
	}
	if o.Partitioner == engine.AnyPartitioner {
		add("topics.partitioner", level, "with any nothing notices a user in two partitions, who "+
			"would have two accounts%s", also)
	}
	if c.Input.KeyCheck == mapping.KeyCheckOff {
		add("input.key_check", level, "off is safe only if all records of each user are in one "+
			"partition, since a user in two has two accounts; geodither doctor looks at a sample%s",
			also)
	}
}

// checkKey looks where the key is from, who can read it, and which days it has.
func (c *File) checkKey(key noise.Key, add func(name, level, format string, args ...any)) {
	const name = "key_file"
	if err := errors.Join(files.RefuseSeeded(key), files.RefuseFuture(key)); err != nil {
		add(name, Failure, "%v", err)
		return
	}
	switch {
	case files.IsExposed(c.KeyFile):
		add(name, Warning, "everybody on this machine can read %s: chmod 600", c.KeyFile)
	case os.Getenv(files.KeyVariable) != "":
		add(name, OK, "from %s in the environment", files.KeyVariable)
	default:
		add(name, OK, "%s can be read, and not by everybody", c.KeyFile)
	}
	switch first := key.FirstDay(); {
	case key.Whole():
		add(name, OK, "it has all days: everybody with this key can take the noise off everything "+
			"that was ever published under it. \"geodither key export --until DAY\" makes one "+
			"without the past")
	case first == noise.DayAt(time.Now().UnixMilli()):
		add(name, Warning, "it has days from %v on, which is today: fixes of yesterday that come "+
			"late are refused (key_destroyed)", first)
	default:
		add(name, OK, "it has days from %v on: fixes of earlier days are refused (key_destroyed), "+
			"and releases of them cannot be replayed or verified", first)
	}
}

// checkHours warns of entries that no step starts in. Many years have all cases of clocks that
// change.
func checkHours(
	spans []hours.Span, step time.Duration, add func(name, level, format string, args ...any),
) {
	first := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(38, 0, 0)
	for i, span := range spans {
		plan, err := hours.New([]hours.Span{span})
		if err == nil && !slices.ContainsFunc(plan.Between(first.UnixMilli(), last.UnixMilli()),
			func(open hours.Interval) bool {
				return open.To-1-(open.To-1)%step.Milliseconds() >= open.From
			}) {
			add("release.hours", Warning, "entry %d holds no step's start, so it never has a "+
				"release: the model has a step each %v: widen the entry", i+1, step)
		}
	}
}
