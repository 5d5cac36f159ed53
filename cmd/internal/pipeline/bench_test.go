package pipeline

import (
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// benchModels are a sparse one, like streets, and one like those that are
// trained from a sample, where each cell leads to the 80 around it.
func benchModels(tb testing.TB) map[string]*mobility.Model {
	tb.Helper()
	g, err := grid.New(servicetest.Town, 700)
	servicetest.OK(tb, err)
	return map[string]*mobility.Model{
		"road": servicetest.LocalModel(tb, g, 1, func(dx, dy int) float64 {
			switch {
			case dx == 0 && dy == 0:
				return 100
			case dx == 0 || dy == 0:
				return 4
			}
			return 0
		}),
		"dense": servicetest.LocalModel(tb, g, 5, func(dx, dy int) float64 {
			if dx == 0 && dy == 0 {
				return 60
			}
			if dx*dx+dy*dy > 25 {
				return 0
			}
			return 1 / float64(1+dx*dx+dy*dy)
		}),
	}
}

// BenchmarkProcess is one record through the processor: decode, a step of the
// mechanism on the state's bytes, encode. Users move a cell now and then, and their
// states are past the first steps.
func BenchmarkProcess(b *testing.B) {
	for name, model := range benchModels(b) {
		for _, encoding := range []schemas.Encoding{schemas.Avro, schemas.JSON} {
			b.Run(name+"/"+string(encoding), func(b *testing.B) {
				benchmarkProcess(b, model, encoding)
			})
		}
	}
}

func benchmarkProcess(b *testing.B, model *mobility.Model, encoding schemas.Encoding) {
	b.Helper()
	o := testOptions(b, model)
	o.RawEncoding, o.SanitizedEncoding = encoding, encoding
	p := newTestProcessor(b, o, 0)
	const warm, walk = 64, 512
	records := make([]task.Record, warm+walk)
	for i := range records {
		fix := servicetest.Sentinel()
		// A cell further every eighth step, along a row and back.
		leg := i / 8 % 16
		c := grid.Cell(model.Grid.Height()/2*model.Grid.Width() + model.Grid.Width()/3 + min(leg, 16-leg))
		fix.Latitude, fix.Longitude = model.Grid.ToDegrees(model.Grid.Centre(c))
		fix.Timestamp = servicetest.StartMS + int64(i)*60_000
		records[i] = servicetest.Record(b, int64(i), fix)
		records[i].Value = servicetest.Encode(b, encoding, fix)
	}
	var fx task.Effects
	var state, first []byte
	one := func(rec task.Record) {
		fx.Output, fx.DeadLetters, fx.State = fx.Output[:0], fx.DeadLetters[:0], nil
		servicetest.OK(b, p.Process(rec, state, &fx))
		state = append(state[:0], fx.State...)
	}
	for _, rec := range records[:warm] {
		one(rec)
	}
	first = append(first, state...)
	p.tally = Tally{}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n%walk == 0 {
			state = append(state[:0], first...)
		}
		one(records[warm+n%walk])
		n++
	}
	b.ReportMetric(float64(p.tally.SetCells)/float64(p.tally.Releases), "|ΔX|")
	b.ReportMetric(float64(len(state)), "state-bytes")
}

// BenchmarkService is the whole of it on the embedded broker, in the same
// process: fetch, process, transaction, store. One iteration is one record, and
// the broker's own work is in the figure.
func BenchmarkService(b *testing.B) {
	for name, model := range benchModels(b) {
		b.Run(name, func(b *testing.B) {
			w := servicetest.NewWorld(b, 2000)
			w.Model = model
			for v := range w.Cells {
				w.Cells[v] = model.SampleInitial(w.Fleet)
			}
			o := optionsFor(w, "bench")
			o.MaxRecords, o.MaxInterval = 0, 0 // the defaults
			for w.Fed < int64(b.N) {
				w.Feed(b)
			}
			w.Answers(b, o.Group) // makes the topics
			b.ReportAllocs()
			b.ResetTimer()
			began := time.Now()
			service := start(b, o)
			servicetest.Await(b, "everything is answered", func() bool { return o.Counters.Snapshot().RecordsIn >= w.Fed }, service)
			b.StopTimer()
			b.ReportMetric(float64(w.Fed)/time.Since(began).Seconds(), "events/s")
			service.Stop(b)
			if got := o.Counters.Snapshot(); got.RecordsOut+got.DeadLetters != w.Fed {
				b.Fatalf("%+v", got)
			}
		})
	}
}
