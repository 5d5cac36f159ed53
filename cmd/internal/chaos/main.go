package main

import (
	"context"
	"encoding/json"
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
	report, dir, err := chaos(ctx, s, log)
	if err != nil {
		report.Violations = append(report.Violations, err.Error())
	}
	fmt.Fprint(out, report.text())
	if s.json != "" {
		if err := report.writeJSON(s.json); err != nil {
			fmt.Fprintf(log, "chaos: %v\n", err)
			return 1
		}
	}
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
	flags.IntVar(&s.Static, "static", 2, "instances with an instance_id (static members)")
	flags.StringVar(&s.Plant, "plant", "",
		"break a promise before the checks, which must then fail: "+strings.Join(plantNames(),
			", "))
	flags.StringVar(&s.json, "json", "", "also write the report to this file, as JSON")
	flags.BoolVar(&s.keep, "keep", false, "keep the logs and topics of a good run too")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.Seed == 0 {
		s.Seed = rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(os.Getpid()))).
			Uint64N(1e9) + 1
	}
	if s.Duration == 0 {
		s.Duration = max(20*time.Second, time.Duration(s.Faults)*8*time.Second,
			time.Duration(s.Records)*time.Millisecond)
	}
	return s, s.validate(flags)
}

func (s settings) validate(flags *flag.FlagSet) error {
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("what is %q? (chaos --help)", flags.Arg(0))
	case s.Records < 1 || s.Vehicles < 1 || s.Instances < 1 || s.Partitions < 1:
		return errors.New("--records, --vehicles, --instances and --partitions must be positive")
	case s.Faults < 0 || s.Duration < 0 || s.Static < 0 || s.Static > s.Instances:
		return errors.New("--faults and --duration must not be negative, --static at most " +
			"--instances")
	case s.Plant != "" && plants[s.Plant] == nil:
		return fmt.Errorf("--plant %s is unknown: choose one of %s", s.Plant,
			strings.Join(plantNames(), ", "))
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

// text is the report for people.
func (r *report) text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-21s "+format+"\n", append([]any{name}, args...)...)
	}
	s := r.Settings
	line("seed", "%d", s.Seed)
	line("service", "%d instances (%d static members), %d partitions, %d Kafka nodes",
		s.Instances, s.Static, s.Partitions, nodes)
	line("hard faults", "%d", r.hardFaults())
	for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
		line("", "%3d %s", r.Faults[k], k)
	}
	if l := r.ledger; l != nil {
		line("records", "%d raw = %d sanitized + %d dead letters", l.Raw, l.Sanitized, l.Dead)
		line("transactions", "%d committed, %d aborted", l.Committed, l.Aborted)
		line("lost", "%d", l.Lost)
		line("duplicates", "%d", l.Duplicates)
		line("out of order", "%d", l.OutOfOrder)
		line("of no raw record", "%d", l.Strangers)
		line("misplaced",
			"%d raw records of a second producer, %d dead letters with reason wrong_partition",
			l.Misplaced, l.MisplacedLetters)
		line("budgets",
			"%d of %d users exceeded theirs; at most ε %g of %d was published in any %v",
			l.Exceeded, l.Users, l.MostSpent, budgetEpsilon, budgetWindow)
		line("concurrent reader", "%s", equal(l.ReaderDiffer == 0))
		line("read uncommitted", "%d more records, %d fixes with two different releases",
			l.Uncommitted, l.Differing)
		line("fenced producers", "%d records", l.Zombies)
		line("state verify", "%s", equal(r.StateEqual))
	}
	line("longest silence", "%v between two records of a partition, for a read_committed reader "+
		"(includes pauses of the feed)", r.Gap)
	line("longest delay", "%v from a raw record to its sanitized record, for that reader (%s)",
		r.Delay, r.Late)
	line("logged errors", "%d", r.LoggedErrors)
	line("time", "%v", r.Took)
	if len(r.Violations) == 0 {
		line("result", "every promise held")
		return b.String()
	}
	line("result", "FAILED")
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "  - %s\n", strings.ReplaceAll(v, "\n", "\n    "))
	}
	return b.String()
}

func equal(yes bool) string {
	if yes {
		return "equal"
	}
	return "DIFFERS"
}

// writeJSON writes the report for programs.
func (r *report) writeJSON(path string) error {
	violations := r.Violations
	if violations == nil {
		violations = []string{}
	}
	l := r.ledger
	if l == nil {
		l = &ledger{}
	}
	data, err := json.MarshalIndent(map[string]any{
		"seed": r.Settings.Seed, "again": r.Settings.again(),
		"hard_faults": r.hardFaults(), "faults": r.Faults,
		"raw": l.Raw, "sanitized": l.Sanitized, "dead_letters": l.Dead,
		"transactions_committed": l.Committed, "transactions_aborted": l.Aborted,
		"lost": l.Lost, "duplicates": l.Duplicates, "out_of_order": l.OutOfOrder,
		"strangers": l.Strangers,
		"misplaced": l.Misplaced, "misplaced_dead_letters": l.MisplacedLetters,
		"users": l.Users, "budgets_exceeded": l.Exceeded, "budget": budgetEpsilon,
		"most_spent":   l.MostSpent,
		"reader_equal": r.ledger != nil && l.ReaderDiffer == 0, "uncommitted": l.Uncommitted,
		"differing":      l.Differing,
		"fenced_records": l.Zombies, "state_equal": r.StateEqual, "state_verify": r.Verified,
		"gap_ms": r.Gap.Milliseconds(), "delay_ms": r.Delay.Milliseconds(),
		"logged_errors": r.LoggedErrors, "took_s": r.Took.Seconds(),
		"violations": violations,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
