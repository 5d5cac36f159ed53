package checks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// TestDoctorOtherSettings: while an instance works, one of other settings is told
// that it would be refused; once it has stopped cleanly, that it would not.
func TestDoctorOtherSettings(t *testing.T) {
	w := servicetest.NewWorld(t, 4)
	o := atwork.Options(w, "first")
	published := w.Answers(t, o.Group)
	w.Feed(t)
	running := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, running)
	if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil), checks.Failure); bad != "" {
		t.Errorf("the service itself: %s", bad)
	}
	const unwritten = "another config of this group with another topics.sanitized"
	elsewhere := o
	elsewhere.Topics.Sanitized += "-2"
	for _, c := range []struct {
		options service.Options
		want    bool
	}{{o, false}, {elsewhere, true}} {
		if said := atwork.Details(service.Examine(t.Context(), c.options, nil, nil),
			checks.Warning); strings.Contains(said, unwritten) != c.want {
			t.Errorf("of %s: %s", c.options.Topics.Sanitized, said)
		}
	}
	other := o
	other.Release.Epsilon = 2
	if bad := atwork.Details(service.Examine(t.Context(), other, nil, nil),
		checks.Failure); !strings.Contains(bad, "changelog") ||
		!strings.Contains(bad, "--accept=settings") {
		t.Errorf("other settings beside it: %s", bad)
	}
	running.Stop(t)
	found := service.Examine(t.Context(), other, nil, nil)
	if bad := atwork.Details(found, checks.Failure); bad != "" ||
		!strings.Contains(atwork.Details(found, checks.Warning), "other settings") {
		t.Errorf("other settings after it: %+v", found)
	}
	const moved = "(group-moved)"
	if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Failure); strings.Contains(bad, moved) {
		t.Errorf("offsets that nobody moved: %s", bad)
	}
	mark := w.LastMarks(t, o.Topics.Changelog)[1]
	w.MoveOffset(t, o.Group, 1, mark.Input-1)
	if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Failure); !strings.Contains(bad, moved) || !strings.Contains(bad, "partition 1") {
		t.Errorf("moved offsets: %s", bad)
	}
	for _, f := range found {
		if strings.Contains(f.Detail, "vehicle") {
			t.Errorf("a finding names a user: %+v", f)
		}
	}
	// One record of eight was cut short.
	if said := atwork.Details(found, checks.Warning); !strings.Contains(
		said, "would be refused: malformed 1") {
		t.Errorf("the raw records are said to be: %s", said)
	}
}

// TestDoctorOtherGroups: another service on the raw topic gives users a second budget, and offsets
// that the brokers forgot are a failure.
func TestDoctorOtherGroups(t *testing.T) {
	w := servicetest.NewWorld(t, 4)
	w.Feed(t)
	for _, group := range []string{"one", "two"} {
		o := atwork.Options(w, group)
		o.Topics.Changelog = ""
		published := w.Answers(t, o.Group)
		running := atwork.Start(t, o)
		servicetest.Await(t, "everything is answered",
			func() bool { return published.Read(t) >= w.Fed }, running)
		running.Stop(t)
	}
	o := atwork.Options(w, "one")
	o.Topics.Changelog = ""
	found := service.Examine(t.Context(), o, nil, nil)
	const want = "group two has processed raw too (two-changelog has states)"
	if said := atwork.Details(found, checks.Warning); !strings.Contains(said, want) {
		t.Errorf("another group: %s", said)
	}
	if bad := atwork.Details(found, checks.Failure); bad != "" {
		t.Errorf("another group is a failure: %s", bad)
	}
	_, err := w.Client.OffsetDelete(t.Context(), &kafka.OffsetDeleteRequest{
		GroupID: o.Group, Topics: map[string][]int{o.Topics.Raw: {0, 1}},
	})
	servicetest.OK(t, err)
	if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Warning); !strings.Contains(bad, "it expired (offsets.retention.minutes)") {
		t.Errorf("no offsets: %s", bad)
	}
}

// TestDoctorSecondsInKafka: records whose Kafka timestamps are of 1970 are named.
func TestDoctorSecondsInKafka(t *testing.T) {
	w := servicetest.NewWorld(t, 1)
	o := atwork.Options(w, "seconds")
	fix := servicetest.Sentinel()
	w.Send(t, producer.Record{
		Key: []byte(fix.UserID), Value: servicetest.Encode(t, schemas.Avro, fix),
		Timestamp: fix.Timestamp / 1000,
	})
	found := service.Examine(t.Context(), o, nil, nil)
	if said := atwork.Details(found, checks.Warning); !strings.Contains(said,
		"1 of the last 1 fixes are in records with a Kafka timestamp of 1970") {
		t.Errorf("%+v", found)
	}
}

