package service_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas/mapping"
)

// mappedOptions are those of a service with a mapping.
func mappedOptions(t *testing.T, w *servicetest.World, group string, m mapping.Options,
) service.Options {
	t.Helper()
	o := atwork.Options(w, group)
	var err error
	o.Input.Mapping, err = mapping.New(m)
	servicetest.OK(t, err)
	return o
}

// fixOf is where a vehicle is at a step.
func fixOf(w *servicetest.World, vehicle, step int64) (latitude, longitude float64, ms int64) {
	cell := (vehicle*7 + step) % int64(w.Model.Grid.Cells())
	latitude, longitude = w.Model.Grid.ToDegrees(w.Model.Grid.Centre(w.Model.Initial.Cells[int(
		cell)%len(w.Model.Initial.Cells)]))
	return latitude, longitude, servicetest.StartMS + step*60_000
}

// processed waits until a service has read everything, stops it, and requires that its group's
// offsets are at the end of the raw topic.
func processed(t *testing.T, w *servicetest.World, o service.Options) *atwork.Running {
	t.Helper()
	r := atwork.Start(t, o)
	servicetest.Await(t, "everything is read", func() bool {
		return o.Counters.Snapshot().RecordsIn >= w.Fed
	}, r)
	r.Stop(t)
	end := int64(0)
	for p := range int32(servicetest.Partitions) {
		at, found, err := consumer.Committed(t.Context(), w.Client, wire.Options{}, o.Group,
			"raw", p)
		servicetest.OK(t, err)
		if found {
			end += at
		}
	}
	if end != w.Fed {
		t.Errorf("the group is at %d of %d", end, w.Fed)
	}
	return r
}

// TestBatchesExactlyOnce: records of several fixes give the same outputs whether a service is
// stopped in between, starts with an empty store, and ends its transactions elsewhere.
func TestBatchesExactlyOnce(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	mds := mapping.Options{Preset: mapping.MDS}
	const vehicles, records, batch = 12, 5, 4
	feed := func(n int64) {
		var all []producer.Record
		for vehicle := range int64(vehicles) {
			var parts []string
			for i := range int64(batch) {
				latitude, longitude, ms := fixOf(w, vehicle, n*batch+i)
				if vehicle == 3 && i == 2 {
					latitude = 91
				}
				parts = append(parts, fmt.Sprintf(
					`{"device_id":"scooter-%d","timestamp":%d,"location":{"lat":%v,"lng":%v}}`,
					vehicle, ms, latitude, longitude))
			}
			_, _, ms := fixOf(w, vehicle, n*batch+batch-1)
			all = append(all, producer.Record{
				Key: fmt.Appendf(nil, "scooter-%d", vehicle), Timestamp: ms,
				Value: []byte("[" + strings.Join(parts, ",") + "]"),
			})
		}
		w.Send(t, all...)
	}
	interrupted := mappedOptions(t, w, "interrupted", mds)
	interrupted.MaxRecords = 1
	cut := w.Answers(t, interrupted.Group)
	for n := range int64(records) {
		feed(n)
		r := atwork.Start(t, interrupted)
		servicetest.Await(t, "something is answered", func() bool {
			return cut.Read(t) >= n*vehicles*batch+5
		}, r)
		r.Stop(t)
		interrupted.StateDir += "x" // the next one restores the states from the changelog
	}
	r := atwork.Start(t, interrupted)
	const fixes = vehicles * records * batch
	servicetest.Await(t, "everything is answered", func() bool { return cut.Read(t) >= fixes }, r)
	r.Stop(t)

	calm := mappedOptions(t, w, "calm", mds)
	calm.MaxRecords = 1000
	whole := w.Answers(t, calm.Group)
	processed(t, w, calm)
	if n := whole.Read(t); n != fixes {
		t.Errorf("%d answers to %d fixes", n, fixes)
	}
	if got := calm.Counters.Snapshot(); got.RecordsIn != vehicles*records || got.Fixes() != fixes ||
		got.DeadLetters != records {
		t.Errorf("the counters are %+v", got)
	}
	servicetest.RequireSame(t, whole.Out, cut.Out)
	w.RequireRepeats(t, whole.Out, "interrupted.out")
	for _, o := range []service.Options{calm, interrupted} {
		if report := atwork.Verify(t, o); !report.Verified {
			t.Errorf("%s: %+v", o.Group, report)
		}
	}
}
