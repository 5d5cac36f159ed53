package counting

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/geodither/geodither/consumer/task"
)

// zonesOfChunk is how many zones share a state of the partition. A fix that counts rewrites one
// such state: some hundred bytes at most, where all of 10,000 zones and six windows are 120 kB.
const zonesOfChunk = 128

// openCounts are the counts of windows that are not closed, in states of the partition by window
// and chunk of zones.
type openCounts struct {
	windows map[int64]map[int32]*chunk // by start in ms, then by number
	changed []chunkKey                 // since the last changes
	removed []chunkKey
}

// chunk is the counts of zones that follow each other.
type chunk struct {
	counts  [zonesOfChunk]uint32
	changed bool
}

type chunkKey struct {
	startMS int64
	number  int32
}

// name is that of the chunk's state: the window's start and the chunk's number, so never empty.
func (k chunkKey) name() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(k.startMS))
	return binary.AppendUvarint(b, uint64(k.number))
}

func (o *openCounts) chunk(k chunkKey) *chunk {
	window := o.windows[k.startMS]
	if window == nil {
		window = map[int32]*chunk{}
		o.windows[k.startMS] = window
	}
	c := window[k.number]
	if c == nil {
		c = new(chunk)
		window[k.number] = c
	}
	return c
}

// add counts a user in a zone of a window.
func (o *openCounts) add(startMS int64, zone int32) {
	k := chunkKey{startMS, zone / zonesOfChunk}
	c := o.chunk(k)
	c.counts[zone%zonesOfChunk]++
	if !c.changed {
		c.changed = true
		o.changed = append(o.changed, k)
	}
}

// close removes a window and returns its counts, by zone and without zeros.
func (o *openCounts) close(startMS int64) (all []zoneCount) {
	window := o.windows[startMS]
	for _, number := range slices.Sorted(maps.Keys(window)) {
		all = append(all, window[number].list(number*zonesOfChunk)...)
		o.removed = append(o.removed, chunkKey{startMS, number})
	}
	delete(o.windows, startMS)
	return all
}

// list returns the counts that are not zero, of zones from first on.
func (c *chunk) list(first int32) (all []zoneCount) {
	for i, n := range c.counts {
		if n > 0 {
			all = append(all, zoneCount{first + int32(i), int64(n)})
		}
	}
	return all
}

// changes appends the states that have changed since the last call.
func (o *openCounts) changes(dst []task.Change) []task.Change {
	for _, k := range o.changed {
		if c := o.windows[k.startMS][k.number]; c != nil { // else it was closed since
			c.changed = false
			value := appendCounts([]byte{version}, c.list(0))
			dst = append(dst, task.Change{Key: k.name(), Value: value})
		}
	}
	for _, k := range o.removed {
		dst = append(dst, task.Change{Key: k.name()})
	}
	o.changed, o.removed = o.changed[:0], o.removed[:0]
	return dst
}

var errChunk = errors.New("a state of the partition cannot be read")

// restore takes a state that changes wrote.
func (o *openCounts) restore(name, value []byte, zones int) error {
	at, is := readerOf(name), readerOf(value)
	startMS, number := int64(binary.BigEndian.Uint64(at.take(8))), at.Uvarint()
	is.version()
	all := is.counts(zonesOfChunk)
	if at.Short || is.Short || len(at.Rest) > 0 || number > uint64(zones/zonesOfChunk) {
		return errChunk
	}
	c := o.chunk(chunkKey{startMS, int32(number)})
	for _, z := range all {
		c.counts[z.zone] = uint32(z.count)
	}
	return nil
}
