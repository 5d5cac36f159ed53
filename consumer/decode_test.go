package consumer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
)

// traps are logs that a naive reader gets wrong, with what read_committed shows
// of them.
var traps = map[string]struct {
	batches []made
	aborted []aborted
	from    int64
	want    []string
	next    int64
	// broken is a reader without one rule; it has to fail on this trap.
	broken func(batches []made, list []aborted, from int64) ([]string, int64)
}{
	"aborted records are hidden": {
		batches: []made{
			{base: 0, producer: 7, open: true, records: []string{"a", "b"}},
			{base: 2, producer: 8, open: true, records: []string{"c"}},
			{base: 3, producer: 7, control: "abort"},
			{base: 4, producer: 8, control: "commit"},
			{base: 5, producer: 7, open: true, records: []string{"d"}},
			{base: 6, producer: 7, control: "commit"},
		},
		aborted: []aborted{{7, 0}}, want: []string{"c", "d"}, next: 7,
		broken: func(b []made, _ []aborted, from int64) ([]string, int64) {
			return naive(b, nil, from, rules{})
		},
	},
	"a marker whose records were compacted away": {
		batches: []made{
			{base: 3, producer: 7, control: "abort"},
			{base: 4, producer: 7, open: true, records: []string{"a"}},
			{base: 5, producer: 7, control: "commit"},
		},
		aborted: []aborted{{7, 0}}, want: []string{"a"}, next: 6,
		broken: func(b []made, list []aborted, from int64) ([]string, int64) {
			return naive(b, list, from, rules{openAtDataOnly: true})
		},
	},
	"several transactions of a producer, listed in any order": {
		batches: []made{
			{base: 0, producer: 7, open: true, records: []string{"a"}},
			{base: 1, producer: 7, control: "abort"},
			{base: 2, producer: 7, open: true, records: []string{"b"}},
			{base: 3, producer: 7, control: "commit"},
			{base: 4, producer: 7, open: true, records: []string{"c"}},
			{base: 5, producer: 7, control: "abort"},
		},
		aborted: []aborted{{7, 4}, {7, 0}}, want: []string{"b"}, next: 6,
		broken: func(b []made, list []aborted, from int64) ([]string, int64) {
			return naive(b, list, from, rules{unsorted: true})
		},
	},
	"a batch of which nothing is left": {
		batches: []made{{base: 5, last: 9}}, from: 5, want: []string{}, next: 10,
		broken: func(b []made, list []aborted, from int64) ([]string, int64) {
			return naive(b, list, from, rules{moveByRecords: true})
		},
	},
	"a batch whose last records were compacted away": {
		batches: []made{{base: 0, last: 9, records: []string{"a", "b", "c"}}}, from: 3,
		want: []string{}, next: 10,
		broken: func(b []made, list []aborted, from int64) ([]string, int64) {
			return naive(b, list, from, rules{moveByRecords: true})
		},
	},
	"records before the offset asked for": {
		batches: []made{{base: 0, records: []string{"a", "b", "c"}}}, from: 1,
		want: []string{"b", "c"}, next: 3,
		broken: func(b []made, list []aborted, from int64) ([]string, int64) {
			return naive(b, list, from, rules{keepEarlier: true})
		},
	},
	"records of no transaction between aborted ones": {
		batches: []made{
			{base: 0, producer: 7, open: true, records: []string{"a"}},
			{base: 1, producer: 7, records: []string{"b"}}, // idempotent only
			{base: 2, producer: -1, records: []string{"c"}},
			{base: 3, producer: 7, control: "abort"},
		},
		aborted: []aborted{{7, 0}}, want: []string{"b", "c"}, next: 4,
		broken: func(b []made, list []aborted, from int64) ([]string, int64) {
			return naive(b, list, from, rules{byProducerOnly: true})
		},
	},
	"control records": {
		batches: []made{
			{base: 0, producer: 7, control: "commit"},
			{base: 1, producer: 7, control: "abort"},
		},
		want: []string{}, next: 2,
		broken: func(b []made, list []aborted, from int64) ([]string, int64) {
			return naive(b, list, from, rules{showControl: true})
		},
	},
	"a marker that was compacted itself": {
		batches: []made{
			{
				base: 0, last: 0, producer: 7,
				attributes: attributeControl | attributeTransactional,
			},
			{base: 1, producer: 7, records: []string{"a"}},
		},
		want: []string{"a"}, next: 2,
	},
}

