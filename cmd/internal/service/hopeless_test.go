package service_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// wrong makes a record that a service refuses of a sound fix.
type wrong func(t *testing.T, n int, fix schemas.Raw) producer.Record

// encoded is a record of a fix.
func encoded(t *testing.T, fix schemas.Raw) producer.Record {
	t.Helper()
	return producer.Record{
		Key: []byte(fix.UserID), Value: servicetest.Encode(t, schemas.Avro, fix),
		Timestamp: fix.Timestamp,
	}
}

func sound(t *testing.T, _ int, fix schemas.Raw) producer.Record {
	t.Helper()
	return encoded(t, fix)
}

func outside(t *testing.T, _ int, fix schemas.Raw) producer.Record {
	t.Helper()
	fix.Latitude += 2
	return encoded(t, fix)
}

// of changes a fix, and then its record.
func of(fixes func(*schemas.Raw), records func(*producer.Record)) wrong {
	return func(t *testing.T, _ int, fix schemas.Raw) producer.Record {
		t.Helper()
		if fixes != nil {
			fixes(&fix)
		}
		r := encoded(t, fix)
		if records != nil {
			records(&r)
		}
		return r
	}
}

// feedFixes sends n fixes of 40 users, a step after the other, from a number on.
func feedFixes(t *testing.T, w *servicetest.World, from, n int, by wrong) {
	t.Helper()
	var records []producer.Record
	for i := from; i < from+n; i++ {
		fix := servicetest.Sentinel()
		fix.UserID = fmt.Sprintf("vehicle-%03d", i%40)
		fix.Timestamp = servicetest.StartMS + int64(i/40)*60_000
		records = append(records, by(t, i, fix))
	}
	w.Send(t, records...)
}

// requireUntouched requires that a group has answered nothing and committed no offset.
func requireUntouched(t *testing.T, w *servicetest.World, o service.Options) {
	t.Helper()
	for p := range int32(servicetest.Partitions) {
		at, found, err := consumer.Committed(
			t.Context(),
			w.Client,
			wire.Options{},
			o.Group,
			"raw",
			p,
		)
		if err != nil || found && at > 0 {
			t.Errorf("partition %d is committed up to %d, %v", p, at, err)
		}
	}
	if n := w.Answers(t, o.Group).Read(t); n != 0 {
		t.Errorf("%d records were answered", n)
	}
}

// TestHopeless: a service does not begin where nearly all of the first records would be refused,
// for whatever reason, and doctor says the same. Nothing is answered or committed. Told to, the
// service goes on, and a restart after that does not ask again.
func TestHopeless(t *testing.T) {
	t.Parallel()
	jsonText := func(format string) wrong {
		return func(_ *testing.T, _ int, fix schemas.Raw) producer.Record {
			return producer.Record{
				Key: []byte(fix.UserID), Timestamp: fix.Timestamp,
				Value: fmt.Appendf(nil, format, fix.UserID, fix.Timestamp, fix.Latitude,
					fix.Longitude),
			}
		}
	}
	swapped := func(fix *schemas.Raw) {
		fix.Latitude, fix.Longitude = fix.Longitude, fix.Latitude
	}
	for _, c := range []struct {
		name, words string
		change      func(*service.Options)
		make        wrong
	}{
		{"outside", "400 of 400, outside_map 400: train a model", nil, outside},
		{
			"swapped", "400 of 400 would lie on the map if latitude and longitude changed places",
			nil, of(swapped, nil),
		},
		{
			"clamped", "changed places",
			func(o *service.Options) { o.Input.Outside = engine.OutsideClamp }, of(swapped, nil),
		},
		{
			"another encoding", "malformed 400: these begin with '{': set encoding.raw: json", nil,
			jsonText(`{"user_id":%q,"timestamp":%d,"latitude":%v,"longitude":%v}`),
		},
		{
			"other names", "missing_field: ",
			func(o *service.Options) { o.RawEncoding = schemas.JSON },
			jsonText(`{"device":%q,"time":%d,"lat":%v,"lon":%v}`),
		},
		{
			"another key", "key_mismatch 400", nil,
			of(nil, func(r *producer.Record) { r.Key = append([]byte("x-"), r.Key...) }),
		},
		{
			"seconds", "before_gps 400", nil,
			of(func(fix *schemas.Raw) { fix.Timestamp /= 1000 }, nil),
		},
		{
			"ahead", "timestamp_ahead 400", nil,
			of(nil, func(r *producer.Record) { r.Timestamp -= 3_600_000 }),
		},
		{
			"backwards", "late 399: ", nil,
			func(t *testing.T, n int, fix schemas.Raw) producer.Record {
				t.Helper()
				fix.UserID = "one"
				fix.Timestamp = servicetest.StartMS + int64(1000-n)*60_000
				return encoded(t, fix)
			},
		},
		{
			"another schema", "unknown_schema 400", nil,
			of(nil, func(r *producer.Record) { r.Value[5] ^= 0x40 }),
		},
		{
			"a key of later days", "key_destroyed 400",
			func(o *service.Options) { o.Key = servicetest.NextDay(t) }, sound,
		},
		{
			"for two reasons", "400 of 400, malformed 200, outside_map 200", nil,
			func(t *testing.T, n int, fix schemas.Raw) producer.Record {
				t.Helper()
				r := outside(t, n, fix)
				if n%2 == 0 {
					r.Value = []byte("x")
				}
				return r
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := servicetest.NewWorld(t, 0)
			feedFixes(t, w, 0, 400, c.make)
			o := atwork.Options(w, "first")
			if c.change != nil {
				c.change(&o)
			}
			o.Board = monitor.NewBoard()
			err := atwork.Start(t, o).Wait(t)
			if !errors.Is(err, service.ErrRefused) || !strings.Contains(err.Error(), c.words) ||
				!strings.Contains(err.Error(), "(records-refused)") {
				t.Fatalf("the service ends with %v", err)
			}
			requireUntouched(t, w, o)
			if said := atwork.Details(service.Examine(t.Context(), o, nil, nil),
				checks.Failure); !strings.Contains(said, "first records: "+err.Error()) {
				t.Errorf("doctor says %s", said)
			}
			now := monitor.Source{Board: o.Board, Counters: o.Counters}.Status()
			if now.Ready || !strings.Contains(now.Holds, c.words) {
				t.Errorf("the service shows %+v", now.Readiness)
			}
			o.AcceptRefused = true
			r := atwork.Start(t, o)
			servicetest.Await(t, "all is read",
				func() bool { return o.Counters.Snapshot().RecordsIn == w.Fed }, r)
			r.Stop(t)
			if c.name == "clamped" || c.name == "a key of later days" {
				return // what follows is refused too
			}
			o.AcceptRefused, o.Counters = false, new(engine.Counters)
			o.RawEncoding = schemas.Avro
			if c.name == "other names" {
				return
			}
			r = atwork.Start(t, o)
			feedFixes(t, w, 80_000, 80, sound)
			servicetest.Await(t, "what follows is released",
				func() bool { return o.Counters.Snapshot().Releases > 0 }, r)
			r.Stop(t)
		})
	}
}

