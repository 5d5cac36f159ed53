package pipeline

import (
	"fmt"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/mobility"
)

// newVersion starts a model at the nth step.
func newVersion(tb testing.TB, n int64, m *mobility.Model) *engine.Version {
	tb.Helper()
	return newVersionOf(tb, n, engine.Material{Model: m})
}

func newVersionOf(tb testing.TB, n int64, m engine.Material) *engine.Version {
	tb.Helper()
	v, _, err := engine.NewVersion(servicetest.StepTime(n), fmt.Sprintf("step-%d.avro", n), func() (*engine.Material, error) { return &m, nil })
	servicetest.OK(tb, err)
	return v
}
