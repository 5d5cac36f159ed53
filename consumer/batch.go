package consumer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/geodither/geodither/consumer/wire"
	"github.com/segmentio/kafka-go/compress"
)

// Offsets of the fields of a record batch, version 2 (KIP-98).
const (
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atFirstTimestamp  = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atCount           = 57
	batchHeaderBytes  = 61
	afterLength       = atLength + 4 // the batch length counts the bytes from here
)

// Attributes of a batch.
const (
	attributeCodec         = 0x07
	attributeLogAppendTime = 1 << 3
	attributeTransactional = 1 << 4
	attributeControl       = 1 << 5
)

// minRecordBytes is the smallest encoded record: seven fields of a byte.
const minRecordBytes = 7

// maxInflatedBytes bounds a decompressed batch, so that a small batch cannot use up the memory.
const maxInflatedBytes = 256 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is the header of one record batch and the bytes of its records.
type batch struct {
	base, last   int64 // offsets that the batch covers, with those that compaction removed
	epoch        int32 // of the leader that appended it; -1: the broker does not say
	attributes   int16
	first, max   int64 // timestamps, ms
	producerID   int64
	count        int32
	payload      []byte // records, compressed if the attributes name a codec
	offsetOfNext int    // where the next batch starts, in bytes
}

func (b *batch) control() bool       { return b.attributes&attributeControl != 0 }
func (b *batch) transactional() bool { return b.attributes&attributeTransactional != 0 }

// flaw is why bytes are not a record batch.
type flaw string

// errCut is a batch of which the answer holds only a part, because brokers cut answers at the byte
// limit. It is an error only if it is the answer's first batch.
const errCut flaw = "a batch is cut short"

func (f flaw) Error() string { return string(f) }

// oldFormat is the message format 0 or 1 of producers and brokers before Kafka 0.11. Such records
// have no batch header, and are not damaged.
type oldFormat byte

func (o oldFormat) Error() string {
	return fmt.Sprintf("message format %d, older than Kafka 0.11, is not read", byte(o))
}

// parseBatch reads the batch at the front of b and checks its CRC. With any error but errCut, base
// is the offset at which the batch claims to start.
func parseBatch(b []byte) (batch, error) {
	if len(b) < afterLength {
		return batch{}, errCut
	}
	be := binary.BigEndian
	p := batch{base: int64(be.Uint64(b))}
	length := int64(int32(be.Uint32(b[atLength:])))
	// All formats have their number at the same place. The older ones can be shorter than a header.
	if len(b) > atMagic && b[atMagic] < 2 && length >= 0 {
		return p, oldFormat(b[atMagic])
	}
	if length < batchHeaderBytes-afterLength {
		return p, flaw("its length is impossible")
	}
	if length > int64(len(b)-afterLength) {
		return p, errCut
	}
	b = b[:afterLength+int(length)]
	if b[atMagic] != 2 {
		return p, flaw(fmt.Sprintf("message format %d is not 2", b[atMagic]))
	}
	if crc32.Checksum(b[atAttributes:], castagnoli) != be.Uint32(b[atCRC:]) {
		return p, flaw("its checksum is wrong")
	}
	p.epoch = int32(be.Uint32(b[atLeaderEpoch:]))
	p.attributes = int16(be.Uint16(b[atAttributes:]))
	p.first = int64(be.Uint64(b[atFirstTimestamp:]))
	p.max = int64(be.Uint64(b[atMaxTimestamp:]))
	p.producerID = int64(be.Uint64(b[atProducerID:]))
	p.count = int32(be.Uint32(b[atCount:]))
	p.payload = b[batchHeaderBytes:]
	p.offsetOfNext = len(b)
	delta := int32(be.Uint32(b[atLastOffsetDelta:]))
	if p.last = p.base + int64(delta); delta < 0 || p.base < 0 || p.count < 0 || p.last < p.base {
		return p, flaw("its offsets or its count are negative")
	}
	return p, nil
}

// records returns the bytes of the batch's records, decompressed if need be.
func (b *batch) records() ([]byte, error) {
	code := compress.Compression(b.attributes & attributeCodec)
	if code == compress.None {
		return b.payload, nil
	}
	codec := code.Codec()
	if codec == nil {
		return nil, flaw(fmt.Sprintf("unknown compression %d", int8(code)))
	}
	r := codec.NewReader(bytes.NewReader(b.payload))
	inflated, err := io.ReadAll(io.LimitReader(r, maxInflatedBytes+1))
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, flaw("its " + codec.Name() + " data cannot be read: " + err.Error())
	}
	if len(inflated) > maxInflatedBytes {
		return nil, flaw(fmt.Sprintf("it inflates to more than %d bytes", maxInflatedBytes))
	}
	return inflated, nil
}

// appendRecords decodes the batch's records from an offset on. Keys and values are slices of the
// batch's bytes, or of its decompressed bytes.
func (b *batch) appendRecords(dst []Record, from int64) ([]Record, error) {
	data, err := b.records()
	if err != nil {
		return dst, err
	}
	r := wire.Reader{Rest: data}
	if int64(b.count)*minRecordBytes > int64(len(data)) {
		return dst, flaw("it holds fewer records than it says")
	}
	for range b.count {
		record, err := b.record(&r)
		if err != nil {
			return dst, err
		}
		if record.Offset >= from {
			dst = append(dst, record)
		}
	}
	if len(r.Rest) > 0 {
		return dst, flaw("it holds more than its records")
	}
	return dst, nil
}

// record decodes one record.
func (b *batch) record(r *wire.Reader) (Record, error) {
	size := r.Varint()
	if size < minRecordBytes-1 || size > int64(len(r.Rest)) {
		return Record{}, flaw("a record's length is impossible")
	}
	f := wire.Reader{Rest: r.Take(int(size))}
	f.Int8() // attributes, none of them defined
	timeDelta, offsetDelta := f.Varint(), f.Varint()
	record := Record{
		Offset: b.base + offsetDelta, Timestamp: b.first + timeDelta,
		Key: f.VarintBytes(), Value: f.VarintBytes(),
	}
	if b.attributes&attributeLogAppendTime != 0 {
		record.Timestamp, record.Appended = b.max, true
	}
	if offsetDelta < 0 || offsetDelta > b.last-b.base {
		return Record{}, flaw("a record's offset is outside of it")
	}
	headers := f.Varint()
	if headers < 0 || headers > int64(len(f.Rest)) {
		return Record{}, flaw("a record's header count is impossible")
	}
	encoded := f.Rest
	for range headers {
		f.VarintBytes()
		f.VarintBytes()
	}
	if headers > 0 {
		record.Headers = encoded
	}
	if f.Short || len(f.Rest) > 0 {
		return Record{}, flaw("a record's fields do not fill its length")
	}
	return record, nil
}
