package engine

import (
	"fmt"
	"reflect"
	"testing"
)

// TestCounterNames: every number of a tally is in the one table, under a name of its own.
func TestCounterNames(t *testing.T) {
	names := map[string]bool{}
	for _, n := range Numbers {
		if names[n.Name] || n.Help == "" {
			t.Errorf("the name %q is there twice, or says nothing", n.Name)
		}
		names[n.Name] = true
	}
	if !names[latenessAfter] {
		t.Error("the lateness has no place in the log")
	}
	found := 0
	tell := func(name string, set func(one reflect.Value)) {
		var one Tally
		found++
		set(reflect.ValueOf(&one).Elem())
		var told []string
		for i, n := range one.Values() {
			if n == 7 {
				told = append(told, Numbers[i].Name)
			}
		}
		if len(told) != 1 {
			t.Errorf("%s has the names %q", name, told)
		}
	}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[Tally]()) {
		if field.Type.Kind() == reflect.Int64 {
			tell(field.Name, func(one reflect.Value) { one.Field(i).SetInt(7) })
		}
	}
	if found != len(Numbers) {
		t.Errorf("%d numbers and %d names", found, len(Numbers))
	}
}

// TestBook: all that a tally holds is added up and taken away again, histograms and reasons too.
func TestBook(t *testing.T) {
	var one Tally
	for i, n := range numbersIn(t, reflect.ValueOf(&one).Elem()) {
		n(float64(i + 1))
	}
	var total Counters
	total.Book(one)
	if got := total.Snapshot(); got != one {
		t.Errorf("booked once: %+v, want %+v", got, one)
	}
	total.Book(one)
	twice := total.Snapshot()
	if twice == one || twice.Minus(one) != one || twice.Minus(twice) != (Tally{}) {
		t.Errorf("%+v is not twice %+v", twice, one)
	}
	if twice.Epsilon != 2*one.Epsilon || twice.SkippedByRule[1] != 2*one.SkippedByRule[1] ||
		twice.Ahead.Counts[9] != 2*one.Ahead.Counts[9] || twice.Sets[3] != 2*one.Sets[3] ||
		twice.Refusals.Total() != 2*one.Refusals.Total() {
		t.Errorf("%+v is not twice %+v", twice, one)
	}
}

// numbersIn returns the setters of all numbers in a value.
func numbersIn(t *testing.T, v reflect.Value) (set []func(float64)) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			set = append(set, numbersIn(t, v.Field(i))...)
		}
	case reflect.Array:
		for i := range v.Len() {
			set = append(set, numbersIn(t, v.Index(i))...)
		}
	case reflect.Int64:
		set = append(set, func(n float64) { v.SetInt(int64(n)) })
	case reflect.Float64:
		set = append(set, v.SetFloat)
	default:
		t.Fatalf("a tally holds a %v, which cannot be added", v.Kind())
	}
	return set
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
