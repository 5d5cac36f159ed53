package checks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
)

// topicChecks are those of the four topics.
func topicChecks() []Check {
	return []Check{
		{"topic", AtStart, each, needsBrokers, (*examination).topics},
		{"times", "the brokers", each, needsBrokers, (*examination).times},
		{"retention", "", sanitizes | counts, needsRaw, (*examination).retention},
		{"timestamps", AtStart, sanitizes | windows, needsRaw, (*examination).timestamps},
	}
}

const cleanupPolicy = "cleanup.policy"

// topics looks at the four topics. At a start it makes those that are missing first, if it may.
func (d *examination) topics(ctx context.Context) {
	t := d.o.Topics
	if err := topics.CheckRawPartitions(ctx, d.client, d.call, t); err != nil {
		d.add(Failure, "%w", err)
		if d.starts() {
			return
		}
	}
	if d.starts() {
		if err := d.o.Make(ctx); err != nil {
			d.add(Failure, "%w", topics.ExplainPartitions(err, t))
			return
		}
	}
	var lacking []string
	for _, name := range t.Names() {
		have, err := admin.Partitions(ctx, d.client, d.call, name)
		var missing *admin.MissingTopicsError
		switch {
		case errors.As(err, &missing):
			if !d.made(ctx, name) {
				lacking = append(lacking, name)
			}
		case err != nil:
			d.add(Failure, "%s: %w", name, err)
		default:
			d.counts[name] = have[name]
			d.topic(ctx, name)
		}
	}
	if lacking != nil {
		d.add(Failure, "%w%s (topics-missing)", &admin.MissingTopicsError{Topics: lacking},
			topics.Similar(ctx, d.client, d.call, t, lacking))
	}
	if d.job == sanitizes && !d.starts() && d.counts[t.Raw] > 0 {
		d.unwritten(ctx)
	}
}

// made says of a topic that is missing how it will be made, and reports whether it will.
func (d *examination) made(ctx context.Context, name string) bool {
	switch t := d.o.Topics; {
	case d.starts(): // they were made
		return false
	case t.Follows && name == t.Raw:
		d.add(OK, "%s is missing; %s waits for the service that makes it", name, d.command)
	case !t.Create, name == t.Raw && t.Partitions == 0:
		return false
	case name == t.Raw:
		d.add(Warning, "%s is missing%s; run will make it, empty, with %d partitions "+
			"(topics.create, topics.partitions)", name,
			topics.Similar(ctx, d.client, d.call, t, []string{name}), t.Partitions)
	case name == t.Changelog && d.failed("account"):
		d.add(Failure, "%s is missing, and run would not make it: see the account", name)
	default:
		d.add(OK, "%s is missing; %s will make it (topics.create)", name, d.command)
	}
	return true
}

// failed reports whether a check has found something that would stop the service.
func (d *examination) failed(check string) bool {
	return slices.ContainsFunc(d.found,
		func(f Finding) bool { return f.Check == check && f.Level == Failure })
}

// topic checks one that is there, against the raw topic's number of partitions.
func (d *examination) topic(ctx context.Context, name string) {
	t := d.o.Topics
	partitions, want := d.counts[name], d.counts[t.Raw]
	if want > 0 && partitions != want {
		d.add(Failure, "%w", topics.ExplainPartitions(
			&admin.PartitionsError{Topic: name, Have: partitions, Want: want, Like: t.Raw}, t))
		return
	}
	const batch = "max.message.bytes"
	configs, err := admin.Configs(ctx, d.client, d.call, name, cleanupPolicy, topics.RetentionMS,
		topics.RetentionBytes, topics.TimestampType, batch, topics.TimestampBefore,
		topics.TimestampAhead, topics.TimestampBoth)
	if err != nil {
		d.add(Failure, "%s: its settings cannot be read (DescribeConfigs): %w", name, err)
		return
	}
	if d.configs[name] = configs; t.Follows && name == t.Raw {
		return // it was looked at as the output of its own service
	}
	limit, err := strconv.Atoi(configs[batch])
	switch {
	case name == t.Changelog && configs[cleanupPolicy] != topics.Compacted[cleanupPolicy]:
		d.add(Failure, "the changelog keeps every user's state: %w", &admin.ConfigError{
			Topic: name, Name: cleanupPolicy, Have: configs[cleanupPolicy], Want: "compact",
		})
	case name == t.Raw && compacts(configs):
		d.add(Warning, "%s is compacted: a fix is lost once its user has a later one, also before "+
			"it is read: set %s=delete", name, cleanupPolicy)
	case name != t.Changelog && compacts(configs):
		d.add(Failure, "%s is compacted, so its readers lose all but each key's last record: set "+
			"%s=delete", name, cleanupPolicy)
	case name != t.Raw && err == nil && limit < d.o.MaxBatchBytes:
		d.add(Warning, "%s takes batches of %d bytes, and geodither writes up to %d: raise the "+
			"topic's max.message.bytes", name, limit, d.o.MaxBatchBytes)
	case name != t.Raw && name != t.Changelog && topics.ShorterRetention(
		configs[topics.RetentionMS], d.configs[t.Raw][topics.RetentionMS]):
		d.add(Warning, "%s keeps its records for less time than %s, whose timestamps they carry",
			name, t.Raw)
	default:
		d.add(OK, "%s has %d partitions", name, partitions)
	}
}

