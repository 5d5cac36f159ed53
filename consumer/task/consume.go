package task

import (
	"context"
	"fmt"
	"time"
)

// consume reads, processes and commits until ctx is done or End is reached. It
// then commits what is in hand and answers nil.
func (t *Task) consume(ctx, work context.Context) error {
	for ctx.Err() == nil && !t.ended() {
		batch, err := t.fetch(ctx)
		if err != nil {
			if ctx.Err() != nil && RemedyOf(err) != Leave && RemedyOf(err) != Fatal {
				break
			}
			return err
		}
		for i := range batch.Records {
			if ctx.Err() != nil {
				return t.finish(work)
			}
			if t.records == 0 {
				if err := t.open(work); err != nil {
					return err
				}
			}
			if err := t.process(batch.Records[i]); err != nil {
				return err
			}
			if t.records >= t.o.MaxRecords || t.overlay.bytes >= t.o.MaxBytes {
				if err := t.commit(work, true); err != nil {
					return err
				}
			}
		}
		t.next = batch.Next
		idle := len(batch.Records) == 0
		if t.due(idle) && !t.ended() {
			if err := t.commit(work, t.mark.Open); err != nil {
				return err
			}
		}
		if idle {
			t.attempt = 0
			if err := t.adoptIdle(work); err != nil {
				return err
			}
		}
	}
	return t.finish(work)
}

// ended reports whether End is reached.
func (t *Task) ended() bool { return t.o.End > 0 && t.next >= t.o.End }

// until removes from a batch what lies at or behind end.
func (b Batch) until(end int64) Batch {
	n := len(b.Records)
	for n > 0 && b.Records[n-1].Offset >= end {
		n--
	}
	b.Records, b.Next = b.Records[:n], min(b.Next, end)
	return b
}

// due reports whether a transaction ends now. One of the mark alone moves the
// group's offset past aborted and control records: were it left before them,
// and retention removed them, the next start would take records for lost.
func (t *Task) due(idle bool) bool {
	switch {
	case t.records > 0:
		return idle || t.o.Clock.Now().Sub(t.began) >= t.o.MaxInterval
	case idle && t.next > t.safe:
		return t.o.Clock.Now().Sub(t.saved) >= t.o.IdleInterval
	}
	return false
}

// fetch asks for the records from t.next on and checks the answer, because all
// that follows relies on offsets that go forward.
func (t *Task) fetch(ctx context.Context) (batch Batch, err error) {
	batch, err = t.d.Input.Fetch(ctx, t.next)
	if RemedyOf(err) == Retry { // apart, so that the good case makes no closure
		err = t.retry(ctx, func() error {
			batch, err = t.d.Input.Fetch(ctx, t.next)
			return err
		})
	}
	if err != nil {
		return Batch{}, fmt.Errorf("read the input at offset %d: %w", t.next, err)
	}
	if err := batch.check(t.next); err != nil {
		return Batch{}, WithRemedy(fmt.Errorf("read the input at offset %d: %w", t.next, err), Fatal)
	}
	if t.o.End > 0 {
		batch = batch.until(t.o.End)
	}
	t.o.Observer.Fetched(len(batch.Records), batch.Next, batch.StableEnd)
	return batch, nil
}

// check says how a batch breaks the contract of Fetch.
func (b Batch) check(offset int64) error {
	at := offset
	for i := range b.Records {
		if b.Records[i].Offset < at {
			return fmt.Errorf("offset %d came where at least %d was due: this is a bug, please report it", b.Records[i].Offset, at)
		}
		at = b.Records[i].Offset + 1
	}
	if b.Next < at {
		return fmt.Errorf("the next offset is given as %d, at least %d was due: this is a bug, please report it", b.Next, at)
	}
	return nil
}

// process adds one record to the overlay.
func (t *Task) process(rec Record) error {
	if t.records == 0 {
		t.began = t.o.Clock.Now()
	}
	var state []byte
	valid := ValidKey(rec.Key)
	if valid {
		found := false
		if state, found = t.overlay.get(rec.Key); !found {
			var err error
			if state, err = t.d.Store.Get(rec.Key); err != nil {
				return storeError("read a state", err)
			}
		}
	}
	fx := &t.fx
	fx.Output, fx.DeadLetters, fx.State, fx.Forget = fx.Output[:0], fx.DeadLetters[:0], nil, false
	if err := t.d.Processor.Process(rec, state, fx); err != nil {
		return otherwise(fmt.Errorf("process offset %d: %w", rec.Offset, err), Fatal)
	}
	changed := len(fx.State) > 0 || fx.Forget
	switch {
	case changed && !valid:
		return WithRemedy(fmt.Errorf("process offset %d: %w", rec.Offset, ErrReservedKey), Fatal)
	case fx.Forget && len(fx.State) > 0:
		return WithRemedy(fmt.Errorf("process offset %d: a state is both set and forgotten", rec.Offset), Fatal)
	case changed:
		t.overlay.put(rec.Key, fx.State, fx.Forget, rec.Timestamp)
	}
	t.overlay.out = t.overlay.send(t.overlay.out, fx.Output)
	t.overlay.dead = t.overlay.send(t.overlay.dead, fx.DeadLetters)
	t.records++
	t.last = rec.Timestamp
	t.next = rec.Offset + 1
	return nil
}

