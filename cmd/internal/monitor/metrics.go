package monitor

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/geodither/geodither/cmd/internal/engine"
)

// newRegistry returns the registry with all that /metrics shows. Nothing is registered anywhere
// else. Where a process has two services, each metric of theirs has a label with the stage.
func newRegistry(s Source) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, stage := range s.stages() {
		var to prometheus.Registerer = registry
		if s.Next != nil {
			to = prometheus.WrapRegistererWith(prometheus.Labels{"stage": stage.Stage}, registry)
		}
		r := stage.Board.requests
		to.MustRegister(r.seconds, r.failures, r.throttled, r.transactions, r.records,
			collector{stage})
	}
	return registry
}

// collector shows what others count, as it is when somebody asks.
type collector struct{ source Source }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range families {
		out <- f.desc
	}
	for _, h := range histograms {
		out <- h.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.source.Status()
	for _, f := range families {
		f.each(&s, func(v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
		})
	}
	for _, h := range histograms {
		counts, bounds, sum := h.of(&s.tally)
		count, buckets := uint64(0), map[float64]uint64{} // each bucket with those below it
		for i, n := range counts {
			count += uint64(n)
			if i < len(bounds) {
				buckets[bounds[i]] = count
			}
		}
		out <- prometheus.MustNewConstHistogram(h.desc, count, sum, buckets)
	}
}

// family is one metric with its labels. each gives a value for each of their values.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	each func(s *Status, give give)
}

// give takes a value and the values of its labels.
type give = func(v float64, labels ...string)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// labelled is a metric with labels. By Prometheus' convention it is a counter if its name ends in
// _total, and otherwise a gauge.
func labelled(name, help string, each func(s *Status, give give), labels ...string) family {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	return family{describe(name, help, labels...), kind, each}
}

// single is a metric without labels.
func single(name, help string, of func(s *Status) float64) family {
	return labelled(name, help, func(s *Status, give give) { give(of(s)) })
}

