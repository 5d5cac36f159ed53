package pipeline

import (
	"context"
	"errors"
	"strings"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
)

// settingsChanged reports whether a partition has results of other settings than those
// of its mark. A mark whose Since lies behind its Origin says only that the settings have
// been in force from there: a worker that saw nothing but aborted records leaves such a
// mark too. The raw topic is the proof. Where it still holds everything from Origin on and
// no committed record lies before Since, nothing was made under other settings. The cost is
// one fetch where there is a record, and else one pass over the aborted ones.
func settingsChanged(ctx context.Context, client *kafka.Client, topic string, p int32,
	mark task.Mark,
) (bool, error) {
	if mark.Origin < 0 || mark.Since <= mark.Origin {
		return false, nil
	}
	raw, err := consumer.NewFetcher(client, topic, p, consumer.FetcherOptions{})
	if err != nil {
		return false, err
	}
	first, end, err := raw.Bounds(ctx)
	if err != nil || first > mark.Origin || end < mark.Since {
		return true, err // what was there cannot be known any more
	}
	// A compacted topic forgets records and does not say so.
	const policy = "cleanup.policy"
	have, err := consumer.Configs(ctx, client, consumer.Options{}, topic, policy)
	if err != nil || strings.Contains(have[policy], "compact") {
		return true, err
	}
	err = scan(ctx, raw, mark.Origin, mark.Since, func(consumer.Record) error { return errRead })
	if errors.Is(err, errRead) || errors.Is(err, consumer.ErrOffsetOutOfRange) {
		return true, nil // retention may have come in between
	}
	return false, err
}

// errRead ends a scan at its first record.
var errRead = errors.New("there is a record")