// TestHopelessLater: a service that waits at an empty topic holds what comes as long as most of it
// would be refused, logs that, and stops once enough has come. Nothing is answered or committed.
func TestHopelessLater(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 0)
	o := atwork.Options(w, "first")
	o.Board = monitor.NewBoard()
	r := atwork.Start(t, o)
	servicetest.Await(t, "it has its partitions",
		func() bool { return strings.Contains(r.Log.String(), "partitions assigned") }, r)
	for n := 0; n < 90; n += 10 {
		feedFixes(t, w, n, 10, outside)
	}
	servicetest.Await(t, "records are held", func() bool {
		return strings.Contains(r.Log.String(), "raw records wait until it is known")
	}, r)
	now := monitor.Source{Board: o.Board, Counters: o.Counters}.Status()
	if now.Ready || !strings.Contains(now.Holds, "outside_map") {
		t.Errorf("while records are held it shows %+v", now.Readiness)
	}
	feedFixes(t, w, 90, 100, outside)
	if err := r.Wait(t); !errors.Is(err, service.ErrRefused) {
		t.Fatalf("the service ends with %v", err)
	}
	requireUntouched(t, w, o)
}

// TestHeldUntilSound: the first record is refused and held, and a sound one lets both go on. Where
// none comes, they go on by themselves.
func TestHeldUntilSound(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 0)
	o := atwork.Options(w, "first")
	a := w.Answers(t, o.Group)
	r := atwork.Start(t, o, func(s *service.Service) { s.SetHoldQuiet(time.Hour) })
	feedFixes(t, w, 0, 3, outside)
	servicetest.Await(t, "records are held", func() bool {
		return strings.Contains(r.Log.String(), "raw records wait until it is known")
	}, r)
	if n := a.Read(t); n != 0 {
		t.Errorf("%d of them are answered", n)
	}
	feedFixes(t, w, 40, 10, sound)
	servicetest.Await(t, "all are answered", func() bool { return a.Read(t) == w.Fed }, r)
	r.Stop(t)

	w = servicetest.NewWorld(t, 0)
	o = atwork.Options(w, "second")
	a = w.Answers(t, o.Group)
	r = atwork.Start(t, o, func(s *service.Service) { s.SetHoldQuiet(time.Millisecond) })
	feedFixes(t, w, 0, 3, outside)
	servicetest.Await(t, "all are answered", func() bool { return a.Read(t) == w.Fed }, r)
	r.Stop(t)
}

// TestHopelessAfterSound: a group that has processed sound records is not stopped by others, at
// work or at a restart, unless the sound ones were few.
func TestHopelessAfterSound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sound int
		stops bool
	}{{12, true}, {400, false}} {
		w := servicetest.NewWorld(t, 0)
		feedFixes(t, w, 0, c.sound, sound)
		o := atwork.Options(w, "first")
		a := w.Answers(t, o.Group)
		r := atwork.Start(t, o)
		servicetest.Await(t, "all are answered", func() bool { return a.Read(t) == w.Fed }, r)
		if c.stops {
			r.Stop(t)
		}
		feedFixes(t, w, 400, 400, outside)
		if c.stops {
			if err := atwork.Start(t, o).Wait(t); !errors.Is(err, service.ErrRefused) {
				t.Errorf("after %d sound records it ends with %v", c.sound, err)
			}
			continue
		}
		servicetest.Await(t, "others are answered", func() bool { return a.Read(t) == w.Fed }, r)
		r.Stop(t)
		feedFixes(t, w, 800, 400, outside)
		r = atwork.Start(t, o)
		servicetest.Await(t, "others are answered", func() bool { return a.Read(t) == w.Fed }, r)
		r.Stop(t)
	}
	// A twelfth of a topic that is sound is no sign that the settings are wrong.
	w := servicetest.NewWorld(t, 0)
	feedFixes(t, w, 0, 400, func(t *testing.T, n int, fix schemas.Raw) producer.Record {
		t.Helper()
		if n%12 == 0 {
			return sound(t, n, fix)
		}
		return outside(t, n, fix)
	})
	o := atwork.Options(w, "mixed")
	a := w.Answers(t, o.Group)
	r := atwork.Start(t, o)
	servicetest.Await(t, "all are answered", func() bool { return a.Read(t) == w.Fed }, r)
	r.Stop(t)
}
