//go:build kafka

package kafkatest

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// settings are the command line.
type settings struct {
	Seed       uint64
	Records    int
	Faults     int
	Duration   time.Duration
	Instances  int
	Partitions int
	Vehicles   int
	Static     int
	Nodes      int
	// Soak is a steady load without hard faults, in which one instance restarts Every so often.
	Soak  bool
	Every time.Duration
	out   string // folder for the samples of a soak
	keep  bool
	given string // the flags

	minutes   int // of a soak
	perSecond float64
}

// Timeouts of the service. They are short because a schedule has to outlast them.
const (
	sessionTimeout     = 6 * time.Second
	transactionTimeout = 10 * time.Second
)

// The topics of a run.
const (
	rawTopic       = "chaos.raw"
	sanitizedTopic = "chaos.sanitized"
	changelogTopic = "chaos.changelog"
	deadTopic      = "chaos.dead"
)

// The budget of every user in a run. A vehicle reports more often than its budget allows, so it
// reaches the budget, and from then on predictions that cost no ε answer its fixes.
const (
	fleetStep     = 30 * time.Second // of the model
	budgetEpsilon = 40
	budgetSteps   = 60
	budgetWindow  = budgetSteps * fleetStep
)

// rate is the number of fixes a second with which the feed lasts until the faults end.
func (s settings) rate() float64 { return float64(s.Records) / s.Duration.Seconds() }

// steps is the number of fixes of each vehicle.
func (s settings) steps() int { return (s.Records + s.Vehicles - 1) / s.Vehicles }

// secondUsers is the number of vehicles that the second producer reports too. They are few, so
// that the service does not conclude that the whole topic is misplaced.
func (s settings) secondUsers() int { return min(20, max(1, s.Vehicles/10)) }

// asked is what the flags of the test's binary ask for.
var asked = register(flag.CommandLine)

func register(flags *flag.FlagSet) *settings {
	s := new(settings)
	flags.Uint64Var(&s.Seed, "seed", 0, "seed of the schedule; 0: a random one")
	flags.IntVar(&s.Records, "records", 30_000,
		"number of the fleet's fixes; a few odd records come on top")
	flags.IntVar(&s.Faults, "faults", 8,
		"number of hard faults (kill -9, SIGSTOP); clean restarts come on top")
	flags.DurationVar(&s.Duration, "duration", 0,
		"how long the feed and the faults last; 0: as long as the faults need")
	flags.IntVar(&s.Instances, "instances", 3, "instances of the service")
	flags.IntVar(&s.Partitions, "partitions", 6, "partitions of each topic")
	flags.IntVar(&s.Vehicles, "vehicles", 500, "vehicles of the fleet")
	flags.IntVar(&s.Nodes, "nodes", 3, "Kafka nodes, 1 or 3")
	flags.IntVar(&s.minutes, "minutes", 120, "how long a soak lasts")
	flags.Float64Var(&s.perSecond, "rate", 200, "number of the fleet's fixes a second in a soak")
	flags.DurationVar(&s.Every, "every", 10*time.Minute, "time between two restarts of a soak")
	flags.StringVar(&s.out, "out", "bin/soak", "folder for the samples of a soak")
	flags.IntVar(&s.Static, "static", 2, "instances with an instance_id (static members)")
	flags.BoolVar(&s.keep, "keep", false, "keep the logs and topics of a good run too")
	return s
}

// complete fills in what follows from the flags, and refuses what no run can have.
func (s *settings) complete(flags *flag.FlagSet) error {
	if s.Seed == 0 {
		now := uint64(time.Now().UnixNano())
		s.Seed = rand.New(rand.NewPCG(now, now)).Uint64N(1e9) + 1
	}
	flags.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			s.given += fmt.Sprintf("--%s=%s ", f.Name, f.Value)
		}
	})
	if s.Soak {
		s.Faults, s.Duration = 0, time.Duration(s.minutes)*time.Minute
		s.Records = int(s.perSecond * s.Duration.Seconds())
	}
	if s.Duration == 0 {
		s.Duration = max(20*time.Second, time.Duration(s.Faults)*8*time.Second,
			time.Duration(s.Records)*time.Millisecond)
	}
	return s.validate()
}

