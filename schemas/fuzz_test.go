package schemas

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"testing"
)

// seed adds the golden records and what the refusal tables hold.
func seed(f *testing.F) {
	f.Helper()
	golden := must(os.ReadFile("testdata/records.golden"))
	for _, m := range regexp.MustCompile(`(?m)^avro (.*)$`).FindAllSubmatch(golden, -1) {
		f.Add(must(hex.DecodeString(string(m[1]))))
	}
	for _, m := range regexp.MustCompile(`(?m)^json (.*)$`).FindAllSubmatch(golden, -1) {
		f.Add(m[1])
	}
	f.Add([]byte(`{"x":[{"]":"}\"{"}],"user\u005fid":"\ud83d\ude8c",` +
		`"timestamp":"2024-02-29T23:59:59.9+01:00","latitude":1e1,"longitude":-0}`))
	f.Add(fields(varint(1<<62), []byte("u")))
	f.Add(fields(text("u"), bytes.Repeat([]byte{0xff}, 20)))
}

// FuzzDecodeAvro: whatever the bytes are, decoding refuses them with a reason
// or gives a record that encodes to the same bytes again.
func FuzzDecodeAvro(f *testing.F) {
	seed(f)
	c := must(NewCodec(Avro))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, again := range decodeAll(t, c, data) {
			// What is published is read in all encodings: see FuzzDecodePublished.
			if again != nil && !bytes.Equal(again, data) && FramingOf(data) == FramingSingle {
				t.Errorf("%x was accepted, but encodes as %x", data, again)
			}
		}
	})
}

// FuzzDecodeAvroBody is FuzzDecodeAvro after the right header, which a fuzzer
// would rarely find.
func FuzzDecodeAvroBody(f *testing.F) {
	f.Add(uint8(0), fields(text("u"), varint(1), double(1), double(2), varint(0))[headerBytes:])
	f.Add(uint8(2), bytes.Join([][]byte{text("t"), varint(1), varint(2), text("late"), varint(-1)},
		nil))
	c := must(NewCodec(Avro))
	layouts := []*layout{c.raw, c.sanitized, c.deadLetter, c.counts}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		data := append(bytes.Clone(layouts[int(which)%len(layouts)].header[:]), body...)
		for _, again := range decodeAll(t, c, data) {
			if again != nil && !bytes.Equal(again, data) {
				t.Errorf("%x was accepted, but encodes as %x", data, again)
			}
		}
	})
}

// FuzzDecodeJSON: decoding refuses with a reason or gives a record whose
// encoding decodes to it again.
func FuzzDecodeJSON(f *testing.F) {
	seed(f)
	c := must(NewCodec(JSON))
	f.Fuzz(func(t *testing.T, data []byte) {
		for kind, first := range decodeAll(t, c, data) {
			if second := decodeAll(t, c, first)[kind]; !bytes.Equal(second, first) {
				t.Errorf("%q became %q, then %q", data, first, second)
			}
		}
	})
}

// decodeAll decodes data as each kind of record and returns the encodings of
// what was accepted, nil for what was not.
func decodeAll(t *testing.T, c *Codec, data []byte) (encoded [4][]byte) {
	t.Helper()
	if r, err := c.DecodeRaw(data); reasonOf(t, err) == "" {
		encoded[0] = must(c.AppendRaw(nil, r))
	}
	if s, err := c.DecodeSanitized(data); reasonOf(t, err) == "" {
		encoded[1] = must(c.AppendSanitized(nil, s))
	}
	if d, err := c.DecodeDeadLetter(data); reasonOf(t, err) == "" {
		encoded[2] = must(c.AppendDeadLetter(nil, d))
	}
	if n, err := c.DecodeCounts(data); reasonOf(t, err) == "" {
		encoded[3] = must(c.AppendCounts(nil, n))
	}
	return encoded
}

// TestHostileBytesAreCheap decodes damaged records, half of them with a length
// that promises gigabytes: a refusal may cost no more than a few times what a
// record is long.
func TestHostileBytesAreCheap(t *testing.T) {
	const decodes, limitBytes = 4000, 4 << 10
	huge := varint(math.MaxInt64)
	for _, c := range codecs() {
		t.Run(string(c.encoding), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 1))
			sound := must(c.AppendRaw(nil, exampleRaw()))
			damaged := make([][]byte, decodes)
			for i := range damaged {
				bad := bytes.Clone(sound)
				for range 1 + rng.IntN(4) {
					bad[rng.IntN(len(bad))] = byte(rng.Uint32())
				}
				if at := headerBytes + rng.IntN(len(bad)-headerBytes); i%2 == 0 {
					bad = slices.Concat(sound[:headerBytes], bad[headerBytes:at], huge, bad[at:])
				}
				damaged[i] = bad
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, bad := range damaged {
				_, _ = c.DecodeRaw(bad)
			}
			runtime.ReadMemStats(&after)
			if each := (after.TotalAlloc - before.TotalAlloc) / decodes; each > limitBytes {
				t.Errorf("a damaged record costs %d bytes of memory, at most %d are allowed", each,
					limitBytes)
			}
		})
	}
}
