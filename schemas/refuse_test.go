package schemas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

// reasonOf returns the reason of a refusal, "" for no error, and fails for an
// error of any other kind.
func reasonOf(t *testing.T, err error) Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var r *Rejection
	if !errors.As(err, &r) {
		t.Fatalf("error %v is no *Rejection", err)
	}
	return r.Reason
}

// fields builds a raw record's Avro encoding out of its parts.
func fields(parts ...[]byte) []byte {
	l := must(newLayout(rawSchema))
	return append(bytes.Clone(l.header[:]), bytes.Join(parts, nil)...)
}

func varint(v int64) []byte { return binary.AppendVarint(nil, v) }

func double(x float64) []byte {
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))
}

func text(s string) []byte { return append(varint(int64(len(s))), s...) }

func TestDecodeAvroRefuses(t *testing.T) {
	c := must(NewCodec(Avro))
	user, at, lat, lon, none, some := text("u"), varint(1e12), double(53), double(-3), varint(0),
		varint(1)
	foreign := fields(user, at, lat, lon, none)
	foreign[5] ^= 1
	for _, test := range []struct {
		name string
		data []byte
		want Reason
	}{
		{"sound, no accuracy", fields(user, at, lat, lon, none), ""},
		{"sound, with accuracy", fields(user, at, lat, lon, some, double(5)), ""},
		{"nil", nil, ReasonEmpty},
		{
			"too large", fields(text(strings.Repeat("u", MaxRecordBytes)), at, lat, lon, none),
			ReasonTooLarge,
		},
		{"header cut short", fields()[:9], ReasonMalformed},
		{"no marker", append([]byte{0}, fields(user, at, lat, lon, none)...), ReasonMalformed},
		{"JSON", []byte(`{"user_id":"u","timestamp":1}`), ReasonMalformed},
		{"foreign fingerprint", foreign, ReasonUnknownSchema},
		{"header alone", fields(), ReasonMalformed},
		{"double cut short", fields(user, at, lat, lon[:7]), ReasonMalformed},
		{"no union branch", fields(user, at, lat, lon), ReasonMalformed},
		{"unknown union branch", fields(user, at, lat, lon, varint(2), double(5)), ReasonMalformed},
		{"negative union branch", fields(user, at, lat, lon, varint(-1)), ReasonMalformed},
		{"accuracy cut short", fields(user, at, lat, lon, some), ReasonMalformed},
		{"trailing byte", fields(user, at, lat, lon, none, []byte{0}), ReasonMalformed},
		{
			"two records", fields(user, at, lat, lon, none, fields(user, at, lat, lon, none)),
			ReasonMalformed,
		},
		{"negative length", fields(varint(-1), at, lat, lon, none), ReasonMalformed},
		{"length past the end", fields(varint(1000), []byte("u")), ReasonMalformed},
		{"huge length", fields(varint(math.MaxInt64), []byte("u")), ReasonMalformed},
		{
			"long length of length", fields([]byte{0x82, 0x00, 'u'}, at, lat, lon, none),
			ReasonMalformed,
		},
		{"varint without end", fields(user, bytes.Repeat([]byte{0xff}, 50)), ReasonMalformed},
		{
			"varint of too many bytes", fields(user, []byte{0x80, 0x80, 0x00}, lat, lon, none),
			ReasonMalformed,
		},
		{
			"varint beyond 64 bits",
			fields(user, append(bytes.Repeat([]byte{0x80}, 9), 0x02), lat, lon, none),
			ReasonMalformed,
		},
		{"user is not UTF-8", fields(text("u\xff"), at, lat, lon, none), ReasonInvalidUTF8},
		{"surrogate in UTF-8", fields(text("\xed\xa0\x80"), at, lat, lon, none), ReasonInvalidUTF8},
		{"no user", fields(text(""), at, lat, lon, none), ReasonUserMissing},
		{"NaN", fields(user, at, double(math.NaN()), lon, none), ReasonNotFinite},
		{"infinite", fields(user, at, lat, double(math.Inf(-1)), none), ReasonNotFinite},
		{"accuracy is NaN", fields(user, at, lat, lon, some, double(math.NaN())), ReasonNotFinite},
		{"before 1970", fields(user, varint(-1), lat, lon, none), ReasonBefore1970},
	} {
		t.Run(test.name, func(t *testing.T) {
			if r, err := c.DecodeRaw(test.data); reasonOf(t, err) != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			} else if err != nil && r != (Raw{}) {
				t.Error("a refused record came with data")
			}
		})
	}
}

