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
// Suppressed, Dropped and DeadLetters.
//
// The number of drifts is secret-side: it is a function of true locations. It
// is kept as a total only, never by user or by record.
type Counters struct {
	RecordsIn    atomic.Int64 // raw records read
	RecordsOut   atomic.Int64 // sanitized records published: the next three
	Releases     atomic.Int64 // that carry a fresh release
	Repeats      atomic.Int64 // that repeat an earlier release
	Predictions  atomic.Int64 // that carry no release, only an estimate
	Skipped      atomic.Int64 // fixes without a record: it was not time for a release
	Suppressed   atomic.Int64 // fixes without a record: the budget was spent
	Dropped      atomic.Int64 // fixes without a record: further ones of a step
	DeadLetters  atomic.Int64 // records refused, late ones included
	Late         atomic.Int64 // records of a step before the user's last one
	Destroyed    atomic.Int64 // fixes refused since the key of their day was destroyed
	Epsilon      Sum          // Σε of the releases, over all users
	SetCells     atomic.Int64 // sum of |ΔX| over the releases
	Drifts       atomic.Int64 // releases whose true cell lay outside ΔX
	Moved        atomic.Int64 // states that went on under another model of the same grid
	Restarted    atomic.Int64 // states that began anew, for a model of another grid
	Adopted      atomic.Int64 // versions of the model that a partition adopted
	Transactions atomic.Int64 // transactions committed
	Aborts       atomic.Int64 // transactions dropped, whose records are done again
	Restored     atomic.Int64 // changelog records replayed into the store
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
	Destroyed                          int64
	Epsilon                            float64
	SetCells, Drifts                   int64
	Moved, Restarted, Adopted          int64
	Transactions, Aborts, Restored     int64
}

// Snapshot reads every total. The totals of one transaction are added together
// but read one by one, so a reading may fall inside an update.
func (c *Counters) Snapshot() Snapshot {
	return Snapshot{
		RecordsIn:    c.RecordsIn.Load(),
		RecordsOut:   c.RecordsOut.Load(),
		DeadLetters:  c.DeadLetters.Load(),
		Releases:     c.Releases.Load(),
		Repeats:      c.Repeats.Load(),
		Predictions:  c.Predictions.Load(),
		Skipped:      c.Skipped.Load(),
		Suppressed:   c.Suppressed.Load(),
		Dropped:      c.Dropped.Load(),
		Late:         c.Late.Load(),
		Destroyed:    c.Destroyed.Load(),
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

// Silent is the number of fixes that were accepted and have no record.
func (s Snapshot) Silent() int64 { return s.Skipped + s.Suppressed + s.Dropped }

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
	setCells, drifts, moved, restarted            int64
	destroyed                                     int64
	epsilon                                       float64

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
	c.Destroyed.Add(t.destroyed)
	c.Epsilon.Add(t.epsilon)
	c.SetCells.Add(t.setCells)
	c.Drifts.Add(t.drifts)
	c.Moved.Add(t.moved)
	c.Restarted.Add(t.restarted)
	*t = tally{}
}
