package erase

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// tries is how often the owner may take the partition back before it is left to it.
const tries = 5

// partition erases the users who have something in a partition, and returns what it has of them.
func (e *eraser) partition(ctx context.Context, p int32) (map[string]*userFound, error) {
	l, err := readPartition(ctx, e, p)
	if err != nil {
		return nil, err
	}
	l.drop()
	if e.left(l) == 0 || e.o.DryRun {
		return l.found, nil
	}
	for n := 1; ; n++ {
		done, err := e.fenced(ctx, p, l)
		switch {
		case err == nil && !done:
			err = e.await(ctx, l)
			return l.found, err
		case err == nil, n == tries || !again(err):
			return l.found, err
		}
		e.o.Logger.Debug("the transaction did not go through, trying again", "partition", p,
			"cause", err)
	}
}

// again reports whether a transaction can be tried again from the fence on: its owner was faster,
// or its outcome is not known, which the next look at the changelog tells.
func again(err error) bool {
	return errors.Is(err, producer.ErrFenced) || errors.Is(err, producer.ErrUnknownOutcome) ||
		errors.Is(err, producer.ErrAbortable)
}

// left is how many users are not erased yet.
func (e *eraser) left(l *looking) (n int) {
	for _, f := range l.found {
		if !f.erased(e.o.ResetBudget) {
			n++
		}
	}
	return n
}

// fenced takes the partition away from its owner for one transaction. It erases if nobody can have
// seen a result that is not committed: a record that the owner had in hand is processed again, and
// without the user's state it would give another release. Otherwise it leaves requests, which the
// owner carries out where that is so; done is then false.
func (e *eraser) fenced(ctx context.Context, p int32, l *looking) (done bool, err error) {
	tx, err := producer.NewTransactional(e.client, e.o.TransactionalID(p), producer.Options{
		TransactionTimeout: e.o.TransactionTimeout, MaxBatchBytes: e.o.MaxBatchBytes,
	})
	if err != nil {
		return false, err
	}
	if err := tx.Init(ctx); err != nil {
		return false, err
	}
	// From here on nobody else writes. What was open when this began may have been committed.
	if err := l.goOn(ctx); err != nil {
		return false, err
	}
	l.drop()
	if e.left(l) == 0 {
		return true, nil
	}
	safe, err := e.nothingShown(ctx, p, l)
	if err != nil {
		return false, err
	}
	records, err := e.records(l, safe)
	if err != nil {
		return false, err
	}
	if len(records) == 0 {
		return safe, l.goOn(ctx)
	}
	if err := e.write(ctx, tx, p, records, l.mark); err != nil {
		return false, err
	}
	return safe, e.readBack(ctx, l)
}

