package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/counts"
)

// countsLedger is the file beside a key that holds what counts were published under it: a keyed
// digest of each window's true counts. Noise of one window must never be added to other counts, so
// a run enters its windows before it publishes them. The digests say nothing without the key.
//
// The file is text: a first line with its version, and a line for each window, its fields separated
// by a space. An empty file beside it excludes other runs until this one has its windows there.
type countsLedger struct {
	path, lock string
	lines      []ledgerLine
	known      map[string]string // digest by window and settings
	added      int
}

// ledgerLine is one published window.
type ledgerLine struct {
	day, timeZone, length, start, end, edition, zones, epsilon, perDay, digest string
}

func (l ledgerLine) fields() []string {
	return []string{
		l.day, l.timeZone, l.length, l.start, l.end, l.edition, l.zones, l.epsilon, l.perDay,
		l.digest,
	}
}

// noise names what decides the noise of a window under one key.
func (l ledgerLine) noise() string { return strings.Join(l.fields()[3:9], " ") }

// differences names the settings in which a line differs from another one, with its own values.
func (l ledgerLine) differences(other ledgerLine) string {
	var all []string
	for _, s := range [][3]string{
		{"time zone", l.timeZone, other.timeZone},
		{"window", l.length, other.length},
		{"epsilon", l.epsilon, other.epsilon},
		{"per day", l.perDay, other.perDay},
	} {
		if s[1] != s[2] {
			all = append(all, s[0]+" "+s[1])
		}
	}
	if l.zones != other.zones {
		all = append(all, "other zones")
	}
	return strings.Join(all, ", ")
}

// publication names the settings of a publication, whose ε adds to those of others of a day.
func (l ledgerLine) publication() string {
	return strings.Join([]string{
		l.timeZone, l.length, l.edition, l.zones, l.epsilon, l.perDay,
	}, " ")
}

const (
	ledgerExtension = ".counts"
	ledgerHead      = "geodither ledger of counts 1"
)

// openCountsLedger reads the ledger of a key file. Without a file there is none yet.
func openCountsLedger(keyFile string) (*countsLedger, error) {
	l := &countsLedger{path: keyFile + ledgerExtension, known: map[string]string{}}
	l.lock = l.path + ".new"
	file, err := os.OpenFile(l.lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists: another run counts under this key, or was killed: wait "+
			"for it, or remove the file", l.lock)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("the ledger of the key cannot be written, and noise must not be "+
			"used twice: %w", err)
	}
	if err := l.read(); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *countsLedger) read() error {
	data, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if lines[0] != ledgerHead {
		return fmt.Errorf("%s is no ledger of counts that this program knows: restore it from a "+
			"copy", l.path)
	}
	for i, text := range lines[1:] {
		f := strings.Split(text, " ")
		if len(f) != 10 || len(f[9]) != 2*len(counts.Digest{}) {
			return fmt.Errorf("%s: line %d is damaged: restore the file from a copy", l.path, i+2)
		}
		line := ledgerLine{f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9]}
		l.lines = append(l.lines, line)
		l.known[line.noise()] = line.digest
	}
	return nil
}

// add enters a window. It fails where the ledger has it with other counts.
func (l *countsLedger) add(line ledgerLine) error {
	switch digest, ok := l.known[line.noise()]; {
	case !ok:
		l.lines, l.added = append(l.lines, line), l.added+1
		l.known[line.noise()] = line.digest
	case digest != line.digest:
		return fmt.Errorf("%s, window of %s: %w", l.path, line.start, counts.ErrChanged)
	}
	return nil
}

// unspent returns an error if an added window lies where others were published under the same
// edition with other settings: it would cost a further ε that no edition names.
func (l *countsLedger) unspent() error {
	if l.added == 0 {
		return nil
	}
	old, added := l.lines[:len(l.lines)-l.added], l.lines[len(l.lines)-l.added:]
	one, end := added[0], added[len(added)-1].end
	for _, o := range old {
		if o.edition != one.edition || o.publication() == one.publication() ||
			o.start >= end || o.end <= one.start {
			continue
		}
		return fmt.Errorf("%s: %s was published under edition %s with other settings (%s): "+
			"publish other days, or raise the edition by 1, at a further ε", l.path, o.day,
			o.edition, o.differences(one))
	}
	return nil
}

// commit puts the ledger on the disk, complete or not at all.
func (l *countsLedger) commit(ctx context.Context) error {
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
func (l *countsLedger) Write(w io.Writer) error {
	if _, err := fmt.Fprintln(w, ledgerHead); err != nil {
		return err
	}
	for _, line := range l.lines {
		if _, err := fmt.Fprintln(w, strings.Join(line.fields(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// FileMode leaves the ledger to its owner.
func (l *countsLedger) FileMode() os.FileMode { return 0o600 }

// close lets other runs use the ledger.
func (l *countsLedger) close() error { return os.Remove(l.lock) }

// spent says what all publications of some days cost a user under this key, where there are
// several.
func (l *countsLedger) spent(days [][]counts.Window) string {
	named := map[string][]string{}
	for _, windows := range days {
		named[windows[0].Day.String()] = nil
	}
	most, epsilon := 1, 0.0
	for _, line := range l.lines {
		known, ok := named[line.day]
		if !ok || slices.Contains(known, line.publication()) {
			continue
		}
		known = append(known, line.publication())
		named[line.day] = known
		if len(known) > most {
			most, epsilon = len(known), 0
			for _, publication := range known {
				fields := strings.Fields(publication)
				one, _ := strconv.ParseFloat(fields[4], 64)
				epsilon += one
			}
		}
	}
	if most == 1 {
		return ""
	}
	return fmt.Sprintf("WARNING     a day of these was published %d times under this key, with "+
		"other settings each time: for a user's day that is ε = %g in all\n", most, epsilon)
}
