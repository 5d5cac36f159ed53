package task

import (
	"context"
	"fmt"
	"time"
)

// consume reads, processes and commits until ctx is done or End is reached. It then commits the
// transaction in hand and returns nil.
func (t *Task) consume(ctx, work context.Context) error {
	for !stopped(ctx) && !t.ended() {
		batch, err := t.fetch(ctx)
		if err != nil && stopped(ctx) && RemedyOf(err) != Leave && RemedyOf(err) != Fatal {
			break // ctx has cut the fetch short
		}
		if err != nil {
			return err
		}
		if err := t.processBatch(ctx, work, batch); err != nil {
			return err
		}
	}
	return t.finish(work)
}

// processBatch processes a batch, and commits where a transaction ends. It stops between two
// records when ctx is done.
func (t *Task) processBatch(ctx, work context.Context, batch Batch) error {
	for i := range batch.Records {
		if stopped(ctx) {
			return nil
		}
		if err := t.step(work, batch.Records[i]); err != nil {
			return err
		}
	}
	t.next = batch.Next
	if len(batch.Records) > 0 {
		t.waits = 0
		if err := t.passTimes(ctx, work); err != nil {
			return err
		}
		return t.launchIfDue(work)
	}
	return t.idle(ctx, work)
}

// idle is what a task does when there was nothing to read: everything that had to wait for such a
// time. Nothing is to be processed beside a commit, so it waits for commits.
func (t *Task) idle(ctx, work context.Context) error {
	if err := t.land(work); err != nil {
		return err
	}
	if (t.records > 0 || t.lags()) && !t.ended() {
		if err := t.commit(work, t.mark.Open); err != nil {
			return err
		}
	}
	t.attempt = 0
	t.waits = min(2*t.wait(), idleWaits*t.o.MaxInterval, longestWait)
	if err := t.erase(work); err != nil {
		return err
	}
	if err := t.passTimes(ctx, work); err != nil {
		return err
	}
	for !stopped(ctx) && !t.ended() && t.pass.sweeps() {
		if err := t.sweep(work); err != nil {
			return err
		}
	}
	return t.disturbed(work)
}

// sweep removes some of the states of keys that have expired, in a transaction of its own. Nobody
// but the changelog's readers can see that.
func (t *Task) sweep(work context.Context) error {
	if !t.pass.sweeps() {
		return nil
	}
	if err := t.land(work); err != nil { // the store has to have the states
		return err
	}
	n, err := t.pass.sweep(t.overlay, t.o.MaxRecords, t.o.Clock.Now().UnixMilli())
	if err != nil || n == 0 {
		return err
	}
	return t.commit(work, t.mark.Open)
}

// passTimes tells the processor which deadlines were passed, and commits what it does about them,
// with the records in hand. Readers of uncommitted data see that too, so the mark is opened before,
// as before a record. A gap of a year has many deadlines, so a transaction ends as with records.
func (t *Task) passTimes(ctx, work context.Context) error {
	due, err := t.pass.isPast(work, t.next, t.retry)
	for err == nil && due && !stopped(ctx) && !t.ended() {
		if t.records == 0 {
			if err := t.open(work); err != nil {
				return err
			}
		}
		n := 0
		for err == nil && due && n < t.o.MaxRecords && t.overlay.bytes < t.o.MaxBytes {
			if err := t.pass.fill(&t.fx, t.overlay); err != nil {
				return err
			}
			n++
			due, err = t.pass.isPast(work, t.next, t.retry)
		}
		if err == nil {
			err = t.commit(work, true)
		}
	}
	if err == nil && t.unsettled && t.pass.settled() {
		t.unsettled = false
	}
	return err
}

// step makes one record part of the transaction in hand, which it begins and ends where that is
// due.
func (t *Task) step(work context.Context, rec Record) error {
	if err := t.landIfDone(work); err != nil {
		return err
	}
	if t.records == 0 {
		if err := t.open(work); err != nil {
			return err
		}
	}
	if err := t.process(rec); err != nil {
		return err
	}
	switch {
	case t.records >= t.o.MaxRecords, t.overlay.bytes >= t.o.MaxBytes:
		return t.launch(work)
	case t.records%looks == 0:
		return t.launchIfDue(work)
	}
	return nil
}

// looks is after how many records the task looks at the clock: a batch may have thousands of them,
// each of which takes a millisecond. A look costs some 50 ns, and a fast record 10 µs.
const looks = 4

// longestWait bounds how long an idle task waits for one answer, and idleWaits that time in units
// of MaxInterval. It is also how much later an idle task erases.
const (
	longestWait = 5 * time.Second
	idleWaits   = 50
	// besideWait is how long a task with a transaction in flight waits for one answer.
	besideWait = 100 * time.Millisecond
)

