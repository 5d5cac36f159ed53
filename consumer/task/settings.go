package task

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// marks is what a task knows about the marks of its partition.
//
// A reader of uncommitted data sees what aborted transactions have written. If a record is
// processed twice, also by two workers one after the other, the bytes must be the same, and
// Options.Settings is what determines them. So a worker writes its settings into the changelog
// before its first record (an open mark), and when it stops, that nothing uncommitted is left
// behind (a closed mark). A worker with other settings that finds the mark open knows that there
// may be records beyond the committed offset that were made with those settings, and does not
// start.
type marks struct {
	settings, source, names []byte // of this task: Options.Settings, Source and Names
	partitioner             string // Options.Partitioner
	versions                []Version

	mark   Mark // the last one; before the first, what it would have been
	opened bool // the last mark is open and was written by this task
	passes bool // the processor is Partitioned
	// unsettled: a worker before this one may have shown what it does about times that it passed,
	// and this one has not passed all of these.
	unsettled bool
	from      int64 // input offset at which this assignment goes on
	epoch     int32 // leader epoch of what was read of the input; none: not known
	seen      int64 // before this input offset, readers of uncommitted data may have seen results
	latest    int64 // the highest time that was processed, also in the transaction in hand
}

// found takes over the mark that a restore has found, if there is one. The task goes on at next.
// Lost says that SkipLost has skipped records before that. The stable end was read after the fence.
func (k *marks) found(m Mark, found, lost bool, next, stable int64) {
	k.mark, k.from = m, next
	if k.epoch = m.Epoch; !found || lost {
		k.epoch = none
	}
	if !found {
		k.mark = Mark{Origin: next, Since: next}
	} else if lost {
		k.mark.Origin, k.mark.Since, k.mark.Lost = next, max(m.Since, next), true
		k.mark.Published = 0 // what lies there now may be other records
	}
	k.latest = k.mark.Latest
	k.opened = found && k.nextMark(next, true).sameBut(m)
	k.seen, k.unsettled = none, false
	if found && m.Open {
		// It is not known how far the predecessor's transaction went. It cannot go beyond what
		// there was to read, and it grows no more, because the predecessor is fenced.
		k.shown(stable)
	}
}

// shown says that a worker may have shown results of records before an input offset, and of times
// that it has passed.
func (k *marks) shown(end int64) { k.seen, k.unsettled = end, k.passes }

// nextMark returns the mark of a transaction that commits the input up to next.
//
// Settings that replace others count from where this assignment went on, because everything that it
// processes is made with them. They do not count from next: before the first mark the task may have
// read past aborted records, which would then look like records of the earlier settings.
func (k *marks) nextMark(next int64, open bool) Mark {
	m := k.mark
	m.Input, m.Open, m.Epoch = next, open, k.epoch
	m.Versions, m.Latest = k.versions, k.latest
	if !bytes.Equal(m.Settings, k.settings) {
		m.Settings, m.Since = k.settings, k.from
	}
	if len(k.source) > 0 {
		m.Source = k.source
	}
	if len(k.names) > 0 {
		m.Names = k.names
	}
	if k.partitioner != "" {
		m.Partitioner = k.partitioner
	}
	return m
}

// closes reports whether a mark at next may say that nothing is left behind: everything is
// committed that a reader of uncommitted data can have seen, or that was published before the
// changelog was written back.
func (k *marks) closes(next int64) bool {
	return next >= max(k.seen, k.mark.Published) && !k.unsettled
}

// other reports whether a mark is known to be of other settings than the task's.
func (k *marks) other(m Mark) bool {
	return len(m.Settings) > 0 && len(k.settings) > 0 && !bytes.Equal(m.Settings, k.settings)
}

// renames reports whether a mark is not known to be of a worker with the task's names.
func (k *marks) renames(m Mark) bool {
	return len(k.names) > 0 && !bytes.Equal(m.Names, k.names)
}

// CheckSource returns an ErrSource if a mark was written for an input topic with another id. It
// returns nil if either id is unknown, that is, empty.
func CheckSource(m Mark, source []byte) error {
	if len(m.Source) == 0 || len(source) == 0 || bytes.Equal(m.Source, source) {
		return nil
	}
	return fmt.Errorf("%w: its id is %x, and %x at offset %d (raw-remade)", ErrSource, source,
		m.Source, m.Input)
}