// TestDoctorFixes: the doctor says which share of the last fixes lies outside the map,
// which share is late, and that swapped coordinates look swapped.
func TestDoctorFixes(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	for i, c := range []struct {
		name   string
		policy string
		change func(n int, fix *schemas.Raw) // the nth of 50
		level  string
		want   string
	}{
		{
			"sound", "", func(int, *schemas.Raw) {}, checks.OK,
			"map: all of the last fixes lie on the map\norder: 0 of the last 50 (0.0 %) are late",
		},
		{
			"some outside", "", func(n int, f *schemas.Raw) {
				if n%10 == 0 {
					f.Latitude++
				}
			}, checks.Warning,
			"map: 5 of the last 50 (10.0 %) lie outside the map, 5 of them further than one cell",
		},
		{"some outside, clamped", engine.OutsideClamp, func(n int, f *schemas.Raw) {
			if n%10 == 0 {
				f.Latitude++
			}
		}, checks.Warning, "count as in its nearest cell"},
		{"swapped", "", func(_ int, f *schemas.Raw) {
			f.Latitude, f.Longitude = f.Longitude, f.Latitude
		}, checks.Failure, "50 of the last 50 (100.0 %) lie outside the map, 50 of them further " +
			"than one cell: these become dead letters (input.outside). latitude and longitude " +
			"look swapped"},
		{"swapped, clamped", engine.OutsideClamp, func(_ int, f *schemas.Raw) {
			f.Latitude, f.Longitude = f.Longitude, f.Latitude
		}, checks.Warning, "latitude and longitude look swapped"},
		{"two feeds", "", func(n int, f *schemas.Raw) {
			if n%2 == 1 {
				f.Timestamp -= 5 * time.Minute.Milliseconds()
			}
		}, checks.Warning, "order: 25 of the last 50 (50.0 %) are late"},
		{"outside and ahead", "", func(n int, f *schemas.Raw) {
			if n == 0 { // it is refused, so those after it are not late
				f.Latitude, f.Timestamp = f.Latitude+1, f.Timestamp+24*time.Hour.Milliseconds()
			}
		}, checks.OK, "order: 0 of the last 50 (0.0 %) are late"},
	} {
		raw := fmt.Sprintf("sample.%d", i)
		servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
			admin.Topic{Name: raw, Partitions: 1}))
		var records []producer.Record
		for n := range 50 {
			fix := servicetest.Sentinel()
			fix.Timestamp += int64(n) * 60_000
			c.change(n, &fix)
			records = append(records, producer.Record{
				Key: []byte(fix.UserID), Value: servicetest.Encode(t, schemas.Avro, fix),
				Timestamp: fix.Timestamp,
			})
		}
		_, err := w.Feeder.Send(t.Context(), raw, 1, records)
		servicetest.OK(t, err)
		o := atwork.Options(w, "doctor")
		o.Topics.Raw, o.Input.Outside = raw, c.policy
		found := service.Examine(t.Context(), o, nil, nil)
		if said := atwork.Details(found, c.level); !strings.Contains(said, c.want) {
			t.Errorf("%s: no %q in %+v", c.name, c.want, found)
		}
		secrets := append(servicetest.CoordinateSecrets(servicetest.Sentinel(), w.Model.Grid),
			servicetest.UserSecrets(servicetest.Sentinel().UserID)...)
		servicetest.RequireNoLeak(t, "the findings", []byte(fmt.Sprint(found)), secrets)
	}
}

// requireLines requires a finding of each check that always has one: if the check is not made, the
// finding says why.
func requireLines(t *testing.T, what string, found []checks.Finding) {
	t.Helper()
	for _, check := range []string{
		"state_dir", "broker", "rights", "transactions", "account", "erasure", "topic",
		"retention", "timestamps", "raw records", "partitioner", "map", "order", "group",
		"changelog", "readers",
	} {
		if !slices.ContainsFunc(found, func(f checks.Finding) bool { return f.Check == check }) {
			t.Errorf("%s: no line of the check %q in %+v", what, check, found)
		}
	}
}

// TestDoctorUnchecked: a check that is not made has a line of its own, with the reason.
func TestDoctorUnchecked(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	empty := atwork.Options(w, "unchecked")
	away, missing := empty, empty
	away.Brokers, missing.Topics.Raw = []string{"127.0.0.1:1"}, "missing"
	for _, c := range []struct {
		name    string
		options service.Options
		want    []string
	}{
		{"no broker", away, []string{
			"retention: not checked, because no broker answers",
			"timestamps: not checked, because no broker answers",
			"partitioner: not checked, because no broker answers",
			"map: not checked, because no broker answers",
			"order: not checked, because no broker answers",
			"readers: doctor cannot see the readers of ",
		}},
		{"no raw topic", missing, []string{
			"timestamps: not checked, because missing could not be looked at",
			"partitioner: not checked, because missing could not be looked at",
			"map: not checked, because missing could not be looked at",
			"order: not checked, because missing could not be looked at",
		}},
		{"no fix", empty, []string{
			"map: not checked, because no fix could be used",
			"order: not checked, because no fix could be used",
		}},
	} {
		found := service.Examine(t.Context(), c.options, nil, nil)
		requireLines(t, c.name, found)
		for _, want := range c.want {
			if said := atwork.Details(found, checks.Unchecked); !strings.Contains(said, want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, said)
			}
		}
	}
}

// TestDoctorBadOptions goes no further than them.
func TestDoctorBadOptions(t *testing.T) {
	o := atwork.Options(servicetest.NewWorld(t, 0), "")
	if found := service.Examine(t.Context(), o, nil, nil); len(found) != 1 ||
		found[0].Level != checks.Failure || !strings.Contains(found[0].Detail, "group") {
		t.Errorf("found %+v", found)
	}
}

// TestDoctorDestroyedDays: doctor tries the last raw records on the days that the key has.
func TestDoctorDestroyedDays(t *testing.T) {
	w := servicetest.NewWorld(t, 4)
	o := atwork.Options(w, "first")
	w.Feed(t)
	o.Key = servicetest.NextDay(t)
	found := atwork.Details(service.Examine(t.Context(), o, nil, nil), checks.Warning)
	for _, part := range []string{
		"would be refused: key_destroyed", "was it advanced", o.Key.FirstDay().String(),
	} {
		if !strings.Contains(found, part) {
			t.Errorf("doctor finds %q, which does not say %q", found, part)
		}
	}
}
