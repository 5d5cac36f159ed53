// Package counting is where a service's bytes meet the counts of mechanism/counts, in two
// processors of consumer/task:
//
//	raw topic ──► Windows, by raw partition ──► partials ──► Totals, by window ──► counts
//	              users' day counters,          one a window  sums, noise once
//	              open windows' counts          and partition all partitions' are there
//
// Windows admits each fix by itself alone and bounds what its user adds to a day. When a partition
// was read past a window's end and grace, it writes one partial for the window, also if nobody
// reported. Partials hold true counts, so their topic stays on the trusted side.
//
// Append times of a partition go back where leaders' clocks differ. A window therefore stays open
// for SkewMS beyond its grace. A record that goes back further stops the service.
//
// Totals waits for the partials of all raw partitions, adds noise, and publishes every zone of the
// window in one transaction. An equal partial changes nothing afterwards; another one is refused.
package counting

import (
	"crypto/sha256"
	"fmt"

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
	// SkewMS is by how much the append times of a partition may go back: its leaders' clocks
	// differ. A window stays open for so long, or one record could make later ones of others late,
	// and nothing would bound what one user changes.
	SkewMS int64
}

// digest stands for the settings, so that partials of others are not added up.
func (s Settings) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %v %d %q %v %x %+v %v %d %d", s.Source,
		s.Edition, s.Epsilon, s.PerDay, s.Plan.Zone(), s.Plan.Length(), s.Zones.Digest(),
		s.Admission, s.First, s.SkewMS, s.Partitions))
	return fmt.Sprintf("%x", sum[:8])
}

// deadline is the last append time at which a fix counts in a window.
func (s Settings) deadline(w counts.Window) int64 { return w.EndMS + s.Admission.GraceMS }

// closes is the append time after which a window is closed.
func (s Settings) closes(w counts.Window) int64 { return s.deadline(w) + s.SkewMS }

// after returns the window that follows one.
func (s Settings) after(w counts.Window) counts.Window { return s.Plan.At(w.EndMS) }

// partial is what one raw partition has counted in one window: the value of a record of the
// partials' topic, and a part of the state of either processor. Its key is that of the window.
type partial struct {
	Settings  string      `json:"settings,omitempty"`
	Partition int32       `json:"partition"` // of the raw topic
	StartMS   int64       `json:"start_ms"`
	Counts    []zoneCount `json:"counts"` // by zone, without zeros
}

// zoneCount is how many users count in a zone.
type zoneCount struct {
	Zone  int32 `json:"zone"`
	Count int64 `json:"count"`
}

// windowKey is the key of everything about a window.
func windowKey(startMS int64) []byte { return fmt.Append(nil, startMS) }
