package task

import (
	"fmt"
	"strings"
)

// versions is how many versions a world puts up at most.
const versions = 5

// putUp adds a version to the operator's list, for tasks that start from now on. Most start after
// everything that is committed by now, and may be too early when such a task starts.
func (w *world) putUp() {
	if w.rng.IntN(8) == 0 && len(w.versions) > 0 { // a mistake
		w.versions = w.versions[:len(w.versions)-1]
	}
	if len(w.versions) == versions {
		return
	}
	from := w.mark.Latest + 1 + w.rng.Int64N(150)
	if n := len(w.versions); n > 0 {
		from = max(from, w.versions[n-1].From+1)
	}
	w.put++
	added := Version{from, fmt.Appendf(nil, "v%d", w.put)}
	w.versions = append(w.versions[:len(w.versions):len(w.versions)], added)
}

// inForce says what counts for a record of a time.
func inForce(list []Version, time int64) string {
	var b strings.Builder
	for _, v := range list {
		if v.From <= time+1 {
			b.Write(v.Name)
		}
	}
	return b.String()
}

// bookVersions checks a mark that is being committed against the one before, and writes down what
// its transaction's records were made with.
func (w *world) bookVersions(m Mark, from int64) {
	for at := from; at < min(m.Input, int64(len(w.fate))); at++ {
		e := w.input.entries[at]
		w.made[at] = inForce(m.Versions, e.rec.Timestamp)
		if e.status == plain && w.fate[at] != skipped && e.rec.Timestamp+1 > m.Latest &&
			!w.trusting {
			w.violated("the mark %+v does not know the time of record %d", m, at)
		}
	}
	had := w.mark.Versions
	for len(had) > 0 && had[len(had)-1].From > w.mark.Latest {
		had = had[:len(had)-1] // no record depends on it
	}
	if w.trusting || string(m.Settings) != string(w.mark.Settings) {
		return
	}
	if len(m.Versions) < len(had) ||
		!(Mark{Versions: had}).sameBut(Mark{Versions: m.Versions[:len(had)]}) {
		w.violated("the mark %+v has lost versions of %+v", m, w.mark)
		return
	}
	old := w.mark.Versions
	for i, v := range m.Versions[len(had):] {
		switch at := len(had) + i; {
		case at >= len(old):
			w.events["a version was added"]++
		case !v.equal(old[at]):
			w.events["a version was replaced"]++
		}
		if v.From <= w.mark.Latest {
			w.violated("the mark %+v adds a version whose time is past", m)
		}
	}
}

// checkVersions holds what was used against the last mark alone: its list has to say, for each
// record, what it was made with.
func (w *world) checkVersions() error {
	for at := max(w.mark.Since, 0); at < min(w.mark.Input, int64(len(w.fate))); at++ {
		e := w.input.entries[at]
		if want := inForce(w.mark.Versions, e.rec.Timestamp); e.status == plain &&
			w.fate[at] >= 0 && w.made[at] != want {
			return fmt.Errorf("record %d was made with %q, the last mark says %q", at, w.made[at],
				want)
		}
	}
	return nil
}

// versionMutants are mistakes about versions.
var versionMutants = []mutant{
	{"a version may start at a time that is past", func(n *node, d *Dependencies, _ *Options) {
		n.w.trusting = true
		d.Transactions = marking{n, func(m *Mark) { m.Latest = 0 }}
	}},
	{"a list may lack what the last one had", func(n *node, d *Dependencies, _ *Options) {
		n.w.trusting = true
		d.Transactions = marking{n, func(m *Mark) {
			if len(m.Versions) > 0 {
				m.Versions = m.Versions[:len(m.Versions)-1]
			}
		}}
	}},
	{"a longer list after a death", func(n *node, _ *Dependencies, o *Options) {
		if len(n.w.mark.Versions) < len(o.Versions) {
			o.AcceptSettings = true
		}
	}},
	{"the processor uses another list", func(n *node, _ *Dependencies, _ *Options) {
		n.versions = nil
	}},
}
