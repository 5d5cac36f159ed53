package pipeline

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
)

// badRecord is one that must become a dead letter.
type badRecord struct {
	name   string
	rec    task.Record // its offset is set where it is used
	reason schemas.Reason
}

// badRecords lists every way in which an Avro record can be wrong; the value
// holds the sentinel's coordinates wherever it can.
func badRecords(tb testing.TB) []badRecord {
	tb.Helper()
	good := servicetest.Encode(tb, schemas.Avro, servicetest.Sentinel())
	foreign := slices.Clone(good)
	foreign[5] ^= 0x40
	nan, inf := math.NaN(), math.Inf(1)
	cases := []badRecord{
		{name: "no value", reason: schemas.ReasonEmpty},
		{name: "empty value", rec: task.Record{Value: []byte{}}, reason: schemas.ReasonEmpty},
		{name: "garbage", rec: task.Record{Value: []byte("53.40718281828459,-2.98314159265358")}, reason: schemas.ReasonMalformed},
		{name: "JSON", rec: task.Record{Value: servicetest.Encode(tb, schemas.JSON, servicetest.Sentinel())}, reason: schemas.ReasonMalformed},
		{name: "foreign fingerprint", rec: task.Record{Value: foreign}, reason: schemas.ReasonUnknownSchema},
		{name: "trailing byte", rec: task.Record{Value: append(slices.Clone(good), 0)}, reason: schemas.ReasonMalformed},
		{name: "twice", rec: task.Record{Value: append(slices.Clone(good), good...)}, reason: schemas.ReasonMalformed},
		{name: "too large", rec: task.Record{Value: append(slices.Clone(good), make([]byte, schemas.MaxRecordBytes)...)}, reason: schemas.ReasonTooLarge},
		{name: "key of another user", rec: task.Record{Key: []byte("user-other"), Value: good}, reason: schemas.ReasonKeyMismatch},
		{name: "no key", rec: task.Record{Key: nil, Value: good}, reason: schemas.ReasonKeyMismatch},
		{name: "empty key", rec: task.Record{Key: []byte{}, Value: good}, reason: schemas.ReasonKeyMismatch},
		{name: "reserved key", rec: task.Record{Key: []byte(task.MarkKey), Value: good}, reason: schemas.ReasonKeyMismatch},
		{name: "key with NUL in front", rec: task.Record{Key: []byte("\x00" + servicetest.Sentinel().UserID), Value: good}, reason: schemas.ReasonKeyMismatch},
		{name: "coordinate for a key", rec: task.Record{Key: []byte("53.40718281828459"), Value: good}, reason: schemas.ReasonKeyMismatch},
	}
	for _, n := range []int{1, 2, 9, 10, 11, 20, len(good) - 9, len(good) - 1} {
		cases = append(cases, badRecord{fmt.Sprintf("cut to %d bytes", n), task.Record{Value: good[:n]}, schemas.ReasonMalformed})
	}
	for _, c := range []struct {
		name   string
		reason schemas.Reason
		change func(*schemas.Raw)
	}{
		{"latitude NaN", schemas.ReasonNotFinite, func(r *schemas.Raw) { r.Latitude = nan }},
		{"longitude NaN", schemas.ReasonNotFinite, func(r *schemas.Raw) { r.Longitude = nan }},
		{"latitude infinite", schemas.ReasonNotFinite, func(r *schemas.Raw) { r.Latitude = inf }},
		{"longitude infinite", schemas.ReasonNotFinite, func(r *schemas.Raw) { r.Longitude = -inf }},
		{"accuracy NaN", schemas.ReasonNotFinite, func(r *schemas.Raw) { r.AccuracyM = &nan }},
		{"beyond the north pole", schemas.ReasonLatitudeOutOfRange, func(r *schemas.Raw) { r.Latitude = math.Nextafter(90, 91) }},
		{"beyond the south pole", schemas.ReasonLatitudeOutOfRange, func(r *schemas.Raw) { r.Latitude = -90.5 }},
		{"beyond the antimeridian", schemas.ReasonLongitudeOutOfRange, func(r *schemas.Raw) { r.Longitude = 180.0001 }},
		{"degrees times 1e7", schemas.ReasonLatitudeOutOfRange, func(r *schemas.Raw) { r.Latitude *= 1e7; r.Longitude *= 1e7 }},
		{"accuracy negative", schemas.ReasonAccuracyNegative, func(r *schemas.Raw) { a := -1.0; r.AccuracyM = &a }},
		{"no user", schemas.ReasonUserMissing, func(r *schemas.Raw) { r.UserID = "" }},
		{"reserved user", schemas.ReasonUserReserved, func(r *schemas.Raw) { r.UserID = task.MarkKey }},
		{"user not UTF-8", schemas.ReasonInvalidUTF8, func(r *schemas.Raw) { r.UserID = "user-\xff" }},
		{"long user", schemas.ReasonUserTooLong, func(r *schemas.Raw) { r.UserID = strings.Repeat("u", schemas.MaxUserIDBytes+1) }},
		{"before 1970", schemas.ReasonBefore1970, func(r *schemas.Raw) { r.Timestamp = -1 }},
		{"the first of times", schemas.ReasonBefore1970, func(r *schemas.Raw) { r.Timestamp = math.MinInt64 }},
		{"after 9999", schemas.ReasonAfter9999, func(r *schemas.Raw) { r.Timestamp = math.MaxInt64 }},
		{"seconds for milliseconds", schemas.ReasonBeforeGPS, func(r *schemas.Raw) { r.Timestamp /= 1000 }},
		{"just before GPS", schemas.ReasonBeforeGPS, func(r *schemas.Raw) { r.Timestamp = firstGPS - 1 }},
		{"never had a fix", schemas.ReasonBeforeGPS, func(r *schemas.Raw) {
			r.Timestamp = time.Date(1980, 1, 6, 0, 0, 0, 0, time.UTC).UnixMilli()
		}},
		{"just ahead", schemas.ReasonTimestampAhead, func(r *schemas.Raw) { r.Timestamp = servicetest.StartMS + 2*time.Minute.Milliseconds() + 1 }},
		{"no place", schemas.ReasonNullIsland, func(r *schemas.Raw) { r.Latitude, r.Longitude = 0, math.Copysign(0, -1) }},
		{"another town", schemas.ReasonOutsideMap, func(r *schemas.Raw) { r.Latitude += 2 }},
		{"on the equator", schemas.ReasonOutsideMap, func(r *schemas.Raw) { r.Latitude = 0 }},
		{"years ahead", schemas.ReasonTimestampAhead, func(r *schemas.Raw) { r.Timestamp += 10 * 365 * 24 * time.Hour.Milliseconds() }},
	} {
		fix := servicetest.Sentinel()
		c.change(&fix)
		// The key is the user, so that nothing but the change is wrong.
		cases = append(cases, badRecord{c.name, task.Record{Key: []byte(fix.UserID), Value: servicetest.Forge(tb, fix)}, c.reason})
	}
	for i := range cases {
		cases[i].rec.Timestamp = servicetest.StartMS
		if cases[i].rec.Key == nil && cases[i].name != "no key" {
			cases[i].rec.Key = []byte(servicetest.Sentinel().UserID)
		}
	}
	unstamped := cases[2]
	unstamped.name, unstamped.rec.Timestamp = "garbage without a Kafka timestamp", -1
	return append(cases, unstamped)
}

