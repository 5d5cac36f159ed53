package service

import (
	"cmp"
	"fmt"
	"log/slog"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/mechanism/mobility"
)

// testOptions are complete, with a store in a folder of the test's.
func testOptions(tb testing.TB, model *mobility.Model) Options {
	tb.Helper()
	return Options{
		Cluster: topics.Cluster{
			Brokers: []string{"127.0.0.1:1"}, Group: "g",
			Topics: topics.Set{Raw: "raw", Sanitized: "sanitized"},
		},
		Settings: engine.Settings{Model: model, Key: servicetest.Key, Release: servicetest.Release},
		StateDir: tb.TempDir(),
		Logger:   slog.New(slog.DiscardHandler),
	}
}

// newTestProcessor is of a topic that may hold any key in any partition, unless the
// options name a partitioner: most tests of a processor have users of their own choice.
func newTestProcessor(tb testing.TB, o Options, partition int32) *engine.Processor {
	tb.Helper()
	o.Partitioner = cmp.Or(o.Partitioner, engine.AnyPartitioner)
	p, err := engine.NewProcessor(o.Settings, engine.Partition{
		Topic: o.Topics.Raw, Number: partition, Of: max(servicetest.Partitions, int(partition)+1),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// newVersion starts a model at the nth step.
func newVersion(tb testing.TB, n int64, m *mobility.Model) *engine.Version {
	tb.Helper()
	v, _, err := engine.NewVersion(servicetest.StepTime(n), fmt.Sprintf("step-%d.avro", n),
		func() (*mobility.Model, error) { return m, nil })
	servicetest.OK(tb, err)
	return v
}

// anywhere makes options accept a record in any partition.
func anywhere(o Options) Options {
	o.Partitioner = engine.AnyPartitioner
	return o
}