// CheckPartitioner returns an ErrPartitioner if a mark was not written under this partitioner,
// whatever states there are: an erased key has none and may come back. It returns nil for an empty
// partitioner.
func CheckPartitioner(m Mark, partitioner string) error {
	if partitioner == "" || m.Partitioner == partitioner {
		return nil
	}
	return fmt.Errorf("%w: the changelog says \"%s\", and the config and topic \"%s\" "+
		"(partitioner-changed)", ErrPartitioner, cmp.Or(m.Partitioner, "not known"), partitioner)
}

// SettingsError is ErrSettings with the two fingerprints, for callers that can name what differs.
type SettingsError struct {
	Found, Own []byte // of the last mark, and of this task
	Input      int64  // of the last mark
}

// Error says where that may matter.
func (e *SettingsError) Error() string {
	what := fmt.Sprintf("%.4x, now %.4x", e.Found, e.Own)
	if bytes.Equal(e.Found, e.Own) {
		what = "the list of versions is another one"
	}
	return fmt.Sprintf("%v (%s), perhaps in a transaction beyond offset %d (settings-changed)",
		ErrSettings, what, e.Input)
}

// Is matches ErrSettings.
func (e *SettingsError) Is(target error) bool { return target == ErrSettings }

// Conditions of a start under other circumstances; see errors.Is.
var (
	// ErrSettings: the last mark is open and of other settings.
	ErrSettings = errors.New("the worker before this one has ended under other settings without " +
		"a clean stop")
	// ErrKept: accounts of erased keys are kept, and the last worker is not known to have named
	// them as this task does.
	ErrKept = errors.New("erased users' accounts need the noise key of their erasure")
	// ErrPartitioner: the mark was written under another partitioner of keys.
	ErrPartitioner = errors.New("users would move away from their accounts of ε")
	// ErrSource: the mark was written for another input topic.
	ErrSource = errors.New("the input topic was deleted and made again")
	// ErrVersions: the task has other versions than the last mark, for records that were processed.
	ErrVersions = errors.New("the list of versions does not extend the list in use")
)

// VersionsError is ErrVersions with the first version that is wrong, for callers that can say what
// its name means.
type VersionsError struct {
	Version Version
	// Latest is the highest time that was processed, where an added version starts no later; 0: the
	// version is in use, and the list lacks it.
	Latest int64
}

// Error says which rule the version breaks.
func (e *VersionsError) Error() string {
	if e.Latest == 0 {
		return fmt.Sprintf("%v: it lacks %x from %d on", ErrVersions, e.Version.Name,
			e.Version.From)
	}
	return fmt.Sprintf("%v: %x starts at %d, and records up to %d are processed", ErrVersions,
		e.Version.Name, e.Version.From, e.Latest)
}

// Is matches ErrVersions.
func (e *VersionsError) Is(target error) bool { return target == ErrVersions }

// CheckVersions returns a VersionsError unless a list has the versions of a mark that start before
// or at its Latest, and no others that do. Then the two lists give every record that was processed
// the same bytes, because none depends on the versions that start later.
func CheckVersions(m Mark, list []Version) error {
	begun := m.begun(m.Versions)
	for i, v := range begun {
		if i >= len(list) || !v.equal(list[i]) {
			return &VersionsError{Version: v}
		}
	}
	if more := m.begun(list); len(more) > len(begun) {
		return &VersionsError{more[len(begun)], m.Latest}
	}
	return nil
}

// begun returns the versions that records may have been processed with. Their starts ascend.
func (m Mark) begun(list []Version) []Version {
	n := 0
	for n < len(list) && list[n].From <= m.Latest {
		n++
	}
	return list[:n]
}

// accept returns an error if this task must not go on after the last mark.
func (k *marks) accept(m Mark, o Options) error {
	if err := CheckPartitioner(m, k.partitioner); err != nil && !o.AcceptLost {
		return WithRemedy(err, Fatal)
	}
	if !k.other(m) {
		if err := CheckVersions(m, k.versions); err != nil {
			return WithRemedy(err, Fatal)
		}
		if o.AcceptSettings {
			return nil
		}
		if err := CheckOpen(m, k.settings, k.versions); err != nil {
			return WithRemedy(err, Fatal)
		}
		return nil
	}
	if m.Open && !o.AcceptSettings {
		return WithRemedy(&SettingsError{Found: m.Settings, Own: k.settings, Input: m.Input}, Fatal)
	}
	return nil
}

// CheckOpen returns a SettingsError if a list of versions is another than that of an open mark of
// the same settings: readers of uncommitted data may have seen records beyond it, of the mark's
// list.
func CheckOpen(m Mark, settings []byte, versions []Version) error {
	if !m.Open || slices.EqualFunc(m.Versions, versions, Version.equal) {
		return nil
	}
	return &SettingsError{Found: m.Settings, Own: settings, Input: m.Input}
}