// wait is how long the next fetch may wait for records: until the transaction in hand is due. An
// idle task waits twice as long each time. The broker answers as soon as there is a record, so a
// long wait saves requests and delays none. It would delay the repetition of a call that is on its
// way and answers Retry.
func (t *Task) wait() time.Duration {
	wait := max(t.waits, t.o.MaxInterval)
	if t.records > 0 {
		wait = max(t.o.MaxInterval-t.o.Clock.Now().Sub(t.began), 0)
	}
	if t.flight.beside != nil {
		wait = min(wait, besideWait)
	}
	return wait
}

// stopped reports whether the task is to stop.
func stopped(ctx context.Context) bool { return ctx.Err() != nil }

// ended reports whether End is reached.
func (t *Task) ended() bool { return t.o.End > 0 && t.next >= t.o.End }

// launchIfDue ends the transaction in hand if its time is up. While an earlier one is on its way it
// may grow instead, because it could not be written yet.
func (t *Task) launchIfDue(work context.Context) error {
	if err := t.landIfDone(work); err != nil {
		return err
	}
	if t.records == 0 || t.flight.beside != nil || t.ended() ||
		t.o.Clock.Now().Sub(t.began) < t.o.MaxInterval {
		return nil
	}
	return t.launch(work)
}

// lags reports whether an idle task commits a transaction of the mark alone now. That moves the
// group's offset past aborted and control records. If the offset stayed before them, and retention
// removed them, the next start would take records for lost.
func (t *Task) lags() bool {
	return t.next > t.safe && t.o.Clock.Now().Sub(t.saved) >= t.o.IdleInterval
}

// fetch asks for the records from t.next on. It checks the answer, because everything after it
// relies on offsets that ascend.
func (t *Task) fetch(ctx context.Context) (batch Batch, err error) {
	batch, err = t.d.Input.Fetch(ctx, t.next, t.wait())
	if RemedyOf(err) == Retry { // apart from the first attempt, so that success makes no closure
		err = t.retry(ctx, func() error {
			batch, err = t.d.Input.Fetch(ctx, t.next, t.wait())
			return err
		})
	}
	if err != nil {
		return Batch{}, fmt.Errorf("read the input at offset %d: %w", t.next, err)
	}
	if err := batch.check(t.next); err != nil {
		err = fmt.Errorf("read the input at offset %d: %w", t.next, err)
		return Batch{}, WithRemedy(err, Fatal)
	}
	if t.o.End > 0 {
		batch = batch.until(t.o.End)
	}
	if err := t.sameInput(ctx, batch.Epoch); err != nil {
		return Batch{}, err
	}
	t.o.Observer.Fetched(batch, t.finished(batch))
	return batch, nil
}

// sameInput takes note of the leader epoch of what was read. With another leader the log may have
// lost its end, and have other records where the task has read already: then the task starts over,
// which finds that out again.
//
// An answer may have batches of several epochs. The last one stands for all: no record before
// t.next is of a later epoch, and an epoch's end is that of all earlier ones too.
func (t *Task) sameInput(ctx context.Context, epoch int32) error {
	if epoch == none || epoch == t.epoch {
		return nil
	}
	known, err := t.epochEnd(ctx, t.epoch)
	if err == nil {
		err = WithRemedy(CheckInput(t.next, 0, t.next, known), Rebuild)
	}
	if err == nil {
		t.epoch = epoch
	}
	return err
}

// finished returns the input offset up to which nothing is left to do when a batch was read: where
// nothing is held that is not committed, control and aborted records are done once they are read.
func (t *Task) finished(b Batch) int64 {
	switch {
	case t.records > 0 || t.flight.overlay != nil:
		return t.safe
	case len(b.Records) > 0:
		return t.next
	}
	return b.Next
}

// check returns how a batch breaks the contract of Fetch.
func (b Batch) check(offset int64) error {
	at := offset
	for i := range b.Records {
		if b.Records[i].Offset < at {
			return fmt.Errorf("offset %d came where %d was due (report-this)", b.Records[i].Offset,
				at)
		}
		at = b.Records[i].Offset + 1
	}
	if b.Next < at {
		return fmt.Errorf("the next offset is given as %d, at least %d was due (report-this)",
			b.Next, at)
	}
	return nil
}

// until returns the batch without the records from end on.
func (b Batch) until(end int64) Batch {
	n := len(b.Records)
	for n > 0 && b.Records[n-1].Offset >= end {
		n--
	}
	b.Records, b.Next = b.Records[:n], min(b.Next, end)
	return b
}

