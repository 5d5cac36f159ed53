package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/erase"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
)

// Settings of topics and brokers, by Kafka's names.
const (
	cleanupPolicy = "cleanup.policy"
	timestampType = "message.timestamp.type"
	maxTimeout    = "transaction.max.timeout.ms"
)

// usualMaxTimeout is Kafka's own default of transaction.max.timeout.ms.
const usualMaxTimeout = 15 * time.Minute

// retention says how long a topic that is there keeps its records, from its settings as the broker
// has them, and of the raw topic whose clock its timestamps are from.
func (d *examination) retention(topic string, settings map[string]string) {
	detail := erase.Retention(settings)
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

// transactions compares the timeout of transactions with how long they take, and with what the
// brokers allow.
func (d *examination) transactions(ctx context.Context) {
	const check = "transactions"
	timeout, interval := d.o.TransactionTimeout, d.o.MaxInterval
	limits, err := admin.BrokerConfigs(ctx, d.client, d.call, maxTimeout)
	ms, broken := strconv.ParseInt(limits[maxTimeout], 10, 64)
	limit, known := time.Duration(ms)*time.Millisecond, err == nil && broken == nil
	unknown := "the brokers do not tell it"
	if errors.Is(err, kafka.ClusterAuthorizationFailed) {
		unknown = "this client may not DescribeConfigs the cluster, which run does not need"
	}
	switch {
	case timeout <= interval:
		d.add(check, Failure, "transaction.timeout is %v, and transaction.max_interval %v: "+
			"brokers would abort transactions before they are committed. Set a longer timeout or "+
			"a shorter interval", timeout, interval)
	case known && timeout > limit:
		d.add(check, Failure, "transaction.timeout is %v, and the brokers allow %v (%s): run "+
			"would be refused. Set it to that or less", timeout, limit, maxTimeout)
	case known:
		d.add(check, OK, "transaction.timeout is %v; the brokers allow %v", timeout, limit)
	case timeout > usualMaxTimeout:
		d.add(check, Warning, "transaction.timeout is %v, and brokers allow %v unless %s says "+
			"otherwise, which could not be checked: %s", timeout, usualMaxTimeout, maxTimeout,
			unknown)
	default:
		d.add(check, Unchecked, "transaction.timeout is %v; %s could not be checked: %s", timeout,
			maxTimeout, unknown)
	}
	features, err := admin.Features(ctx, d.client, d.call)
	if level, ok := features["transaction.version"]; err == nil && ok {
		d.add(check, OK, "the brokers have transaction.version %d; geodither's requests are those "+
			"of version 0 and 1, which every version takes", level)
	}
}
