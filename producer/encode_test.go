package producer

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var goldenRecords = []Record{
	{Key: []byte("user-1"), Value: []byte("first"), Timestamp: 1_700_000_000_000},
	{Key: nil, Value: []byte{}, Timestamp: 1_700_000_000_500},
	{
		Key: []byte("user-2"), Value: nil, Timestamp: 1_699_999_999_000,
		Headers: []Header{
			{Key: "source", Value: []byte("bus")},
			{Key: "empty", Value: []byte{}},
			{Key: "null"},
		},
	},
}

// goldenFrame was worked out from the format's description, field by field;
// kafka-go and franz-go agree with it (TestGolden). It never changes silently.
const goldenFrame = "0000007d" + // size
	// base offset, length, leader epoch, magic
	"0000000000000000" + "00000071" + "ffffffff" + "02" +
	"cc4d07ce" + "0010" + "00000002" + // crc, attributes, last offset delta
	"0000018bcfe56800" + "0000018bcfe569f4" + // first and max timestamp
	"0000000000000457" + "0007" + "0000002a" + "00000003" + // producer, epoch, sequence, count
	"22" + "00" + "00" + "00" + "0c" + "757365722d31" + "0a" + "6669727374" + "00" +
	"0e" + "00" + "e807" + "02" + "01" + "00" + "00" +
	"4a" + "00" + "cf0f" + "04" + "0c" + "757365722d32" + "01" +
	"06" + "0c" + "736f75726365" + "06" + "627573" + "0a" + "656d707479" + "00" + "08" +
	"6e756c6c" + "01"

func seal(tb testing.TB, records []Record, ses session, sequence int32,
	codec kafka.Compression,
) []byte {
	tb.Helper()
	var e encoder
	if n, _ := e.fill(records, 1<<20); n != len(records) {
		tb.Fatalf("%d of %d records fit", n, len(records))
	}
	frame, err := e.seal(&ses, sequence, codec)
	if err != nil {
		tb.Fatal(err)
	}
	return frame
}

func TestGolden(t *testing.T) {
	frame := seal(t, goldenRecords,
		session{transactionalID: "t", producerID: 1111, producerEpoch: 7}, 42, 0)
	if got := hex.EncodeToString(frame); got != goldenFrame {
		t.Errorf("the encoding has changed:\n got %s\nwant %s", got, goldenFrame)
	}
	var batch kmsg.RecordBatch
	if err := batch.ReadFrom(frame[sizePrefixBytes:]); err != nil {
		t.Fatal(err)
	}
	if batch.ProducerID != 1111 || batch.ProducerEpoch != 7 || batch.FirstSequence != 42 ||
		batch.NumRecords != 3 ||
		batch.LastOffsetDelta != 2 || batch.FirstTimestamp != 1_700_000_000_000 ||
		batch.MaxTimestamp != 1_700_000_000_500 ||
		batch.Attributes != attributeTransactional || batch.PartitionLeaderEpoch != -1 ||
		int(batch.Length) != len(frame)-16 {
		t.Errorf("franz-go reads another header: %+v", batch)
	}
	if got, _ := decode(t, frame); !reflect.DeepEqual(normal(got), normal(goldenRecords)) {
		t.Errorf("kafka-go reads other records: %v", got)
	}
}

// decode reads a frame with kafka-go's own decoder, which checks the CRC.
func decode(tb testing.TB, frame []byte) ([]Record, *protocol.RecordBatch) {
	tb.Helper()
	var set protocol.RecordSet
	if _, err := set.ReadFrom(bytes.NewReader(frame)); err != nil {
		tb.Fatal(err)
	}
	stream, ok := set.Records.(*protocol.RecordStream)
	if !ok || len(stream.Records) != 1 {
		tb.Fatalf("not one batch: %T", set.Records)
	}
	batch, ok := stream.Records[0].(*protocol.RecordBatch)
	if !ok {
		tb.Fatalf("not a record batch: %T", stream.Records[0])
	}
	var records []Record
	for {
		r, err := batch.ReadRecord()
		if err != nil {
			return records, batch
		}
		if r.Offset != int64(len(records)) {
			tb.Fatalf("record %d has offset %d", len(records), r.Offset)
		}
		got := Record{
			Timestamp: r.Time.UnixMilli(), Key: readAll(tb, r.Key),
			Value: readAll(tb, r.Value),
		}
		for _, h := range r.Headers {
			got.Headers = append(got.Headers, Header(h))
		}
		records = append(records, got)
	}
}

func readAll(tb testing.TB, b protocol.Bytes) []byte {
	tb.Helper()
	if b == nil {
		return nil
	}
	got, err := protocol.ReadAll(b)
	if err != nil {
		tb.Fatal(err)
	}
	if got == nil {
		got = []byte{}
	}
	return got
}

