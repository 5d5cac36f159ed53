package checks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// groupChecks are those of what the group and its changelog have done before.
func groupChecks() []Check {
	return []Check{
		{"accounts' places", AtStart, sanitizes | windows, needsRaw, (*examination).accounts},
		{"changelog", AtStart, sanitizes, needsChangelog, (*examination).changelog},
		{"group", "each task", sanitizes, needsRaw, (*examination).group},
	}
}

// group asks for what it has committed, which also shows that it may be asked, and looks for
// partitions whose states have gone on and whose offset the brokers have forgotten.
func (d *examination) group(ctx context.Context) {
	begun, expired := int32(0), ""
	for n := range d.partitions() {
		at, found, err := consumer.Committed(ctx, d.client, d.call, d.o.Group, d.o.Topics.Raw, n)
		switch {
		case errors.Is(err, wire.ErrTemporary):
			d.add(Warning, "%s: its offset in partition %d is not known yet, a transaction may be "+
				"open: %v", d.o.Group, n, err)
			return
		case err != nil:
			d.add(Failure, "%s: %v", d.o.Group, err)
			return
		case found:
			begun++
			err = d.moved(ctx, n)
		}
		mark, marked, unread := topics.LastMark(ctx, d.client, d.o.Topics.Changelog, n)
		if !found && marked && mark.Input > 0 && expired == "" {
			expired = fmt.Sprintf("partition %d: %s has states up to offset %d, and group %s has "+
				"no offset: it expired (offsets.retention.minutes) or was deleted. A start goes "+
				"on at %[3]d", n, d.o.Topics.Changelog, mark.Input, d.o.Group)
		}
		if !found {
			at = mark.Input
		}
		if err == nil && unread == nil && (found || marked) { // else changelog says what is wrong
			err = d.outside(ctx, n, at, mark, marked)
		}
		if err != nil {
			d.add(Failure, "partition %d: %v", n, err)
			return
		}
	}
	d.add(OK, "%s has begun %d of %d partitions", d.o.Group, begun, d.partitions())
	d.others(ctx)
	if expired != "" {
		d.add(Warning, "%s", expired)
	}
}

// moved compares the group's offset with the last mark, as a task does at its start. An instance at
// work moves both, and the two are not read at once, so a difference has to last.
func (d *examination) moved(ctx context.Context, n int32) (moved error) {
	const looks, apart = 5, 200 * time.Millisecond
	before := int64(-1)
	for range looks {
		at, found, err := consumer.Committed(ctx, d.client, d.call, d.o.Group, d.o.Topics.Raw, n)
		if err != nil || !found {
			return nil //nolint:nilerr // group says what is wrong with it
		}
		mark, found, err := topics.LastMark(ctx, d.client, d.o.Topics.Changelog, n)
		if err != nil || !found {
			return nil //nolint:nilerr // changelog says what is wrong with it
		}
		if moved = task.CheckCommitted(at, mark.Input); before >= 0 && at != before {
			return nil // an instance is at work
		}
		if before = at; moved == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(apart):
		}
	}
	return moved
}

// outside checks, as a task does at its start, that the raw topic holds a partition's offset and
// what was processed before it.
func (d *examination) outside(
	ctx context.Context, n int32, at int64, mark task.Mark, marked bool,
) error {
	r, err := topics.Open(ctx, d.client, d.o.Topics.Raw, n,
		consumer.FetcherOptions{Options: d.call})
	if err != nil {
		return err
	}
	known := int64(-1)
	if marked {
		known, err = r.EpochEnd(ctx, mark.Epoch)
	}
	if err != nil {
		return err
	}
	return task.CheckInput(at, r.First, r.End, known)
}

// differences says in which settings a mark's differ from these, and what a key means among them.
func (d *examination) differences(m task.Mark) string {
	text := d.o.Differences(m.Settings)
	if bytes.Equal(m.Names, d.o.KeyFingerprint()) {
		return text
	}
	return text + ". Under another noise key run refuses to start where the changelog keeps " +
		"accounts of erased users"
}

// changelog compares the last marks with the settings of the service. At a start it compares the
// models alone: each task refuses other settings, and may go on with them.
func (d *examination) changelog(ctx context.Context) {
	source, err := topics.ID(ctx, d.client, d.o.Topics.Raw)
	if err != nil {
		d.add(Failure, "the id of %s cannot be read: %w", d.o.Topics.Raw, err)
		return
	}
	other, open, differ := 0, 0, ""
	for n := range d.partitions() {
		mark, found, err := topics.LastMark(ctx, d.client, d.o.Topics.Changelog, n)
		if err != nil {
			d.add(Failure, "partition %d of %s: %w", n, d.o.Topics.Changelog, err)
			return
		}
		if !d.starts() {
			err = task.CheckSource(mark, source)
		}
		same := bytes.Equal(mark.Settings, d.o.Fingerprint())
		if err == nil && same {
			err = d.sameModels(mark)
		}
		if err != nil {
			d.add(Failure, "partition %d: %w", n, err)
			return
		}
		if !found || len(mark.Settings) == 0 || same || d.starts() {
			continue
		}
		other++
		differ = d.differences(mark)
		if mark.Open {
			open++
		}
	}
	switch {
	case open > 0:
		d.add(Failure, "%d partitions were written under other settings by an instance that works "+
			"still or was killed: stop it cleanly under its own settings, or start once with "+
			"--accept=settings. What differs: %s", open, differ)
	case other > 0:
		d.add(Warning, "%d partitions were written under other settings: from the start on "+
			"releases are made under these. What differs: %s", other, differ)
	default:
		d.add(OK, "under these settings, or not begun")
	}
}

// sameModels refuses a list of models that does not extend the one under which a partition was
// processed, or that would be in force in some partitions only.
func (d *examination) sameModels(mark task.Mark) error {
	err := d.o.CheckVersions(mark)
	if err == nil && !d.o.AcceptSettings {
		err = task.CheckOpen(mark, mark.Settings, d.o.Versions())
	}
	return err
}

// accounts looks whether a user could have a second account, and whether users may have one at
// all.
func (d *examination) accounts(ctx context.Context) {
	one := d.o.OneAccount
	if d.job == windows {
		one = func(n int) error { return engine.OneAccount(d.o.Partitioner, d.o.Source(), n) }
	}
	if err := one(int(d.partitions())); err != nil {
		d.add(Failure, "%w", err)
	}
	if d.job == windows || d.lacks(needsChangelog) != "" {
		return
	}
	begun, err := account.CheckPartitioner(ctx, d.client, d.o.Settings, d.o.Topics.Changelog,
		d.partitions())
	switch d.begun = begun; {
	case errors.Is(err, task.ErrPartitioner) && d.o.AcceptLost:
		d.add(Warning, "--accept=lost-account is set and topics.partitioner has changed: the "+
			"accounts of ε of users who move to another partition start at 0 and add to what was "+
			"spent before (%s)", task.Facts(err))
	case err != nil:
		d.add(Failure, "%w", err)
	case begun:
		d.add(OK, "the changelog was written under the same partitioner")
	}
}
