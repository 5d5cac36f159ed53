package counting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// version is the first byte of partials and states.
const version = 1

// partial is what one raw partition has counted in one window: a record of the partials' topic,
// whose key is that of the window.
//
//	version 1 | settings 8 | partition | start in ms | counts of zones
type partial struct {
	settings  digest
	partition int32 // of the raw topic
	startMS   int64
	counts    []zoneCount // by zone, without zeros
}

// zoneCount is how many users count in a zone.
type zoneCount struct {
	zone  int32
	count int64
}

func (p partial) appendTo(b []byte) []byte {
	b = append(append(b, version), p.settings[:]...)
	b = binary.AppendUvarint(b, uint64(p.partition))
	b = binary.AppendVarint(b, p.startMS)
	return appendCounts(b, p.counts)
}

// appendCounts appends for each zone its distance to the one before, from -1 on, less one, and its
// count.
func appendCounts(b []byte, all []zoneCount) []byte {
	before := int32(-1)
	for _, c := range all {
		b = binary.AppendUvarint(b, uint64(c.zone-before-1))
		b = binary.AppendUvarint(b, uint64(c.count))
		before = c.zone
	}
	return b
}

var errPartial = errors.New("this is no partial")

func decodePartial(b []byte) (p partial, err error) {
	r := reader{rest: b}
	r.version()
	copy(p.settings[:], r.take(len(p.settings)))
	partition := r.uvarint()
	p.startMS = r.varint()
	p.counts = r.counts(math.MaxInt32)
	if r.bad || partition > math.MaxInt32 {
		return partial{}, errPartial
	}
	p.partition = int32(partition)
	return p, nil
}

// windowKey is the key of everything about a window.
func windowKey(startMS int64) []byte { return fmt.Append(nil, startMS) }

// reader reads from the front of rest. After the first field that is cut short or wrong it is bad,
// rest is empty, and all fields are zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) fail() { r.rest, r.bad = nil, true }

func (r *reader) take(n int) []byte {
	if len(r.rest) < n {
		r.fail()
		return make([]byte, n)
	}
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

func (r *reader) version() {
	if r.take(1)[0] != version {
		r.fail()
	}
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// counts reads all that is left, of zones below a number.
func (r *reader) counts(zones int32) (all []zoneCount) {
	before := int64(-1)
	for len(r.rest) > 0 {
		gap, count := r.uvarint(), r.uvarint()
		if gap >= uint64(int64(zones)-before-1) || count == 0 || count > math.MaxInt32 {
			r.fail()
			return nil
		}
		before += int64(gap) + 1
		all = append(all, zoneCount{int32(before), int64(count)})
	}
	return all
}