// process adds the effects of one record to the overlay.
func (t *Task) process(rec Record) error {
	if t.records == 0 {
		t.began = t.o.Clock.Now()
	}
	key := rec.Key
	if t.d.Key != nil {
		var err error
		if key, rec.Read, err = t.d.Key(rec); err != nil {
			return otherwise(fmt.Errorf("process offset %d: %w", rec.Offset, err), Fatal)
		}
	}
	t.erasure.recalled = false
	state, err := t.stateOf(key)
	if err != nil {
		return err
	}
	fx := &t.fx
	*fx = Effects{Output: fx.Output[:0], DeadLetters: fx.DeadLetters[:0]}
	if err := t.d.Processor.Process(rec, state, fx); err != nil {
		return otherwise(fmt.Errorf("process offset %d: %w", rec.Offset, err), Fatal)
	}
	changed := len(fx.State) > 0 || fx.Forget
	switch {
	case changed && !ValidKey(key):
		return WithRemedy(fmt.Errorf("process offset %d: %w", rec.Offset, ErrReservedKey), Fatal)
	case fx.Forget && len(fx.State) > 0:
		return WithRemedy(fmt.Errorf("process offset %d: a state is both set and forgotten",
			rec.Offset), Fatal)
	case changed:
		t.overlay.put(key, fx.State, fx.Forget, rec.Timestamp)
		if t.erasure.recalled {
			kept := t.erasure.remains
			t.overlay.put(t.erasure.kept, kept, len(kept) == 0, rec.Timestamp)
		}
	}
	if rec.Offset >= t.mark.Published {
		t.overlay.out = t.overlay.send(t.overlay.out, fx.Output)
		t.overlay.dead = t.overlay.send(t.overlay.dead, fx.DeadLetters)
	}
	t.records++
	t.last, t.latest = rec.Timestamp, max(t.latest, fx.Time)
	t.next = rec.Offset + 1
	return nil
}

// stateOf returns the state of a key as the transaction in hand leaves it, or else the one in
// flight, or else the store. A key that may have no state has none.
func (t *Task) stateOf(key []byte) ([]byte, error) {
	if !ValidKey(key) {
		return nil, nil
	}
	if state, found := t.overlay.get(key); found {
		return state, nil
	}
	if f := t.flight.overlay; f != nil {
		if state, found := f.get(key); found {
			return state, nil
		}
	}
	state, err := t.d.Store.Get(key)
	if err != nil {
		return nil, storeError("read a state", err)
	}
	if t.erasure.any && len(state) == 0 {
		return t.erasure.recall(key)
	}
	return state, nil
}

// finish ends the transaction in hand when the task stops. It commits the offset that reading has
// reached, because the next start may be a long time away, and closes the mark if it can.
func (t *Task) finish(work context.Context) error {
	if err := t.land(work); err != nil {
		return err
	}
	open := t.mark.Open && !t.closes(t.next)
	if t.records == 0 && t.next <= t.safe && open == t.mark.Open {
		return nil
	}
	return t.commit(work, open)
}

// commit writes the transaction in hand, with a mark that is open or not, and returns when the
// store has it too. The transaction in flight comes first.
func (t *Task) commit(work context.Context, open bool) error {
	if err := t.land(work); err != nil {
		return err
	}
	t.seal(open)
	err := t.flight.fly(work, t.retry)
	return t.landed(err)
}

// launch writes the transaction in hand beside what follows. The transaction in flight comes first,
// and is waited for: only then is it sure that this one comes after it, or not at all.
func (t *Task) launch(work context.Context) error {
	if err := t.land(work); err != nil {
		return err
	}
	t.seal(true)
	f := &t.flight
	f.beside = t.beside(func() { f.err = f.fly(work, once) })
	return nil
}

