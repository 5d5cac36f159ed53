package pipeline

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

// change says what the raw topic tells of settings that may have changed during a first
// release.
type change uint8

const (
	unchanged change = iota
	changed          // a record was processed under other settings
	unproved         // it cannot be proved that none was: the raw topic has lost records
)

// at says it of a mark's Since.
func (c change) at(since int64) string {
	if c == unproved {
		return fmt.Sprintf("it cannot be proved that the settings did not change at raw offset %d, "+
			"since the raw topic does not hold all records before it any more", since)
	}
	return fmt.Sprintf("the settings changed at raw offset %d", since)
}

// settingsChanged reports whether a partition has results of other settings than those
// of its mark. A mark whose Since lies behind its Origin says only that the settings have
// been in force from there: a worker that saw nothing but aborted records leaves such a
// mark too. The raw topic is the proof. Where it still holds everything from Origin on and
// no committed record lies before Since, nothing was made under other settings. The cost is
// one fetch where there is a record, and else one pass over the aborted ones.
func settingsChanged(ctx context.Context, client *kafka.Client, topic string, p int32,
	mark task.Mark,
) (change, error) {
	if mark.Origin < 0 || mark.Since <= mark.Origin {
		return unchanged, nil
	}
	raw, err := consumer.NewFetcher(client, topic, p, consumer.FetcherOptions{})
	if err != nil {
		return unproved, err
	}
	first, end, err := raw.Bounds(ctx)
	if err != nil || first > mark.Origin || end < mark.Since {
		return unproved, err // what was there cannot be known any more
	}
	// A compacted topic forgets records and does not say so.
	const policy = "cleanup.policy"
	have, err := admin.Configs(ctx, client, wire.Options{}, topic, policy)
	if err != nil || strings.Contains(have[policy], "compact") {
		return unproved, err
	}
	err = scan(ctx, raw, mark.Origin, mark.Since, func(consumer.Record) error { return errRead })
	switch {
	case errors.Is(err, errRead):
		return changed, nil
	case errors.Is(err, consumer.ErrOffsetOutOfRange):
		return unproved, nil // retention may have come in between
	}
	return unchanged, err
}

// errRead ends a scan at its first record.
var errRead = errors.New("there is a record")
