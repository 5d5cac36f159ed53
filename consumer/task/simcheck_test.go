package task

import (
	"fmt"
	"maps"
	"strings"
)

// check is what must hold at the end.
func (w *world) check() error {
	output, dead, states, end := w.oracle()
	if got := render(w.output.committed()); got != render(output) {
		return fmt.Errorf("committed output differs from a run without faults\ngot  %s\nwant %s",
			got, render(output))
	}
	if got := render(w.dead.committed()); got != render(dead) {
		return fmt.Errorf("committed dead letters differ from a run without faults\ngot  "+
			"%s\nwant %s", got, render(dead))
	}
	changelog := &w.changelog
	if w.backup != nil { // nobody has written to it since it was lost, and so nobody knows
		changelog = w.backup
	}
	got := changelog.fold(int64(len(changelog.history)))
	if w.parted {
		var last simPart
		last.decode(own(got))
		got, states = last.withoutExpired(got), last.withoutExpired(states)
	}
	if !maps.Equal(got, states) {
		return fmt.Errorf("the changelog's states differ from a run without faults\ngot  "+
			"%q\nwant %q", got, states)
	}
	if w.committed > max(end, w.mark.Origin) || w.smooth && w.committed != end {
		return fmt.Errorf("the group was left at %d, it should have read up to %d", w.committed,
			end)
	}
	if w.smooth && w.mark.Open {
		return fmt.Errorf("a clean stop has left the mark open: %+v", w.mark)
	}
	if err := w.checkVersions(); err != nil {
		return err
	}
	for _, l := range []*simLog{&w.output, &w.dead} {
		if err := w.releases(l, end); err != nil {
			return err
		}
	}
	return nil
}

// releases checks what a reader of uncommitted data sees: never two different
// results of one input record, unless somebody has accepted it.
func (w *world) releases(l *simLog, end int64) error {
	seen := map[string]string{}
	for _, e := range l.entries {
		if e.status == control {
			continue
		}
		id, _, _ := strings.Cut(string(e.rec.Value), "|")
		var offset int64
		if _, err := fmt.Sscan(id[:strings.IndexByte(id, '.')], &offset); err != nil ||
			offset >= end {
			return fmt.Errorf("a result of %s was written, the end is %d: %w", id, end, err)
		}
		if old, ok := seen[id]; ok && old != string(e.rec.Value) && !w.accepted {
			return fmt.Errorf("a read_uncommitted reader sees two outputs of input and number "+
				"%s: %q and %q", id, old, e.rec.Value)
		}
		seen[id] = string(e.rec.Value)
	}
	return nil
}

func render(ms []Message) string {
	var b strings.Builder
	for _, m := range ms {
		fmt.Fprintf(&b, "%q=%q@%d→%d ", m.Key, m.Value, m.Timestamp, m.To)
	}
	return b.String()
}

// oracle is the loop as one would write it if nothing ever failed. Under which settings and with
// which versions a record was processed is taken from what was committed, and which ones
// retention has taken.
func (w *world) oracle() (output, dead []Message, states map[string]string, end int64) {
	end = int64(len(w.input.entries))
	if w.end > 0 {
		end = w.end
	}
	states = map[string]string{}
	emptied := w.emptied
	part := w.newPart(states, &output)
	for i, e := range w.input.entries[:end] {
		if e.status != plain || w.fate[i] == skipped ||
			w.fate[i] == unseen && int64(i) < w.input.first {
			continue
		}
		for len(emptied) > 0 && int64(i) >= emptied[0] {
			clear(states)
			emptied = emptied[1:]
		}
		p := &simProcessor{settings: w.fate[i], made: w.made[i], part: part}
		var fx Effects
		state := ""
		if ValidKey(e.rec.Key) {
			state = states[string(e.rec.Key)]
		}
		rec := Record{
			Offset: int64(i), Timestamp: e.rec.Timestamp, Key: e.rec.Key,
			Value: e.rec.Value,
		}
		if err := p.Process(rec, []byte(state), &fx); err != nil {
			panic(err)
		}
		for _, m := range fx.Output {
			output = append(output, clone(m))
		}
		for _, m := range fx.DeadLetters {
			dead = append(dead, clone(m))
		}
		if fx.Forget {
			delete(states, string(e.rec.Key))
		} else if len(fx.State) > 0 {
			states[string(e.rec.Key)] = string(fx.State)
		}
	}
	if len(emptied) > 0 { // after the last record
		clear(states)
	}
	part.finish(w)
	return output, dead, states, end
}
