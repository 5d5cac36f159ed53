package engine

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/mobility"
)

// testSettings are complete.
func testSettings(tb testing.TB, model *mobility.Model) Settings {
	tb.Helper()
	return Settings{Model: model, Key: servicetest.Key, Release: servicetest.Release}
}

// newTestProcessor is of a topic that may hold any key in any partition, unless the settings name
// a partitioner: most tests of a processor have users of their own choice.
func newTestProcessor(tb testing.TB, s Settings, partition int32) *Processor {
	tb.Helper()
	s.Partitioner = cmp.Or(s.Partitioner, AnyPartitioner)
	p, err := NewProcessor(s, Partition{
		"raw", partition, max(servicetest.Partitions, int(partition)+1),
	})
	servicetest.OK(tb, err)
	return p
}

// newVersion starts a model at the nth step.
func newVersion(tb testing.TB, n int64, m *mobility.Model) *Version {
	tb.Helper()
	v, _, err := NewVersion(servicetest.StepTime(n), fmt.Sprintf("step-%d.avro", n),
		func() (*mobility.Model, error) { return m, nil })
	servicetest.OK(tb, err)
	return v
}
