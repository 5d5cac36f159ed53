package topics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// Compacted is the changelog's policy: any other loses states.
var Compacted = map[string]string{"cleanup.policy": "compact"}

// compactionLag bounds how long a record that a newer one replaces may stay in the changelog's
// files: a day. Without a bound nobody can say when an erased user is gone from them (KIP-354).
const compactionLag = 24 * time.Hour

// ChangelogOf describes the changelog as it is made where it is missing. One that exists only has
// to be compacted.
func (t Set) ChangelogOf(partitions int) admin.Topic {
	return admin.Topic{
		Name: t.Changelog, Partitions: partitions, Replication: t.Replication, Configs: Compacted,
		Initial: AnyTime(map[string]string{
			"max.compaction.lag.ms": strconv.FormatInt(compactionLag.Milliseconds(), 10),
		}),
	}
}

// AnyTime adds to a topic's settings that it takes records of any time.
func AnyTime(settings map[string]string) map[string]string {
	settings[TimestampAhead] = strconv.Itoa(math.MaxInt64)
	settings[TimestampBefore] = strconv.Itoa(math.MaxInt64)
	return settings
}

// Create makes those of the four topics that are missing: with the raw
// topic's number of partitions, or t.Partitions where that is missing too and
// t.Partitions is set; otherwise a missing raw topic is an error, and none is made. The
// changelog is compacted, within a day. A topic that exists otherwise than needed is an error.
//
// Output carries the timestamps of the raw records, and Kafka judges by them how
// long to keep a record and whether to take it at all. So the topics made here
// keep their records as long as the raw topic does, and take any timestamp.
func Create(ctx context.Context, client *kafka.Client, o wire.Options, t Set) error {
	partitions, err := rawPartitions(ctx, client, o, t)
	if err != nil {
		return err
	}
	topic := func(name string, initial map[string]string) admin.Topic {
		return admin.Topic{
			Name: name, Partitions: partitions, Replication: t.Replication, Initial: initial,
		}
	}
	// Old traces may be fed into the raw topic. How far ahead its records may be dated stays the
	// brokers' choice: max_ahead relies on these times.
	times := map[string]string{TimestampBefore: strconv.Itoa(math.MaxInt64)}
	if t.Appended {
		times[TimestampType] = LogAppendTime
	}
	if err := admin.CreateTopics(ctx, client, o, topic(t.Raw, times)); err != nil {
		return err
	}
	initial, err := admin.Configs(ctx, client, o, t.Raw, RetentionMS, RetentionBytes)
	if err != nil {
		return err
	}
	initial = AnyTime(initial)
	all := []admin.Topic{topic(t.Sanitized, initial), t.ChangelogOf(partitions)}
	if !t.NoDeadLetters {
		all = append(all, topic(t.DeadLetters, initial))
	}
	return admin.CreateTopics(ctx, client, o, all...)
}

// Size is how many partitions a topic has.
type Size struct {
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions"`
}

// Make is Create for a whole cluster, with its connection. It returns the sizes of its topics.
func Make(ctx context.Context, c Cluster, patience time.Duration) (sizes []Size, err error) {
	t, client, o := c.WithDefaults().Topics, c.Client(), wire.Options{RetryTimeout: patience}
	if err := Create(ctx, client, o, t); err != nil {
		return nil, ExplainPartitions(err, t)
	}
	names := t.Names()
	counts, err := admin.Partitions(ctx, client, o, names...)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		sizes = append(sizes, Size{name, counts[name]})
	}
	return sizes, nil
}

// Settings of topics, by Kafka's names.
const (
	RetentionMS     = "retention.ms"
	RetentionBytes  = "retention.bytes"
	TimestampAhead  = "message.timestamp.after.max.ms"
	TimestampBefore = "message.timestamp.before.max.ms"
	TimestampType   = "message.timestamp.type"
	// TimestampBoth bounds both where the two above have Kafka's default. Kafka 4 lacks it.
	TimestampBoth = "message.timestamp.difference.max.ms"

	// LogAppendTime is the TimestampType of records that have the times of their brokers.
	LogAppendTime = "LogAppendTime"
)

// ErrRawPartitions says that the raw topic has another number of partitions than
// Topics.Partitions.
var ErrRawPartitions = errors.New(
	"the raw topic has another number of partitions than topics.partitions says")

// rawPartitions is the raw topic's number of partitions: its own, which Topics.Partitions
// has to match if it is set, or Topics.Partitions if the topic is missing. Nobody makes a
// missing raw topic without being told how large: its name may be misspelt, and its
// number of partitions can never change.
func rawPartitions(ctx context.Context, client *kafka.Client, o wire.Options, t Set) (int, error) {
	counts, err := admin.Partitions(ctx, client, o, t.Raw)
	var missing *admin.MissingTopicsError
	switch {
	case err == nil && t.Partitions > 0 && counts[t.Raw] != t.Partitions:
		return 0, fmt.Errorf("%w: %s has %d, not %d; leave it out, or topics.partitions: %d",
			ErrRawPartitions, t.Raw, counts[t.Raw], t.Partitions, counts[t.Raw])
	case err == nil:
		return counts[t.Raw], nil
	case errors.As(err, &missing) && t.Partitions > 0:
		return t.Partitions, nil
	case errors.As(err, &missing) && t.Follows:
		return 0, fmt.Errorf("%w%s; the service that writes it makes it", missing,
			Similar(ctx, client, o, t, missing.Topics))
	case errors.As(err, &missing):
		return 0, fmt.Errorf("%w%s (topics-missing)", missing,
			Similar(ctx, client, o, t, missing.Topics))
	}
	return 0, err
}

// CheckRawPartitions is the part of rawPartitions that no waiting mends.
func CheckRawPartitions(ctx context.Context, client *kafka.Client, o wire.Options, t Set) error {
	if _, err := rawPartitions(ctx, client, o, t); errors.Is(err, ErrRawPartitions) {
		return err
	}
	return nil
}

// Similar names topics of the cluster whose names are nearly those that are
// missing, in words to go on with; "" if there are none, or if nobody tells.
func Similar(
	ctx context.Context, client *kafka.Client, o wire.Options, t Set, missing []string,
) string {
	all, err := admin.Topics(ctx, client, o)
	if err != nil {
		return "" // the caller has an error already
	}
	own := t.Names()
	var found []string
	for _, name := range all {
		if slices.Contains(own, name) {
			continue
		}
		if slices.ContainsFunc(missing, func(m string) bool { return similar(m, name) }) {
			found = append(found, name)
		}
	}
	if found == nil {
		return ""
	}
	const enough = 3
	return fmt.Sprintf(" (there is %s: a misspelling?)",
		strings.Join(found[:min(len(found), enough)], ", "))
}

// similar reports whether one name may be a misspelling of another: letters and digits
// are the same, or no more than a quarter of them, and one at least, differ.
func similar(a, b string) bool {
	x, y := letters(a), letters(b)
	return len(cli.Near(x, []string{y}, max(1, max(len(x), len(y))/4))) > 0
}

// letters are a name's letters and digits in lower case.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, strings.ToLower(name))
}

// ShorterRetention compares two values of retention.ms, of which -1 is forever.
func ShorterRetention(a, b string) bool {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	if errX != nil || errY != nil || x < 0 {
		return false
	}
	return y < 0 || x < y
}
