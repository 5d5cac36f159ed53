package checks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// TestDoctorMapping: the doctor reads a sample as the service would. It says how much a rule skips,
// and whether users are in two partitions where keys do not keep them in one.
func TestDoctorMapping(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	fix := servicetest.Sentinel()
	var records []producer.Record
	for i := range 40 {
		records = append(records, producer.Record{
			Key: fmt.Appendf(nil, "key-%d", i), Timestamp: fix.Timestamp,
			Value: fmt.Appendf(nil, `{"_type":%q,"who":"secret-%d","tst":%d,"lat":%v,"lon":%v}`,
				[]string{"location", "lwt"}[i%2], i/4, fix.Timestamp/1000, fix.Latitude,
				fix.Longitude),
		})
	}
	w.Send(t, records...)
	for _, c := range []struct {
		name         string
		options      mapping.Options
		level, words string
	}{
		{
			"keys are users",
			mapping.Options{Preset: mapping.OwnTracks},
			checks.OK,
			"raw records: the last 20 can be used\nskipped records: 20 of the 40 fixes in the " +
				"last 40 records are skipped by a rule of the section input",
		},
		{
			"another user than the key",
			mapping.Options{
				Preset: mapping.OwnTracks, User: mapping.User{Path: "who"},
			},
			checks.Failure,
			"none of the last 20 can be used: the records' key has to be the user id",
		},
		{
			"no key check", mapping.Options{
				Preset: mapping.OwnTracks, User: mapping.User{Path: "who"},
				KeyCheck: mapping.KeyCheckOff,
			}, checks.Failure, "users' partitions: input.key_check is off, and",
		},
		{
			"one user", mapping.Options{
				Preset: mapping.OwnTracks, KeyCheck: mapping.KeyCheckOff,
			}, checks.OK, "none of the 20 users found is in two partitions",
		},
		{
			"a rule that nothing meets", mapping.Options{
				Preset: mapping.OwnTracks, Where: []mapping.Rule{{Path: "_type", Equals: "x"}},
			}, checks.Warning, "40 of the 40 fixes in the last 40 records are skipped",
		},
	} {
		o := atwork.Options(w, "doctor")
		o.Partitioner = engine.Murmur2
		var err error
		o.Input.Mapping, err = mapping.New(c.options)
		servicetest.OK(t, err)
		found := service.Examine(t.Context(), o, nil, nil)
		if said := atwork.Details(found, c.level); !strings.Contains(said, c.words) {
			t.Errorf("%s: %s", c.name, said)
		}
		for _, f := range found {
			if strings.Contains(f.Detail, "secret") || strings.Contains(f.Detail, "key-") {
				t.Errorf("%s: a finding has something of a record: %+v", c.name, f)
			}
		}
	}
}

// TestDoctorFirstAndLast: doctor looks at the records with which a start begins, and at the last
// ones. Where nearly all of either would be refused, it is a failure that says how many and why.
func TestDoctorFirstAndLast(t *testing.T) {
	for _, c := range []struct {
		name                string
		firstWrong, lastBad int // of 1000, far outside the map
		words, never        string
	}{
		{"all is well", 0, 0, "", "failure"},
		{"the first", 1000, 0, "first records: nearly all of the first raw records would be " +
			"refused: in raw 1000 of 1000, outside_map 1000", "raw records: "},
		{"the last", 0, 960, "raw records: nearly all of the last 1000 would be refused: " +
			"960 of 1000, outside_map 960", "first records: "},
		{"many of the last", 0, 900, "", "raw records: "},
	} {
		w := servicetest.NewWorld(t, 0)
		send := func(wrong, at int) {
			var records []producer.Record
			for n := range 1000 {
				fix := servicetest.Sentinel()
				if n < wrong {
					fix.Latitude += 2
				}
				fix.Timestamp += int64(at+n) * 60_000
				records = append(records, producer.Record{
					Key: []byte(fix.UserID), Timestamp: fix.Timestamp,
					Value: servicetest.Encode(t, schemas.Avro, fix),
				})
			}
			w.Send(t, records...)
		}
		send(c.firstWrong, 0)
		send(c.lastBad, 1000)
		o := atwork.Options(w, "doctor")
		said := atwork.Details(service.Examine(t.Context(), o, nil, nil), checks.Failure)
		if !strings.Contains(said, c.words) || strings.Contains(said, c.never) {
			t.Errorf("%s: doctor says %s", c.name, said)
		}
	}
}
