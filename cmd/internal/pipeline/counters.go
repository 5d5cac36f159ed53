package pipeline

import "sync/atomic"

// Counters are totals over all partitions of one instance. They count what has
// been committed, so a transaction that was aborted and done again counts once.
//
// The number of drifts is secret-side: it is a function of true locations. It
// is kept as a total only, never by user or by record.
type Counters struct {
	RecordsIn    atomic.Int64 // raw records read
	RecordsOut   atomic.Int64 // sanitized records published
	DeadLetters  atomic.Int64 // records refused, late ones included
	Releases     atomic.Int64 // sanitized records that carry a fresh release
	Repeats      atomic.Int64 // sanitized records that repeat the step's release
	Late         atomic.Int64 // records of a step before the user's last one
	SetCells     atomic.Int64 // sum of |ΔX| over the releases
	Drifts       atomic.Int64 // releases whose true cell lay outside ΔX
	Transactions atomic.Int64 // transactions committed
	Aborts       atomic.Int64 // transactions dropped, whose records are done again
	Restored     atomic.Int64 // changelog records replayed into the store
}

// Snapshot is one reading of Counters.
type Snapshot struct {
	RecordsIn, RecordsOut, DeadLetters int64
	Releases, Repeats, Late            int64
	SetCells, Drifts                   int64
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
		Late:         c.Late.Load(),
		SetCells:     c.SetCells.Load(),
		Drifts:       c.Drifts.Load(),
		Transactions: c.Transactions.Load(),
		Aborts:       c.Aborts.Load(),
		Restored:     c.Restored.Load(),
	}
}

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
	in, out, dead, releases, repeats, late, setCells, drifts int64

	next int64 // input offset after its last record
}

func (t *tally) commit(c *Counters) {
	c.RecordsIn.Add(t.in)
	c.RecordsOut.Add(t.out)
	c.DeadLetters.Add(t.dead)
	c.Releases.Add(t.releases)
	c.Repeats.Add(t.repeats)
	c.Late.Add(t.late)
	c.SetCells.Add(t.setCells)
	c.Drifts.Add(t.drifts)
	*t = tally{}
}
