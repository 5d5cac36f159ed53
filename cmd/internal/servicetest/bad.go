package servicetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
)

// BadRecord is one that must become a dead letter.
type BadRecord struct {
	Name   string
	Rec    task.Record // its offset is set where it is used
	Reason schemas.Reason
}

// BadRecords lists every way in which an Avro record can be wrong; the value
// holds the sentinel's coordinates wherever it can.
func BadRecords(tb testing.TB) []BadRecord {
	tb.Helper()
	good := Encode(tb, schemas.Avro, Sentinel())
	foreign := slices.Clone(good)
	foreign[5] ^= 0x40
	nan, inf := math.NaN(), math.Inf(1)
	cases := []BadRecord{
		{Name: "no value", Reason: schemas.ReasonEmpty},
		{Name: "empty value", Rec: task.Record{Value: []byte{}}, Reason: schemas.ReasonEmpty},
		{
			Name: "garbage", Rec: task.Record{Value: []byte("53.40718281828459,-2.98314159265358")},
			Reason: schemas.ReasonMalformed,
		},
		{
			Name: "JSON", Rec: task.Record{Value: Encode(tb, schemas.JSON, Sentinel())},
			Reason: schemas.ReasonMalformed,
		},
		{
			Name: "foreign fingerprint", Rec: task.Record{Value: foreign},
			Reason: schemas.ReasonUnknownSchema,
		},
		{
			Name: "trailing byte", Rec: task.Record{Value: append(slices.Clone(good), 0)},
			Reason: schemas.ReasonMalformed,
		},
		{
			Name: "twice", Rec: task.Record{Value: append(slices.Clone(good), good...)},
			Reason: schemas.ReasonMalformed,
		},
		{Name: "too large", Rec: task.Record{
			Value: append(slices.Clone(good), make([]byte, schemas.MaxRecordBytes)...),
		}, Reason: schemas.ReasonTooLarge},
		{
			Name: "key of another user", Rec: task.Record{Key: []byte("user-other"), Value: good},
			Reason: schemas.ReasonKeyMismatch,
		},
		{
			Name: "no key", Rec: task.Record{Key: nil, Value: good},
			Reason: schemas.ReasonKeyMismatch,
		},
		{
			Name: "empty key", Rec: task.Record{Key: []byte{}, Value: good},
			Reason: schemas.ReasonKeyMismatch,
		},
		{
			Name: "reserved key", Rec: task.Record{Key: []byte(task.MarkKey), Value: good},
			Reason: schemas.ReasonKeyMismatch,
		},
		{
			Name:   "key with NUL in front",
			Rec:    task.Record{Key: []byte("\x00" + Sentinel().UserID), Value: good},
			Reason: schemas.ReasonKeyMismatch,
		},
		{
			Name:   "coordinate for a key",
			Rec:    task.Record{Key: []byte("53.40718281828459"), Value: good},
			Reason: schemas.ReasonKeyMismatch,
		},
	}
	for _, n := range []int{1, 2, 9, 10, 11, 20, len(good) - 9, len(good) - 1} {
		cases = append(cases, BadRecord{
			fmt.Sprintf("cut to %d bytes", n),
			task.Record{Value: good[:n]},
			schemas.ReasonMalformed,
		})
	}
	for _, c := range []struct {
		name   string
		reason schemas.Reason
		change func(*schemas.Raw)
	}{
		{"latitude NaN", schemas.ReasonNotFinite, func(r *schemas.Raw) { r.Latitude = nan }},
		{"longitude NaN", schemas.ReasonNotFinite, func(r *schemas.Raw) { r.Longitude = nan }},
		{"latitude infinite", schemas.ReasonNotFinite, func(r *schemas.Raw) { r.Latitude = inf }},
		{"longitude infinite", schemas.ReasonNotFinite, func(r *schemas.Raw) {
			r.Longitude = -inf
		}},
		{"accuracy NaN", schemas.ReasonNotFinite, func(r *schemas.Raw) { r.AccuracyM = &nan }},
		{"beyond the north pole", schemas.ReasonLatitudeOutOfRange, func(r *schemas.Raw) {
			r.Latitude = math.Nextafter(90, 91)
		}},
		{"beyond the south pole", schemas.ReasonLatitudeOutOfRange, func(r *schemas.Raw) {
			r.Latitude = -90.5
		}},
		{"beyond the antimeridian", schemas.ReasonLongitudeOutOfRange, func(r *schemas.Raw) {
			r.Longitude = 180.0001
		}},
		{"degrees times 1e7", schemas.ReasonLatitudeOutOfRange, func(r *schemas.Raw) {
			r.Latitude *= 1e7
			r.Longitude *= 1e7
		}},
		{"accuracy negative", schemas.ReasonAccuracyNegative, func(r *schemas.Raw) {
			a := -1.0
			r.AccuracyM = &a
		}},
		{"no user", schemas.ReasonUserMissing, func(r *schemas.Raw) { r.UserID = "" }},
		{"reserved user", schemas.ReasonUserReserved, func(r *schemas.Raw) {
			r.UserID = task.MarkKey
		}},
		{"user not UTF-8", schemas.ReasonInvalidUTF8, func(r *schemas.Raw) {
			r.UserID = "user-\xff"
		}},
		{"long user", schemas.ReasonUserTooLong, func(r *schemas.Raw) {
			r.UserID = strings.Repeat("u", schemas.MaxUserIDBytes+1)
		}},
		{"before 1970", schemas.ReasonBefore1970, func(r *schemas.Raw) { r.Timestamp = -1 }},
		{"the first of times", schemas.ReasonBefore1970, func(r *schemas.Raw) {
			r.Timestamp = math.MinInt64
		}},
		{"after 9999", schemas.ReasonAfter9999, func(r *schemas.Raw) {
			r.Timestamp = math.MaxInt64
		}},
		{"seconds for milliseconds", schemas.ReasonBeforeGPS, func(r *schemas.Raw) {
			r.Timestamp /= 1000
		}},
		{"just before GPS", schemas.ReasonBeforeGPS, func(r *schemas.Raw) {
			r.Timestamp = time.Date(1980, 1, 6, 0, 0, 0, 0, time.UTC).UnixMilli() - 1
		}},
		{"never had a fix", schemas.ReasonBeforeGPS, func(r *schemas.Raw) {
			r.Timestamp = time.Date(1980, 1, 6, 0, 0, 0, 0, time.UTC).UnixMilli()
		}},
		{"just ahead", schemas.ReasonTimestampAhead, func(r *schemas.Raw) {
			r.Timestamp = StartMS + 2*time.Minute.Milliseconds() + 1
		}},
		{"no place", schemas.ReasonNullIsland, func(r *schemas.Raw) {
			r.Latitude, r.Longitude = 0, math.Copysign(0, -1)
		}},
		{"another town", schemas.ReasonOutsideMap, func(r *schemas.Raw) { r.Latitude += 2 }},
		{"on the equator", schemas.ReasonOutsideMap, func(r *schemas.Raw) { r.Latitude = 0 }},
		{"years ahead", schemas.ReasonTimestampAhead, func(r *schemas.Raw) {
			r.Timestamp += 10 * 365 * 24 * time.Hour.Milliseconds()
		}},
	} {
		fix := Sentinel()
		c.change(&fix)
		// The key is the user, so that nothing but the change is wrong.
		cases = append(cases, BadRecord{
			c.name, task.Record{Key: []byte(fix.UserID), Value: Forge(tb, fix)}, c.reason,
		})
	}
	for i := range cases {
		cases[i].Rec.Timestamp = StartMS
		if cases[i].Rec.Key == nil && cases[i].Name != "no key" {
			cases[i].Rec.Key = []byte(Sentinel().UserID)
		}
	}
	unstamped := cases[2]
	unstamped.Name, unstamped.Rec.Timestamp = "garbage without a Kafka timestamp", -1
	return append(cases, unstamped, BadRecord{
		"a fix without a Kafka timestamp",
		task.Record{Timestamp: -1, Key: []byte(Sentinel().UserID), Value: good},
		schemas.ReasonNoRecordTime,
	})
}

