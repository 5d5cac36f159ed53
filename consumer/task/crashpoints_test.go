package task

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// interfaceCalls lists every method that a task calls of what it drives.
func interfaceCalls() (names []string) {
	for name, t := range map[string]reflect.Type{
		"Input": reflect.TypeFor[Log](), "Changelog": reflect.TypeFor[Log](),
		"Transactions": reflect.TypeFor[Transactions](),
		"Store":        reflect.TypeFor[Store](), "Processor": reflect.TypeFor[Processor](),
		"Partitioned": reflect.TypeFor[Partitioned](),
	} {
		for i := range t.NumMethod() {
			names = append(names, name+"."+t.Method(i).Name)
		}
	}
	slices.Sort(names)
	return names
}

// scenarios are what happens besides the fault at the point in question.
var scenarios = []struct {
	name string
	set  func(w *world)
}{
	{"nothing else", func(*world) {}},
	{"a lost answer to Produce", func(w *world) {
		w.plan = []point{{"Transactions.Produce", 3, failAfter}}
	}},
	{"a lost answer to Commit", func(w *world) {
		w.plan = []point{{"Transactions.Commit", 3, failAfter}}
	}},
	{"a lost disk", func(w *world) { w.plan = []point{{"Transactions.Commit", 4, loseDisk}} }},
	{"a takeover", func(w *world) { w.plan = []point{{"Processor.Process", 9, takeover}} }},
	{"a suspended owner", func(w *world) { w.plan = []point{{"Transactions.Commit", 3, suspend}} }},
	{"other settings after a stop", func(w *world) {
		w.plan = []point{{"Processor.Process", 7, restart}}
	}},
	{"other settings after a crash", func(w *world) {
		w.plan = []point{{"Transactions.Commit", 3, upgrade}}
	}},
	{"a version after a stop", func(w *world) {
		w.plan = []point{{"Processor.Process", 5, putUp}}
	}},
	{"a version after a stop, and a lost answer to its Commit", func(w *world) {
		w.plan = []point{{"Processor.Process", 5, putUp}, {"Transactions.Commit", 4, failAfter}}
	}},
	{"a version after a stop, and other settings after a crash", func(w *world) {
		w.plan = []point{{"Processor.Process", 5, putUp}, {"Transactions.Commit", 5, upgrade}}
	}},
	{"a state of the partition", func(w *world) { w.parted = true }},
	{"a state of the partition, and a lost answer to Commit", func(w *world) {
		w.parted, w.plan = true, []point{{"Partitioned.Passed", 2, takeover}}
	}},
	{"an end", func(w *world) { w.end = 11 }},
	{"records removed", func(w *world) {
		w.plan, w.skip = []point{{"Transactions.Fence", 1, retention}}, true
	}},
}

// TestCrashPoints makes each fault at every single call of a task's life, one at
// a time, in several circumstances, and checks the invariants after each. Run it
// with -v for the list of the points.
func TestCrashPoints(t *testing.T) {
	if testing.Short() {
		t.Skip("11,000 worlds: run without -short")
	}
	const seed = 5
	kinds := []fault{
		crashBefore, crashAfter, loseDisk, failBefore, failAfter, retryBefore,
		takeover, suspend, stop, restart, upgrade, putUp,
	}
	covered := map[string]map[fault]int{}
	worlds := 0
	for _, scenario := range scenarios {
		world := func(extra ...point) *world {
			w := newWorld(seed, false)
			w.smooth, w.plan, w.end, w.fate, w.made = false, []point{}, 0, w.fate[:20], w.made[:20]
			w.parted = false
			w.input.entries = w.input.entries[:20]
			scenario.set(w)
			w.plan = append(w.plan, extra...)
			return w
		}
		calm := world()
		if err := calm.run(); err != nil {
			t.Fatalf("%s: %v", scenario.name, err)
		}
		for at := 1; at <= calm.calls; at++ {
			for _, kind := range kinds {
				w := world(point{nth: at, fault: kind})
				w.points = func(n *node, name string, f fault) {
					if w.calls != at || f != kind { // another fault of the scenario's is here
						return
					}
					where := fmt.Sprintf("%-11v %s", n.task.state, name)
					if covered[where] == nil {
						covered[where] = map[fault]int{}
					}
					covered[where][f]++
				}
				if err := w.run(); err != nil {
					t.Fatalf("%s, and %v at call %d: %v", scenario.name, kind, at, err)
				}
				worlds++
			}
		}
	}
	list := slices.Sorted(maps.Keys(covered))
	for _, where := range list {
		var line strings.Builder
		for _, kind := range kinds {
			if covered[where][kind] == 0 {
				t.Errorf("no %v at %s", kind, where)
			}
			fmt.Fprintf(&line, " %v ×%d,", kind, covered[where][kind])
		}
		t.Logf("%-42s%s", where, strings.TrimSuffix(line.String(), ","))
	}
	for _, call := range interfaceCalls() {
		if !slices.ContainsFunc(list, func(where string) bool {
			return strings.HasSuffix(where, " "+call)
		}) {
			t.Errorf("%s is never called, so nothing is known about a crash there", call)
		}
	}
	t.Logf("%d points in %d worlds", len(list), worlds)
}
