package topics

import (
	"context"
	"errors"
	"fmt"
	"strings"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// catchUpRecords is how short a pass over a changelog has to be to be the last.
const catchUpRecords = 10_000

// Entries visits the records of a changelog's partition that an earlier call has not visited, up to
// the end. An entry is valid during the call of visit only. An error of visit ends the reading, and
// the next call then visits the same records once more.
//
// While a pass is under way, the cleaner may remove values for the sake of newer ones behind the
// pass's end. So the end is taken again after each pass, and the last pass is a short one that
// follows another. Records that were removed before they were visited, at either end of the
// partition, are an error: nobody can tell what they said. So is a topic that was made again,
// however long it is.
func (r *Reader) Entries(ctx context.Context, visit func(task.Entry) error) error {
	for again := false; ; again = true {
		if err := r.Refresh(ctx); err != nil {
			return err
		}
		if r.read < 0 {
			r.read = r.First
		}
		switch {
		case r.read < r.First:
			return fmt.Errorf("%s lost the records before offset %d while read (changelog-cut)",
				r.topic, r.First)
		case r.read > r.End:
			return fmt.Errorf("%s lost the records from offset %d on while read "+
				"(changelog-end-lost)", r.topic, r.End)
		}
		if err := r.sameTopic(ctx); err != nil || r.read == r.End {
			return err
		}
		last := again && r.End-r.read <= catchUpRecords
		err := r.Scan(ctx, r.read, r.End, func(rec consumer.Record) error {
			e, err := task.ReadEntry(Record(rec))
			if err != nil {
				return err
			}
			return visit(e)
		})
		if err == nil {
			err = r.sameTopic(ctx)
		}
		if err != nil {
			return err
		}
		if r.read = r.End; last {
			return nil
		}
	}
}

// sameTopic takes the topic's id (KIP-516) the first time, and later refuses another one.
func (r *Reader) sameTopic(ctx context.Context) error {
	ids, err := admin.TopicIDs(ctx, r.client, r.call, r.topic)
	if err != nil {
		return err
	}
	if r.id == [16]byte{} {
		r.id = ids[r.topic]
	}
	if ids[r.topic] != r.id {
		return fmt.Errorf("%s was deleted and made again while it was read (changelog-lost)",
			r.topic)
	}
	return nil
}

// AnyEntry reports whether a changelog's partition has a record that Entries has not visited.
func (r *Reader) AnyEntry(ctx context.Context) (bool, error) {
	return found(r.Entries(ctx, func(task.Entry) error { return errFound }))
}

// LastMark looks for the last mark of a changelog's partition: at the end first. A topic that
// does not exist has none.
func LastMark(ctx context.Context, client *kafka.Client, changelog string, partition int32) (
	mark task.Mark, found bool, err error,
) {
	mark = task.Mark{Origin: -1}
	if there, err := Exists(ctx, client, changelog); err != nil || !there {
		return mark, false, err
	}
	r, err := Open(ctx, client, changelog, partition, consumer.FetcherOptions{})
	if err != nil {
		return mark, false, err
	}
	// While the records are read, the cleaner may remove a mark for the sake of a newer one behind
	// the end, so the search goes on there.
	for first := r.First; first < r.End; {
		last := r.End
		for end, step := last, int64(16); err == nil && end > first && !found; step *= 8 {
			at := max(first, end-step)
			err = r.Scan(ctx, at, end, func(rec consumer.Record) error {
				e, err := task.ReadEntry(Record(rec))
				if e.Kind == task.Marked {
					mark, found = e.Mark.Clone(), true
				}
				return err
			})
			end = at
		}
		if err != nil || found {
			return mark, found, err
		}
		if err := r.Refresh(ctx); err != nil {
			return mark, false, err
		}
		first = max(last, r.First)
	}
	return mark, false, nil
}

// Change says what the raw topic shows of settings that may have changed during a first
// release.
type Change uint8

// Values of Change.
const (
	Unchanged Change = iota
	Changed          // a record was processed under other settings
	Unproved         // it cannot be proved that none was: the raw topic has lost records
)

// At says it of a mark's Since.
func (c Change) At(since int64) string {
	if c == Unproved {
		return fmt.Sprintf("it cannot be proved that the settings did not change at raw offset "+
			"%d, since the raw topic does not hold all records before it any more", since)
	}
	return fmt.Sprintf("the settings changed at raw offset %d", since)
}

// SettingsChanged reports whether a partition has results of other settings than those of its
// mark. A mark whose Since lies behind its Origin says only that the settings have been in force
// from there: a worker that saw nothing but aborted records leaves such a mark too. The raw topic
// is the proof. Where it still holds everything from Origin on and no committed record lies
// before Since, nothing was made under other settings.
func SettingsChanged(ctx context.Context, client *kafka.Client, raw string, partition int32,
	mark task.Mark,
) (Change, error) {
	if mark.Origin < 0 || mark.Since <= mark.Origin {
		return Unchanged, nil
	}
	r, err := Open(ctx, client, raw, partition, consumer.FetcherOptions{})
	if err != nil || r.First > mark.Origin || r.End < mark.Since {
		return Unproved, err // what was there cannot be known any more
	}
	// A compacted topic forgets records silently.
	const policy = "cleanup.policy"
	have, err := admin.Configs(ctx, client, wire.Options{}, raw, policy)
	if err != nil || strings.Contains(have[policy], "compact") {
		return Unproved, err
	}
	some, err := r.Any(ctx, mark.Origin, mark.Since)
	switch {
	case errors.Is(err, consumer.ErrOffsetOutOfRange):
		return Unproved, nil // retention may have come in between
	case some:
		return Changed, nil
	}
	return Unchanged, err
}