// TestDecodeIntRefusesWraparound gives a partition of 33 bits, which goavro's
// own int codec reads as another number.
func TestDecodeIntRefusesWraparound(t *testing.T) {
	c := must(NewCodec(Avro))
	for partition, want := range map[int64]Reason{
		math.MaxInt32: "", math.MinInt32: "",
		math.MaxInt32 + 1: ReasonMalformed, math.MinInt32 - 1: ReasonMalformed,
		1<<32 + 1<<30: ReasonMalformed,
	} {
		data := bytes.Join([][]byte{
			c.deadLetter.header[:], text("raw"), varint(partition), varint(1), text("late"),
			varint(0),
		}, nil)
		if _, err := c.DecodeDeadLetter(data); reasonOf(t, err) != want {
			t.Errorf("partition %d: %v, want %q", partition, err, want)
		}
	}
}

func TestDecodeJSONRefuses(t *testing.T) {
	c := must(NewCodec(JSON))
	const rest = `"latitude":53.4,"longitude":-3`
	for _, test := range []struct {
		name, data string
		want       Reason
	}{
		{"sound", `{"user_id":"u","timestamp":1,` + rest + `}`, ""},
		{
			"sound, spaced, any order",
			" {\r\n\t\"latitude\" : 53.4 , \"timestamp\" : 1 , \"longitude\" : -3 , \"user_id\" " +
				": \"u\" } \n", "",
		},
		{"accuracy", `{"user_id":"u","timestamp":1,"accuracy_m":5e0,` + rest + `}`, ""},
		{"accuracy null", `{"user_id":"u","timestamp":1,"accuracy_m":null,` + rest + `}`, ""},
		{
			"RFC 3339", `{"user_id":"u","timestamp":"2024-02-29T23:59:59.999+01:00",` + rest + `}`,
			"",
		},
		{
			"unknown fields",
			`{"x":[{"]":"}\"{"},[1,2]],"user_id":"u","timestamp":1,"y":{"user_id":"v","z":[]},` +
				rest + `,"n":null,"e":{}}`, "",
		},
		{"escaped field name", `{"user\u005fid":"u","timestamp":1,` + rest + `}`, ""},
		{"surrogate pair", `{"user_id":"\ud83d\ude8c\n","timestamp":1,` + rest + `}`, ""},

		{"empty", ``, ReasonEmpty},
		{"too large", `{"user_id":"` + strings.Repeat("u", MaxRecordBytes) + `"`, ReasonTooLarge},
		{"spaces", "  ", ReasonMalformed},
		{"cut short", `{"user_id":"u","timestamp":1,` + rest, ReasonMalformed},
		{"trailing garbage", `{"user_id":"u","timestamp":1,` + rest + `}x`, ReasonMalformed},
		{"two objects", `{"user_id":"u","timestamp":1,` + rest + `}{}`, ReasonMalformed},
		{"trailing comma", `{"user_id":"u","timestamp":1,` + rest + `,}`, ReasonMalformed},
		{
			"byte order mark", "\ufeff" + `{"user_id":"u","timestamp":1,` + rest + `}`,
			ReasonMalformed,
		},
		{"NaN", `{"user_id":"u","timestamp":1,"latitude":NaN,"longitude":-3}`, ReasonMalformed},
		{
			"Infinity", `{"user_id":"u","timestamp":1,"latitude":-Infinity,"longitude":-3}`,
			ReasonMalformed,
		},
		{"leading zero", `{"user_id":"u","timestamp":01,` + rest + `}`, ReasonMalformed},
		{
			"nested too deep", strings.Repeat("[", 20000) + strings.Repeat("]", 20000),
			ReasonMalformed,
		},
		{
			"control character", "{\"user_id\":\"u\x01\",\"timestamp\":1," + rest + `}`,
			ReasonMalformed,
		},
		{"not UTF-8", "{\"user_id\":\"u\xff\",\"timestamp\":1," + rest + `}`, ReasonInvalidUTF8},
		{
			"not UTF-8 where unknown",
			"{\"x\":\"\xff\",\"user_id\":\"u\",\"timestamp\":1," + rest + `}`, ReasonInvalidUTF8,
		},
		{
			"high surrogate alone", `{"user_id":"u\ud83d","timestamp":1,` + rest + `}`,
			ReasonInvalidUTF8,
		},
		{
			"low surrogate alone", `{"user_id":"\ude8cu","timestamp":1,` + rest + `}`,
			ReasonInvalidUTF8,
		},
		{
			"high surrogates", `{"user_id":"\ud83d\ud83d","timestamp":1,` + rest + `}`,
			ReasonInvalidUTF8,
		},
		{
			"high surrogate and letter", `{"user_id":"\ud83d\u0041","timestamp":1,` + rest + `}`,
			ReasonInvalidUTF8,
		},
		{
			"lone surrogate in a name", `{"\udead":1,"user_id":"u","timestamp":1,` + rest + `}`,
			ReasonInvalidUTF8,
		},

		{"array", `[1]`, ReasonWrongType},
		{"null", `null`, ReasonWrongType},
		{"string", `"u"`, ReasonWrongType},
		{
			"number as string", `{"user_id":"u","timestamp":1,"latitude":"53.4","longitude":-3}`,
			ReasonWrongType.At("latitude"),
		},
		{
			"millis as string", `{"user_id":"u","timestamp":"1700000000000",` + rest + `}`,
			ReasonWrongType.At("timestamp"),
		},
		{
			"time without zone", `{"user_id":"u","timestamp":"2024-02-29T23:59:59",` + rest + `}`,
			ReasonWrongType.At("timestamp"),
		},
		{
			"no such day", `{"user_id":"u","timestamp":"2023-02-29T23:59:59Z",` + rest + `}`,
			ReasonWrongType.At("timestamp"),
		},
		{
			"millis with fraction", `{"user_id":"u","timestamp":1.5,` + rest + `}`,
			ReasonWrongType.At("timestamp"),
		},
		{
			"millis with exponent", `{"user_id":"u","timestamp":1e12,` + rest + `}`,
			ReasonWrongType.At("timestamp"),
		},
		{
			"user is a number", `{"user_id":7,"timestamp":1,` + rest + `}`,
			ReasonWrongType.At("user_id"),
		},
		{
			"user is null", `{"user_id":null,"timestamp":1,` + rest + `}`,
			ReasonWrongType.At("user_id"),
		},
		{
			"latitude is null", `{"user_id":"u","timestamp":1,"latitude":null,"longitude":-3}`,
			ReasonWrongType.At("latitude"),
		},
		{
			"latitude is true", `{"user_id":"u","timestamp":1,"latitude":true,"longitude":-3}`,
			ReasonWrongType.At("latitude"),
		},
		{
			"longitude in an array",
			`{"user_id":"u","timestamp":1,"latitude":53.4,"longitude":[-3]}`,
			ReasonWrongType.At("longitude"),
		},
		{
			"accuracy is text", `{"user_id":"u","timestamp":1,"accuracy_m":"5",` + rest + `}`,
			ReasonWrongType.At("accuracy_m"),
		},

		{"no fields", `{}`, ReasonMissingField.At("user_id")},
		{"no user", `{"timestamp":1,` + rest + `}`, ReasonMissingField.At("user_id")},
		{
			"name in capitals", `{"User_Id":"u","timestamp":1,` + rest + `}`,
			ReasonMissingField.At("user_id"),
		},
		{
			"user only nested", `{"x":{"user_id":"u"},"timestamp":1,` + rest + `}`,
			ReasonMissingField.At("user_id"),
		},
		{"no timestamp", `{"user_id":"u",` + rest + `}`, ReasonMissingField.At("timestamp")},
		{
			"no latitude", `{"user_id":"u","timestamp":1,"longitude":-3}`,
			ReasonMissingField.At("latitude"),
		},
		{
			"no longitude", `{"user_id":"u","timestamp":1,"latitude":53}`,
			ReasonMissingField.At("longitude"),
		},
		{
			"field twice", `{"user_id":"u","timestamp":1,"user_id":"u",` + rest + `}`,
			ReasonDuplicateField,
		},
		{
			"field twice, escaped", `{"user_id":"u","timestamp":1,"user\u005fid":"v",` + rest + `}`,
			ReasonDuplicateField,
		},
		{"absent and present", `{"user_id":"u","timestamp":1,"accuracy_m":null,"accuracy_m":5,` +
			rest + `}`, ReasonDuplicateField},

		{
			"beyond a double", `{"user_id":"u","timestamp":1,"latitude":1e999,"longitude":-3}`,
			ReasonNotFinite,
		},
		{
			"north of the pole", `{"user_id":"u","timestamp":1,"latitude":90.1,"longitude":-3}`,
			ReasonLatitudeOutOfRange,
		},
		{
			"beyond int64", `{"user_id":"u","timestamp":99999999999999999999,` + rest + `}`,
			ReasonAfter9999,
		},
		{
			"beyond int64, negative",
			`{"user_id":"u","timestamp":-99999999999999999999,` + rest + `}`,
			ReasonBefore1970,
		},
		{
			"RFC 3339 before 1970",
			`{"user_id":"u","timestamp":"1969-12-31T23:59:59.9999Z",` + rest + `}`,
			ReasonBefore1970,
		},
		{"empty user", `{"user_id":"","timestamp":1,` + rest + `}`, ReasonUserMissing},
		{"reserved user", `{"user_id":"\u0000x","timestamp":1,` + rest + `}`, ReasonUserReserved},
	} {
		t.Run(test.name, func(t *testing.T) {
			if r, err := c.DecodeRaw([]byte(test.data)); reasonOf(t, err) != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			} else if err != nil && r != (Raw{}) {
				t.Error("a refused record came with data")
			}
		})
	}
}

