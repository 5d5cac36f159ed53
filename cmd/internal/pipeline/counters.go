package pipeline

import (
	"math"
	"sync/atomic"

	"github.com/geodither/geodither/mechanism"
)

// Counters are totals over all partitions of one instance. They count what has
// been committed, so a transaction that was aborted and done again counts once.
//
// Every record read is in exactly one of Releases, Repeats, Predictions, Skipped,
// Suppressed, Dropped, LateDropped and DeadLetters.
//
// The numbers of drifts and of fixes outside the map are secret-side: they are
// functions of true locations. They are kept as totals only, never by user or by record.
type Counters struct {
	RecordsIn   atomic.Int64 // raw records read
	RecordsOut  atomic.Int64 // sanitized records published: the next three
	Releases    atomic.Int64 // that carry a fresh release
	Repeats     atomic.Int64 // that repeat an earlier release
	Predictions atomic.Int64 // that carry no release, only an estimate
	Skipped     atomic.Int64 // fixes without a record: it was not time for a release
	Suppressed  atomic.Int64 // fixes without a record: the budget was spent
	Dropped     atomic.Int64 // fixes without a record: further ones of a step
	DeadLetters atomic.Int64 // records refused, late ones included unless they are dropped
	Late        atomic.Int64 // records of a step before the user's last one
	LateDropped atomic.Int64 // of these, without a dead letter: Input.Late is LateDrop
	Lateness    Lateness     // by how much they were late
	Refusals    Refusals     // the dead letters by reason
	Misplaced   atomic.Int64 // of these, for lying in another partition than their key's
	Destroyed   atomic.Int64 // of these, since the noise key of their day was destroyed

	OutsideClamped atomic.Int64 // fixes outside the map that counted as in its nearest cell
	OutsideRefused atomic.Int64 // fixes outside the map that became dead letters
	OutsideSwapped atomic.Int64 // of both, those on the map if latitude and longitude are swapped

	Epsilon      Sum          // Σε of the releases, over all users
	SetCells     atomic.Int64 // sum of |ΔX| over the releases
	Drifts       atomic.Int64 // releases whose true cell lay outside ΔX
	Moved        atomic.Int64 // states that went on under another model of the same grid
	Restarted    atomic.Int64 // states that began anew, for a model of another grid
	Adopted      atomic.Int64 // versions of the model that a partition adopted
	Transactions atomic.Int64 // transactions committed
	Aborts       atomic.Int64 // transactions dropped, whose records are done again
	Restored     atomic.Int64 // changelog records replayed into the store

	// Busy is the time that records took from their bytes to the result's, nanoseconds over all
	// partitions: without Kafka and the store, and with what an aborted transaction did in vain.
	Busy atomic.Int64
}

// Sum is a sum of float64 that several goroutines may add to. It starts at 0.
type Sum struct{ bits atomic.Uint64 }

// Add adds x.
func (s *Sum) Add(x float64) {
	for {
		old := s.bits.Load()
		if s.bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+x)) {
			return
		}
	}
}

// Load returns the sum.
func (s *Sum) Load() float64 { return math.Float64frombits(s.bits.Load()) }

// Snapshot is one reading of Counters.
type Snapshot struct {
	RecordsIn, RecordsOut, DeadLetters int64
	Releases, Repeats, Predictions     int64
	Skipped, Suppressed, Dropped, Late int64
	Misplaced, Destroyed               int64
	LateDropped                        int64
	Lateness                           LatenessCounts
	OutsideClamped, OutsideRefused     int64
	OutsideSwapped                     int64
	Epsilon                            float64
	SetCells, Drifts                   int64
	Moved, Restarted, Adopted          int64
	Transactions, Aborts, Restored     int64
}

// Snapshot reads every total. The totals of one transaction are added together
// but read one by one, so a reading may fall inside an update.
func (c *Counters) Snapshot() Snapshot {
	return Snapshot{
		RecordsIn:   c.RecordsIn.Load(),
		RecordsOut:  c.RecordsOut.Load(),
		DeadLetters: c.DeadLetters.Load(),
		Releases:    c.Releases.Load(),
		Repeats:     c.Repeats.Load(),
		Predictions: c.Predictions.Load(),
		Skipped:     c.Skipped.Load(),
		Suppressed:  c.Suppressed.Load(),
		Dropped:     c.Dropped.Load(),
		Late:        c.Late.Load(),
		LateDropped: c.LateDropped.Load(),
		Misplaced:   c.Misplaced.Load(),
		Destroyed:   c.Destroyed.Load(),
		Lateness:    c.Lateness.Load(),

		OutsideClamped: c.OutsideClamped.Load(),
		OutsideRefused: c.OutsideRefused.Load(),
		OutsideSwapped: c.OutsideSwapped.Load(),

		Epsilon:      c.Epsilon.Load(),
		SetCells:     c.SetCells.Load(),
		Drifts:       c.Drifts.Load(),
		Moved:        c.Moved.Load(),
		Restarted:    c.Restarted.Load(),
		Adopted:      c.Adopted.Load(),
		Transactions: c.Transactions.Load(),
		Aborts:       c.Aborts.Load(),
		Restored:     c.Restored.Load(),
	}
}

