// Package counting is where a service's bytes meet the counts of mechanism/counts, in two
// processors of consumer/task:
//
//	raw topic ──► Windows, by raw partition ──► partials ──► Totals, by window ──► counts
//	              users' days, and counts       one a window  sums, noise once
//	              of open windows               and partition all partitions' are there
//
// Windows admits each fix by itself alone and bounds what its user adds to a day. When a partition
// was read past a window's end and grace, it writes one partial for the window, also if nobody
// reported. Partials hold true counts, so their topic stays on the trusted side.
//
// The task's clock decides when a window is closed, and no record does. Append times of a partition
// go back where leaders' clocks differ: if a record closed windows, one that a broker appended
// ahead of its time would take other users' fixes out of the counts. Only where clocks differ by
// more than SkewMS does a fix come after its window was closed. It does not count, the log warns,
// and a recomputation of the window differs.
//
// What a fix by itself shows is counted by reason (Windows.Take): that it is malformed, null
// island, in a wrong partition, after its window's grace. So no number depends on which fixes
// count, and the numbers of run on the same topic tell as much. How many fixes the cap leaves out,
// or how many repeat, is not counted: all fixes without these are a true count. The totals since
// the start have no window and no zone.
//
// Totals waits for the partials of all raw partitions, adds noise, and publishes every zone of the
// window in one transaction. An equal partial changes nothing afterwards; another one is refused.
//
// Memory: counts of open windows, four bytes a zone where users count. In a backlog all its windows
// are open. Users' days are in the store: a user's day takes some ten bytes there and in the
// changelog until the day's last window closes. What Totals knows of a published window takes 8
// bytes a raw partition for KeepDays.
//
// Both processors are a task's Processor and its Partitioned. An Eraser keeps an erased user's day
// until it is closed. Formats: FORMAT.md of the package state.
//
// Files: doc.go what both agree on; windows.go the fixes of a raw partition, counts of open windows
// and users' days; totals.go windows; record.go what is published of a zone; bytes.go partials and
// the reading of bytes.
package counting

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/mechanism/counts"
)

// Settings are what both processors agree on.
type Settings struct {
	counts.Settings
	Plan      *counts.Plan
	Zones     *counts.Zones
	Admission counts.Admission
	First     counts.Date // the first day: the log alone does not say where windows begin
	// Partitions is how many the raw topic has. Among more, users would move to another one, and
	// could count twice on the same day.
	Partitions int32
	// Input says how raw records are read: a user under two names would count twice.
	Input string
	// Ledger names what keeps the digests of published windows. Another ledger does not know what
	// was published before, so it has other noise.
	Ledger string
	// SkewMS is by how much the clocks of brokers and of this machine differ. A window is closed so
	// much after its grace. What it counts does not depend on that, so it may be changed.
	SkewMS int64
}

// digest stands for the settings, so that partials of others are not added up.
type digest [8]byte

func (s Settings) digest() digest {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %v %d %q %v %x %+v %v %d %q", s.Source,
		s.Edition, s.Epsilon, s.PerDay, s.Plan.Zone(), s.Plan.Length(), s.Zones.Digest(),
		s.Admission, s.First, s.Partitions, s.Input))
	return digest(sum[:])
}

// ofWindows stands for the settings and for windows. So partials of a window that other rules of
// the time zone have made are not added up, nor does a partition go on under other rules of an open
// day.
func (d digest) ofWindows(windows ...counts.Window) digest {
	b := d[:]
	for _, w := range windows {
		b = fmt.Append(b, w.StartMS, w.EndMS, int64(w.Day), ";")
	}
	sum := sha256.Sum256(b)
	return digest(sum[:])
}

// maxZones keeps the counts of a window, at most five bytes a zone, below Kafka's limit of 1 MiB a
// record.
const maxZones = 100_000

// check returns an error if the counts of a window would not fit a record.
func (s Settings) check() error {
	if n := s.Zones.Count(); n > maxZones {
		return fmt.Errorf("%d zones are more than %d: choose larger squares or a smaller map", n,
			maxZones)
	}
	return nil
}

// Open is how long a user's day may be open at most after the user's last fix was appended, which
// may lie ahead in a day of 25 hours that begins there.
func (s Settings) Open() time.Duration {
	ms := s.Admission.MaxAheadMS + s.Admission.GraceMS + s.SkewMS
	return 25*time.Hour + time.Duration(ms)*time.Millisecond
}

// deadline is the last append time at which a fix counts in a window.
func (s Settings) deadline(w counts.Window) int64 { return w.EndMS + s.Admission.GraceMS }

// Target is the partition, of so many, in which everything about a window is written.
func (s Settings) Target(startMS int64, partitions int) int32 {
	return int32(startMS / s.Plan.Length().Milliseconds() % int64(partitions))
}

// DueMS is when the records of the first window after a time, of those with a target, are to be
// published, Unix milliseconds: once it is closed. A window that contains the time counts as later.
func (s Settings) DueMS(afterMS int64, target int32, partitions int) int64 {
	w := s.Plan.At(afterMS)
	if first := s.Plan.Windows(s.First); s.First > w.Day && len(first) > 0 {
		w = first[0]
	}
	for s.Target(w.StartMS, partitions) != target {
		w = s.after(w)
	}
	return s.deadline(w) + s.SkewMS
}

// after returns the window that follows one.
func (s Settings) after(w counts.Window) counts.Window { return s.Plan.At(w.EndMS) }

// Fingerprint stands for the settings, whichever the source is.
func (s Settings) Fingerprint() string {
	s.Source = ""
	return fmt.Sprintf("%x", s.digest())
}

// Validate returns an error about settings that cannot be used.
func (s Settings) Validate() error { return errors.Join(s.Settings.Validate(), s.check()) }
