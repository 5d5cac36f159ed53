package pipeline

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// TestMostRecordsAreRefused: a service that refuses most of what it reads says so soon,
// long before it reports, with a guess from the first bytes or the reason. Nothing of the
// records is in the log but the bytes that were recognised.
func TestMostRecordsAreRefused(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	avro, asJSON := servicetest.Encode(t, schemas.Avro, servicetest.Sentinel()), servicetest.Encode(t, schemas.JSON, servicetest.Sentinel())
	foreign := bytes.Clone(avro)
	foreign[5] ^= 0x40
	swapped := servicetest.Sentinel()
	swapped.Latitude, swapped.Longitude = swapped.Longitude, swapped.Latitude
	for i, c := range []struct {
		name     string
		encoding schemas.Encoding
		bad      []byte
		all      bool // or some are sound
		want     []string
	}{
		{"JSON for Avro", schemas.Avro, asJSON, true, []string{"every record is refused", "these begin with '{': set encoding.raw: json", "malformed 8"}},
		{"JSON among Avro", schemas.Avro, asJSON, false, []string{"most records are refused", "these begin with '{': set encoding.raw: json", "records=12 refused=8"}},
		{"Avro for JSON", schemas.JSON, avro, true, []string{"every record is refused", "0xC3 0x01", "set encoding.raw: avro"}},
		{"Confluent framing", schemas.Avro, append([]byte{0, 0, 0, 0, 7}, avro[10:]...), false, []string{"0x00: Confluent framing, which is not supported yet"}},
		{"Confluent framing for JSON", schemas.JSON, append([]byte{0, 0, 0, 0, 7}, avro[10:]...), true, []string{"0x00: Confluent framing"}},
		{"another schema", schemas.Avro, foreign, true, []string{"unknown_schema 8", "of another schema"}},
		{
			"a string for a number", schemas.JSON, bytes.Replace(asJSON, []byte(`"latitude":53.40718281828459`), []byte(`"latitude":"53.40718281828459"`), 1), true,
			[]string{"wrong_type: latitude 8", "other names or types"},
		},
		{"swapped", schemas.Avro, servicetest.Forge(t, swapped), false, []string{"outside_map 8", "latitude and longitude look swapped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := fmt.Sprintf("raw.%d", i)
			servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{}, admin.Topic{Name: raw, Partitions: 1}))
			o := optionsFor(w, fmt.Sprintf("g%d", i))
			o.Topics.Raw, o.RawEncoding, o.MaxRecords = raw, c.encoding, 100
			key := []byte(servicetest.Sentinel().UserID)
			var records []producer.Record
			for range 8 {
				records = append(records, producer.Record{Key: key, Value: c.bad, Timestamp: servicetest.StartMS})
			}
			for n := 0; n < 4 && !c.all; n++ {
				records = append(records, producer.Record{Key: key, Value: servicetest.Encode(t, c.encoding, servicetest.Sentinel()), Timestamp: servicetest.StartMS})
			}
			_, err := w.Feeder.Send(t.Context(), raw, 1, records)
			servicetest.OK(t, err)
			r := start(t, o)
			servicetest.Await(t, "it warns", func() bool { return strings.Contains(r.Log.String(), "refused\" records=") }, r)
			r.Stop(t)
			for _, part := range c.want {
				if !strings.Contains(r.Log.String(), part) {
					t.Errorf("the log does not say %q:\n%s", part, r.Log)
				}
			}
			secrets := append(servicetest.CoordinateSecrets(servicetest.Sentinel(), w.Model.Grid), servicetest.UserSecrets(servicetest.Sentinel().UserID)...)
			servicetest.RequireNoLeak(t, "the log", r.Log.Bytes(), secrets)
			found := details(Diagnose(t.Context(), o), LevelFailure) + details(Diagnose(t.Context(), o), LevelWarning)
			if advice := c.want[len(c.want)-1]; strings.HasPrefix(advice, "these") && !strings.Contains(found, advice) {
				t.Errorf("the doctor does not say %q: %s", advice, found)
			}
			servicetest.RequireNoLeak(t, "the findings", []byte(found), secrets)
		})
	}
}

// judged is what a reporter says of two readings, the first one reported before.
func judged(o Options, from, to engine.Tally) string {
	var log servicetest.Log
	r := reporter{Service: &Service{options: o, log: log.Logger()}, last: from}
	r.report(to)
	return log.String()
}

