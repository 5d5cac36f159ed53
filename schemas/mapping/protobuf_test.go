package mapping

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/geodither/geodither/schemas"
)

// encoder writes a message in protobuf's wire format.
type encoder []byte

func (e encoder) varint(n protowire.Number, v uint64) encoder {
	return protowire.AppendVarint(protowire.AppendTag(e, n, protowire.VarintType), v)
}

func (e encoder) bytes(n protowire.Number, v []byte) encoder {
	return protowire.AppendBytes(protowire.AppendTag(e, n, protowire.BytesType), v)
}

func (e encoder) double(n protowire.Number, v float64) encoder {
	return protowire.AppendFixed64(protowire.AppendTag(e, n, protowire.Fixed64Type),
		math.Float64bits(v))
}

func (e encoder) float(n protowire.Number, v float32) encoder {
	return protowire.AppendFixed32(protowire.AppendTag(e, n, protowire.Fixed32Type),
		math.Float32bits(v))
}

const vin = "5YJ3E1EA7KF000001"

// datum is one of a Payload.
func datum(key uint64, value encoder) encoder {
	return encoder{}.varint(1, key).bytes(2, value)
}

func place(latitude, longitude float64) encoder {
	return encoder{}.bytes(7, encoder{}.double(1, latitude).double(2, longitude))
}

// payload is a Payload of fleet-telemetry.
func payload(data ...encoder) encoder {
	var e encoder
	for _, d := range data {
		e = e.bytes(1, d)
	}
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC).Unix()
	return e.bytes(2, encoder{}.varint(1, uint64(at)).varint(2, 250_000_000)).bytes(3, []byte(vin))
}

// entity is a FeedEntity.
func entity(user string) encoder {
	vehicle := encoder{}.bytes(2, encoder{}.float(1, 53.4071).float(2, -2.9831).float(3, 80)).
		varint(5, 1795248000).bytes(8, encoder{}.bytes(1, []byte(user)))
	return encoder{}.bytes(1, []byte("e1")).bytes(4, vehicle)
}

var feedHeader = encoder{}.bytes(1, encoder{}.bytes(1, []byte("2.0")))

func TestProtobuf(t *testing.T) {
	speed := datum(4, encoder{}.double(5, 27.5))
	location := datum(teslaLocation, place(37.412374, -122.145867))
	const there = vin + " 2026-11-21T08:00:00.25Z 37.412374 -122.145867\n"
	const bus = "bus-9 2026-11-21T08:00:00Z 53.4071 -2.9831\n"
	for _, c := range []struct {
		name   string
		preset Preset
		key    string
		value  encoder
		want   string
	}{
		{"a place among others", Tesla, vin, payload(speed, location), there},
		{"fields that are new", Tesla, vin, payload(location).varint(99, 7).bytes(98, nil), there},
		{"no place", Tesla, vin, payload(speed), "skipped: data[key=Location].value exists\n"},
		{"not resent", Tesla, vin, payload(location).varint(4, 0), there},
		{"resent", Tesla, vin, payload(location).varint(4, 1), "skipped: isResend is not true\n"},
		{
			"invalid", Tesla, vin, payload(datum(teslaLocation, encoder{}.varint(10, 1))),
			"skipped: data[key=Location].value.invalid is not true\n",
		},
		{"a place in text", Tesla, vin, payload(datum(teslaLocation,
			encoder{}.bytes(1, []byte("(37.412374 N, 122.145867 W)")))), there},
		{
			"on the equator", Tesla, vin, payload(datum(teslaLocation,
				encoder{}.bytes(7, encoder{}.double(2, 7.5)))),
			vin + " 2026-11-21T08:00:00.25Z 0 7.5\n",
		},
		{
			"not a number", Tesla, vin, payload(datum(teslaLocation, place(math.NaN(), 1))),
			"refused: not_finite\n",
		},
		{
			"no time", Tesla, vin, encoder{}.bytes(1, location),
			"refused: missing_field: timestamp\n",
		},
		{
			"a time out of range", Tesla, vin,
			encoder{}.bytes(1, location).bytes(2, encoder{}.varint(1, 1<<60)),
			"refused: malformed\n",
		},
		{
			"text that is not UTF-8", Tesla, vin, payload(location).bytes(3, []byte{0xff}),
			"refused: invalid_utf8\n",
		},
		{"cut short", Tesla, vin, payload(location)[:20], "refused: malformed\n"},
		{"another message", Tesla, vin, encoder{}.varint(1, 7), "refused: malformed\n"},
		{"a group", Tesla, vin, encoder{0x0b}, "refused: malformed\n"},

		{
			"one vehicle", GTFSRealtime, "bus-9",
			append(feedHeader, encoder{}.bytes(2, entity("bus-9"))...),
			bus,
		},
		{
			"all vehicles", GTFSRealtime, "feed", append(feedHeader,
				encoder{}.bytes(2, entity("bus-9")).bytes(2, entity("bus-10"))...),
			"refused: several_users\n",
		},
		{
			"a deleted entity", GTFSRealtime, "bus-9", append(feedHeader,
				encoder{}.bytes(2, entity("bus-9").varint(2, 1))...),
			"skipped: isDeleted is not true\n",
		},
		{"an empty feed", GTFSRealtime, "bus-9", feedHeader, "skipped: empty\n"},
		{
			"no header", GTFSRealtime, "bus-9", encoder{}.bytes(2, entity("bus-9")),
			"refused: malformed\n",
		},
	} {
		for _, format := range []Format{Auto, Protobuf} {
			r := reader(t, Options{Preset: c.preset, Format: format})
			fixes, err := r.Read(Record{Key: []byte(c.key), Value: c.value, Timestamp: -1})
			if got := shown(r, fixes); err != nil || got != c.want {
				t.Errorf("%s, %s: %q, %v; want %q", c.name, format, got, err, c.want)
			}
		}
	}
	large := payload(location).bytes(97, make([]byte, schemas.MaxTreeBytes))
	r := reader(t, Options{Preset: Tesla})
	fixes, err := r.Read(Record{Key: []byte(vin), Value: large})
	if got := shown(r, fixes); err != nil || got != "refused: too_large\n" {
		t.Errorf("a large message: %q, %v", got, err)
	}
}