// TestDecodeJSONInteger covers numbers that only the other records have.
func TestDecodeJSONInteger(t *testing.T) {
	c := must(NewCodec(JSON))
	for literal, want := range map[string]Reason{
		"7": "", "-7": "", "2147483647": "", "2147483648": ReasonWrongType.At("partition"),
		"7.0": ReasonWrongType.At("partition"), `"7"`: ReasonWrongType.At("partition"),
	} {
		data := `{"topic":"t","partition":` + literal + `,"offset":1,"reason":"late","timestamp":1}`
		if _, err := c.DecodeDeadLetter([]byte(data)); reasonOf(t, err) != want {
			t.Errorf("partition %s: %v, want %q", literal, err, want)
		}
	}
}

func TestDecodeJSONTime(t *testing.T) {
	c := must(NewCodec(JSON))
	for literal, want := range map[string]int64{
		`0`:                               0,
		`"1970-01-01T00:00:00Z"`:          0,
		`"1970-01-01T01:00:00.001+01:00"`: 1,
		`"1970-01-01T00:00:00.0019999Z"`:  1,
		`"9999-12-31T23:59:59.999Z"`:      lastTimestamp,
		`253402300799999`:                 lastTimestamp,
	} {
		r, err := c.DecodeRaw([]byte(`{"user_id":"u","latitude":0,"longitude":0,"timestamp":` +
			literal + `}`))
		if err != nil || r.Timestamp != want {
			t.Errorf("%s: %d (%v), want %d", literal, r.Timestamp, err, want)
		}
	}
}