// readBack reads on until the transaction that was committed last can be read: its end is a mark.
// A broker answers a commit before it has written the transaction's end to all partitions.
func (e *eraser) readBack(ctx context.Context, l *looking) error {
	const every = 20 * time.Millisecond
	limit := e.now().Add(e.o.Patience())
	for marks := l.marks; ; {
		if err := l.goOn(ctx); err != nil || l.marks > marks {
			return err
		}
		if e.now().After(limit) {
			return fmt.Errorf("what was committed to %s cannot be read: repeat the command",
				e.o.Topics.Changelog)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// nothingShown reports whether everything is committed that a reader of uncommitted data can have
// seen. It refuses a partition whose positions do not agree, or that was written under settings
// that are not the config's.
func (e *eraser) nothingShown(ctx context.Context, p int32, l *looking) (bool, error) {
	if l.marks == 0 {
		return false, fmt.Errorf("%s has states and no mark of geodither's: is it another topic?",
			e.o.Topics.Changelog)
	}
	if !e.settings.SameReleases(l.mark.Settings) {
		// With another key, the account would be kept under a name that the service never finds.
		return false, fmt.Errorf("the service wrote this partition last under other settings: %s: "+
			"use its config", e.settings.Differences(l.mark.Settings))
	}
	committed, found, err := consumer.Committed(ctx, e.client,
		wire.Options{RetryTimeout: e.o.Patience()}, e.o.Group, e.o.Topics.Raw, p)
	if err != nil {
		return false, err
	}
	if found {
		if err := task.CheckCommitted(committed, l.mark.Input); err != nil {
			return false, fmt.Errorf("group %s: %w", e.o.Group, err)
		}
	}
	if !l.mark.Open {
		return true, nil
	}
	raw, err := topics.Open(ctx, e.client, e.o.Topics.Raw, p, consumer.FetcherOptions{})
	if err != nil {
		return false, err
	}
	behind, err := raw.Any(ctx, max(l.mark.Input, raw.First), raw.End)
	return !behind, err
}

// records lists what to write: what erases the users, or the requests to do so.
func (e *eraser) records(l *looking, safe bool) (records []producer.Record, err error) {
	now := e.now().UnixMilli()
	put := func(key, value []byte) {
		records = append(records, producer.Record{Key: key, Value: value, Timestamp: now})
	}
	for _, user := range sorted(l.found, e.o.Users) {
		f := l.found[user]
		if f.erased(e.o.ResetBudget) {
			continue
		}
		r := task.Request{Key: []byte(user), Reset: e.o.ResetBudget, TimeMS: now}
		asked := e.names.RequestKey(r.Key)
		before, unread := task.DecodeRequest(f.request)
		// Somebody was promised that the account goes.
		r.Reset = r.Reset || unread == nil && before.Reset
		if !safe {
			if unread != nil || before.Reset != r.Reset {
				put(asked, task.AppendRequest(nil, r))
			}
			continue
		}
		remains, err := e.names.Erase(r, l.mark.Input, f.state, f.kept)
		if err != nil {
			return nil, err
		}
		put(r.Key, nil)
		if len(remains) > 0 {
			put(append([]byte(nil), e.names.Kept(r.Key)...), append([]byte(nil), remains...))
		}
		if len(f.request) > 0 {
			put(asked, nil)
		}
	}
	return records, nil
}

// chunk is how many records are sent at once.
const chunk = 1000

// write commits records, and the last mark once more: every transaction of the changelog ends with
// one. The group's offset stays.
func (e *eraser) write(ctx context.Context, tx *producer.Transactional, p int32,
	records []producer.Record, mark task.Mark,
) error {
	records = append(records, producer.Record{
		Key: []byte(task.MarkKey), Value: task.AppendMark(nil, mark),
		Timestamp: records[0].Timestamp,
	})
	to := producer.TopicPartition{Topic: e.o.Topics.Changelog, Partition: p}
	for len(records) > 0 {
		n := min(len(records), chunk)
		batch := producer.Batch{TopicPartition: to, Records: records[:n]}
		if _, err := tx.Produce(ctx, batch); err != nil {
			return errors.Join(err, tx.Abort(context.WithoutCancel(ctx)))
		}
		records = records[n:]
	}
	_, err := tx.Commit(ctx)
	return err
}

// await waits until the owner has carried out the requests, and marks those that it has not.
func (e *eraser) await(ctx context.Context, l *looking) error {
	const every = 250 * time.Millisecond
	limit := e.now().Add(e.o.Wait)
	for l.requests() > 0 && e.now().Before(limit) && e.members(ctx) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
		if err := l.goOn(ctx); err != nil {
			return err
		}
	}
	for _, f := range l.found {
		f.pending = len(f.request) > 0
	}
	return nil
}

// userFound is what one partition of the changelog has of a user.
type userFound struct {
	state     []byte // empty: none
	tombstone int64  // offset of the last record that removes a state; -1: there is none any more
	kept      []byte // what remains of an earlier erasure
	dropped   int64  // offset of the last record that removes what remained; -1: there is none
	// erasedMS is the time of the last erasure, and input the raw offset of the first mark behind
	// it that the cleaner has left.
	erasedMS, input int64
	request         []byte // that is not carried out yet
	pending         bool   // it was still not carried out when Run gave up
}

// erased reports that nothing is left to do.
func (f *userFound) erased(reset bool) bool {
	if len(f.state) > 0 || len(f.request) > 0 {
		return false
	}
	if !reset {
		return true // what remains is the processor's, in its own format
	}
	owes, err := new(engine.Eraser).Owes(f.kept)
	return err == nil && !owes
}

// over reports that the user was erased, and that what remained has been removed since.
func (f *userFound) over() bool {
	return len(f.state) == 0 && f.tombstone >= 0 && f.dropped > f.tombstone
}

// looking is a partition of the changelog, read up to an offset.
type looking struct {
	*topics.Reader
	of     *eraser
	found  map[string]*userFound
	behind []*userFound // their erasures have no mark behind them yet
	mark   task.Mark
	marks  int
}

// readPartition reads a partition for the users that are to be erased.
func readPartition(ctx context.Context, e *eraser, p int32) (*looking, error) {
	r, err := topics.Open(ctx, e.client, e.o.Topics.Changelog, p, consumer.FetcherOptions{})
	if err != nil {
		return nil, err
	}
	l := &looking{Reader: r, of: e, found: map[string]*userFound{}}
	return l, l.goOn(ctx)
}

// goOn reads what has been added since.
func (l *looking) goOn(ctx context.Context) error {
	return l.Entries(ctx, func(e task.Entry) error {
		if e.Kind == task.Marked {
			l.mark = e.Mark.Clone()
			l.marks++
			for _, f := range l.behind {
				f.input = l.mark.Input
			}
			l.behind = l.behind[:0]
		} else if user, ok := l.of.wanted[string(e.Key)]; ok {
			l.noteRecord(user, e)
		}
		return nil
	})
}

// noteRecord takes note of a record of a user.
func (l *looking) noteRecord(user string, e task.Entry) {
	f := l.found[user]
	if f == nil {
		f = &userFound{tombstone: -1, dropped: -1}
		l.found[user] = f
	}
	value := bytes.Clone(e.Value)
	switch e.Kind {
	case task.Stated:
		f.state = value
	case task.Tombstone: // a user who is at work may come back at once, so a state may follow
		f.state, f.tombstone = nil, e.Offset
		l.erased(f, e)
	case task.Kept:
		if f.kept = value; len(value) == 0 {
			f.dropped = e.Offset
		} else if f.tombstone < 0 { // the cleaner was there
			l.erased(f, e)
		}
	case task.Requested:
		f.request = value
	case task.Foreign, task.Marked, task.Common: // of no user
	}
}

// erased takes note of an erasure.
func (l *looking) erased(f *userFound, e task.Entry) {
	f.erasedMS = e.Timestamp
	l.behind = append(l.behind, f)
}

// requests is how many users wait for the partition's owner.
func (l *looking) requests() (n int) {
	for _, f := range l.found {
		if len(f.request) > 0 {
			n++
		}
	}
	return n
}

// drop forgets users of whom nothing is left but removed records: those are unknown.
func (l *looking) drop() {
	for user, f := range l.found {
		if len(f.state) == 0 && len(f.kept) == 0 && len(f.request) == 0 && !f.over() {
			delete(l.found, user)
		}
	}
}

// sorted lists the users of a partition in the order in which they were named.
func sorted(found map[string]*userFound, users []string) []string {
	place := map[string]int{}
	for i, user := range users {
		place[user] = i
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Compare(place[a], place[b])
	})
}
