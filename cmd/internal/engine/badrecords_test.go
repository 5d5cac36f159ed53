package engine

import (
	"bytes"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
)

// TestBadRecords: each gives one dead letter that says where it lies and why, and
// nothing of what it holds; the partition goes on as if it had not been there.
func TestBadRecords(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	for _, encoding := range []schemas.Encoding{schemas.Avro, schemas.JSON} {
		o := testSettings(t, model)
		o.RawEncoding, o.SanitizedEncoding = encoding, encoding
		const partition = 3
		p := newTestProcessor(t, o, partition)
		cases := servicetest.BadRecords(t)
		if encoding == schemas.JSON {
			cases = servicetest.BadJSONRecords(t)
		}
		next := servicetest.Sentinel()
		next.Timestamp += 60_000
		goesOn := servicetest.Record(t, 4711, next)
		goesOn.Value = servicetest.Encode(t, encoding, next)
		state := servicetest.Process(t, newTestProcessor(t, o, partition), task.Record{
			Offset: 1, Timestamp: servicetest.StartMS, Key: []byte(next.UserID),
			Value: servicetest.Encode(t, encoding, servicetest.Sentinel()),
		}, nil).State
		want := servicetest.Process(t, newTestProcessor(t, o, partition), goesOn, state)
		for i, c := range cases {
			t.Run(c.Name, func(t *testing.T) {
				c.Rec.Offset = int64(1_000_000_007 + i)
				got := servicetest.Process(t, p, c.Rec, state)
				letter := got.Letter(t, encoding)
				due := schemas.DeadLetter{
					Topic: "raw", Partition: partition, Offset: c.Rec.Offset, Reason: c.Reason,
					Timestamp: c.Rec.Timestamp,
				}
				if letter != due {
					t.Errorf("dead letter %+v, want %+v", letter, due)
				}
				m := got.Dead[0]
				if m.Key != nil || m.Timestamp != c.Rec.Timestamp {
					t.Errorf("dead letter has key %q and timestamp %d", m.Key, m.Timestamp)
				}
				public := encodeLetter(t, encoding, due)
				if !bytes.Equal(m.Value, public) {
					t.Error("the dead letter holds more than its fields")
				}
				secrets := append(servicetest.CoordinateSecrets(servicetest.Sentinel(), model.Grid),
					servicetest.UserSecrets(servicetest.Sentinel().UserID)...)
				servicetest.RequireNoLeak(t, "the dead letter", m.Value,
					append(secrets, servicetest.PayloadSecrets(c.Rec.Value, public)...))
				servicetest.RequireEqual(t, "the next record", want,
					servicetest.Process(t, p, goesOn, state))
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

// TestAdvice: what is refused most is explained by its first bytes, or by the reason.
func TestAdvice(t *testing.T) {
	avro, asJSON := servicetest.Encode(t, schemas.Avro, servicetest.Sentinel()),
		servicetest.Encode(t, schemas.JSON, servicetest.Sentinel())
	foreign, framed := bytes.Clone(avro), append([]byte{0, 0, 0, 0, 7}, avro[10:]...)
	foreign[5] ^= 0x40
	swapped := servicetest.Sentinel()
	swapped.Latitude, swapped.Longitude = swapped.Longitude, swapped.Latitude
	const confluent = "begin as Confluent's framing does: set encoding.raw: auto"
	for name, c := range map[string]struct {
		encoding        schemas.Encoding
		bad             []byte
		reasons, advice string
	}{
		"JSON for Avro": {
			schemas.Avro, asJSON, "malformed 3", "these begin with '{': set encoding.raw: json",
		},
		"Avro for JSON": {
			schemas.JSON, avro, "invalid_utf8 3", "set encoding.raw: avro",
		},
		"Confluent framing":          {schemas.Avro, framed, "malformed 3", confluent},
		"Confluent framing for JSON": {schemas.JSON, framed, "invalid_utf8 3", confluent},
		"another schema": {
			schemas.Avro, foreign, "unknown_schema 3", "of another schema",
		},
		"a string for a number": {
			schemas.JSON, bytes.Replace(asJSON, []byte(`"latitude":53.40718281828459`),
				[]byte(`"latitude":"53.40718281828459"`), 1),
			"wrong_type: latitude 3", "other names or types",
		},
		"swapped": {
			schemas.Avro, servicetest.Forge(t, swapped), "outside_map 3",
			"latitude and longitude look swapped",
		},
	} {
		o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
		o.RawEncoding = c.encoding
		p := newTestProcessor(t, o, 0)
		for offset := range int64(3) {
			servicetest.Process(t, p, task.Record{
				Offset: offset, Timestamp: servicetest.StartMS, Value: c.bad,
				Key: []byte(servicetest.Sentinel().UserID),
			}, nil)
		}
		tally, _ := p.Take()
		advice := o.Source().Advice(tally.Refusals, tally.OutsideSwapped)
		if tally.Refusals.String() != c.reasons || !strings.Contains(advice, c.advice) {
			t.Errorf("%s: %s, %q", name, tally.Refusals.String(), advice)
		}
	}
}
