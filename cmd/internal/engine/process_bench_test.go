package engine

import (
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// BenchmarkProcess is one record through the processor: decode, a step of the mechanism on the
// state's bytes, encode. Users move a cell now and then, and their states are past the first
// steps.
func BenchmarkProcess(b *testing.B) {
	for name, model := range servicetest.BenchModels(b) {
		for _, mechanism := range []string{law.Codebook, law.Lattice} {
			for _, encoding := range []schemas.Encoding{schemas.Avro, schemas.JSON} {
				b.Run(name+"/"+mechanism+"/"+string(encoding), func(b *testing.B) {
					benchmarkProcess(b, model, mechanism, encoding)
				})
			}
		}
	}
}

func benchmarkProcess(
	b *testing.B, model *mobility.Model, mechanism string, encoding schemas.Encoding,
) {
	b.Helper()
	o := testSettings(b, model)
	o.Release.Mechanism = mechanism
	if mechanism == law.Codebook {
		o.Release.Delta = 0
	}
	o.RawEncoding, o.SanitizedEncoding = encoding, encoding
	p := newTestProcessor(b, o, 0)
	const warm, walk = 64, 512
	records := make([]task.Record, warm+walk)
	for i := range records {
		fix := servicetest.Sentinel()
		// A cell further every eighth step, along a row and back.
		leg := i / 8 % 16
		c := grid.Cell(
			model.Grid.Height()/2*model.Grid.Width() + model.Grid.Width()/3 + min(leg, 16-leg))
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
