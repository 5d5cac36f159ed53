package service_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/doctor"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// TestMostRecordsAreRefused: a service that refuses most of what it reads warns soon,
// long before it reports, with a guess from the first bytes or the reason. Nothing of the
// records is in the log but the bytes that were recognised.
func TestMostRecordsAreRefused(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	avro, asJSON := servicetest.Encode(t, schemas.Avro, servicetest.Sentinel()),
		servicetest.Encode(t, schemas.JSON, servicetest.Sentinel())
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
		{"JSON for Avro", schemas.Avro, asJSON, true, []string{
			"every record is refused", "these begin with '{': set encoding.raw: json",
			"malformed 8",
		}},
		{"JSON among Avro", schemas.Avro, asJSON, false, []string{
			"most records are refused", "these begin with '{': set encoding.raw: json",
			"records=12 refused=8",
		}},
		{"Avro for JSON", schemas.JSON, avro, true, []string{
			"every record is refused", "0xC3 0x01", "set encoding.raw: avro",
		}},
		{
			"Confluent framing", schemas.Avro, append([]byte{0, 0, 0, 0, 7}, avro[10:]...), false,
			[]string{"begin as Confluent's framing does: set encoding.raw: auto"},
		},
		{
			"Confluent framing for JSON", schemas.JSON, append([]byte{0, 0, 0, 0, 7}, avro[10:]...),
			true,
			[]string{"begin as Confluent's framing does"},
		},
		{"another schema", schemas.Avro, foreign, true, []string{
			"unknown_schema 8", "of another schema",
		}},
		{
			"a string for a number", schemas.JSON, bytes.Replace(asJSON,
				[]byte(`"latitude":53.40718281828459`), []byte(`"latitude":"53.40718281828459"`),
				1), true, []string{"wrong_type: latitude 8", "other names or types"},
		},
		{"swapped", schemas.Avro, servicetest.Forge(t, swapped), false, []string{
			"outside_map 8", "latitude and longitude look swapped",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := fmt.Sprintf("raw.%d", i)
			servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
				admin.Topic{Name: raw, Partitions: 1}))
			o := atwork.Options(w, fmt.Sprintf("g%d", i))
			o.Topics.Raw, o.RawEncoding, o.MaxRecords = raw, c.encoding, 100
			key := []byte(servicetest.Sentinel().UserID)
			var records []producer.Record
			for range 8 {
				records = append(records,
					producer.Record{Key: key, Value: c.bad, Timestamp: servicetest.StartMS})
			}
			for n := 0; n < 4 && !c.all; n++ {
				records = append(records, producer.Record{
					Key: key, Value: servicetest.Encode(t, c.encoding, servicetest.Sentinel()),
					Timestamp: servicetest.StartMS,
				})
			}
			_, err := w.Feeder.Send(t.Context(), raw, 1, records)
			servicetest.OK(t, err)
			r := atwork.Start(t, o)
			servicetest.Await(t, "it warns",
				func() bool { return strings.Contains(r.Log.String(), "refused\" records=") }, r)
			r.Stop(t)
			for _, part := range c.want {
				if !strings.Contains(r.Log.String(), part) {
					t.Errorf("the log does not say %q:\n%s", part, r.Log)
				}
			}
			secrets := append(servicetest.CoordinateSecrets(servicetest.Sentinel(), w.Model.Grid),
				servicetest.UserSecrets(servicetest.Sentinel().UserID)...)
			servicetest.RequireNoLeak(t, "the log", r.Log.Bytes(), secrets)
			found := atwork.Details(doctor.Examine(t.Context(), o, nil), doctor.Failure) +
				atwork.Details(doctor.Examine(t.Context(), o, nil), doctor.Warning)
			if advice := c.want[len(c.want)-1]; strings.HasPrefix(advice, "these") &&
				!strings.Contains(found, advice) {
				t.Errorf("the doctor does not say %q: %s", advice, found)
			}
			servicetest.RequireNoLeak(t, "the findings", []byte(found), secrets)
		})
	}
}

// TestShortRunsWarn: what a report would warn of is said when the service stops, however
// short its run was, and the last line has the reasons of what was refused.
func TestShortRunsWarn(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	o := atwork.Options(w, "short")
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
			producer.Record{
				Key: []byte(servicetest.Sentinel().UserID), Value: value,
				Timestamp: servicetest.StartMS,
			})
	}
	w.Send(t, records...)
	r := atwork.Start(t, o)
	servicetest.Await(t, "all is read",
		func() bool { return o.Counters.Snapshot().RecordsIn >= w.Fed }, r)
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