// FuzzProtobuf: no message crashes a decoder, and what it accepts is a fix.
func FuzzProtobuf(f *testing.F) {
	f.Add([]byte(payload(datum(teslaLocation, place(37.4, -122.1)))))
	f.Add([]byte(append(feedHeader, encoder{}.bytes(2, entity("bus-9"))...)))
	tesla, gtfs := reader(f, Options{Preset: Tesla}), reader(f, Options{Preset: GTFSRealtime})
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, r := range []*Reader{tesla, gtfs} {
			requireSound(t, r, Record{Key: []byte(vin), Value: value})
		}
	})
}

// requireSound requires what Read promises of any bytes.
func requireSound(t *testing.T, r *Reader, record Record) {
	t.Helper()
	fixes, err := r.Read(record)
	if err != nil || len(fixes) == 0 {
		t.Fatalf("%d fixes, %v", len(fixes), err)
	}
	user := UserOf(fixes)
	for _, f := range fixes {
		switch {
		case f.Refused != nil && f.Skipped == NoRule:
		case f.Refused == nil && f.Skipped != NoRule:
			if f.Skipped >= len(r.Rules()) {
				t.Errorf("rule %d of %d", f.Skipped, len(r.Rules()))
			}
		case f.Raw.Validate() != nil || f.Raw.UserID != user:
			t.Error("a fix is not valid, or of another user")
		}
	}
}

// FuzzRead reads any value and key by every mapping of the golden messages.
func FuzzRead(f *testing.F) {
	var readers []*Reader
	for name, o := range settings() {
		readers = append(readers, reader(f, o))
		for _, m := range messages(f, filepath.Join("testdata", name+".txt")) {
			f.Add(m.record.Key, m.record.Value)
		}
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		for _, r := range readers {
			requireSound(t, r, Record{Key: key, Value: value, Timestamp: -1})
		}
	})
}

// FuzzPath: a path that is accepted finds something or nothing, in any tree.
func FuzzPath(f *testing.F) {
	for _, text := range []string{
		"a.b.c", "a[0]", "a[key=Location].v", `$.a["x.y"]`, "$", "[0][1]",
	} {
		f.Add(text, []byte(tree))
	}
	f.Fuzz(func(t *testing.T, text string, value []byte) {
		p, err := parsePath(text)
		if err != nil {
			return
		}
		if len(p.steps) > maxSteps {
			t.Errorf("%d steps", len(p.steps))
		}
		if v, err := schemas.DecodeTree(value); err == nil {
			p.find(v, v)
		}
	})
}
