package counting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/geodither/geodither/consumer/wire"
)

// version is the first byte of partials and states.
const version = 1

// partial is what one raw partition has counted in one window: a record of the partials' topic,
// whose key is that of the window.
//
//	version 1 | settings 8 | partition | start in ms | counts of zones
type partial struct {
	settings  digest // of its window
	partition int32  // of the raw topic
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
	r := readerOf(b)
	r.version()
	copy(p.settings[:], r.take(len(p.settings)))
	partition := r.Uvarint()
	p.startMS = r.Varint()
	p.counts = r.counts(math.MaxInt32)
	if r.Short || partition > math.MaxInt32 {
		return partial{}, errPartial
	}
	p.partition = int32(partition)
	return p, nil
}

// windowKey is the key of everything about a window.
func windowKey(startMS int64) []byte { return fmt.Append(nil, startMS) }

// reader is that of Kafka's answers. After the first field that is cut short or wrong it is Short,
// nothing is left, and all fields are zero.
type reader struct{ wire.Reader }

func readerOf(b []byte) reader { return reader{wire.Reader{Rest: b}} }

func (r *reader) fail() { r.Rest, r.Short = nil, true }

// take returns n bytes: zeros if they are not there.
func (r *reader) take(n int) []byte {
	if b := r.Take(n); b != nil {
		return b
	}
	return make([]byte, n)
}

func (r *reader) version() {
	if r.take(1)[0] != version {
		r.fail()
	}
}

// counts reads all that is left, of zones below a number.
func (r *reader) counts(zones int32) (all []zoneCount) {
	before := int64(-1)
	for len(r.Rest) > 0 {
		gap, count := r.Uvarint(), r.Uvarint()
		if gap >= uint64(int64(zones)-before-1) || count == 0 || count > math.MaxInt32 {
			r.fail()
			return nil
		}
		before += int64(gap) + 1
		all = append(all, zoneCount{int32(before), int64(count)})
	}
	return all
}
