package producer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	kafka "github.com/segmentio/kafka-go"
)

// Layout of a record batch, version 2 (KIP-98), as it lies in a produce
// request: an int32 of its size first, then
//
//	 0  base offset (8)        23  last offset delta (4)   51  producer epoch (2)
//	 8  batch length (4)       27  first timestamp (8)     53  base sequence (4)
//	12  leader epoch (4)       35  max timestamp (8)       57  record count (4)
//	16  magic (1)              43  producer id (8)         61  records
//	17  crc-32c of [21:] (4)
//	21  attributes (2)
//
// and every record as
//
//	length varint | attributes 1 | timestamp delta varint | offset delta varint |
//	key length varint, key | value length varint, value |
//	header count varint, headers: key length varint, key, value length varint, value
//
// where a length of -1 is null. Kafka's varint is Go's: zig-zag, 7 bits a byte.
const (
	sizePrefixBytes  = 4
	batchHeaderBytes = 61
	frameBytes       = sizePrefixBytes + batchHeaderBytes

	magic                  = 2
	attributeTransactional = 1 << 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encoder encodes one record batch at a time into a buffer that it keeps. The bytes that seal
// returns are in that buffer, so the encoder must not be used again before the connection that
// sends them has answered.
type encoder struct {
	buf             []byte // size prefix, header, records
	packed          []byte // the same with compressed records, if there is a codec
	count           int32
	first, min, max int64 // timestamps, ms
}

// fill starts a new batch with as many of the records as fit into limit bytes, header included. It
// returns how many those are, and the size. 0 means that the first record alone does not fit; the
// size is then that of a batch with this record.
func (e *encoder) fill(records []Record, limit int) (n, size int) {
	if cap(e.buf) < frameBytes {
		e.buf = make([]byte, frameBytes, 16<<10)
	}
	e.buf = e.buf[:frameBytes]
	e.count = 0
	for i := range records {
		r := &records[i]
		if i == 0 {
			e.first, e.min, e.max = r.Timestamp, r.Timestamp, r.Timestamp
		}
		timeDelta, offsetDelta := r.Timestamp-e.first, int64(i)
		body := bodyBytes(r, timeDelta, offsetDelta)
		size = len(e.buf) - sizePrefixBytes + varintBytes(int64(body)) + body
		if size > limit {
			return i, size
		}
		e.append(r, body, timeDelta, offsetDelta)
		e.min, e.max = min(e.min, r.Timestamp), max(e.max, r.Timestamp)
		e.count++
	}
	return len(records), size
}

// append writes one record whose body takes the given number of bytes.
func (e *encoder) append(r *Record, body int, timeDelta, offsetDelta int64) {
	b := binary.AppendVarint(e.buf, int64(body))
	b = append(b, 0) // no record attribute is defined
	b = binary.AppendVarint(b, timeDelta)
	b = binary.AppendVarint(b, offsetDelta)
	b = appendNullable(b, r.Key)
	b = appendNullable(b, r.Value)
	b = binary.AppendVarint(b, int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		b = binary.AppendVarint(b, int64(len(h.Key)))
		b = append(b, h.Key...)
		b = appendNullable(b, h.Value)
	}
	e.buf = b
}

// seal completes the batch for a session and returns it, with its size in front.
func (e *encoder) seal(s *session, sequence int32, codec kafka.Compression) ([]byte, error) {
	frame := e.buf
	var attributes uint16
	if codec != 0 {
		packed, err := e.compress(codec)
		if err != nil {
			return nil, err
		}
		frame, attributes = packed, uint16(codec)
	}
	if s.transactionalID != "" {
		attributes |= attributeTransactional
	}
	batch := frame[sizePrefixBytes:]
	be := binary.BigEndian
	be.PutUint32(frame, uint32(len(batch)))
	be.PutUint64(batch[0:], 0)                     // base offset: the broker sets it
	be.PutUint32(batch[8:], uint32(len(batch)-12)) // what follows this field
	be.PutUint32(batch[12:], 0xffffffff)           // leader epoch: the broker sets it
	batch[16] = magic                              //
	be.PutUint16(batch[21:], attributes)           //
	be.PutUint32(batch[23:], uint32(e.count-1))    // last offset delta
	be.PutUint64(batch[27:], uint64(e.first))      //
	be.PutUint64(batch[35:], uint64(e.max))        //
	be.PutUint64(batch[43:], uint64(s.producerID)) //
	be.PutUint16(batch[51:], uint16(s.producerEpoch))
	be.PutUint32(batch[53:], uint32(sequence))
	be.PutUint32(batch[57:], uint32(e.count))
	be.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
	return frame, nil
}

// compress returns a frame with room for the header, and with the compressed records.
func (e *encoder) compress(codec kafka.Compression) ([]byte, error) {
	out := bytes.NewBuffer(append(e.packed[:0], make([]byte, frameBytes)...))
	w := codec.Codec().NewWriter(out)
	if _, err := w.Write(e.buf[frameBytes:]); err != nil {
		return nil, fmt.Errorf("compress with %s: %w", codec, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress with %s: %w", codec, err)
	}
	e.packed = out.Bytes()
	return e.packed, nil
}

// bodyBytes returns the encoded size of a record without its length field.
func bodyBytes(r *Record, timeDelta, offsetDelta int64) int {
	n := 1 + varintBytes(timeDelta) + varintBytes(offsetDelta) +
		nullableBytes(r.Key) + nullableBytes(r.Value) + varintBytes(int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		n += varintBytes(int64(len(h.Key))) + len(h.Key) + nullableBytes(h.Value)
	}
	return n
}

func appendNullable(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

func nullableBytes(v []byte) int {
	if v == nil {
		return varintBytes(-1)
	}
	return varintBytes(int64(len(v))) + len(v)
}

// varintBytes returns the length of a zig-zag varint.
func varintBytes(v int64) int {
	zigzag := uint64(v<<1) ^ uint64(v>>63)
	return (bits.Len64(zigzag|1) + 6) / 7
}

// session is what a producer id and epoch stand for: the broker accepts the batches of a partition
// in the order of their sequence numbers, each once.
type session struct {
	transactionalID string // empty if there are no transactions
	producerID      int64
	producerEpoch   int16
	sequences       map[TopicPartition]int32 // of the next record
}
