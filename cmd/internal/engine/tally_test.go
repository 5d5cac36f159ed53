package engine

import (
	"fmt"
	"reflect"
	"testing"
)

func TestRatios(t *testing.T) {
	if s := (Tally{}); s.LocationSetMean() != 0 || s.DriftRatio() != 0 {
		t.Error("the ratios of nothing are not 0")
	}
	if s := (Tally{Releases: 4, SetCells: 10, Drifts: 1}); s.LocationSetMean() != 2.5 ||
		s.DriftRatio() != .25 {
		t.Errorf("%v and %v", s.LocationSetMean(), s.DriftRatio())
	}
}

// TestCounterNames: every number of a tally is in the one table, under a name of its own,
// and is added up.
func TestCounterNames(t *testing.T) {
	var one Tally
	names := map[string]bool{}
	for i, c := range counters {
		if names[c.name] || c.help == "" {
			t.Errorf("the name %q is there twice, or says nothing", c.name)
		}
		names[c.name] = true
		*c.of(&one) = int64(i + 1)
	}
	if !names[latenessAfter] {
		t.Error("the lateness has no place in the log")
	}
	numbers := 0
	for i := range reflect.TypeFor[Tally]().NumField() {
		if value := reflect.ValueOf(one).Field(i); value.Kind() == reflect.Int64 {
			numbers++
			if value.Int() == 0 {
				t.Errorf("%s has no name", reflect.TypeFor[Tally]().Field(i).Name)
			}
		}
	}
	one.Epsilon = .5
	var total Counters
	total.Book(one)
	total.Book(one)
	got := total.Snapshot()
	for i, c := range counters {
		if *c.of(&got) != 2*int64(i+1) {
			t.Errorf("%s is %d after two times %d", c.name, *c.of(&got), i+1)
		}
	}
	if numbers != len(counters) || got.Epsilon != 1 {
		t.Errorf("%d numbers and %d names; ε adds up to %g", numbers, len(counters), got.Epsilon)
	}
}

// TestCounted: the last line of a run that read nothing has no zeros.
func TestCounted(t *testing.T) {
	if got := new(Tally).Counted(); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
	some := Tally{RecordsIn: 3, RecordsOut: 3}
	if got, want := fmt.Sprint(some.Counted()...), fmt.Sprint(
		"records_in", int64(3), "records_out", int64(3)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