// rules that a naive reader may lack.
type rules struct {
	openAtDataOnly, unsorted, moveByRecords, keepEarlier, byProducerOnly,
	showControl bool
}

// naive reads a log as the fetcher does, except for the rules that are planted out.
func naive(batches []made, list []aborted, from int64, without rules) (
	values []string, next int64,
) {
	hidden := newFilter(slices.Clone(list))
	if without.unsorted {
		hidden = &filter{pending: slices.Clone(list)}
	}
	values, next = []string{}, from
	for _, m := range batches {
		b, err := parseBatch(m.bytes())
		if err != nil {
			panic(err)
		}
		if without.openAtDataOnly && b.control() {
			if abort, _ := abortMarker(&b); abort {
				hidden.aborting = slices.DeleteFunc(hidden.aborting, func(id int64) bool {
					return id == b.producerID
				})
			}
			next = max(next, b.last+1)
			continue
		}
		skip, _ := hidden.skip(&b)
		if without.byProducerOnly {
			skip = slices.Contains(hidden.aborting, b.producerID)
		}
		if without.showControl {
			skip = false
		}
		cut := from
		if without.keepEarlier {
			cut = 0
		}
		records, _ := b.appendRecords(nil, cut)
		if !skip {
			values = append(values, valuesOf(records)...)
		}
		if !without.moveByRecords {
			next = max(next, b.last+1)
		} else if len(records) > 0 {
			next = max(next, records[len(records)-1].Offset+1)
		}
	}
	return values, next
}

func TestReadCommittedTraps(t *testing.T) {
	for name, c := range traps {
		t.Run(name, func(t *testing.T) {
			got, err := decoded(t, newFetcher(t, FetcherOptions{}),
				answerOf(encodeAll(c.batches...), c.aborted...), c.from)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(valuesOf(got.Records), c.want) || got.Next != c.next {
				t.Errorf("%q and next %d, want %q and %d", valuesOf(got.Records), got.Next, c.want,
					c.next)
			}
			if got.StableEnd != 88 || got.End != 99 || got.Start != 1 {
				t.Errorf("bounds %+v", got)
			}
			if c.broken == nil {
				return
			}
			values, next := c.broken(c.batches, c.aborted, c.from)
			if slices.Equal(values, c.want) && next == c.next {
				t.Error("a reader without the rule passes as well: this trap proves nothing")
			}
		})
	}
}

