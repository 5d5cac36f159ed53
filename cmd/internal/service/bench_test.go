package service_test

import (
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
)

// BenchmarkService is the whole of it on the embedded broker, in the same
// process: fetch, process, transaction, store. One iteration is one record, and
// the broker's own work is in the figure.
func BenchmarkService(b *testing.B) {
	for name, model := range servicetest.BenchModels(b) {
		b.Run(name, func(b *testing.B) {
			w := servicetest.NewWorld(b, 2000)
			w.Model = model
			for v := range w.Cells {
				w.Cells[v] = model.SampleInitial(w.Fleet)
			}
			o := atwork.Options(w, "bench")
			o.MaxRecords, o.MaxInterval = 0, 0 // the defaults
			for w.Fed < int64(b.N) {
				w.Feed(b)
			}
			w.Answers(b, o.Group) // makes the topics
			b.ReportAllocs()
			b.ResetTimer()
			began := time.Now()
			service := atwork.Start(b, o)
			servicetest.Await(b, "everything is answered",
				func() bool { return o.Counters.Snapshot().RecordsIn >= w.Fed }, service)
			b.StopTimer()
			b.ReportMetric(float64(w.Fed)/time.Since(began).Seconds(), "events/s")
			service.Stop(b)
			if got := o.Counters.Snapshot(); got.RecordsOut+got.DeadLetters != w.Fed {
				b.Fatalf("%+v", got)
			}
		})
	}
}
