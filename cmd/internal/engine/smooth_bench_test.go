package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// BenchmarkSmooth smooths a vehicle's records, a release every ten steps and a lag of ten, beside
// the processor that sanitizes its fixes. Both go through all bytes of a task: record, state,
// result. The two take turns, so "x-filter", the one's time over the other's, says the same on a
// busy machine. Fixes come once or twelve times a step: those of a step share one smoothed moment.
func BenchmarkSmooth(b *testing.B) {
	for name, model := range servicetest.BenchModels(b) {
		for _, fixes := range []int{1, 12} {
			b.Run(fmt.Sprintf("%s/%d a step", name, fixes), func(b *testing.B) {
				benchmarkSmooth(b, model, fixes)
			})
		}
	}
}

func benchmarkSmooth(b *testing.B, model *mobility.Model, fixes int) {
	b.Helper()
	o := mechanism.Options{Mechanism: law.Codebook, Epsilon: 4, ReleaseInterval: 10}
	s := testSettings(b, model)
	s.Release = o
	filter := newTestProcessor(b, s, 0)
	smoother, err := NewSmoothProcessor(
		SmoothSettings{Model: model, Release: o, LagSteps: 10}, Partition{"sanitized", 0, 1})
	servicetest.OK(b, err)
	codec := servicetest.NewCodec(b, schemas.Avro)

	var filtering, smoothing time.Duration
	var spare task.Effects
	var states [2][]byte
	records, released := 0, 0
	process := func(which int, p task.Processor, rec task.Record, sum *time.Duration) {
		spare = task.Effects{Output: spare.Output[:0]}
		began := time.Now()
		servicetest.OK(b, p.Process(rec, states[which], &spare))
		*sum += time.Since(began)
		if len(spare.State) > 0 {
			states[which] = append(states[which][:0], spare.State...)
		}
	}
	step := func(n int) { // a cell further every eighth step, along a row and back
		leg := n / 8 % 16
		c := grid.Cell(
			model.Grid.Height()/2*model.Grid.Width() + model.Grid.Width()/3 + min(leg, 16-leg))
		fix := servicetest.Sentinel()
		fix.Latitude, fix.Longitude = model.Grid.ToDegrees(model.Grid.Centre(c))
		for i := range fixes {
			fix.Timestamp = servicetest.StartMS + int64(n)*60_000 + int64(i)*60_000/int64(fixes)
			rec := task.Record{Offset: int64(records), Key: []byte(fix.UserID)}
			rec.Timestamp = fix.Timestamp
			rec.Value, err = codec.AppendRaw(nil, fix)
			servicetest.OK(b, err)
			process(0, filter, rec, &filtering)
			out := spare.Output[0]
			rec.Key, rec.Value = out.Key, append([]byte(nil), out.Value...)
			process(1, smoother, rec, &smoothing)
			records++
			released += len(spare.Output)
		}
	}
	n := 0
	for ; n < 64; n++ { // past the first steps
		step(n)
	}
	filtering, smoothing = 0, 0
	first, out := records, released
	for b.Loop() {
		step(n)
		n++
	}
	if records-released > 40*fixes || released == out && records-first > 40*fixes {
		b.Fatalf("%d of %d records came out", released, records)
	}
	count := float64(records - first)
	b.ReportMetric(float64(smoothing)/float64(filtering), "x-filter")
	b.ReportMetric(float64(filtering.Nanoseconds())/count, "filter-ns/record")
	b.ReportMetric(float64(smoothing.Nanoseconds())/count, "smooth-ns/record")
	b.ReportMetric(float64(len(states[1])), "state-bytes")
}