// compacts reports whether a topic loses records to later ones of the same key.
func compacts(settings map[string]string) bool {
	return strings.Contains(settings[cleanupPolicy], topics.Compacted[cleanupPolicy])
}

// unwritten warns if the group has processed records and its sanitized topic never had one. Another
// config of the group may name another topic: what the changelog and the group know of settings
// names none.
func (d *examination) unwritten(ctx context.Context) {
	for n := range int32(d.counts[d.o.Topics.Sanitized]) {
		r, err := topics.Open(ctx, d.client, d.o.Topics.Sanitized, n,
			consumer.FetcherOptions{Options: d.call})
		if err != nil || r.End > 0 {
			return
		}
	}
	if d.processed(ctx) {
		d.add(Warning, "group %s has processed records, and %s has never had one: is "+
			"there another config of this group with another topics.sanitized? It is also so if "+
			"every record was refused or skipped, and if the topic was made again",
			d.o.Group, d.o.Topics.Sanitized)
	}
}

// ProducersTimes is the error of a raw topic whose records have their producers' times, and are to
// be counted.
func ProducersTimes(c topics.Cluster) error {
	return fmt.Errorf("topics.raw: records of %s have their producers' times: kafka-configs.sh "+
		"--bootstrap-server %s --alter --topic %s --add-config %s=%s", c.Topics.Raw, c.Brokers[0],
		c.Topics.Raw, topics.TimestampType, topics.LogAppendTime)
}

// retention says how long each topic that is there keeps its records, from its settings as the
// broker has them.
func (d *examination) retention(context.Context) {
	for _, name := range d.o.Topics.Names() {
		settings, known := d.configs[name]
		if !known {
			continue
		}
		detail := "each record forever: it has no retention.ms"
		if ms, err := strconv.ParseInt(settings[topics.RetentionMS], 10, 64); err == nil &&
			ms >= 0 && ms <= math.MaxInt64/int64(time.Millisecond) {
			kept := time.Duration(ms) * time.Millisecond
			detail = fmt.Sprintf("each record for %.4g h", kept.Hours())
		}
		if settings[cleanupPolicy] == "compact" {
			detail = "the last record of each key forever, unless a tombstone is written"
		}
		limit, err := strconv.ParseInt(settings[topics.RetentionBytes], 10, 64)
		if err == nil && limit >= 0 && settings[cleanupPolicy] != "compact" {
			detail += fmt.Sprintf(", and no more than %d bytes a partition (retention.bytes)",
				limit)
		}
		d.add(OK, "%s keeps %s", name, detail)
	}
}

// timestamps says whose clock those of the raw topic are from. Counts refuse the producers': which
// window a fix counts in must not depend on anybody's clock but the brokers'.
func (d *examination) timestamps(context.Context) {
	raw, clock := d.o.Topics.Raw, d.configs[d.o.Topics.Raw][topics.TimestampType]
	switch {
	case d.job == windows && clock != topics.LogAppendTime && !d.o.AnyClock:
		d.add(Failure, "%w", ProducersTimes(d.o.Cluster))
	case d.job == windows, d.starts():
	case clock == topics.LogAppendTime:
		d.add(OK, "the broker's clock sets the times of records in %s (%s): max_ahead compares a "+
			"fix with when its record arrived", raw, topics.TimestampType)
	case clock == "CreateTime" && d.o.Release.Budget.WindowSteps > 0:
		d.add(Warning, "producers set the times of records in %s (%s). The budget counts event "+
			"time, so a fast clock spends several days' budgets in one. Set %[2]s to "+
			"LogAppendTime", raw, topics.TimestampType)
	case clock == "CreateTime":
		d.add(OK, "producers set the times of records in %s (%s): max_ahead finds no fix from the "+
			"future where they copy its time to the record", raw, topics.TimestampType)
	default:
		d.skip("the brokers do not report "+topics.TimestampType, "timestamps")
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

// times looks at the topics that the service writes.
func (d *examination) times(context.Context) {
	raw := d.configs[d.o.Topics.Raw]
	for _, name := range d.o.Topics.Names()[1:] {
		if settings, known := d.configs[name]; known && raw != nil {
			d.refused(name, settings, raw)
		}
	}
}

// refused finds the setting by which a topic refuses records of the times that those of the raw
// topic may have: the service writes its records under the raw ones' times.
func (d *examination) refused(topic string, settings, raw map[string]string) {
	if settings[topics.TimestampType] == topics.LogAppendTime {
		return // the broker puts its own times in their place
	}
	oldest, newest := bound(raw, topics.TimestampBefore), bound(raw, topics.TimestampAhead)
	if raw[topics.TimestampType] == topics.LogAppendTime {
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
		d.add(level, "%s refuses records %s than %v, which %s may hold: %s would stop at "+
			"one. Set %s=%d", topic, side.words, time.Duration(limit)*time.Millisecond,
			d.o.Topics.Raw, d.command, side.setting, int64(math.MaxInt64))
	}
}