// TestReports: shares count since the last report, not since the start.
func TestReports(t *testing.T) {
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)).WithDefaults()
	refused := func(reason schemas.Reason, n int) (r engine.Refusals) {
		for range n {
			r.Add(reason, nil)
		}
		return r
	}
	before := engine.Tally{RecordsIn: 1000, DeadLetters: 1000, OutsideRefused: 500, Refusals: refused(schemas.ReasonMalformed, 1000)}
	after := func(in, dead, clamped, outside, swapped int64, r engine.Refusals) engine.Tally {
		for range 1000 {
			r.Add(schemas.ReasonMalformed, nil)
		}
		return engine.Tally{
			RecordsIn: 1000 + in, DeadLetters: 1000 + dead, OutsideClamped: clamped, OutsideRefused: 500 + outside, OutsideSwapped: swapped, Refusals: r,
		}
	}
	for name, c := range map[string]struct {
		now         engine.Tally
		want, never string
	}{
		"all is well":        {after(1000, 100, 0, 50, 0, refused(schemas.ReasonLate, 100)), "progress", "level=WARN"},
		"nothing came":       {before, "", "level="},
		"many are late":      {after(1000, 200, 0, 0, 0, refused(schemas.ReasonLate, 200)), `more than a tenth`, "most records"},
		"with the reason":    {after(1000, 200, 0, 0, 0, refused(schemas.ReasonLate, 200)), `reasons="late 200"`, "malformed"},
		"most":               {after(1000, 501, 0, 0, 0, refused(schemas.ReasonKeyMismatch, 501)), `most records are refused`, "more than a tenth"},
		"two are no share":   {after(2, 2, 0, 0, 0, refused(schemas.ReasonKeyMismatch, 2)), `more than a tenth`, "every record"},
		"outside, clamped":   {after(1000, 0, 51, 0, 0, engine.Refusals{}), `many fixes lie outside the map" records=1000 clamped=51 refused=0`, "swapped"},
		"outside, refused":   {after(1000, 60, 0, 60, 20, refused(schemas.ReasonOutsideMap, 60)), `clamped=0 refused=60`, "swapped"},
		"swapped, clamped":   {after(1000, 0, 1000, 0, 900, engine.Refusals{}), "look swapped", "is refused"},
		"outside, but a few": {after(1000, 0, 50, 0, 0, engine.Refusals{}), "progress", "level=WARN"},
	} {
		got := judged(o, before, c.now)
		if !strings.Contains(got, c.want) || strings.Contains(got, c.never) {
			t.Errorf("%s: want %q and no %q in\n%s", name, c.want, c.never, got)
		}
	}
}

// TestShortRunsWarn: what a report would warn of is said when the service stops, however
// short its run was, and the last line has the reasons of what was refused.
func TestShortRunsWarn(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	o := optionsFor(w, "short")
	raw := servicetest.Forge(t, servicetest.Sentinel())
	outside := servicetest.Sentinel()
	outside.Latitude++
	var records []producer.Record
	for n := range 20 {
		value := raw
		if n%5 == 4 {
			value = servicetest.Forge(t, outside)
		}
		records = append(records,
			producer.Record{Key: []byte(servicetest.Sentinel().UserID), Value: value, Timestamp: servicetest.StartMS})
	}
	w.Send(t, records...)
	r := start(t, o)
	servicetest.Await(t, "all is read", func() bool { return o.Counters.Snapshot().RecordsIn >= w.Fed }, r)
	r.Stop(t)
	for _, part := range []string{
		`msg="more than a tenth of the records is refused`, `msg="many fixes lie outside the map"`,
		`msg=stopped reasons="outside_map 4" records_in=20 records_out=16 dead_letters=4 `,
	} {
		if n := strings.Count(r.Log.String(), part); n != 1 {
			t.Errorf("the log says %d times %s:\n%s", n, part, r.Log)
		}
	}
}

// TestAlarmOncePerReport: what goes on is not repeated every two seconds.
func TestAlarmOncePerReport(t *testing.T) {
	var log servicetest.Log
	r := reporter{Service: &Service{options: testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)).WithDefaults(), log: log.Logger()}}
	warnings := func() int { return strings.Count(log.String(), "every record is refused") }
	for n := range int64(5) {
		r.alarm(engine.Tally{RecordsIn: 10 * (n + 1), DeadLetters: 10 * (n + 1)})
	}
	if warnings() != 1 {
		t.Errorf("%d warnings before the report", warnings())
	}
	r.report(engine.Tally{RecordsIn: 60, DeadLetters: 60})
	r.alarm(engine.Tally{RecordsIn: 70, DeadLetters: 70})
	if warnings() != 2 {
		t.Errorf("%d warnings after it", warnings())
	}
}

// TestLateDropInTheService: with input.late: drop a late fix leaves no dead letter, and
// the log's totals have it.
func TestLateDropInTheService(t *testing.T) {
	w := servicetest.NewWorld(t, 3)
	o := optionsFor(w, "drops")
	o.Input.Late = engine.LateDrop
	o.StateDir = filepath.Join(w.Dir, "drops")
	published := w.Answers(t, o.Group)
	for range 10 {
		w.Feed(t) // one late fix among them
	}
	service := start(t, o)
	servicetest.Await(t, "everything is read", func() bool { return o.Counters.Snapshot().RecordsIn >= w.Fed }, service)
	service.Stop(t)
	if n := published.Read(t); n != w.Fed-1 {
		t.Errorf("%d answers to %d records, of which one is late", n, w.Fed)
	}
	if !strings.Contains(service.Log.String(), `late=1 late_dropped=1 lateness="≤1m 1"`) {
		t.Errorf("the totals do not say what was late:\n%s", service.Log)
	}
	if report := verify(t, o); !report.Verified {
		t.Errorf("it does not verify: %+v", report)
	}
}
