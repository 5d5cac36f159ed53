package service_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
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

// TestStatusNamesThePreset: under a preset raw records are not said to be Avro.
func TestStatusNamesThePreset(t *testing.T) {
	w := servicetest.NewWorld(t, 1)
	o := mappedOptions(t, w, "first", mapping.Options{Preset: mapping.Traccar})
	if got := monitor.NewSettings(o.Settings).EncodingRaw; got != "traccar" {
		t.Errorf("under a preset it is %q", got)
	}
	o.Input.Mapping = nil
	if got := monitor.NewSettings(o.Settings).EncodingRaw; got != "avro" {
		t.Errorf("without one it is %q", got)
	}
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

// TestTraccarTopic: a topic as Traccar writes it is answered, verified and replayed. What is no fix
// is counted and leaves no other trace, and nothing of it, or of a refused record, is logged.
func TestTraccarTopic(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	o := mappedOptions(t, w, "traccar", mapping.Options{Preset: mapping.Traccar})
	const vehicles, steps = 8, 6
	const secret = "canary-51.501364-0.141890"
	for step := range int64(steps) {
		var records []producer.Record
		for vehicle := range int64(vehicles) {
			latitude, longitude, ms := fixOf(w, vehicle, step)
			add := func(format string, args ...any) {
				records = append(records, producer.Record{
					Key: fmt.Append(nil, 100+vehicle), Value: fmt.Appendf(nil, format, args...),
					Timestamp: ms,
				})
			}
			at := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000-07:00")
			add(`{"position":{"valid":true,"outdated":false,"fixTime":%q,"latitude":%v,`+
				`"longitude":%v,"accuracy":0.0,"speed":21.6}}`, at, latitude, longitude)
			add(`{"position":{"valid":false,"fixTime":%q,"latitude":%v,"longitude":%v,`+
				`"address":%q}}`, at, latitude, longitude, secret)
			add(`{"event":{"type":"deviceOnline","attributes":{"message":%q}}}`, secret)
		}
		latitude, _, ms := fixOf(w, 0, step)
		records = append(records, producer.Record{
			Key: []byte("100"), Timestamp: ms, Value: fmt.Appendf(nil, `{"position":{"valid":true,`+
				`"fixTime":%q,"latitude":%v,"longitude":%q}}`, secret, latitude, secret),
		})
		w.Send(t, records...)
	}
	a := w.Answers(t, o.Group)
	r := processed(t, w, o)

	const fixes = vehicles * steps
	a.Read(t)
	got := o.Counters.Snapshot()
	rule := slices.Index(o.Input.Rules(), "position.valid is true")
	if got.RecordsOut != fixes || got.DeadLetters != steps || got.RecordsSkipped != 2*fixes ||
		got.SkippedByRule[rule] != 2*fixes || got.Aborts != 0 {
		t.Errorf("the counters are %+v", got)
	}
	if reasons := w.Reasons(t, a.Dead); len(reasons) != 1 ||
		reasons[schemas.ReasonWrongType.At("timestamp")] != steps {
		t.Errorf("the dead letters say %v", reasons)
	}
	for _, topic := range []string{"traccar.out", "traccar.dead", "traccar.log"} {
		for _, record := range w.Records(t, topic) {
			if strings.Contains(string(record.Key)+string(record.Value), "canary") {
				t.Errorf("%s has something of a record that is no fix", topic)
			}
		}
	}
	if log := r.Log.String(); strings.Contains(log, "canary") || strings.Contains(log, "51.50") {
		t.Error("the log has something of a record that is no fix")
	}
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("%+v", report)
	}
	again := atwork.Replayed(t, w, atwork.Replay(t, o, replay.Options{
		Output: "again", TempDir: t.TempDir(),
	}))
	servicetest.RequireSame(t, a.Out, again.Out)
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

// TestEverythingIsSkipped: a rule that no record meets is told, since nothing else shows it.
func TestEverythingIsSkipped(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	o := mappedOptions(t, w, "skipping", mapping.Options{Preset: mapping.OwnTracks})
	var records []producer.Record
	for i := range 200 {
		records = append(records, producer.Record{
			Key: fmt.Appendf(nil, "u%d", i), Value: []byte(`{"_type":"lwt","tst":1}`),
			Timestamp: servicetest.StartMS,
		})
	}
	w.Send(t, records...)
	r := processed(t, w, o)
	if log := r.Log.String(); !strings.Contains(log,
		"a rule of the section input skips every record") ||
		!strings.Contains(log, "_type is location 200") {
		t.Errorf("the log is\n%s", log)
	}
	if got := o.Counters.Snapshot(); got.RecordsSkipped != 200 ||
		got.SkippedByRule == (engine.Tally{}).SkippedByRule {
		t.Errorf("the counters are %+v", got)
	}
}
