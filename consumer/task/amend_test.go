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
			!strings.Contains(err.Error(), "(report-this)") || count(s, "process ") > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := newScript()
	s.committed, s.changelog = 1, v2(Mark{Input: 1, Amendments: []Amendment{{1, []byte("a")}}})
	if err := s.run(t, Options{}); RemedyOf(err) != Fatal || !errors.Is(err, ErrAmended) {
		t.Errorf("a task without an amender: %v", err)
	}
}
