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

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/counts"
)

// ledger is the file beside a key that holds what counts were published under it: a keyed
// digest of each window's true counts. Noise of one window must never be added to other counts, so
// a run enters its windows before it publishes them. The digests say nothing without the key.
//
// The file is text: a first line with its version, and a line for each window, or for each day of a
// typical day, its fields separated by a space. An empty file beside it excludes other runs until
// this one has its windows there.
type ledger struct {
	path, lock string
	lines      []ledgerLine
	added      int
}

// ledgerLine is one published window, or one day of a typical day. Times are milliseconds since
// 1970. The borders of its day stand for the time zone, whose name says nothing: a user's cap, and
// with it ε, is for the time between them.
type ledgerLine struct {
	startMS, endMS, dayStartMS, dayEndMS int64
	edition, zones, epsilon, perDay      string
	digest                               string
	days                                 int    // of a typical day; 0: the line is a window
	period                               string // which days these are: Typical.Digest
}

func (l ledgerLine) String() string {
	return strings.TrimSpace(fmt.Sprint(l.startMS, l.endMS, l.dayStartMS, l.dayEndMS) + " " +
		strings.Join([]string{l.edition, l.zones, l.epsilon, l.perDay}, " ") + " " + l.digest +
		" " + l.kind())
}

// kind is empty for a window.
func (l ledgerLine) kind() string {
	if l.days == 0 {
		return ""
	}
	return fmt.Sprint(l.days) + " " + l.period
}

// settings are those of the publication. Its windows are disjoint, and so are its days.
func (l ledgerLine) settings() string {
	return strings.Join([]string{l.edition, l.zones, l.epsilon, l.perDay, l.kind()}, " ")
}

// cost is the ε of one user's day. A typical day has its ε for all its days.
func (l ledgerLine) cost() float64 {
	epsilon, _ := strconv.ParseFloat(l.epsilon, 64)
	return epsilon / float64(max(l.days, 1))
}

// parseLine reads a line.
func parseLine(text string) (l ledgerLine, err error) {
	fields := strings.Fields(text)
	if len(fields) == 11 {
		l.period = fields[10]
		l.days, err = strconv.Atoi(fields[9])
		fields = fields[:9]
	}
	if err == nil {
		_, err = fmt.Sscan(strings.Join(fields, " "), &l.startMS, &l.endMS, &l.dayStartMS,
			&l.dayEndMS, &l.edition, &l.zones, &l.epsilon, &l.perDay, &l.digest)
	}
	if err == nil && (l.String() != text || len(l.digest) != 2*len(counts.Digest{})) {
		err = errors.New("is damaged")
	}
	return l, err
}