// seal makes the transaction in hand, up to t.next, the one in flight.
func (t *Task) seal(open bool) {
	t.move(Committing)
	start := t.o.Clock.Now()
	if t.records == 0 {
		t.last = start.UnixMilli() // a mark alone has no record to take its time from
	}
	t.pass.addStates(t.overlay, t.last)
	mark := t.nextMark(t.next, open)
	t.flight = flight{
		tx: t.d.Transactions, clock: t.o.Clock, overlay: t.overlay, out: t.outputs(mark),
		records: t.records, next: t.next, tail: t.tail, mark: mark, began: t.began, start: start,
	}
	t.overlay, t.spare = t.spare, nil
	t.records = 0
	t.hand = undone // until it is known better
	t.o.Observer.Sealed(t.flight.records)
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

// land waits for the transaction in flight, if there is one, and brings it into the store. What
// waits for everything to be committed that was written calls it first.
func (t *Task) land(work context.Context) error {
	f := &t.flight
	if f.beside == nil {
		return nil
	}
	f.beside.wait()
	f.beside = nil
	err := f.err
	if RemedyOf(err) == Retry {
		err = f.fly(work, t.resume(err))
	}
	return t.landed(err)
}

// landIfDone lands the transaction in flight if nothing has to be waited for.
func (t *Task) landIfDone(work context.Context) error {
	if t.flight.beside == nil || !t.flight.beside.done() {
		return nil
	}
	return t.land(work)
}

// resume is retry after an attempt whose first call was already made, and has answered Retry.
func (t *Task) resume(answer error) attempt {
	return func(ctx context.Context, call func() error) error {
		return t.retry(ctx, func() error {
			if err := answer; err != nil {
				answer = nil
				return err
			}
			return call()
		})
	}
}

// landed takes note of how the transaction in flight has ended, and writes the store.
//
// It applies nothing before the commit is definite: an aborted state in the store would belong to
// no output, and nothing would undo it. After a failure the flight stays as it is until drop.
func (t *Task) landed(err error) error {
	f := &t.flight
	t.hand = f.hand
	if err != nil {
		return f.failed(err)
	}
	t.tail = f.end
	err = t.apply(Positions{Input: f.next, Changelog: f.end, AppliedMS: f.start.UnixMilli()})
	t.committed() // also if the store refuses it: it is committed
	if err != nil {
		return err
	}
	t.move(Running)
	return nil
}

// committed reports and forgets the transaction in flight.
func (t *Task) committed() {
	f := &t.flight
	done := Transaction{
		Records: f.records, Output: len(f.out.Output), DeadLetters: len(f.out.DeadLetters),
		Changes: len(f.overlay.entries), Bytes: f.overlay.bytes + len(t.value) + len(markKey),
		Next: f.next, Commit: f.ended.Sub(f.start),
	}
	if f.records > 0 {
		done.Took = f.ended.Sub(f.began)
	}
	t.attempt = 0
	t.safe, t.saved = f.next, f.ended
	t.mark, t.opened = f.mark, f.mark.Open
	t.clearFlight()
	t.o.Observer.Committed(done)
}

// drop gives up what is not committed: the transaction in hand, and the one in flight unless it
// comes through. The transaction in hand was made from the states of the one in flight, so it never
// outlives that. The result is the error that says what to do next.
func (t *Task) drop(err error) error {
	f := &t.flight
	if f.beside != nil {
		f.beside.wait()
		f.beside = nil
		if e := t.landed(f.err); RemedyOf(e) > RemedyOf(err) {
			err = e
		}
	}
	t.o.Observer.Dropped(t.records+f.records, err)
	t.overlay.reset()
	t.records = 0
	t.clearFlight()
	return err
}

// clearFlight forgets the transaction in flight, and keeps its memory for the next one.
func (t *Task) clearFlight() {
	if t.flight.overlay == nil {
		return
	}
	t.spare = t.flight.overlay
	t.spare.reset()
	t.flight = flight{}
}

// apply brings t.changes into the store. p.AppliedMS is a time at which the values were still the
// last ones in the changelog. It is taken before the commit, because a worker may be suspended for
// hours between commit and apply.
func (t *Task) apply(p Positions) error {
	if err := t.d.Store.Apply(t.changes, p); err != nil {
		return storeError("write states", err)
	}
	return nil
}

// open makes sure, before the first record of a transaction, that the last mark is open and was
// written by this task. Otherwise it commits a mark alone.
func (t *Task) open(work context.Context) error {
	if err := t.erase(work); err != nil {
		return err
	}
	if err := t.sweep(work); err != nil {
		return err
	}
	if t.opened {
		return nil
	}
	return t.commit(work, true)
}

// erase carries out requests to erase keys, where that is possible now: at the first boundary where
// nobody can have seen results from t.next on.
func (t *Task) erase(work context.Context) error {
	e := &t.erasure
	for len(e.requests) > 0 && t.records == 0 && t.closes(t.next) {
		if err := t.land(work); err != nil { // the store has to have the states to erase
			return err
		}
		n := min(len(e.requests), t.o.MaxRecords)
		now := t.o.Clock.Now().UnixMilli()
		for _, key := range e.requests[:n] {
			if err := e.carryOut(key, t.next, now, t.overlay); err != nil {
				return err
			}
		}
		if err := t.commit(work, t.mark.Open); err != nil {
			return err
		}
		e.requests, e.any = e.requests[n:], true
		if err := e.purge(); err != nil {
			return err
		}
		t.o.Observer.Erased(n)
	}
	return nil
}
