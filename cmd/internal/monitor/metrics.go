package monitor

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/geodither/geodither/cmd/internal/engine"
)

// newRegistry returns the registry with all that /metrics shows. Nothing is registered anywhere
// else.
func newRegistry(s Source) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	r, c := s.Board.requests, s.Board.commits
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		r.seconds, r.failures, r.throttled, c.seconds, c.records, collector{s},
	)
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
	s := c.source.sample()
	for _, f := range families {
		f.each(&s, func(v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
		})
	}
	for _, h := range histograms {
		count, sum, buckets := h.of(&s.tally)
		out <- prometheus.MustNewConstHistogram(h.desc, count, sum, buckets)
	}
}

// family is one metric with its labels. each gives a value for each of their values.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	each func(s *sample, give func(v float64, labels ...string))
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// counter is a metric without labels that only grows.
func counter(name, help string, of func(s *sample) float64) family {
	return family{
		describe(name, help), prometheus.CounterValue,
		func(s *sample, give func(float64, ...string)) { give(of(s)) },
	}
}

// gauge is a metric without labels that is what it is now.
func gauge(name, help string, of func(s *sample) float64) family {
	return family{
		describe(name, help), prometheus.GaugeValue,
		func(s *sample, give func(float64, ...string)) { give(of(s)) },
	}
}

