package countfiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/counts"
)

// ledger is the file beside a key that holds what counts were published under it: a keyed
// digest of each window's true counts. Noise of one window must never be added to other counts, so
// a run enters its windows before it publishes them. The digests say nothing without the key.
//
// The file is text: a first line with its version, and a line for each window, its fields separated
// by a space. An empty file beside it excludes other runs until this one has its windows there.
type ledger struct {
	path, lock string
	lines      []ledgerLine
	added      int
}

// ledgerLine is one published window. Times are milliseconds since 1970. The borders of its day
// stand for the time zone, whose name says nothing: a user's cap, and with it ε, is for the time
// between them.
type ledgerLine struct {
	startMS, endMS, dayStartMS, dayEndMS int64
	edition, zones, epsilon, perDay      string
	digest                               string
}

func (l ledgerLine) String() string {
	return fmt.Sprint(l.startMS, l.endMS, l.dayStartMS, l.dayEndMS) + " " + l.settings() + " " +
		l.digest
}

// settings are those of the publication. Its windows are disjoint, and so are its days.
func (l ledgerLine) settings() string {
	return strings.Join([]string{l.edition, l.zones, l.epsilon, l.perDay}, " ")
}

// differences names in what a line differs from another one, with its own values.
func (l ledgerLine) differences(other ledgerLine) string {
	var all []string
	if l.dayStartMS != other.dayStartMS || l.dayEndMS != other.dayEndMS {
		all = append(all, fmt.Sprintf("day from %s to %s", files.Time(l.dayStartMS),
			files.Time(l.dayEndMS)))
	}
	if l.startMS != other.startMS || l.endMS != other.endMS {
		all = append(all, "window of "+
			(time.Duration(l.endMS-l.startMS)*time.Millisecond).String())
	}
	if l.epsilon != other.epsilon {
		all = append(all, "epsilon "+l.epsilon)
	}
	if l.perDay != other.perDay {
		all = append(all, "per day "+l.perDay)
	}
	if l.zones != other.zones {
		all = append(all, "other zones")
	}
	return strings.Join(all, ", ")
}

const (
	ledgerExtension = ".counts"
	ledgerHead      = "geodither ledger of counts 2"
)

// openLedger reads the ledger of a key file. Without a file there is none yet.
func openLedger(keyFile string) (*ledger, error) {
	// A link to a key is that key, and so is its ledger.
	if file, err := filepath.EvalSymlinks(keyFile); err == nil {
		keyFile = file
	}
	l := &ledger{path: keyFile + ledgerExtension}
	l.lock = l.path + ".new"
	file, err := os.OpenFile(l.lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists: wait for the run that counts under this key, or remove "+
			"it if that was killed", l.lock)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("the key's ledger of counts cannot be written: %w", err)
	}
	if err := l.read(); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *ledger) read() error {
	data, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if lines[0] != ledgerHead {
		return fmt.Errorf("%s is no ledger of counts that this program knows (counts-published)",
			l.path)
	}
	for i, text := range lines[1:] {
		var line ledgerLine
		n, err := fmt.Sscan(text, &line.startMS, &line.endMS, &line.dayStartMS, &line.dayEndMS,
			&line.edition, &line.zones, &line.epsilon, &line.perDay, &line.digest)
		if err != nil || n != 9 || line.String() != text ||
			len(line.digest) != 2*len(counts.Digest{}) {
			return fmt.Errorf("%s: line %d is damaged (counts-published)", l.path, i+2)
		}
		l.lines = append(l.lines, line)
	}
	return nil
}

// add enters the windows of a run. It fails where one overlaps a window that was published under
// the same edition and is not the very same one: it would cost a further ε that no edition names.
// It fails too where the ledger has a window with other counts.
func (l *ledger) add(windows []ledgerLine) error {
	old := slices.DeleteFunc(slices.Clone(l.lines), func(o ledgerLine) bool {
		return o.edition != windows[0].edition
	})
	slices.SortFunc(old, func(a, b ledgerLine) int { return cmp.Compare(a.startMS, b.startMS) })
	for _, line := range windows {
		at := sort.Search(len(old), func(i int) bool { return old[i].endMS > line.startMS })
		overlaps := at < len(old) && old[at].startMS < line.endMS
		switch {
		case !overlaps:
			l.lines, l.added = append(l.lines, line), l.added+1
			continue
		case old[at].differences(line) != "":
			return fmt.Errorf("%s: the window from %s was published under edition %s with other "+
				"settings: %s (counts-published)", l.path, files.Time(old[at].startMS),
				line.edition, old[at].differences(line))
		case old[at].digest != line.digest:
			return fmt.Errorf("%s, window of %s: %w", l.path, files.Time(line.startMS),
				counts.ErrChanged)
		}
	}
	return nil
}

// commit puts the ledger on the disk, complete or not at all.
func (l *ledger) commit(ctx context.Context) error {
	if l.added == 0 {
		return nil
	}
	file, err := files.Prepare(ctx, l.path, l)
	if err != nil {
		return err
	}
	defer file.Discard()
	return file.Commit()
}

// Write writes all lines.
func (l *ledger) Write(w io.Writer) error {
	if _, err := fmt.Fprintln(w, ledgerHead); err != nil {
		return err
	}
	for _, line := range l.lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// FileMode leaves the ledger to its owner.
func (l *ledger) FileMode() os.FileMode { return 0o600 }

// close lets other runs use the ledger.
func (l *ledger) close() error { return os.Remove(l.lock) }

// spent says what all publications that a day of a run touches cost a user under this key, where
// there are several. Days of two time zones overlap in part, and a user's fixes of the common part
// count in both.
func (l *ledger) spent(days [][]counts.Window) string {
	type publication struct {
		startMS, endMS int64 // of a day
		settings       string
	}
	all := map[publication]float64{} // ε
	for _, line := range l.lines {
		epsilon, _ := strconv.ParseFloat(line.epsilon, 64)
		all[publication{line.dayStartMS, line.dayEndMS, line.settings()}] = epsilon
	}
	most, sum := 1, 0.0
	for day := range all {
		if !slices.ContainsFunc(days, func(of []counts.Window) bool {
			return day.startMS < of[len(of)-1].EndMS && of[0].StartMS < day.endMS
		}) {
			continue
		}
		n, epsilon := 0, 0.0
		for other, cost := range all {
			if other == day || other.settings != day.settings &&
				other.startMS < day.endMS && day.startMS < other.endMS {
				n, epsilon = n+1, epsilon+cost
			}
		}
		if n > 1 && epsilon > sum {
			most, sum = n, epsilon
		}
	}
	if most == 1 {
		return ""
	}
	return fmt.Sprintf("WARNING     %d days that were published under this key meet in one that "+
		"this run touches: for a user's day that is ε = %g in all\n", most, sum)
}