// Forge encodes a fix in Avro without looking at what it says.
func Forge(tb testing.TB, fix schemas.Raw) []byte {
	tb.Helper()
	const header = 10 // the marker and the schema's fingerprint
	b := slices.Clone(Encode(tb, schemas.Avro, Sentinel())[:header])
	b = binary.AppendVarint(b, int64(len(fix.UserID)))
	b = append(b, fix.UserID...)
	b = binary.AppendVarint(b, fix.Timestamp)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(fix.Latitude))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(fix.Longitude))
	if fix.AccuracyM == nil {
		return binary.AppendVarint(b, 0)
	}
	b = binary.AppendVarint(b, 1)
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(*fix.AccuracyM))
}

// BadJSONRecords lists ways in which a JSON record can be wrong.
func BadJSONRecords(tb testing.TB) []BadRecord {
	tb.Helper()
	good := string(Encode(tb, schemas.JSON, Sentinel()))
	replaced := func(old, with string) string {
		if !strings.Contains(good, old) {
			tb.Fatalf("the encoded record has no %s", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	const lat = `"latitude":53.40718281828459`
	var cases []BadRecord
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
		{
			"number in quotes", replaced(lat, `"latitude":"53.40718281828459"`),
			schemas.ReasonWrongType.At("latitude"),
		},
		{"no latitude", replaced(lat+",", ""), schemas.ReasonMissingField.At("latitude")},
		{
			"out of range", replaced(lat, `"latitude":534.0718281828459`),
			schemas.ReasonLatitudeOutOfRange,
		},
	} {
		rec := task.Record{
			Timestamp: StartMS, Key: []byte(Sentinel().UserID), Value: []byte(c.value),
		}
		cases = append(cases, BadRecord{"JSON: " + c.name, rec, c.reason})
	}
	return cases
}
