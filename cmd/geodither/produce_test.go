package main

import (
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestProduceSimulated: a fleet for a number of steps; a live one ends well with Ctrl-C only.
func TestProduceSimulated(t *testing.T) {
	dir, broker := t.TempDir(), startBroker(t)
	_, model := townFiles(t, dir)
	args := func(topic string, more ...string) []string {
		return append([]string{
			"produce", "--brokers", broker, "--topic", topic, "--create", "2", "--simulate", "10",
			"--model", model,
		}, more...)
	}
	if r := succeed(t, args("steps", "--steps", "7")...); !strings.Contains(r.err,
		"produced 70 records to steps (2 partitions)") {
		t.Errorf("it says %q", r.err)
	}
	// The topic exists with 2 partitions: another number asked for changes nothing.
	if r := succeed(t, args("steps", "--steps", "1", "--create", "5")...); !strings.Contains(r.err,
		"produced 10 records to steps (2 partitions)") {
		t.Errorf("it says %q", r.err)
	}
	live := start(t, nil, args("live")...)
	eventually(t, "a live record", func() bool { return end(t, broker, "live") > 0 })
	if code := live.stop(t); code != cli.ExitDone ||
		!strings.Contains(live.log.String(), "produced ") {
		t.Errorf("exit %d: %s", code, live.log)
	}
	slow := start(t, nil, args("slow", "--steps", "1000", "--rate", "50")...)
	eventually(t, "a record at the rate", func() bool { return end(t, broker, "slow") > 0 })
	if code := slow.stop(t); code != cli.ExitInterrupted ||
		!strings.Contains(slow.log.String(), "interrupted") {
		t.Errorf("a feed cut short: exit %d: %s", code, slow.log)
	}
	if n := end(t, broker, "slow"); n >= 10_000 {
		t.Errorf("%d records at 50 a second", n)
	}
}

// end returns the number of records in a topic, 0 while there is none, by
// feeding it nothing and reading every partition.
func end(t *testing.T, broker, topic string) (n int) {
	t.Helper()
	w := crashWorld{client: kafkaClient(broker)}
	for _, records := range w.readIfThere(t, topic, true) {
		n += len(records)
	}
	return n
}

// TestProduceRate: so many records a second take so long.
func TestProduceRate(t *testing.T) {
	dir, broker := t.TempDir(), startBroker(t)
	traces, _ := townFiles(t, dir)
	began := time.Now()
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", "--create", "1",
		"--in", traces, "--rate", "1000")
	// A lower bound only: a busy machine takes longer.
	if took, least := time.Since(began),
		time.Duration(len(servicetest.TownFixes())-20)*time.Millisecond; took < least {
		t.Errorf("%d records at 1000 a second took %v", len(servicetest.TownFixes()), took)
	}
}

// TestProduceNothing: a file of which nothing can be read is an error that says why, once.
func TestProduceNothing(t *testing.T) {
	broker := startBroker(t)
	file := write(t, t.TempDir(), "seconds.csv",
		"user_id,timestamp,latitude,longitude\nu,1700000000,1,2\n")
	r := call(t, "produce", "--brokers", broker, "--topic", "raw", "--create", "1", "--in", file)
	requireMessage(t, r, cli.ExitFailed, "nothing could be read: 1 line skipped: "+
		"1 timestamp_in_seconds", "write milliseconds or RFC 3339")
	if strings.Count(r.err, "skipped") != 1 || strings.Contains(r.err, "produced") {
		t.Errorf("it says %q", r.err)
	}
}

// TestConsumeNothing: a topic without records may lack its writer; one of dead letters is well.
func TestConsumeNothing(t *testing.T) {
	broker := startBroker(t)
	header := write(t, t.TempDir(), "header.csv", "user_id,timestamp,latitude,longitude\n")
	to := []string{"--brokers", broker, "--topic", "empty"}
	succeed(t, append([]string{"produce", "--create", "1", "--in", header}, to...)...)
	consume := append([]string{"consume"}, to...)
	for more, want := range map[string]string{
		"":               "no record of empty is committed yet: is what writes it running?",
		"--dead-letters": "there are no dead letters in empty\n",
	} {
		r := succeed(t, append(consume, strings.Fields(more)...)...)
		if r.out != "" || !strings.Contains(r.err, want) {
			t.Errorf("%s: %q and %q, want %q", more, r.out, r.err, want)
		}
	}
}

// TestProduceQuietSource: what a pipe has given goes out, though more may come.
func TestProduceQuietSource(t *testing.T) {
	broker := startBroker(t)
	in, feed := pipe(t)
	b := start(t, in, "produce", "--brokers", broker, "--topic", "raw",
		"--create", "1", "--in", "-")
	if _, err := feed.WriteString(servicetest.TownCSV(servicetest.TownFixes()[:3])); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three records", func() bool { return end(t, broker, "raw") == 3 })
	// The interruption may come before the broker's answer, so that what it says
	// of the number of records is not held against it here.
	if code := b.stop(t); code != cli.ExitInterrupted {
		t.Errorf("exit %d: %s", code, b.log)
	}
}
