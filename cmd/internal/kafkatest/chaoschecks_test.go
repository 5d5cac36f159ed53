//go:build kafka

package kafkatest

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSettings: what no run can have is refused, and what is printed repeats a run.
func TestSettings(t *testing.T) {
	parse := func(soak bool, args string) (*settings, error) {
		flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
		s := register(flags)
		s.Soak = soak
		if err := flags.Parse(strings.Fields(args)); err != nil {
			return s, err
		}
		return s, s.complete(flags)
	}
	for _, c := range []struct {
		soak       bool
		args, want string
	}{
		{false, "--records 0", "must be positive"},
		{false, "--faults -1", "must not be negative"},
		{false, "--static 4", "at most --instances"},
		{false, "--standbys -1", "must not be negative"},
		{false, "--nodes 2", "--nodes must be 3"},
		{false, "--nodes 1", "1 without --faults"},
		{false, "--seed 5 --faults 3", ""},
		{false, "--seed 5 --standbys 0", ""},
		{true, "--every 10s", "--every must be"},
		{true, "--rate 0", "must be positive"},
		{true, "--instances 2 --every 90s --static 1", "two minutes or more"},
		{true, "--seed 5 --every 90s", ""},
		{true, "--seed 5 --nodes 1 --minutes 20 --every 3m --rate 150", ""},
	} {
		s, err := parse(c.soak, c.args)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.args, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		case c.want == "":
			_, args, _ := strings.Cut(s.again(), "'")
			again, err := parse(c.soak, strings.TrimSuffix(args, "'"))
			again.given = s.given
			if err != nil || *again != *s {
				t.Errorf("%s is repeated as %+v (%v)", c.args, again, err)
			}
		}
	}
}

// TestSchedule wants the asked number of hard faults, all kinds, nothing outside
// of the feed, targets that exist, and the same again from the same seed.
func TestSchedule(t *testing.T) {
	for seed := range uint64(50) {
		s := settings{
			Seed: seed + 1, Faults: 20, Duration: 140 * time.Second, Instances: 3, Nodes: 3,
		}
		faults := schedule(s)
		if !reflect.DeepEqual(faults, schedule(s)) {
			t.Fatalf("seed %d gives two schedules", s.Seed)
		}
		count, kinds := 0, map[kind]bool{}
		for _, f := range faults {
			kinds[f.kind] = true
			if slices.Contains(hard, f.kind) {
				count++
			}
			if f.at < 0 || f.at > s.Duration || f.target < 0 || f.target > 2 {
				t.Errorf("seed %d: %+v", s.Seed, f)
			}
			if f.kind == instanceFreeze && f.lasts <= sessionTimeout {
				t.Errorf("seed %d: a freeze of %v leaves the member in the group", s.Seed, f.lasts)
			}
		}
		if count != s.Faults || len(kinds) != 7 {
			t.Errorf("seed %d: %d hard faults of %d kinds", s.Seed, count, len(kinds))
		}
	}
}

// TestOddRecordsAreTold wants every odd record's user and time to be its own.
func TestOddRecordsAreTold(t *testing.T) {
	l, err := newLedger(1)
	if err != nil {
		t.Fatal(err)
	}
	fixes := 0
	for n := range 20_000 {
		r, err := oddRecord(l.codec, n, time.UnixMilli(1_700_000_000_000))
		if err != nil {
			t.Fatal(err)
		}
		r.Offset = int64(n)
		l.addRaw(r)
		if fix, err := l.codec.DecodeRaw(r.Value); err == nil && fix.UserID == string(r.Key) {
			fixes++
		}
	}
	if l.FedTwice > 0 || l.Raw != 20_000 || fixes < 10_000 {
		t.Errorf("%d of %d records are fed twice, %d are fixes", l.FedTwice, l.Raw, fixes)
	}
}

// TestInterruptedStart: a script that is killed as it starts nodes cannot stop them; somebody else
// has to.
func TestInterruptedStart(t *testing.T) {
	dir, script := t.TempDir(), kafkaScript
	t.Cleanup(func() { kafkaScript = script })
	said := filepath.Join(dir, "said")
	kafkaScript = filepath.Join(dir, "kafka.sh")
	if err := os.WriteFile(kafkaScript,
		[]byte("#!/bin/sh\necho $1 >> "+said+"\n[ $1 = down ] || exec sleep 60\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for { // until it is at work
			if got, _ := os.ReadFile(said); string(got) == "up\n" {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := (kafkaDir{dir: dir}).up(ctx, 3); err == nil {
		t.Error("the interrupt is not an error")
	}
	if got, err := os.ReadFile(said); string(got) != "up\ndown\n" {
		t.Errorf("the script was asked for %q, %v", got, err)
	}
}
