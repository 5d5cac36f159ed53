package engine

import (
	"bytes"
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

// TestEveryCut: no prefix of a record is taken for one, and none breaks anything.
func TestEveryCut(t *testing.T) {
	p := newTestProcessor(
		t, testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)), 0)
	good := servicetest.Record(t, 0, servicetest.Sentinel())
	for n := 1; n < len(good.Value); n++ {
		cut := good
		cut.Value = good.Value[:n]
		if got := servicetest.Process(t, p, cut,
			nil).Letter(t, schemas.Avro).Reason; got != schemas.ReasonMalformed {
			t.Errorf("%d bytes of it: %s", n, got)
		}
	}
}
