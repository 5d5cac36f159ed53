package portable

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// TestReader: what was written is read back, and nothing behind what cannot be read.
func TestReader(t *testing.T) {
	t.Parallel()
	data := binary.AppendUvarint(nil, math.MaxUint64)
	data = binary.AppendVarint(data, math.MinInt64)
	r := Reader{Rest: append(data, 7)}
	if u, v := r.Uvarint(), r.Varint(); u != math.MaxUint64 || v != math.MinInt64 || r.Bad {
		t.Errorf("%d, %d, bad %t", u, v, r.Bad)
	}
	if !bytes.Equal(r.Rest, []byte{7}) {
		t.Errorf("%v are left", r.Rest)
	}
	tooLarge := append(bytes.Repeat([]byte{0xff}, 10), 1, 2)
	for name, data := range map[string][]byte{
		"nothing": {}, "cut short": {0x80}, "too large": tooLarge,
	} {
		for _, read := range []func(*Reader) bool{
			func(r *Reader) bool { return r.Uvarint() == 0 },
			func(r *Reader) bool { return r.Varint() == 0 },
		} {
			r := Reader{Rest: data}
			if !read(&r) || !r.Bad || len(r.Rest) > 0 || !read(&r) {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}