// Silent is the number of records that have neither a sanitized record nor a dead letter.
func (s Snapshot) Silent() int64 { return s.Skipped + s.Suppressed + s.Dropped + s.LateDropped }

// Outside is the number of fixes outside the map, clamped or refused.
func (s Snapshot) Outside() int64 { return s.OutsideClamped + s.OutsideRefused }

// LocationSetMean is the mean |ΔX| over the releases, in cells; 0 without any.
func (s Snapshot) LocationSetMean() float64 { return ratio(s.SetCells, s.Releases) }

// DriftRatio is the share of releases whose true cell lay outside ΔX.
func (s Snapshot) DriftRatio() float64 { return ratio(s.Drifts, s.Releases) }

func ratio(n, d int64) float64 {
	if d == 0 {
		return 0
	}
	return float64(n) / float64(d)
}

// tally is what one partition's open transaction has done so far; it joins the
// Counters when the transaction is known to be committed.
type tally struct {
	in, out, dead, releases, repeats, predictions int64
	skipped, suppressed, dropped, late            int64
	misplaced                                     int64
	setCells, drifts, moved, restarted            int64
	destroyed                                     int64
	epsilon                                       float64

	lateDropped                                    int64
	outsideClamped, outsideRefused, outsideSwapped int64
	lateness                                       LatenessCounts
	refusals                                       refusals

	next int64 // input offset after its last record
}

// count books what came of one accepted fix. A late one is booked as a dead
// letter elsewhere.
func (t *tally) count(outcome mechanism.Outcome, migration mechanism.Migration) {
	if outcome.Changed { // else the state is not stored, and is brought to its model again
		switch migration {
		case mechanism.PosteriorKept:
			t.moved++
		case mechanism.StartedAnew:
			t.restarted++
		case mechanism.Unchanged:
		}
	}
	switch outcome.Kind {
	case mechanism.Released:
		t.releases++
		t.epsilon += outcome.Epsilon
		t.setCells += int64(outcome.SetSize)
		if outcome.Drift {
			t.drifts++
		}
	case mechanism.Repeated:
		t.repeats++
	case mechanism.Predicted:
		t.predictions++
	case mechanism.Late:
		t.late++
	case mechanism.Skipped:
		t.skipped++
	case mechanism.Suppressed:
		t.suppressed++
	case mechanism.Dropped:
		t.dropped++
	}
	if outcome.Kind.Published() {
		t.out++
	}
}

// place books how an accepted fix, or one that was refused for it, lies to the map.
func (t *tally) place(p Placement, refused bool) {
	switch {
	case !p.Outside:
		return
	case refused:
		t.outsideRefused++
	default:
		t.outsideClamped++
	}
	if p.Swapped {
		t.outsideSwapped++
	}
}

func (t *tally) commit(c *Counters) {
	c.RecordsIn.Add(t.in)
	c.RecordsOut.Add(t.out)
	c.DeadLetters.Add(t.dead)
	c.Releases.Add(t.releases)
	c.Repeats.Add(t.repeats)
	c.Predictions.Add(t.predictions)
	c.Skipped.Add(t.skipped)
	c.Suppressed.Add(t.suppressed)
	c.Dropped.Add(t.dropped)
	c.Late.Add(t.late)
	c.Misplaced.Add(t.misplaced)
	c.LateDropped.Add(t.lateDropped)
	c.Lateness.add(&t.lateness)
	c.Refusals.add(&t.refusals)
	c.OutsideClamped.Add(t.outsideClamped)
	c.OutsideRefused.Add(t.outsideRefused)
	c.OutsideSwapped.Add(t.outsideSwapped)
	c.Destroyed.Add(t.destroyed)
	c.Epsilon.Add(t.epsilon)
	c.SetCells.Add(t.setCells)
	c.Drifts.Add(t.drifts)
	c.Moved.Add(t.moved)
	c.Restarted.Add(t.restarted)
	*t = tally{}
}