// finish ends the transaction in hand when the task is to stop, and leaves the
// group's offset where reading has come to: it may be long until the next start.
// It closes the mark if it can.
func (t *Task) finish(work context.Context) error {
	open := t.mark.Open && !t.closes()
	if t.records == 0 && t.next <= t.safe && open == t.mark.Open {
		return nil
	}
	return t.commit(work, open)
}

// commit writes the overlay and t.next as one transaction, and then the store.
// open is what its mark says.
// Nothing is applied before the commit is definite: an aborted state in the
// store would be a state that no output belongs to, and nothing would undo it.
func (t *Task) commit(work context.Context, open bool) error {
	t.move(Committing)
	start := t.o.Clock.Now()
	if t.records == 0 {
		t.last = start.UnixMilli() // a mark alone has no record to take its time from
	}
	mark := t.nextMark(open)
	out := t.outputs(mark)
	t.hand = opened
	var end int64
	err := t.retry(work, func() (err error) {
		end, err = t.d.Transactions.Produce(work, out)
		return err
	})
	if err == nil {
		err = t.sameChangelog(end, len(out.Changelog))
	}
	if err != nil {
		return fmt.Errorf("write the transaction up to offset %d: %w", t.next, err)
	}
	t.hand = undone
	err = t.retry(work, func() (err error) {
		end, err = t.d.Transactions.Commit(work, t.next)
		return err
	})
	if err != nil {
		return fmt.Errorf("commit the transaction up to offset %d: %w", t.next, err)
	}
	t.hand, t.tail = empty, end
	err = t.apply(Positions{Input: t.next, Changelog: end, AppliedMS: start.UnixMilli()})
	t.committed(mark, start) // also if the store refuses it: it is committed
	if err != nil {
		return err
	}
	t.move(Running)
	return nil
}

// outputs lists what the transaction writes, and fills t.changes for the store.
func (t *Task) outputs(mark Mark) Outputs {
	t.changelog, t.changes = t.changelog[:0], t.changes[:0]
	for i := range t.overlay.entries {
		e := &t.overlay.entries[i]
		value := e.value
		if e.forgotten {
			value = nil
		}
		t.changelog = append(t.changelog, Message{Key: e.key, Value: value, Timestamp: e.timestamp})
		t.changes = append(t.changes, Change{Key: e.key, Value: value})
	}
	t.value = AppendMark(t.value[:0], mark)
	t.changelog = append(t.changelog, Message{Key: markKey, Value: t.value, Timestamp: t.last})
	t.changes = append(t.changes, Change{Key: markKey, Value: t.value})
	return Outputs{Output: t.overlay.out, DeadLetters: t.overlay.dead, Changelog: t.changelog}
}

// apply brings t.changes into the store. p.AppliedMS is a time at which the
// values were still the last ones in the changelog, so it is taken before the
// commit: a worker may be asleep for hours between commit and apply.
func (t *Task) apply(p Positions) error {
	if err := t.d.Store.Apply(t.changes, p); err != nil {
		return storeError("write states", err)
	}
	return nil
}

// committed reports and forgets the transaction in hand.
func (t *Task) committed(mark Mark, start time.Time) {
	now := t.o.Clock.Now()
	done := Transaction{
		Records: t.records, Output: len(t.overlay.out), DeadLetters: len(t.overlay.dead),
		Changes: len(t.overlay.entries), Bytes: t.overlay.bytes + len(t.value) + len(markKey),
		Next: t.next, Commit: now.Sub(start),
	}
	if t.records > 0 {
		done.Took = now.Sub(t.began)
	}
	t.overlay.reset()
	t.records = 0
	t.attempt = 0
	t.safe, t.saved = t.next, now
	t.mark, t.opened = mark, mark.Open
	t.o.Observer.Committed(done)
}

// storeError marks an error of the store and says what to do.
func storeError(what string, err error) error {
	return otherwise(fmt.Errorf("%w: %s: %w; free space or repair the state folder and start again. What was committed is restored "+
		"from the changelog, if that is intact: run doctor before you remove the folder", ErrStore, what, err), Fatal)
}
