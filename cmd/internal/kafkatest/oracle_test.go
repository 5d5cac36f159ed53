//go:build kafka

package kafkatest

import (
	"slices"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/verify"
	"github.com/geodither/geodither/consumer"
)

// line is a record as it is compared.
type line struct {
	key, value string
	timestamp  int64
}

// lines are what a partition of a topic shows.
func (w *world) lines(topic string, partition int32, uncommitted bool) []line {
	w.Helper()
	lines := []line{}
	w.scan(topic, partition, uncommitted, func(r consumer.Record) {
		lines = append(lines, line{string(r.Key), string(r.Value), r.Timestamp})
	})
	return lines
}

// exactlyOnce requires that everything a service has written is what one pass over the raw topic
// gives, byte for byte, and that an uncommitted reader sees no other release of a fix.
func (w *world) exactlyOnce(o service.Options) {
	w.Helper()
	repeated := 0
	for partition := range int32(w.partitions) {
		w.settled(o.Topics.Sanitized, partition)
		committed := w.lines(o.Topics.Sanitized, partition, false)
		all := w.lines(o.Topics.Sanitized, partition, true)
		repeated += len(all) - len(committed)
		for _, l := range all {
			if !slices.Contains(committed, l) {
				w.Fatalf("an uncommitted reader of %s/%d sees a release that is none",
					o.Topics.Sanitized, partition)
			}
		}
	}
	w.Logf("%d records fed; an uncommitted reader sees %d repeated", w.fed, repeated)
	w.verified(o)
}

// verified has the project's own verification say the same.
func (w *world) verified(o service.Options) {
	w.Helper()
	report, err := verify.Run(w.Context(), verify.Options{
		Settings: o.Settings, Cluster: o.Cluster, Later: o.Later, TempDir: w.TempDir(),
		Logger: o.Logger,
	})
	w.ok(err)
	for _, p := range report.Partitions {
		for _, v := range p.Violations {
			w.Errorf("state verify, partition %d: %+v", p.Partition, v)
		}
		for _, why := range p.NotVerified {
			w.Errorf("state verify, partition %d: %s", p.Partition, why)
		}
	}
	if !report.Verified {
		w.Error("state verify does not verify")
	}
}