// TestSurrogatesTellUsersApart is why lone surrogates are refused: decoded the
// usual way, these two users would be one.
func TestSurrogatesTellUsersApart(t *testing.T) {
	c := must(NewCodec(JSON))
	users := map[string]bool{}
	for _, id := range []string{`\ud800`, `\ud801`, `\ufffd`, `\\ud800`} {
		r, err := c.DecodeRaw([]byte(`{"user_id":"` + id +
			`","timestamp":1,"latitude":0,"longitude":0}`))
		if err == nil {
			users[r.UserID] = true
		}
	}
	if len(users) != 2 || !users["\ufffd"] || !users[`\ud800`] {
		t.Errorf("accepted users %v, want U+FFFD and the letters \\ud800", users)
	}
}

func TestNewCodecRefusesUnknownEncoding(t *testing.T) {
	for _, e := range []Encoding{"", "Avro", "protobuf"} {
		_, err := NewCodec(e)
		if err == nil || !strings.Contains(err.Error(), `"json_schema" or "auto"`) {
			t.Errorf("encoding %q: %v, want an error that lists the encodings", e, err)
		}
	}
}

// TestHalves: half an ellipse and half a release are refused on both ways, as is an ellipse that is
// none.
func TestHalves(t *testing.T) {
	for name, change := range map[string]func(*Sanitized){
		"no major axis":    func(s *Sanitized) { s.SigmaMajorM = Nullable{} },
		"no minor axis":    func(s *Sanitized) { s.SigmaMinorM = Nullable{} },
		"no azimuth":       func(s *Sanitized) { s.AzimuthDeg = Nullable{} },
		"minor above":      func(s *Sanitized) { s.SigmaMinorM = Some(s.SigmaMajorM.Number + 1) },
		"negative":         func(s *Sanitized) { s.SigmaMinorM = Some(-1) },
		"azimuth of 180":   func(s *Sanitized) { s.AzimuthDeg = Some(180) },
		"negative azimuth": func(s *Sanitized) { s.AzimuthDeg = Some(-1) },
		"no latitude":      func(s *Sanitized) { s.ReleaseLatitude = Nullable{} },
		"no longitude":     func(s *Sanitized) { s.ReleaseLongitude = Nullable{} },
	} {
		bad := exampleSanitized()
		change(&bad)
		for _, c := range codecs() {
			if _, err := c.AppendSanitized(nil, bad); err == nil {
				t.Errorf("%s, %s: it was written", name, c.encoding)
			}
			data := must(c.append(c.sanitized, nil, rowOf(c, bad)))
			if _, err := c.DecodeSanitized(data); reasonOf(t, err) != ReasonMalformed {
				t.Errorf("%s, %s: it was read: %v", name, c.encoding, err)
			}
		}
	}
}

// rowOf returns the row of a record that AppendSanitized refuses.
func rowOf(c *Codec, s Sanitized) []value {
	must(c.AppendSanitized(nil, exampleSanitized())) // leaves its row
	row := c.row[:len(c.sanitized.columns)]
	row[ellipseColumn], row[ellipseColumn+1] = s.SigmaMajorM.value(), s.SigmaMinorM.value()
	row[ellipseColumn+2] = s.AzimuthDeg.value()
	row[releaseColumn], row[releaseColumn+1] = s.ReleaseLatitude.value(), s.ReleaseLongitude.value()
	return row
}
