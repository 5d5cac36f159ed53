package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func command(ctx context.Context, args []string, out, log io.Writer) int {
	s, err := parse(args, log)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(log, "chaos: %v\n", err)
		return 2
	}
	between := meanwhile(breakAndFeed)
	if s.Soak {
		between = soak
	}
	report, dir, err := chaos(ctx, s, log, between)
	if err != nil {
		report.Violations = append(report.Violations, err.Error())
	}
	fmt.Fprint(out, report.text())
	if len(report.Violations) == 0 && !s.keep {
		os.RemoveAll(dir)
		return 0
	}
	fmt.Fprintf(log, "%s keeps all logs and topics; repeat the run with: make chaos ARGS='%s'\n",
		dir, s.again())
	if len(report.Violations) > 0 {
		return 1
	}
	return 0
}

func parse(args []string, log io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(log)
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
	flags.BoolVar(&s.Soak, "soak", false,
		"no hard faults: a steady load, restarts in turn, and a verdict on what grows")
	minutes := flags.Int("minutes", 120, "how long a soak lasts")
	rate := flags.Float64("rate", 200, "number of the fleet's fixes a second in a soak")
	flags.DurationVar(&s.Every, "every", 10*time.Minute, "time between two restarts of a soak")
	flags.StringVar(&s.out, "out", "bin/soak", "folder for the samples of a soak")
	flags.IntVar(&s.Static, "static", 2, "instances with an instance_id (static members)")
	flags.IntVar(&s.Standbys, "standbys", 1, "standby_replicas of each instance")
	flags.BoolVar(&s.keep, "keep", false, "keep the logs and topics of a good run too")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.Seed == 0 {
		s.Seed = rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(os.Getpid()))).
			Uint64N(1e9) + 1
	}
	s.given = strings.Join(args, " ")
	if s.Soak {
		s.Faults, s.Duration = 0, time.Duration(*minutes)*time.Minute
		s.Records = int(*rate * s.Duration.Seconds())
	}
	if s.Duration == 0 {
		s.Duration = max(20*time.Second, time.Duration(s.Faults)*8*time.Second,
			time.Duration(s.Records)*time.Millisecond)
	}
	return s, s.validate(flags)
}

// again returns the command line that repeats the run.
func (s settings) again() string {
	return strings.TrimSpace(fmt.Sprintf("%s --seed %d", s.given, s.Seed))
}

func (s settings) validate(flags *flag.FlagSet) error {
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("what is %q? (chaos --help)", flags.Arg(0))
	case s.Records < 1 || s.Vehicles < 1 || s.Instances < 1 || s.Partitions < 1:
		return errors.New("--records, --vehicles, --instances and --partitions must be positive")
	case min(s.Faults, s.Static, s.Standbys) < 0 || s.Duration < 0 || s.Static > s.Instances:
		return errors.New("--faults, --duration, --static and --standbys must not be negative, " +
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
	b.add("service", "%d instances (%d static members), %d partitions (standbys: %d), "+
		"%d Kafka nodes", s.Instances, s.Static, s.Partitions, s.Standbys, s.Nodes)
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