func badJSONRecords(tb testing.TB) []badRecord {
	tb.Helper()
	good := string(servicetest.Encode(tb, schemas.JSON, servicetest.Sentinel()))
	replaced := func(old, with string) string {
		if !strings.Contains(good, old) {
			tb.Fatalf("the encoded record has no %s", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	const lat = `"latitude":53.40718281828459`
	var cases []badRecord
	for _, c := range []struct {
		name, value string
		reason      schemas.Reason
	}{
		{"not JSON", "lat 53.40718281828459", schemas.ReasonMalformed},
		{"cut", good[:len(good)-1], schemas.ReasonMalformed},
		{"trailing", good + good, schemas.ReasonMalformed},
		{"an array", "[" + good + "]", schemas.ReasonWrongType},
		{"NaN", replaced(lat, `"latitude":NaN`), schemas.ReasonMalformed},
		{"beyond a float", replaced(lat, `"latitude":53e999`), schemas.ReasonNotFinite},
		{"twice", replaced(lat, lat+","+lat), schemas.ReasonDuplicateField},
		{"number in quotes", replaced(lat, `"latitude":"53.40718281828459"`), schemas.ReasonWrongType.At("latitude")},
		{"no latitude", replaced(lat+",", ""), schemas.ReasonMissingField.At("latitude")},
		{"out of range", replaced(lat, `"latitude":534.0718281828459`), schemas.ReasonLatitudeOutOfRange},
	} {
		rec := task.Record{Timestamp: servicetest.StartMS, Key: []byte(servicetest.Sentinel().UserID), Value: []byte(c.value)}
		cases = append(cases, badRecord{"JSON: " + c.name, rec, c.reason})
	}
	return cases
}

// TestBadRecords: each gives one dead letter that says where it lies and why, and
// nothing of what it holds; the partition goes on as if it had not been there.
func TestBadRecords(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	for _, encoding := range []schemas.Encoding{schemas.Avro, schemas.JSON} {
		o := testOptions(t, model)
		o.RawEncoding, o.SanitizedEncoding = encoding, encoding
		const partition = 3
		p := newTestProcessor(t, o, partition)
		cases := badRecords(t)
		if encoding == schemas.JSON {
			cases = badJSONRecords(t)
		}
		next := servicetest.Sentinel()
		next.Timestamp += 60_000
		goesOn := servicetest.Record(t, 4711, next)
		goesOn.Value = servicetest.Encode(t, encoding, next)
		state := servicetest.Process(t, newTestProcessor(t, o, partition), task.Record{
			Offset: 1, Timestamp: servicetest.StartMS, Key: []byte(next.UserID), Value: servicetest.Encode(t, encoding, servicetest.Sentinel()),
		}, nil).State
		want := servicetest.Process(t, newTestProcessor(t, o, partition), goesOn, state)
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				c.rec.Offset = int64(1_000_000_007 + i)
				got := servicetest.Process(t, p, c.rec, state)
				letter := got.Letter(t, encoding)
				due := schemas.DeadLetter{
					Topic: "raw", Partition: partition, Offset: c.rec.Offset, Reason: c.reason, Timestamp: c.rec.Timestamp,
				}
				if letter != due {
					t.Errorf("dead letter %+v, want %+v", letter, due)
				}
				m := got.Dead[0]
				if m.Key != nil || m.Timestamp != c.rec.Timestamp {
					t.Errorf("dead letter has key %q and timestamp %d", m.Key, m.Timestamp)
				}
				public := encodeLetter(t, encoding, due)
				if !bytes.Equal(m.Value, public) {
					t.Error("the dead letter holds more than its fields")
				}
				secrets := append(servicetest.CoordinateSecrets(servicetest.Sentinel(), model.Grid), servicetest.UserSecrets(servicetest.Sentinel().UserID)...)
				servicetest.RequireNoLeak(t, "the dead letter", m.Value, append(secrets, servicetest.PayloadSecrets(c.rec.Value, public)...))
				servicetest.RequireEqual(t, "the next record", want, servicetest.Process(t, p, goesOn, state))
			})
		}
	}
}

func encodeLetter(tb testing.TB, encoding schemas.Encoding, letter schemas.DeadLetter) []byte {
	tb.Helper()
	value, err := servicetest.NewCodec(tb, encoding).AppendDeadLetter(nil, letter)
	if err != nil {
		tb.Fatal(err)
	}
	return value
}

// TestEveryCut: no prefix of a record is taken for one, and none breaks anything.
func TestEveryCut(t *testing.T) {
	p := newTestProcessor(t, testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)), 0)
	good := servicetest.Record(t, 0, servicetest.Sentinel())
	for n := 1; n < len(good.Value); n++ {
		cut := good
		cut.Value = good.Value[:n]
		if got := servicetest.Process(t, p, cut, nil).Letter(t, schemas.Avro).Reason; got != schemas.ReasonMalformed {
			t.Errorf("%d bytes of it: %s", n, got)
		}
	}
}
