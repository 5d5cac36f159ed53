package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
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
	Plant      string
	json       string
	keep       bool
}

// session and transaction are the service's timeouts: short, since a schedule
// has to outwait them.
const (
	sessionTimeout     = 6 * time.Second
	transactionTimeout = 10 * time.Second
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
	fmt.Fprintf(log, "everything is kept in %s; again: make chaos ARGS='%s'\n", dir, s.again())
	if len(report.Violations) > 0 {
		return 1
	}
	return 0
}

func parse(args []string, log io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.Uint64Var(&s.Seed, "seed", 0, "of the schedule; 0: a new one")
	flags.IntVar(&s.Records, "records", 30_000, "fixes of the fleet; some odd records come on top")
	flags.IntVar(&s.Faults, "faults", 8, "hard faults: kill -9 and SIGSTOP; clean restarts come on top")
	flags.DurationVar(&s.Duration, "duration", 0, "of the feed and the faults; 0: as the faults need")
	flags.IntVar(&s.Instances, "instances", 3, "of the service")
	flags.IntVar(&s.Partitions, "partitions", 6, "of each topic")
	flags.IntVar(&s.Vehicles, "vehicles", 500, "of the fleet")
	flags.IntVar(&s.Static, "static", 2, "instances with an instance_id (static members)")
	flags.StringVar(&s.Plant, "plant", "", "plant a fault before the checks, which must then fail: "+strings.Join(plantNames(), ", "))
	flags.StringVar(&s.json, "json", "", "write the report to this file, too")
	flags.BoolVar(&s.keep, "keep", false, "keep logs and topics of a good run, too")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.Seed == 0 {
		s.Seed = rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(os.Getpid()))).Uint64N(1e9) + 1
	}
	if s.Duration == 0 {
		s.Duration = max(20*time.Second, time.Duration(s.Faults)*8*time.Second, time.Duration(s.Records)*time.Millisecond)
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
		return errors.New("--faults and --duration must not be negative, --static at most --instances")
	case s.Plant != "" && plants[s.Plant] == nil:
		return fmt.Errorf("--plant %s is unknown: choose one of %s", s.Plant, strings.Join(plantNames(), ", "))
	}
	return nil
}

// again is the command line of the same run.
func (s settings) again() string {
	text := fmt.Sprintf("--seed %d --records %d --faults %d --duration %v --instances %d --partitions %d --vehicles %d --static %d",
		s.Seed, s.Records, s.Faults, s.Duration, s.Instances, s.Partitions, s.Vehicles, s.Static)
	if s.Plant != "" {
		text += " --plant " + s.Plant
	}
	return text
}

// rate is how many fixes a second keep the feed going until the faults end.
func (s settings) rate() float64 { return float64(s.Records) / s.Duration.Seconds() }

// steps is how often each vehicle reports.
func (s settings) steps() int { return (s.Records + s.Vehicles - 1) / s.Vehicles }
