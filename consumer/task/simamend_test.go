package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// versions is how many amendments a world puts up at most.
const versions = 5

func versionName(i int) []byte { return fmt.Appendf(nil, "v%d", i) }

// simAmender sees what the world has put up with some delay of its own, and works
// with nothing that it has not seen.
type simAmender struct{ n *node }

var errUnknown = errors.New("a version is not here yet")

func (a simAmender) Amended(list []Amendment) error {
	n := a.n
	return n.call("Amender.Amended", func(bool) error {
		n.list = nil
		for _, x := range list {
			if n.w.rng.IntN(2) == 0 {
				n.known = n.w.versions
			}
			if !slices.ContainsFunc(n.names(), func(name []byte) bool {
				return string(name) == string(x.Name)
			}) {
				n.w.events["waits for a version"]++
				return WithRemedy(errUnknown, Rebuild)
			}
		}
		n.list = list
		return nil
	})
}

func (a simAmender) Propose() (proposed [][]byte) {
	n := a.n
	err := n.call("Amender.Propose", func(bool) error {
		if n.known < n.w.versions && n.w.rng.IntN(2) == 0 {
			n.known++
		}
		for _, name := range n.names() {
			if !slices.ContainsFunc(n.list, func(x Amendment) bool {
				return string(x.Name) == string(name)
			}) {
				proposed = append(proposed, name)
			}
		}
		if len(proposed) > 0 && n.task.flight.beside != nil {
			n.w.events["adoption waits for a commit"]++
		}
		return nil
	})
	if err != nil {
		return nil // it does not look this time
	}
	return proposed
}

// names are those of what a node has seen.
func (n *node) names() (names [][]byte) {
	for i := range n.known {
		names = append(names, versionName(i))
	}
	return names
}

// inForce says what counts for a record.
func inForce(list []Amendment, offset int64) string {
	var b strings.Builder
	for _, x := range list {
		if x.From <= offset {
			b.Write(x.Name)
		}
	}
	return b.String()
}

// bookAmendments checks a mark that is being committed against the one before, and
// writes down what its transaction's records were made with.
func (w *world) bookAmendments(m Mark, from int64) {
	for at := from; at < min(m.Input, int64(len(w.fate))); at++ {
		w.made[at] = inForce(m.Amendments, at)
	}
	if w.trusting {
		return
	}
	had := w.mark.Amendments
	if string(m.Settings) != string(w.mark.Settings) {
		had = nil
	}
	if len(m.Amendments) < len(had) ||
		!(Mark{Amendments: had}).sameBut(Mark{Amendments: m.Amendments[:len(had)]}) {
		w.violated("the mark %+v has lost amendments of %+v", m, w.mark)
		return
	}
	added := m.Amendments[len(had):]
	for i, x := range added {
		w.events["adopted"]++
		if x.From != m.Input {
			w.violated("the mark %+v adopts from another offset than its own", m)
		}
		if slices.ContainsFunc(m.Amendments[:len(had)+i], func(y Amendment) bool {
			return string(x.Name) == string(y.Name)
		}) {
			w.violated("the mark %+v adopts twice", m)
		}
	}
	if len(added) == 0 {
		return
	}
	for at := from; at < min(m.Input, int64(len(w.fate))); at++ {
		if w.input.entries[at].status == plain && w.fate[at] != skipped {
			w.violated("the mark %+v adopts in the transaction that has answered %d", m, at)
		}
	}
	switch {
	case string(m.Settings) != string(w.mark.Settings) && w.marked:
		w.events["adopted with other settings"]++
	case !m.Open:
		w.events["adopted by an idle task"]++
	case w.mark.Open:
		w.events["adopted in the middle"]++
	}
}

// checkAmendments holds what was used against the last mark alone: it has to say,
// for each record, what it was made with.
func (w *world) checkAmendments() error {
	for at := max(w.mark.Since, 0); at < min(w.mark.Input, int64(len(w.fate))); at++ {
		if w.input.entries[at].status == plain && w.fate[at] >= 0 &&
			w.made[at] != inForce(w.mark.Amendments, at) {
			return fmt.Errorf("record %d was made with %q, the last mark says %q", at, w.made[at],
				inForce(w.mark.Amendments, at))
		}
	}
	return nil
}
