package task

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

const (
	seedEnv  = "GEODITHER_TASK_SEED"  // run this seed only
	seedsEnv = "GEODITHER_TASK_SEEDS" // run so many
)

// TestSimulation crashes, fences, stalls and deceives the loop at every call, by
// seed, and holds what comes out against a run in which nothing fails.
func TestSimulation(t *testing.T) {
	const enough = 5000 // for everything rare to happen
	first, count := uint64(0), uint64(enough)
	if testing.Short() {
		count = 500
	}
	if s := os.Getenv(seedEnv); s != "" {
		first, count = number(t, s), 1
	} else if s := os.Getenv(seedsEnv); s != "" {
		count = number(t, s)
	}
	events := map[string]int{}
	calls := 0
	for seed := first; seed < first+count; seed++ {
		w := newWorld(seed, true)
		if err := w.run(); err != nil {
			t.Fatalf("seed %d: %v\nrun it again with: %s=%d go test ./consumer/task -run "+
				"TestSimulation", seed, err, seedEnv, seed)
		}
		calls += w.calls
		for e, n := range w.events {
			events[e] += n
		}
	}
	if count < enough {
		return
	}
	// The simulation is worth something only if everything goes wrong everywhere.
	for _, name := range interfaceCalls() {
		for f := crashBefore; f < faultKinds; f++ {
			if events[name+"/"+f.String()] == 0 {
				t.Errorf("%v has never happened at %s", f, name)
			}
		}
	}
	for _, why := range []string{
		"empty", "no committed offset", "no longer holds", "older than tombstones", "input lost",
		"settings refused", "a zombie writes", "a zombie is refused",
		"a task that was replaced commits",
		"a version was added", "a version was replaced", "versions refused",
		"a version more refused", "aborted input first",
		"a record is processed beside a commit", "a state is read from the transaction in flight",
		"a transaction's time is up inside a batch", "two transactions are given up",
		"a batch is applied while the next one is fetched",
		"lost: told", "lost: put back", "lost: rebuilt from a store", "lost: accepted",
		"lost: another id",
		"closed by an idle task", "closed by a record", "a state is swept",
		"an idle task waits for open transactions",
	} {
		if !has(events, why) {
			t.Errorf("%q has never happened", why)
		}
	}
	t.Logf("%d seeds, %d calls", count, calls)
}

func has(events map[string]int, part string) bool {
	for e := range events {
		if strings.Contains(e, part) {
			return true
		}
	}
	return false
}

// TestWithoutFaults pins down that the oracle is what the loop does by itself.
func TestWithoutFaults(t *testing.T) {
	for seed := range uint64(200) {
		if err := newWorld(seed, false).run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%q is not a number", s)
	}
	return n
}