// again returns what repeats the run, behind "make".
func (s settings) again() string {
	target := "chaos"
	if s.Soak {
		target = "soak"
	}
	return fmt.Sprintf("%s ARGS='%s--seed %d'", target, s.given, s.Seed)
}

func (s settings) validate() error {
	switch {
	case s.Records < 1 || s.Vehicles < 1 || s.Instances < 1 || s.Partitions < 1:
		return errors.New("--records, --vehicles, --instances and --partitions must be positive")
	case min(s.Faults, s.Static) < 0 || s.Duration < 0,
		s.Static > s.Instances:
		return errors.New("--faults, --duration and --static must not be negative, " +
			"--static at most --instances")
	case s.Nodes != 1 && s.Nodes != 3, s.Nodes == 1 && s.Faults > 0:
		return errors.New("--nodes must be 3, or 1 without --faults: with one node nobody " +
			"takes over")
	case s.Soak && s.Every < time.Minute:
		return errors.New("--every must be a minute or more, so that a trend can be seen")
	case s.Soak && s.Instances < 3 && s.Every < 2*time.Minute: // each restart is the same one's
		return errors.New("--every must be two minutes or more with fewer than three instances, " +
			"or no life of one that restarts lasts long enough to be judged")
	case s.Soak && s.Records < s.Vehicles:
		return errors.New("--minutes and --rate must be positive, with a fix of each vehicle")
	}
	return nil
}

func (r *report) hardFaults() int {
	n := 0
	for k, count := range r.Faults {
		if slices.Contains(hard, k) {
			n += count
		}
	}
	return n
}

// lines are the lines of a report, each with a name in front.
type lines struct{ strings.Builder }

func (b *lines) add(name, format string, args ...any) {
	fmt.Fprintf(b, "%-21s "+format+"\n", append([]any{name}, args...)...)
}

// text is the report for people.
func (r *report) text() string {
	var b lines
	b.add("seed", "%d", r.Settings.Seed)
	r.addRun(&b)
	b.add("logged errors", "%d", r.LoggedErrors)
	b.add("time", "%v", r.Took)
	if len(r.Violations) == 0 {
		b.add("result", "every promise held")
		return b.String()
	}
	b.add("result", "FAILED")
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "  - %s\n", strings.ReplaceAll(v, "\n", "\n    "))
	}
	return b.String()
}

// addRun adds what happened to a run, and what its checks found.
func (r *report) addRun(b *lines) {
	s := r.Settings
	b.add("service", "%d instances (%d static members), %d partitions, "+
		"%d Kafka nodes", s.Instances, s.Static, s.Partitions, s.Nodes)
	b.add("hard faults", "%d", r.hardFaults())
	for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
		b.add("", "%3d %s", r.Faults[k], k)
	}
	if l := r.ledger; l != nil {
		b.add("records", "%d raw = %d sanitized + %d dead letters", l.Raw, l.Sanitized, l.Dead)
		b.add("transactions", "%d committed, %d aborted, as far as compaction has left markers",
			l.Committed, l.Aborted)
		b.add("lost", "%d", l.Lost)
		b.add("duplicates", "%d", l.Duplicates)
		b.add("out of order", "%d", l.OutOfOrder)
		b.add("of no raw record", "%d", l.Strangers)
		b.add("misplaced",
			"%d raw records of a second producer, %d dead letters with reason wrong_partition",
			l.Misplaced, l.MisplacedLetters)
		b.add("budgets",
			"%d of %d users exceeded theirs; at most ε %g of %d was published in any %v",
			l.Exceeded, l.Users, l.MostSpent, budgetEpsilon, budgetWindow)
		b.add("concurrent reader", "%s", equal(l.ReaderDiffer == 0))
		b.add("read uncommitted", "%d more records, %d fixes with two different releases",
			l.Uncommitted, l.Differing)
		b.add("fenced producers", "%d records", l.Zombies)
		if r.Verified {
			b.add("state verify", "%s", equal(r.StateEqual))
		}
	}
	b.add("longest silence", "%v between two records of a partition, for a read_committed reader "+
		"(includes pauses of the feed)", r.Gap)
	b.add("longest delay", "%v from a raw record to its sanitized record, for that reader (%s)",
		r.Delay, r.Late)
	for _, found := range r.soaked {
		b.add(found.name(), "%s", found.text())
	}
}

func equal(yes bool) string {
	if yes {
		return "equal"
	}
	return "DIFFERS"
}
