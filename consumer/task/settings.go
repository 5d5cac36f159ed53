package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// A reader of uncommitted data sees what aborted transactions have written. The
// same record processed twice must then give the same bytes, also by two workers
// one after the other, and what determines the bytes is Options.Settings. So a
// worker writes its settings into the changelog before its first data (open),
// and that nothing is left behind when it stops (close). A worker of other
// settings that finds the mark open knows that there may be records beyond the
// committed offset, made by those other settings, and does not begin.

// accept says why this task must not go on behind the mark that it has found.
func (t *Task) accept(m Mark) error {
	if err := CheckSource(m, t.o.Source); err != nil {
		return WithRemedy(err, Fatal)
	}
	if m.Open && t.other(m) && !t.o.AcceptSettings {
		return WithRemedy(&SettingsError{Found: m.Settings, Own: t.o.Settings, Input: m.Input}, Fatal)
	}
	return nil
}

// CheckSource answers with an ErrSource if a mark was written for another input topic than
// the one of an id. Nobody knows where either is empty.
func CheckSource(m Mark, source []byte) error {
	if len(m.Source) == 0 || len(source) == 0 || bytes.Equal(m.Source, source) {
		return nil
	}
	return fmt.Errorf("%w: its id is %x, and %x when the group came to offset %d. "+
		"Its records are other ones now, at offsets that mean something else: to read them, "+
		"set another group and empty topics.sanitized and topics.changelog: every user's "+
		"account of ε then starts at 0 there, and adds to this one",
		ErrSource, source, m.Source, m.Input)
}

// other reports whether a mark is known to be of other settings than the task's.
func (t *Task) other(m Mark) bool {
	return len(m.Settings) > 0 && len(t.o.Settings) > 0 && !bytes.Equal(m.Settings, t.o.Settings)
}

// stand takes over the mark that a restore has found. Processing goes on at
// t.next; the input's stable end was stable after the fence.
func (t *Task) stand(m Mark, found bool, input, stable int64) {
	t.mark, t.from = m, t.next
	if !found {
		t.mark = Mark{Origin: t.next, Since: t.next}
	} else if t.next != input { // SkipLost
		t.mark.Origin, t.mark.Since, t.mark.Lost = t.next, max(m.Since, t.next), true
	}
	t.opened = found && t.nextMark(true).sameBut(m)
	t.seen = none
	if found && m.Open {
		// How far the transaction went is not known, but not beyond what there
		// was to read; and its worker is fenced, so it is not longer now.
		t.seen = stable
	}
}

// open makes sure, before the first record of a transaction, that the last mark is
// open and of this task, and has what is to be adopted; else it commits a mark alone.
func (t *Task) open(work context.Context) error {
	proposed, err := t.propose()
	if err != nil || t.opened && len(proposed) == 0 {
		return err
	}
	return t.adopt(work, proposed, true)
}

// nextMark is the mark of a transaction that commits t.next. Other settings are
// amended by nothing yet, and are in force from where this task goes on: all that it
// processes is made under them. t.next will not do for that. By the time of the first
// mark it may have moved past aborted records, which would then look like records of
// earlier settings.
func (t *Task) nextMark(open bool) Mark {
	m := t.mark
	m.Input, m.Open = t.next, open
	if !bytes.Equal(m.Settings, t.o.Settings) {
		m.Settings, m.Since, m.Amendments = t.o.Settings, t.from, nil
	}
	for _, name := range t.proposed {
		m.Amendments = append(slices.Clip(m.Amendments), Amendment{From: t.next, Name: bytes.Clone(name)})
	}
	if len(t.o.Source) > 0 {
		m.Source = t.o.Source
	}
	return m
}

// closes reports whether a mark at t.next may say that nothing is left behind:
// whatever a reader of uncommitted data can have seen is committed.
func (t *Task) closes() bool { return t.next >= t.seen }

// SettingsError is ErrSettings with the two fingerprints, for whoever can name what
// differs.
type SettingsError struct {
	Found, Own []byte // of the last mark, and of this task
	Input      int64  // of the last mark
}

// Error says what may happen and what to do.
func (e *SettingsError) Error() string {
	return fmt.Sprintf("%v (%.4x, now %.4x), perhaps in the middle of a transaction beyond offset %d: "+
		"going on could show readers of uncommitted data two different releases of the same fixes. "+
		"Start once with the old settings, let it catch up with the input and stop it cleanly (SIGTERM); then start with the new ones. "+
		"If nobody reads sanitized records uncommitted, or two releases of some fixes are acceptable, set accept_settings: true for one start",
		ErrSettings, e.Found, e.Own, e.Input)
}

// Is matches ErrSettings.
func (e *SettingsError) Is(target error) bool { return target == ErrSettings }

// Conditions of a start under other circumstances; see errors.Is.
var (
	// ErrSettings: the last mark is open and of other settings.
	ErrSettings = errors.New("the worker before this one has ended under other settings without a clean stop")
	// ErrSource: the mark was written for another input topic.
	ErrSource = errors.New("the input topic was deleted and made anew")
	// ErrAmended: the mark has amendments, and the task has no Amender.
	ErrAmended = errors.New("the settings were amended by the worker before this one, which this one cannot do")
)