// differences names in what a line differs from another one, with its own values.
func (l ledgerLine) differences(other ledgerLine) string {
	var all []string
	if l.period != other.period {
		all = append(all, fmt.Sprintf("a typical day of %d days", l.days))
	}
	if l.dayStartMS != other.dayStartMS || l.dayEndMS != other.dayEndMS {
		all = append(all, fmt.Sprintf("day from %s to %s", files.Time(l.dayStartMS),
			files.Time(l.dayEndMS)))
	}
	if l.days == 0 && (l.startMS != other.startMS || l.endMS != other.endMS) {
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

// ledgerOf returns the path of a key's ledger. A link to a key is that key.
func ledgerOf(keyFile string) string {
	if file, err := filepath.EvalSymlinks(keyFile); err == nil {
		keyFile = file
	}
	return keyFile + ledgerExtension
}

// openLedger reads the ledger of a key file. Without a file there is none yet.
func openLedger(keyFile string) (*ledger, error) {
	l := &ledger{path: ledgerOf(keyFile)}
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
		line, err := parseLine(text)
		if err != nil {
			return fmt.Errorf("%s: line %d is damaged (counts-published)", l.path, i+2)
		}
		l.lines = append(l.lines, line)
	}
	return nil
}

// add enters the windows of a run, or the days of its typical day. It fails where one overlaps one
// of the same kind that was published under the same edition and is not the very same one: it would
// cost a further ε that no edition names. It fails too where the ledger has one with other counts.
func (l *ledger) add(windows []ledgerLine) error {
	old := slices.DeleteFunc(slices.Clone(l.lines), func(o ledgerLine) bool {
		return o.edition != windows[0].edition || (o.days == 0) != (windows[0].days == 0)
	})
	slices.SortFunc(old, func(a, b ledgerLine) int { return cmp.Compare(a.startMS, b.startMS) })
	longest := int64(0)
	for _, line := range old {
		longest = max(longest, line.endMS-line.startMS)
	}
	for _, line := range windows {
		at := sort.Search(len(old), func(i int) bool {
			return old[i].startMS > line.startMS-longest
		})
		before := line.overlapping(old[at:])
		switch {
		case before == nil:
			l.lines, l.added = append(l.lines, line), l.added+1
			continue
		case before.differences(line) != "":
			return fmt.Errorf("%s: the window from %s was published under edition %s with other "+
				"settings: %s (counts-published)", l.path, files.Time(before.startMS),
				line.edition, before.differences(line))
		case before.digest != line.digest:
			return fmt.Errorf("%s, window of %s: %w", l.path, files.Time(line.startMS),
				counts.ErrChanged)
		}
	}
	return nil
}

// overlapping returns of lines in the order of their starts the one that is the same, or else one
// that overlaps; nil if none does. Where clocks are changed at midnight, days of one publication
// may overlap.
func (l ledgerLine) overlapping(lines []ledgerLine) (found *ledgerLine) {
	for i := range lines {
		switch other := &lines[i]; {
		case other.startMS >= l.endMS:
			return found
		case other.differences(l) == "" && other.startMS == l.startMS:
			return other
		case other.endMS > l.startMS:
			found = other
		}
	}
	return found
}

// commit puts the ledger on the disk, complete or not at all.
func (l *ledger) commit(ctx context.Context) error {
	if l.added == 0 || l.path == "" {
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

// spent says what all publications that a day of a run touches cost a user, those under this key
// and those of a service, where there are several: for a day, and for all days of the run. Days of
// two time zones overlap in part, and a user's fixes of the common part count in both.
func (l *ledger) spent(days [][]counts.Window, service []publication) string {
	most, sum, total, from := 1, 0.0, 0.0, "under this key"
	all := append(publications(l.lines), service...)
	if l.path == "" {
		from = "by this run"
	}
	if len(service) > 0 {
		from += " or by the config's \"counts serve\""
	}
	for _, day := range all {
		if !slices.ContainsFunc(days, func(of []counts.Window) bool {
			return day.startMS < of[len(of)-1].EndMS && of[0].StartMS < day.endMS
		}) {
			continue
		}
		total += day.cost
		if n, epsilon := day.meets(all); n > 1 && epsilon > sum {
			most, sum = n, epsilon
		}
	}
	if most == 1 {
		return ""
	}
	return fmt.Sprintf("WARNING     %d days that were published %s meet in one that this run "+
		"touches: for a user's day that is ε = %.4g in all, for the %s of this run %.4g\n",
		most, from, sum, cli.Quantity(int64(len(days)), "day"), total)
}

// publication is one day that was published in one way.
type publication struct {
	startMS, endMS int64 // of the day
	settings       string
	cost           float64 // ε
}

// publications returns the days of a ledger, in the order of their starts.
func publications(lines []ledgerLine) (all []publication) {
	known := map[publication]bool{}
	for _, line := range lines {
		p := publication{line.dayStartMS, line.dayEndMS, line.settings(), line.cost()}
		if !known[p] {
			known[p], all = true, append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b publication) int {
		return cmp.Compare(a.startMS, b.startMS)
	})
	return all
}

// served returns the days that the service of a config counts by itself around those of a run. They
// are not in the ledger. Without a first day it may have counted all.
func served(c config.Counts, days [][]counts.Window) (all []publication, err error) {
	if c.Epsilon == 0 {
		return nil, nil
	}
	plan, err := counts.NewPlan(cmp.Or(c.TimeZone, "UTC"), 24*time.Hour)
	if err != nil {
		return nil, err
	}
	first := days[0][0].Day - 1
	if c.First != "" {
		since, err := counts.ParseDate(c.First)
		if err != nil {
			return nil, err
		}
		first = max(first, since)
	}
	for day := first; day <= days[len(days)-1][0].Day+1; day++ {
		if w := plan.Windows(day); len(w) > 0 {
			all = append(all, publication{w[0].StartMS, w[len(w)-1].EndMS, "service", c.Epsilon})
		}
	}
	return all, nil
}

// meets returns how many published days meet in one, itself included, and their ε.
func (p publication) meets(all []publication) (n int, epsilon float64) {
	for _, other := range all {
		if other != p && other.settings == p.settings {
			continue // days of one publication are disjoint
		}
		if cost := other.within(p.startMS, p.endMS); cost > 0 {
			n, epsilon = n+1, epsilon+cost
		}
	}
	return n, epsilon
}

// within is the ε of what a user does between two times. A part of a day costs twice a day: the cap
// may let later windows take the place of those that fall away (counts.Counter).
func (p publication) within(startMS, endMS int64) float64 {
	switch {
	case p.endMS <= startMS || endMS <= p.startMS:
		return 0
	case startMS <= p.startMS && p.endMS <= endMS:
		return p.cost
	}
	return 2 * p.cost
}

// month is when 31 days end that begin with a published one: where its own 31st day does, if that
// was published, so that a change of the clock cuts no day.
func (p publication) month(all []publication) (endMS int64) {
	const dayMS, clockMS = 24 * 60 * 60 * 1000, 2 * 60 * 60 * 1000
	endMS = p.startMS + 31*dayMS
	for _, other := range all {
		if off := other.endMS - p.startMS - 31*dayMS; other.settings == p.settings &&
			-clockMS <= off && off <= clockMS {
			endMS = other.endMS
		}
	}
	return endMS
}

// Sums are what a key's ledger knows of counts and typical days, for one user.
type Sums struct {
	Days       int     `json:"published_days"` // each as often as it was published
	MostInADay float64 `json:"most_in_a_day"`  // ε
	MostIn31   float64 `json:"most_in_31_days"`
}

// Spent returns the sums of the ledger beside a key file; nil if there is none.
func Spent(keyFile string) (*Sums, error) {
	if keyFile == "" {
		return nil, nil
	}
	l := &ledger{path: ledgerOf(keyFile)}
	if err := l.read(); err != nil || len(l.lines) == 0 {
		return nil, err
	}
	all := publications(l.lines)
	sums := &Sums{Days: len(all)}
	for _, day := range all {
		_, epsilon := day.meets(all)
		sums.MostInADay = max(sums.MostInADay, epsilon)
		month, end := 0.0, day.month(all)
		for _, other := range all {
			month += other.within(day.startMS, end)
		}
		sums.MostIn31 = max(sums.MostIn31, month)
	}
	sums.MostInADay, sums.MostIn31 = engine.Rounded(sums.MostInADay), engine.Rounded(sums.MostIn31)
	return sums, nil
}
