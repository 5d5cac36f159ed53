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
			err = r.Scan(ctx, at, end, func(r consumer.Record) error {
				if string(r.Key) != task.MarkKey {
					return nil
				}
				m, err := task.DecodeMark(r.Value)
				mark, found = m.Clone(), true
				return err
			})
			end = at
		}
		if err != nil || found {
			return mark, found, err
		}
		first = last
		if err := r.Refresh(ctx); err != nil {
			return mark, false, err
		}
	}
	return mark, false, nil
}

// Change says what the raw topic tells of settings that may have changed during a first
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
	// A compacted topic forgets records and does not say so.
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