// byPartition is a gauge of each assigned partition. A partition of which there is nothing to say
// has no value.
func byPartition(name, help string, of func(p partitionView) (v float64, ok bool)) family {
	return family{
		describe(name, help, "partition"), prometheus.GaugeValue,
		func(s *sample, give func(float64, ...string)) {
			for _, p := range s.partitions {
				if v, ok := of(p); ok {
					give(v, strconv.Itoa(int(p.number)))
				}
			}
		},
	}
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
var families = []family{
	{
		describe("build_info",
			"1, with the program's version, the revision it was built from and its Go.",
			"version", "revision", "go_version"),
		prometheus.GaugeValue,
		func(s *sample, give func(float64, ...string)) {
			give(1, s.Build.Version, s.Build.Revision, s.Build.Go)
		},
	},
	{
		describe("settings_info",
			"1, with the settings that determine the published bytes. Instances of a group have "+
				"the same fingerprint.",
			"fingerprint", "mechanism", "model_id", "encoding_raw", "encoding_sanitized"),
		prometheus.GaugeValue,
		func(s *sample, give func(float64, ...string)) {
			i := s.Settings
			give(1, i.Fingerprint, i.Mechanism, i.ModelID, i.EncodingRaw, i.EncodingSanitized)
		},
	},
	gauge("epsilon_per_release", "Configured epsilon of one release.",
		func(s *sample) float64 { return s.Settings.Epsilon }),
	gauge("budget_epsilon", "Configured limit of a user's sum of epsilon in a window; 0: none.",
		func(s *sample) float64 { return s.Settings.BudgetEpsilon }),
	gauge("budget_window_seconds", "Configured window of budget_epsilon; 0: none.",
		func(s *sample) float64 { return s.Settings.BudgetWindowSeconds }),

	counter("records_read_total", "Raw records read, of committed transactions.",
		func(s *sample) float64 { return float64(s.tally.RecordsIn) }),
	{
		describe("records_written_total",
			"Sanitized records: with a fresh release, with an earlier one again, or with an "+
				"estimate alone.", "kind"),
		prometheus.CounterValue,
		func(s *sample, give func(float64, ...string)) {
			give(float64(s.tally.Releases), "released")
			give(float64(s.tally.Repeats), "repeated")
			give(float64(s.tally.Predictions), "predicted")
		},
	},
	counter("records_suppressed_total",
		"Fixes without a record, because the budget was spent.",
		func(s *sample) float64 { return float64(s.tally.Suppressed) }),
	counter("records_withheld_total",
		"Fixes without a record, because it was not time for a release (between: skip).",
		func(s *sample) float64 { return float64(s.tally.Skipped) }),
	{
		describe("dead_letters_total",
			"Raw records that were refused, by the reason.", "reason"),
		prometheus.CounterValue,
		func(s *sample, give func(float64, ...string)) {
			for reason, n := range s.tally.Refusals.All() {
				give(float64(n), string(reason))
			}
		},
	},
	{
		describe("records_skipped_total",
			"Fixes that a rule of the input skips, without a dead letter, by the rule.", "rule"),
		prometheus.CounterValue,
		func(s *sample, give func(float64, ...string)) {
			for rule, n := range s.skipped() {
				give(float64(n), rule)
			}
		},
	},
	{
		describe("records_outside_total",
			"Fixes outside the map: counted as in its nearest cell, or refused.", "outcome"),
		prometheus.CounterValue,
		func(s *sample, give func(float64, ...string)) {
			give(float64(s.tally.OutsideClamped), "clamped")
			give(float64(s.tally.OutsideRefused), "refused")
		},
	},
	counter("epsilon_spent_total", "Sum of epsilon over the releases of all users.",
		func(s *sample) float64 { return s.tally.Epsilon }),
	counter("budget_exhausted_total",
		"Fixes without a fresh release, since a budget was spent.",
		func(s *sample) float64 { return float64(s.tally.Exhausted) }),
	counter("drifts_total",
		"Releases whose true cell lay outside the location set; always 0 under codebook.",
		func(s *sample) float64 { return float64(s.tally.Drifts) }),
	{
		describe("transactions_total",
			"Transactions with records or offsets, by how they ended. The records of an aborted "+
				"one are done again.", "result"),
		prometheus.CounterValue,
		func(s *sample, give func(float64, ...string)) {
			give(float64(s.tally.Transactions), "committed")
			give(float64(s.tally.Aborts), "aborted")
		},
	},
	counter("registry_waits_total",
		"How often a partition's records were tried in vain, because the schema registry did not "+
			"answer or lacked their schema.",
		func(s *sample) float64 { return float64(s.tally.RegistryWaits) }),
	gauge("last_commit_timestamp_seconds",
		"Unix time of the last committed transaction; 0: none since the start.",
		func(s *sample) float64 { return unixSeconds(s.committed) }),

	gauge("ready", "1 if /ready answers 200, else 0.",
		func(s *sample) float64 { return truth(s.ready) }),
	{
		describe("partitions",
			"Assigned partitions, by their phase.", "phase"),
		prometheus.GaugeValue,
		func(s *sample, give func(float64, ...string)) {
			for _, phase := range partitionPhases {
				n := 0
				for _, p := range s.partitions {
					if p.phase == phase {
						n++
					}
				}
				give(float64(n), string(phase))
			}
		},
	},
	byPartition("restore_records_remaining",
		"Offsets of the changelog that a restoration still has before it, which is at least as "+
			"many as records; 0 outside of a restoration.",
		func(p partitionView) (float64, bool) { return float64(p.total - p.restored), true }),
	counter("restored_records_total", "Records of the changelog that were read to restore states.",
		func(s *sample) float64 { return float64(s.tally.Restored) }),
	{
		describe("standby_lag_records",
			"Offsets of the changelog that a standby's copy of another instance's partition lacks.",
			"partition"),
		prometheus.GaugeValue,
		func(s *sample, give func(float64, ...string)) {
			for _, c := range s.standbys {
				if c.read && !c.waits {
					give(float64(c.lag), strconv.Itoa(int(c.number)))
				}
			}
		},
	},
	{
		describe("standby_waits",
			"1 if a standby leaves its copy as it is; its lag is not known then.", "partition"),
		prometheus.GaugeValue,
		func(s *sample, give func(float64, ...string)) {
			for _, c := range s.standbys {
				give(truth(c.waits), strconv.Itoa(int(c.number)))
			}
		},
	},
	byPartition("lag_records",
		"Offsets between where reading goes on and the last stable offset, which is at least as "+
			"many as records, of a running partition.",
		func(p partitionView) (float64, bool) { return float64(p.lag), p.read }),
	byPartition("lag_seconds",
		"Age of the last processed record by its Kafka timestamp, of a running partition with a "+
			"lag; 0 without one.",
		func(p partitionView) (float64, bool) { return p.lagSeconds, p.read }),
	counter("rebalances_total",
		"Generations of the group that this instance was in.",
		func(s *sample) float64 { return float64(s.rebalances) }),
	counter("fenced_total",
		"Partitions that were lost while they were worked on: another instance has fenced this "+
			"one, or the group went on without it.",
		func(s *sample) float64 { return float64(s.lost) }),
	gauge("kafka_away_seconds",
		"How long calls to Kafka have failed by now; 0 if they do not.",
		func(s *sample) float64 { return s.away.Seconds() }),

	counter("model_versions_adopted_total",
		"Versions of the model that a partition adopted.",
		func(s *sample) float64 { return float64(s.tally.Adopted) }),
	{
		describe("states_migrated_total",
			"States that came under another model: moved on to one of the same grid, or restarted "+
				"on another one.", "outcome"),
		prometheus.CounterValue,
		func(s *sample, give func(float64, ...string)) {
			give(float64(s.tally.Moved), "moved")
			give(float64(s.tally.Restarted), "restarted")
		},
	},
	counter("state_cache_hits_total",
		"States that were found in memory.",
		func(s *sample) float64 { return float64(s.store.CacheHits) }),
	counter("state_cache_misses_total",
		"States that were looked for in the store.",
		func(s *sample) float64 { return float64(s.store.CacheMisses) }),
	gauge("state_bytes", "Size of the state folder's store on the disk.",
		func(s *sample) float64 { return float64(s.store.Bytes) }),
	gauge("state_users",
		"Users with a state in an assigned partition, when they were counted last.",
		func(s *sample) float64 { return float64(s.store.Users) }),
	{
		describe("tls_certificate_expiry_timestamp_seconds",
			"Unix time at which a certificate ends: this client's, or the first of those that "+
				"brokers have shown. None without TLS.", "certificate"),
		prometheus.GaugeValue,
		func(s *sample, give func(float64, ...string)) {
			for name, end := range s.Certificates() {
				give(unixSeconds(end), name)
			}
		},
	},
}

// histogram is a histogram that the tally has.
type histogram struct {
	desc *prometheus.Desc
	of   func(t *engine.Tally) (count uint64, sum float64, buckets map[float64]uint64)
}

// histograms are those of the tally.
var histograms = []histogram{
	{
		describe("late_seconds", "By how much late fixes were late: from the begin of a fix's "+
			"step to the begin of its user's last one."),
		func(t *engine.Tally) (uint64, float64, map[float64]uint64) {
			return times(&t.Lateness)
		},
	},
	{
		describe("ahead_seconds",
			"By how much accepted fixes were ahead of their Kafka records, of those that were."),
		func(t *engine.Tally) (uint64, float64, map[float64]uint64) { return times(&t.Ahead) },
	},
	{
		describe("location_set_cells", "Cells of the location set that a release was drawn "+
			"from; under codebook, of the prior."),
		func(t *engine.Tally) (count uint64, sum float64, buckets map[float64]uint64) {
			buckets = map[float64]uint64{}
			for i, n := range t.Sets {
				count += uint64(n)
				if bounds := engine.SetBounds(); i < len(bounds) {
					buckets[float64(bounds[i])] = count
				}
			}
			return count, float64(t.SetCells), buckets
		},
	},
}

// times returns a histogram of times as Prometheus has it: each bucket with those below it.
func times(l *engine.Lateness) (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = map[float64]uint64{}
	for i, n := range l.Counts {
		count += uint64(n)
		if bounds := engine.LatenessBounds(); i < len(bounds) {
			buckets[bounds[i].Seconds()] = count
		}
	}
	return count, l.Seconds, buckets
}