func TestUncommittedShowsAllRecords(t *testing.T) {
	c := traps["aborted records are hidden"]
	got, err := decoded(t, newFetcher(t, FetcherOptions{Uncommitted: true}),
		answerOf(encodeAll(c.batches...)), 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(valuesOf(got.Records), want) ||
		got.Next != 7 {
		t.Errorf("%q and next %d, want %q and 7", valuesOf(got.Records), got.Next, want)
	}
}

func TestCorruptBatches(t *testing.T) {
	good := made{base: 10, records: []string{"a", "b"}}.bytes()
	change := func(at int, to byte) []byte { b := bytes.Clone(good); b[at] = to; return b }
	for name, c := range map[string]struct {
		data   []byte
		reason string
	}{
		"a flipped bit":     {change(len(good)-1, 0xff), "checksum"},
		"another checksum":  {change(atCRC, 0xff), "checksum"},
		"an unknown format": {change(atMagic, 9), "format 9"},
		"a negative length": {change(atLength, 0x80), "length"},
		"a short length":    {change(atLength+3, 3), "length"},
		"cut short":         {good[:len(good)-1], "cut short"},
		"a stub":            {good[:5], "cut short"},
		"too many records":  {reseal(change(atCount+3, 200)), "fewer records"},
		"too few records":   {reseal(change(atCount+3, 1)), "more than its records"},
		"a negative count":  {reseal(change(atCount, 0x80)), "negative"},
		"negative offsets":  {reseal(change(atLastOffsetDelta, 0x80)), "negative"},
		"records outside":   {reseal(change(atLastOffsetDelta+3, 0)), "outside"},
		"a broken record":   {reseal(change(batchHeaderBytes, 0x7f)), "record"},
		"unknown codec":     {reseal(change(atAttributes+1, 6)), "compression 6"},
		"not gzip":          {reseal(change(atAttributes+1, 1)), "gzip"},
		"not zstd":          {reseal(change(atAttributes+1, 4)), "zstd"},
	} {
		_, err := decoded(t, newFetcher(t, FetcherOptions{}), answerOf(c.data), 11)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Topic != "in" || corrupt.Partition != 3 ||
			corrupt.Offset != 11 || !strings.Contains(corrupt.Reason, c.reason) {
			t.Errorf("%s: %v, want in/3 corrupt at 11 because of %q", name, err, c.reason)
		}
		if errors.Is(err, wire.ErrTemporary) {
			t.Errorf("%s: damage is not temporary", name)
		}
	}
}

// oldSet is a record as brokers before Kafka 0.11 keep it: of format 0 or 1, alone or as the
// wrapper of compressed ones (https://kafka.apache.org/documentation/#messageset).
func oldSet(format, codec byte, value string) []byte {
	be := binary.BigEndian
	body := []byte{format, codec}
	if format == 1 {
		body = be.AppendUint64(body, 1700000000000)
	}
	body = be.AppendUint32(body, math.MaxUint32) // no key
	body = append(be.AppendUint32(body, uint32(len(value))), value...)
	set := be.AppendUint32(be.AppendUint64(nil, 11), uint32(4+len(body)))
	return append(be.AppendUint32(set, crc32.ChecksumIEEE(body)), body...)
}

// Records of the formats before 2 are not damaged: they are refused by the name of their format,
// however short or long they are, alone or behind others, and cut by the end of the answer.
func TestOldFormats(t *testing.T) {
	for format := range byte(2) {
		for codec := range byte(4) { // none, gzip, snappy, lz4
			for _, value := range []string{"", "a", strings.Repeat("a", 500)} {
				set := oldSet(format, codec, value)
				f := newFetcher(t, FetcherOptions{})
				before := made{base: 9, records: []string{"b", "c"}}.bytes()
				got, err := decoded(t, f, answerOf(append(before, set...)), 9)
				if err != nil || got.Next != 11 {
					t.Fatalf("what is before it: %+v, %v", got, err)
				}
				for cut := range 3 {
					_, err := decoded(t, f, answerOf(set[:len(set)-cut]), 11)
					want := fmt.Sprintf(
						"fetch in/3 from offset 11: message format %d, older",
						format,
					)
					var corrupt *CorruptError
					if err == nil || !strings.HasPrefix(err.Error(), want) ||
						errors.As(err, &corrupt) || errors.Is(err, wire.ErrTemporary) {
						t.Errorf("codec %d, %d bytes: %v, want %s", codec, len(value), err, want)
					}
				}
			}
		}
	}
}

// What lies before a damaged batch is delivered, and the damage is reported
// when it is reached; kafka-go drops it in silence.
func TestCorruptionBehindGoodBatches(t *testing.T) {
	f := newFetcher(t, FetcherOptions{})
	bad := made{base: 2, records: []string{"c"}}.bytes()
	bad[len(bad)-1] ^= 1
	data := append(encodeAll(made{base: 0, records: []string{"a", "b"}}), bad...)
	got, err := decoded(t, f, answerOf(data), 0)
	if err != nil || got.Next != 2 || !slices.Equal(valuesOf(got.Records), []string{"a", "b"}) {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = decoded(t, f, answerOf(data[len(data)-len(bad):]), 2)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Offset != 2 {
		t.Errorf("%v, want corruption at 2", err)
	}
}

func TestCutBatchIsLeftForTheNextFetch(t *testing.T) {
	data := encodeAll(made{base: 0, records: []string{"a"}}, made{base: 1, records: []string{"b"}})
	for cut := 1; cut < 60; cut++ {
		got, err := decoded(t, newFetcher(t, FetcherOptions{}), answerOf(data[:len(data)-cut]), 0)
		if err != nil || got.Next != 1 || len(got.Records) != 1 {
			t.Fatalf("cut by %d: %+v, %v", cut, got, err)
		}
	}
}

func TestCompressedBatches(t *testing.T) {
	for code := compress.Gzip; code <= compress.Zstd; code++ {
		raw := made{base: 5, records: []string{"a", "b", "c"}}.bytes()
		var packed bytes.Buffer
		w := code.Codec().NewWriter(&packed)
		if _, err := w.Write(raw[batchHeaderBytes:]); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		raw = append(raw[:batchHeaderBytes], packed.Bytes()...)
		raw[atAttributes+1] |= byte(code)
		got, err := decoded(t, newFetcher(t, FetcherOptions{}), answerOf(reseal(raw)), 5)
		if err != nil || !slices.Equal(valuesOf(got.Records), []string{"a", "b", "c"}) ||
			got.Next != 8 {
			t.Errorf("%v: %+v, %v", code, got, err)
		}
	}
}

func TestRecordFields(t *testing.T) {
	b := kmsg.NewRecordBatch()
	b.FirstOffset, b.Magic, b.FirstTimestamp, b.MaxTimestamp, b.LastOffsetDelta, b.NumRecords = 40,
		2, 5000, 9000, 3, 4
	for i, r := range []kmsg.Record{
		{
			Key: []byte("k"), Value: []byte("v"),
			Headers: []kmsg.Header{
				{Key: "h", Value: []byte("x")}, {Key: "null"}, {Key: "h", Value: []byte("y")},
			},
		},
		{TimestampDelta64: -700, Key: nil, Value: []byte{}},
		{TimestampDelta64: 300, Key: []byte{}, Value: nil},
		{
			TimestampDelta64: 4000, Key: bytes.Repeat([]byte("k"), 300),
			Value: bytes.Repeat([]byte("v"), 70000),
		},
	} {
		r.OffsetDelta = int32(i)
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b.Records = r.AppendTo(b.Records)
	}
	want := []Record{
		{
			40, 5000, []byte("k"), []byte("v"), Headers("\x02h\x02x\x08null\x01\x02h\x02y"),
			false,
		},
		{41, 4300, nil, []byte{}, nil, false},
		{42, 5300, []byte{}, nil, nil, false},
		{43, 9000, bytes.Repeat([]byte("k"), 300), bytes.Repeat([]byte("v"), 70000), nil, false},
	}
	raw := reseal(b.AppendTo(nil))
	got, err := decoded(t, newFetcher(t, FetcherOptions{}), answerOf(raw), 40)
	if err != nil || !reflect.DeepEqual(got.Records, want) {
		t.Errorf("%v, %v", got.Records, err)
	}
	for name, want := range map[string]string{"h": "y", "null": "", "": "none", "x": "none"} {
		if value, found := got.Records[0].Headers.Last(name); found != (want != "none") ||
			found && string(value) != want {
			t.Errorf("the header %q is %q, %v", name, value, found)
		}
	}
	raw[atAttributes+1] |= attributeLogAppendTime
	got, err = decoded(t, newFetcher(t, FetcherOptions{}), answerOf(reseal(raw)), 40)
	if err != nil || got.Records[0].Timestamp != 9000 || !got.Records[0].Appended {
		t.Errorf("with the time of the broker: %+v, %v", got.Records[0], err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range traps {
		f.Add(encodeAll(c.batches...), int64(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, offset int64) {
		if len(data) >= batchHeaderBytes {
			reseal(data) // to get past the checksum
		}
		got, err := decoded(t, newFetcher(t, FetcherOptions{}), answerOf(data, aborted{7, 0}),
			offset)
		if err != nil {
			return
		}
		for _, r := range got.Records {
			if r.Offset < offset || r.Offset >= got.Next {
				t.Fatalf("offset %d is not between %d and %d", r.Offset, offset, got.Next)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(answerOf(encodeAll(made{records: []string{"a"}}), aborted{1, 2}).Body, int16(11))
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		fetcher := newFetcher(t, FetcherOptions{})
		if part, err := fetcher.parse(&wire.Frame{Version: version % 13, Body: body}); err == nil {
			_, _ = fetcher.decode(part, 0)
		}
		_, _, _ = readCommitted("read", body, "in", 0)
	})
}

// BenchmarkDecode decodes an answer of 1000 records of 193 bytes.
func BenchmarkDecode(b *testing.B) {
	const n = 1000
	values := make([]string, n)
	for i := range values {
		values[i] = strings.Repeat("v", 90)
	}
	answer := answerOf(made{records: values}.bytes())
	f := newFetcher(b, FetcherOptions{})
	b.ReportAllocs()
	for b.Loop() {
		if got, err := decoded(b, f, answer, 0); err != nil || len(got.Records) != n {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
}
