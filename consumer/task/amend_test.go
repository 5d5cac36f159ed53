package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// scriptAmender proposes what it is told to, once it is not adopted.
type scriptAmender struct {
	*script
	proposals [][]byte
	list      []Amendment
	refuses   map[string]error // by name, once
}

func (a *scriptAmender) Amended(list []Amendment) error {
	a.list = list
	for _, x := range list {
		if err := a.refuses[string(x.Name)]; err != nil {
			delete(a.refuses, string(x.Name))
			return errors.Join(a.note("amended", "%s: refused", printAmendments(list)), err)
		}
	}
	return a.note("amended", "%s", strings.TrimPrefix(printAmendments(list), ", "))
}

func (a *scriptAmender) Propose() (names [][]byte) {
	for _, name := range a.proposals {
		if !slices.ContainsFunc(a.list, func(x Amendment) bool {
			return string(x.Name) == string(name)
		}) {
			names = append(names, name)
		}
	}
	return names
}

func printAmendments(list []Amendment) string {
	var b strings.Builder
	for _, a := range list {
		fmt.Fprintf(&b, ", %s from %d", a.Name, a.From)
	}
	return b.String()
}

// TestAmend gives a start every kind of mark, and something to adopt.
func TestAmend(t *testing.T) {
	s1, s2 := []byte("S1"), []byte("S2")
	a, b := Amendment{0, []byte("a")}, func(from int64) Amendment {
		return Amendment{from, []byte("b")}
	}
	for _, test := range []struct {
		name    string
		mark    []Message
		options Options
		want    []Amendment // of the last mark
		lines   string      // the first thing that the processor is told, and the last
	}{
		{"none", nil, Options{Settings: s1}, []Amendment{b(0)}, "amended|amended b from 0"},
		{
			"closed", v2(Mark{Input: 1, Settings: s1}),
			Options{Settings: s1},
			[]Amendment{b(1)},
			"amended|amended b from 1",
		},
		{
			"closed, with one", v2(Mark{Input: 1, Settings: s1, Amendments: []Amendment{a}}),
			Options{Settings: s1},
			[]Amendment{a, b(1)},
			"amended a from 0|amended a from 0, b from 1",
		},
		{
			"it is adopted", v2(Mark{
				Input: 1, Open: true, Settings: s1,
				Amendments: []Amendment{b(1)},
			}),
			Options{Settings: s1},
			[]Amendment{b(1)},
			"amended b from 1|amended b from 1",
		},
		// Behind an open mark only where all is committed that there was to read.
		{
			"open", v2(Mark{Input: 1, Open: true, Settings: s1}),
			Options{Settings: s1},
			[]Amendment{b(3)},
			"amended|amended b from 3",
		},
		{
			"open, and an end before that", v2(Mark{Input: 1, Open: true, Settings: s1}),
			Options{Settings: s1, End: 2},
			nil, "amended|amended",
		},
		{
			"version 1",
			[]Message{mark(1)},
			Options{Settings: s1},
			[]Amendment{b(3)},
			"amended|amended b from 3",
		},
		// Other settings begin without the amendments of the old ones.
		{
			"other settings", v2(Mark{Input: 1, Settings: s1, Amendments: []Amendment{a}}),
			Options{Settings: s2},
			[]Amendment{b(1)},
			"amended|amended b from 1",
		},
		{
			"other settings, accepted",
			v2(Mark{Input: 1, Open: true, Settings: s1, Amendments: []Amendment{a}}),
			Options{Settings: s2, AcceptSettings: true},
			[]Amendment{b(1)},
			"amended|amended b from 1",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScript()
			if s.changelog = test.mark; test.mark != nil {
				s.committed = 1
			}
			s.amender = &scriptAmender{script: s, proposals: [][]byte{[]byte("b")}}
			if err := s.run(t, test.options); err != nil {
				t.Fatal(err)
			}
			if got := s.lastMark(t); printAmendments(got.Amendments) != printAmendments(test.want) {
				t.Errorf("the last mark has%s, want%s", printAmendments(got.Amendments),
					printAmendments(test.want))
			}
			var told []string
			for _, l := range s.lines {
				if strings.HasPrefix(l, "amended") {
					told = append(told, l)
				}
			}
			if first, last, _ := strings.Cut(test.lines, "|"); told[0] != first ||
				told[len(told)-1] != last {
				t.Errorf("the processor is told %q, want %q", told, test.lines)
			}
		})
	}
}

// TestAmendRefused: what a processor cannot work with suspends the task until it can,
// and nothing is processed before.
func TestAmendRefused(t *testing.T) {
	s := newScript()
	s.committed, s.changelog = 1,
		v2(Mark{Input: 1, Settings: []byte("S"), Amendments: []Amendment{{1, []byte("late")}}})
	s.amender = &scriptAmender{
		script:  s,
		refuses: map[string]error{"late": errors.New("no such file")},
	}
	if err := s.run(t, Options{Settings: []byte("S")}); err != nil {
		t.Fatal(err)
	}
	refused := slices.IndexFunc(s.lines, func(l string) bool {
		return strings.Contains(l, "refused")
	})
	processed := slices.IndexFunc(s.lines, func(l string) bool {
		return strings.HasPrefix(l, "process ")
	})
	if refused < 0 || processed < refused || count(s, "txn.fence") != 2 ||
		count(s, "process ") != 2 {
		t.Errorf("refused at %d, processed at %d:\n%s", refused, processed,
			strings.Join(s.lines, "\n"))
	}
}

// TestAmenderBugs: what no mark could hold ends the task, and so does a mark with
// amendments that nobody here knows of.
func TestAmenderBugs(t *testing.T) {
	for name, proposals := range map[string][][]byte{
		"no name": {{}}, "a long name": {make([]byte, MarkBytes+1)},
		"too many": make([][]byte, MaxAmendments+1),
	} {
		s := newScript()
		s.amender = &scriptAmender{script: s, proposals: proposals}
		if err := s.run(t, Options{}); RemedyOf(err) != Fatal ||
			!strings.Contains(err.Error(), "bug") || count(s, "process ") > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := newScript()
	s.committed, s.changelog = 1, v2(Mark{Input: 1, Amendments: []Amendment{{1, []byte("a")}}})
	if err := s.run(t, Options{}); RemedyOf(err) != Fatal || !errors.Is(err, ErrAmended) {
		t.Errorf("a task without an amender: %v", err)
	}
}
