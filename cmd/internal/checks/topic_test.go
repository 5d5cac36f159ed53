package checks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
)

// TestDoctorTimes: how long topics keep records, whose clock their timestamps are from, and how
// long a transaction may take.
func TestDoctorTimes(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	o := atwork.Options(w, "times")
	o.Topics.Raw, o.Topics.Partitions = "times.raw", 2
	servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{}, admin.Topic{
		Name: o.Topics.Raw, Partitions: 2, Initial: map[string]string{
			topics.RetentionMS: "3600000", topics.RetentionBytes: "4096",
			"message.timestamp.type": "LogAppendTime",
		},
	}, admin.Topic{
		Name: o.Topics.Sanitized, Partitions: 2,
		Initial: map[string]string{topics.RetentionMS: "-1"},
	}, admin.Topic{Name: o.Topics.Changelog, Partitions: 2, Configs: topics.Compacted}))
	_, err := topics.Make(t.Context(), o.Cluster, topics.CallPatience)
	servicetest.OK(t, err)
	found := service.Examine(t.Context(), o, nil, nil)
	if said := atwork.Details(found, checks.Warning); !strings.Contains(said,
		"erasure: times.log promises no time") {
		t.Errorf("without max.compaction.lag.ms: %s", said)
	}
	said := atwork.Details(found, checks.OK)
	for _, want := range []string{
		"retention: times.raw keeps each record for 1 h, and no more than " +
			"4096 bytes a partition",
		"retention: times.out keeps each record forever",
		"retention: times.log keeps the last record of each key forever",
		"retention: times.dead keeps each record for 1 h",
		"timestamps: the broker's clock sets the times of records in times.raw",
		"transactions: transaction.timeout is 15s; the brokers allow 15m0s",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	if said := atwork.Details(found, checks.Unchecked); !strings.Contains(said,
		"readers: doctor cannot see the readers of times.out") {
		t.Errorf("unchecked: %s", said)
	}
	if said := atwork.Details(service.Examine(t.Context(), atwork.Options(w, "other"), nil, nil),
		checks.OK); !strings.Contains(said, "producers set the times of records in") {
		t.Errorf("CreateTime: %s", said)
	}
	budget := atwork.Options(w, "other")
	budget.Release.Budget.Epsilon, budget.Release.Budget.WindowSteps = 5, 60
	if said := atwork.Details(service.Examine(t.Context(), budget, nil, nil),
		checks.Warning); !strings.Contains(said, "spends several days' budgets in one") {
		t.Errorf("CreateTime under a budget: %s", said)
	}
	o.Release.Budget = budget.Release.Budget
	if said := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Warning); strings.Contains(said, "several days' budgets") {
		t.Errorf("LogAppendTime under a budget: %s", said)
	}
	for _, c := range []struct {
		sideM    float64
		estimate string
		want     bool
	}{
		{5000, mechanism.EstimateMode, false},
		{60, mechanism.EstimateMode, true},
		{60, mechanism.EstimateMean, false},
	} {
		large := o
		large.Release.Mechanism, large.Release.Delta = law.Codebook, 0
		large.Release.Estimate = c.estimate
		large.Model = servicetest.NeighbourModel(t, servicetest.Town, c.sideM, 4)
		said := atwork.Details(service.Examine(t.Context(), large, nil, nil), checks.Warning)
		if strings.Contains(said, "chance may choose") != c.want {
			t.Errorf("%d cells, %s: %s", large.Model.Grid.Cells(), c.estimate, said)
		}
	}
	for _, c := range []struct {
		timeout, interval time.Duration
		want              string
	}{
		{16 * time.Minute, time.Second, "the brokers allow 15m0s (transaction.max.timeout.ms)"},
		{time.Second, time.Second, "brokers would abort transactions before they are committed"},
	} {
		o.TransactionTimeout, o.MaxInterval = c.timeout, c.interval
		if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil),
			checks.Failure); !strings.Contains(bad, c.want) {
			t.Errorf("timeout %v, interval %v: %q", c.timeout, c.interval, bad)
		}
	}
}

// TestDoctorBoundsOfTime: an output topic that refuses a time which a raw record may have is a
// failure, and only such a one; and so is a compacted one, which loses records.
func TestDoctorBoundsOfTime(t *testing.T) {
	const day, hour = "86400000", "3600000"
	w := servicetest.NewWorld(t, 0)
	for name, c := range map[string]struct {
		raw, out map[string]string
		topic    func(*topics.Set) string
		want     string // in a failure; empty: there is none
	}{
		"before": {
			map[string]string{topics.RetentionMS: "-1"},
			map[string]string{topics.TimestampBefore: day},
			nil, topics.TimestampBefore,
		},
		"before in the dead letters": {
			nil,
			map[string]string{topics.TimestampBefore: day},
			func(t *topics.Set) string { return t.DeadLetters }, topics.TimestampBefore,
		},
		"before in the changelog": {
			nil,
			map[string]string{topics.TimestampBefore: day, "cleanup.policy": "compact"},
			func(t *topics.Set) string { return t.Changelog }, topics.TimestampBefore,
		},
		"after": {nil, map[string]string{topics.TimestampAhead: hour}, nil, topics.TimestampAhead},
		"both, by the older name": {
			nil, map[string]string{topics.TimestampBoth: hour}, nil, topics.TimestampBefore,
		},
		"the raw topic has the same bounds": {
			map[string]string{
				topics.TimestampBefore: hour, topics.TimestampAhead: hour,
				topics.RetentionMS: hour,
			},
			map[string]string{topics.TimestampBefore: day, topics.TimestampAhead: hour},
			nil, "",
		},
		"the raw topic has its brokers' times": {
			map[string]string{topics.TimestampType: topics.LogAppendTime, topics.RetentionMS: hour},
			map[string]string{topics.TimestampBefore: hour, topics.TimestampAhead: "1"},
			nil, "",
		},
		"the output has its brokers' times": {
			nil, map[string]string{
				topics.TimestampBefore: "1", topics.TimestampType: topics.LogAppendTime,
			}, nil, "",
		},
		"compacted": {nil, map[string]string{"cleanup.policy": "compact"}, nil, "is compacted"},
		"compacted and deleted": {
			nil,
			map[string]string{"cleanup.policy": "compact,delete"},
			func(t *topics.Set) string { return t.DeadLetters }, "is compacted",
		},
	} {
		o := atwork.Options(w, strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", ""))
		o.Topics.Raw = o.Group + ".raw"
		if c.topic == nil {
			c.topic = func(t *topics.Set) string { return t.Sanitized }
		}
		servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
			admin.Topic{Name: o.Topics.Raw, Partitions: 2, Initial: c.raw},
			admin.Topic{Name: c.topic(&o.Topics), Partitions: 2, Initial: c.out}))
		_, err := topics.Make(t.Context(), o.Cluster, topics.CallPatience)
		servicetest.OK(t, err)
		said := atwork.Details(service.Examine(t.Context(), o, nil, nil), checks.Failure)
		if c.want == "" && said != "" || !strings.Contains(said, c.want) ||
			c.want != "" && !strings.Contains(said, c.topic(&o.Topics)) {
			t.Errorf("%s: %q", name, said)
		}
	}
}
