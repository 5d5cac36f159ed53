package doctor

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
)

// Settings of topics and brokers, by Kafka's names.
const (
	cleanupPolicy = "cleanup.policy"
	timestampType = "message.timestamp.type"
)

// topic checks one that is there, against the raw topic's number of partitions.
func (d *examination) topic(ctx context.Context, name string, partitions, want int) {
	t := d.o.Topics
	if want > 0 && partitions != want {
		d.add("topic", Failure, "%v", topics.ExplainPartitions(
			&admin.PartitionsError{Topic: name, Have: partitions, Want: want, Like: t.Raw}, t))
		return
	}
	const batch = "max.message.bytes"
	configs, err := admin.Configs(ctx, d.client, d.call, name, cleanupPolicy, topics.RetentionMS,
		topics.RetentionBytes, timestampType, batch, topics.TimestampBefore, topics.TimestampAhead,
		topics.TimestampBoth)
	if err != nil {
		d.add("topic", Failure, "%s: its settings cannot be read (DescribeConfigs): %v", name, err)
		if name == t.Raw {
			d.skip("the settings of "+name+" cannot be read", "retention", "timestamps")
		}
		return
	}
	var raw map[string]string // nil: not known
	if want > 0 && name != t.Raw {
		raw = d.rawSettings(ctx)
	}
	level, detail := OK, fmt.Sprintf("%s has %d partitions", name, partitions)
	limit, err := strconv.Atoi(configs[batch])
	switch {
	case name == t.Changelog && configs[cleanupPolicy] != topics.Compacted[cleanupPolicy]:
		level, detail = Failure, (&admin.ConfigError{
			Topic: name, Name: cleanupPolicy, Have: configs[cleanupPolicy], Want: "compact",
		}).Error()
	case name == t.Raw && compacts(configs):
		level, detail = Warning, fmt.Sprintf("%s is compacted: a fix is lost once its user has a "+
			"later one, also before it is read: set %s=delete", name, cleanupPolicy)
	case name != t.Changelog && compacts(configs):
		level, detail = Failure, fmt.Sprintf("%s is compacted, so its readers lose all but each "+
			"key's last record: set %s=delete", name, cleanupPolicy)
	case name != t.Raw && err == nil && limit < d.o.MaxBatchBytes:
		level, detail = Warning, fmt.Sprintf("%s takes batches of %d bytes, and geodither "+
			"writes up to %d: raise the topic's max.message.bytes", name, limit,
			d.o.MaxBatchBytes)
	case name != t.Raw && name != t.Changelog &&
		topics.ShorterRetention(configs[topics.RetentionMS], raw[topics.RetentionMS]):
		level, detail = Warning, fmt.Sprintf("%s keeps its records for less time than %s, "+
			"whose timestamps they carry", name, t.Raw)
	}
	d.add("topic", level, "%s", detail)
	if name != t.Raw && raw != nil {
		d.times(name, configs, raw)
	}
	d.retention(name, configs)
}

// rawSettings are those of the raw topic that the times of its records follow from; nil where they
// cannot be read.
func (d *examination) rawSettings(ctx context.Context) map[string]string {
	settings, err := admin.Configs(ctx, d.client, d.call, d.o.Topics.Raw, topics.RetentionMS,
		timestampType, topics.TimestampBefore, topics.TimestampAhead, topics.TimestampBoth)
	if err != nil {
		return nil
	}
	return settings
}

// compacts reports whether a topic loses records to later ones of the same key.
func compacts(settings map[string]string) bool {
	return strings.Contains(settings[cleanupPolicy], topics.Compacted[cleanupPolicy])
}

// retention says how long a topic that is there keeps its records, from its settings as the broker
// has them, and of the raw topic whose clock its timestamps are from.
func (d *examination) retention(topic string, settings map[string]string) {
	detail := "forever: it has no retention.ms"
	if ms, err := strconv.ParseInt(settings[topics.RetentionMS], 10, 64); err == nil &&
		ms >= 0 && ms <= math.MaxInt64/int64(time.Millisecond) {
		detail = fmt.Sprintf("until its retention, %v after each record",
			time.Duration(ms)*time.Millisecond)
	}
	if settings[cleanupPolicy] == "compact" {
		detail = "compacted, forever, unless a tombstone is written"
	}
	limit, err := strconv.ParseInt(settings[topics.RetentionBytes], 10, 64)
	if err == nil && limit >= 0 && settings[cleanupPolicy] != "compact" {
		detail += fmt.Sprintf(", and no more than %d bytes a partition (retention.bytes)", limit)
	}
	d.add("retention", OK, "%s: %s", topic, detail)
	if topic != d.o.Topics.Raw {
		return
	}
	switch clock := settings[timestampType]; {
	case clock == "LogAppendTime":
		d.add("timestamps", OK, "%s has those of the broker's clock (%s): max_ahead compares the "+
			"time of a fix with when its record arrived", topic, timestampType)
	case clock == "CreateTime" && d.o.Release.Budget.WindowSteps > 0:
		d.add("timestamps", Warning, "%s has those that producers set (%s). The budget counts "+
			"event time, so a fast clock spends several days' budgets in one. Set %[2]s to "+
			"LogAppendTime", topic, timestampType)
	case clock == "CreateTime":
		d.add("timestamps", OK, "%s has those that producers set (%s): max_ahead compares the "+
			"time of a fix with that of its record, and finds nothing where producers copy the "+
			"one to the other", topic, timestampType)
	default:
		d.skip("the brokers do not report "+timestampType, "timestamps")
	}
}

// bound returns how far a record's time may lie from the broker's clock, on the side of a setting,
// milliseconds.
func bound(settings map[string]string, side string) int64 {
	for _, name := range []string{side, topics.TimestampBoth} {
		ms, err := strconv.ParseInt(settings[name], 10, 64)
		if err == nil && ms < math.MaxInt64 {
			return ms
		}
	}
	return math.MaxInt64
}

// times finds the setting by which a topic refuses records of the times that those of the raw topic
// may have: the service writes its records under the raw ones' times.
func (d *examination) times(topic string, settings, raw map[string]string) {
	if settings[timestampType] == topics.LogAppendTime {
		return // the broker puts its own times in their place
	}
	oldest, newest := bound(raw, topics.TimestampBefore), bound(raw, topics.TimestampAhead)
	if raw[timestampType] == topics.LogAppendTime {
		oldest, newest = 0, 0
	}
	kept, err := strconv.ParseInt(raw[topics.RetentionMS], 10, 64)
	if oldest += kept; err != nil || kept < 0 || oldest < kept {
		oldest = math.MaxInt64
	}
	for _, side := range []struct {
		setting, words string
		need           int64
	}{
		{topics.TimestampBefore, "older", oldest}, {topics.TimestampAhead, "further ahead", newest},
	} {
		limit := bound(settings, side.setting)
		if limit >= side.need {
			continue
		}
		level := Failure
		if d.o.Topics.Follows {
			level = Warning // the times are those of a raw topic that is not seen here
		}
		d.add("topic", level, "%s refuses records %s than %v, which %s may hold: %s would stop at "+
			"one. Set %s=%d", topic, side.words, time.Duration(limit)*time.Millisecond,
			d.o.Topics.Raw, d.command, side.setting, int64(math.MaxInt64))
	}
}