// counted are the metrics of the engine's numbers.
func counted() (all []family) {
	first := map[string]family{}
	for i, n := range engine.Numbers {
		if n.Metric == "" {
			continue
		}
		label, value, found := strings.Cut(n.Label, "=")
		each := func(s *Status, give give) { give(float64(s.tally.Values()[i])) }
		var labels []string
		if found {
			each = func(s *Status, give give) { give(float64(s.tally.Values()[i]), value) }
			labels = []string{label}
		}
		f := labelled(n.Metric, n.Help, each, labels...)
		if one, ok := first[n.Metric]; ok {
			f.desc = one.desc
		}
		first[n.Metric], all = f, append(all, f)
	}
	return all
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// unixSeconds is a time as metrics have it; 0: never.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// families are all metrics but the histograms and what Go and the process say of themselves.
// deploy/ONCALL.md explains them to operators, and a test compares the two.
var families = append(counted(),
	labelled("build_info",
		"1, with the program's version, the revision it was built from and its Go.",
		func(s *Status, give give) { give(1, s.Build.Version, s.Build.Revision, s.Build.Go) },
		"version", "revision", "go_version"),
	labelled("settings_info",
		"1, with the settings that determine the published bytes. Instances of a group have "+
			"the same fingerprint.",
		func(s *Status, give give) {
			i := s.Settings
			give(1, i.Fingerprint, i.Mechanism, i.ModelID, i.EncodingRaw, i.EncodingSanitized)
		},
		"fingerprint", "mechanism", "model_id", "encoding_raw", "encoding_sanitized"),
	single("epsilon_per_release", "Configured epsilon of one release.",
		func(s *Status) float64 { return s.Settings.Epsilon }),
	single("budget_epsilon", "Configured limit of a user's sum of epsilon in a window; 0: none.",
		func(s *Status) float64 { return s.Settings.BudgetEpsilon }),
	single("budget_window_seconds", "Configured window of budget_epsilon; 0: none.",
		func(s *Status) float64 { return s.Settings.BudgetWindowSeconds }),

	labelled("dead_letters_total", "Raw records that were refused, by the reason.",
		func(s *Status, give give) {
			for reason, n := range s.tally.Refusals.All() {
				give(float64(n), string(reason))
			}
		}, "reason"),
	labelled("records_skipped_total",
		"Fixes that a rule of the input skips, without a dead letter, by the rule.",
		func(s *Status, give give) {
			for rule, n := range s.Skipped {
				give(float64(n), rule)
			}
		}, "rule"),
	single("epsilon_spent_total", "Sum of epsilon over the releases of all users.",
		func(s *Status) float64 { return s.EpsilonSpent }),
	single("last_commit_timestamp_seconds",
		"Unix time of the last committed transaction; 0: none since the start.",
		func(s *Status) float64 { return unixSeconds(s.LastCommit) }),

	single("window_overdue_seconds",
		"By how much the oldest window of counts is overdue that this instance has to publish; "+
			"0: none is.",
		func(s *Status) float64 { return s.overdue.Seconds() }),
	single("ready", "1 if /ready answers 200, else 0.",
		func(s *Status) float64 { return truth(s.Ready) }),
	labelled("partitions", "Assigned partitions, by their phase.",
		func(s *Status, give give) {
			in := map[Phase]int{}
			for _, p := range s.Partitions {
				in[p.Phase]++
			}
			for _, phase := range partitionPhases {
				give(float64(in[phase]), string(phase))
			}
		}, "phase"),
	labelled("restore_records_remaining",
		"Offsets of the changelog that a restoration still has before it, which is at least as "+
			"many as records; 0 outside of a restoration.",
		func(s *Status, give give) {
			for number, p := range s.Partitions {
				give(float64(p.Of-p.Records), number)
			}
		}, "partition"),
	labelled("lag_records",
		"Offsets between what is committed and the input's end, which is at least as many as "+
			"records, of a running partition.",
		func(s *Status, give give) {
			for number, p := range s.Partitions {
				if p.LagRecords != nil {
					give(float64(*p.LagRecords), number)
				}
			}
		}, "partition"),
	labelled("lag_open_records",
		"The part of lag_records that waits behind an open transaction of a producer.",
		func(s *Status, give give) {
			for number, p := range s.Partitions {
				if p.LagRecords != nil {
					give(float64(p.OpenRecords), number)
				}
			}
		}, "partition"),
	labelled("lag_open_seconds",
		"How long the oldest open transaction has held up a running partition; 0: none does.",
		func(s *Status, give give) {
			for number, p := range s.Partitions {
				if p.LagRecords != nil {
					give(p.OpenSeconds, number)
				}
			}
		}, "partition"),
	labelled("lag_seconds",
		"Age of the last processed record by its Kafka timestamp, of a running partition with a "+
			"lag; 0 without one.",
		func(s *Status, give give) {
			for number, p := range s.Partitions {
				if p.LagRecords != nil {
					give(p.LagSeconds, number)
				}
			}
		}, "partition"),
	single("rebalances_total", "Generations of the group that this instance was in.",
		func(s *Status) float64 { return float64(s.Rebalances) }),
	single("fenced_total",
		"Partitions that were lost while they were worked on: another instance has fenced this "+
			"one, or the group went on without it.",
		func(s *Status) float64 { return float64(s.Fenced) }),
	single("kafka_away_seconds",
		"How long calls to Kafka have failed by now; 0 if they do not.",
		func(s *Status) float64 { return s.KafkaAwaySeconds }),
	single("unwritten_seconds",
		"How long a topic of the output could not be written by now; 0: all can.",
		func(s *Status) (longest float64) {
			for _, u := range s.Unwritten {
				longest = max(longest, u.Seconds)
			}
			return longest
		}),
	single("state_cache_hits_total", "States that were found in memory.",
		func(s *Status) float64 { return float64(s.State.CacheHits) }),
	single("state_cache_misses_total", "States that were looked for in the store.",
		func(s *Status) float64 { return float64(s.State.CacheMisses) }),
	single("state_bytes", "Size of the state folder's store on the disk.",
		func(s *Status) float64 { return float64(s.State.Bytes) }),
	single("state_users",
		"Users with a state in an assigned partition, when they were counted last.",
		func(s *Status) float64 { return float64(s.State.Users) }),
	labelled("tls_certificate_expiry_timestamp_seconds",
		"Unix time at which a certificate ends: this client's, or the first of those that "+
			"brokers have shown. None without TLS.",
		func(s *Status, give give) {
			for name, end := range s.certificates() {
				give(unixSeconds(end), name)
			}
		}, "certificate"),
)

// histogram is a histogram that the tally has: what each bucket alone counts, the buckets' upper
// bounds, of which the last bucket has none, and the sum.
type histogram struct {
	desc *prometheus.Desc
	of   func(t *engine.Tally) (counts []int64, bounds []float64, sum float64)
}

// histograms are those of the tally.
var histograms = []histogram{
	{
		describe("late_seconds", "By how much late fixes were late: from the begin of a fix's "+
			"step to the begin of its user's last one."),
		func(t *engine.Tally) ([]int64, []float64, float64) { return t.Lateness.Buckets() },
	},
	{
		describe("ahead_seconds",
			"By how much accepted fixes were ahead of their Kafka records, of those that were."),
		func(t *engine.Tally) ([]int64, []float64, float64) { return t.Ahead.Buckets() },
	},
	{
		describe("location_set_cells", "Cells of the location set that a release was drawn "+
			"from; under codebook, of the prior."),
		func(t *engine.Tally) ([]int64, []float64, float64) {
			return t.Sets[:], engine.SetBounds, float64(t.SetCells)
		},
	},
}