func randomRecords(rng *rand.Rand, n int) []Record {
	maybe := func(most int) []byte {
		if rng.IntN(5) == 0 {
			return nil
		}
		b := make([]byte, rng.IntN(most))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	records := make([]Record, n)
	for i := range records {
		records[i] = Record{Key: maybe(20), Value: maybe(300), Timestamp: rng.Int64N(4e12) - 1e12}
		for range rng.IntN(3) {
			records[i].Headers = append(records[i].Headers,
				Header{Key: strings.Repeat("h", rng.IntN(70)), Value: maybe(9)})
		}
	}
	return records
}

func TestRoundTripThroughKafkaGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		want := randomRecords(rng, 1+rng.IntN(40))
		ses := session{producerID: rng.Int64(), producerEpoch: int16(rng.IntN(math.MaxInt16))}
		codec := kafka.Compression(rng.IntN(5))
		frame := seal(t, want, ses, int32(rng.IntN(math.MaxInt32)), codec)
		got, batch := decode(t, frame)
		if !reflect.DeepEqual(normal(got), normal(want)) {
			t.Fatalf("%v: kafka-go reads other records:\n got %v\nwant %v", codec, got, want)
		}
		if batch.ProducerID != ses.producerID || batch.ProducerEpoch != ses.producerEpoch {
			t.Fatalf("kafka-go reads producer %d epoch %d, want %d %d", batch.ProducerID,
				batch.ProducerEpoch, ses.producerID, ses.producerEpoch)
		}
	}
}

// normal forgets the difference between a null and an empty header value, which
// kafka-go's decoder does not keep.
func normal(records []Record) []Record {
	out := make([]Record, len(records))
	for i, r := range records {
		out[i] = r
		out[i].Headers = nil
		for _, h := range r.Headers {
			out[i].Headers = append(out[i].Headers, Header{h.Key, append([]byte{}, h.Value...)})
		}
	}
	return out
}

func FuzzEncode(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), int64(1), int64(-5), "header", uint8(3))
	f.Add([]byte(nil), []byte{}, int64(math.MaxInt64), int64(math.MinInt64), "", uint8(0))
	f.Fuzz(func(t *testing.T, key, value []byte, first, second int64, header string, codec uint8) {
		const year10000 = 253_402_300_800_000 // kafka-go's decoder goes through time.Time
		first, second = first%year10000, second%year10000
		want := []Record{
			{Key: key, Value: value, Timestamp: first, Headers: []Header{{header, value}}},
			{Key: nil, Value: key, Timestamp: second},
		}
		if len(header) > math.MaxInt16 || len(key)+2*len(value) > 1<<18 {
			t.Skip()
		}
		got, _ := decode(t, seal(t, want, session{}, 0, kafka.Compression(codec%5)))
		if !reflect.DeepEqual(normal(got), normal(want)) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestChecksumCoversEverythingBehindIt(t *testing.T) {
	frame := seal(t, goldenRecords, session{}, 0, 0)
	for i := sizePrefixBytes + 21; i < len(frame); i++ {
		bad := bytes.Clone(frame)
		bad[i] ^= 1
		var set protocol.RecordSet
		if _, err := set.ReadFrom(bytes.NewReader(bad)); err == nil {
			t.Fatalf("a flipped bit in byte %d goes unnoticed", i)
		}
	}
}

func TestFillStopsAtTheLimit(t *testing.T) {
	records := make([]Record, 100)
	for i := range records {
		records[i] = Record{Value: make([]byte, 50), Timestamp: int64(i)}
	}
	var e encoder
	total := 0
	for rest := records; len(rest) > 0; {
		n, _ := e.fill(rest, 500)
		if n == 0 {
			t.Fatal("a record that fits is refused")
		}
		if size := len(e.buf) - sizePrefixBytes; size > 500 {
			t.Fatalf("a batch of %d bytes exceeds the limit of 500", size)
		}
		if n < len(rest) {
			if size := len(e.buf) - sizePrefixBytes; size+60 < 500 {
				t.Fatalf("a batch of %d bytes leaves room for another record", size)
			}
		}
		total += n
		rest = rest[n:]
	}
	if total != len(records) {
		t.Fatalf("%d records of %d", total, len(records))
	}
	n, size := e.fill([]Record{{Value: make([]byte, 1000)}}, 500)
	if n != 0 || size != batchHeaderBytes+2+1+1+1+1+2+1000+1 {
		t.Errorf("a record that is too large: n=%d size=%d", n, size)
	}
}

func TestAdvanceWrapsAround(t *testing.T) {
	for _, c := range []struct {
		from int32
		n    int
		want int32
	}{
		{0, 1, 1},
		{math.MaxInt32 - 1, 1, math.MaxInt32},
		{math.MaxInt32, 1, 0},
		{math.MaxInt32 - 2, 10, 7},
	} {
		if got := advance(c.from, c.n); got != c.want {
			t.Errorf("advance(%d, %d) = %d, want %d", c.from, c.n, got, c.want)
		}
	}
}

func TestVarintBytes(t *testing.T) {
	for _, v := range []int64{
		0, -1, 1, 63, 64, -64, -65, 1 << 20, -1 << 40, math.MaxInt64,
		math.MinInt64,
	} {
		if got, want := varintBytes(v), len(binary.AppendVarint(nil, v)); got != want {
			t.Errorf("varintBytes(%d) = %d, want %d", v, got, want)
		}
	}
}
