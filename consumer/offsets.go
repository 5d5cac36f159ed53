package consumer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
)

// Bounds returns the first offset of the partition and the offset behind the
// last one that can be read: the last stable offset, or the high watermark if
// the fetcher reads uncommitted records. Both are asked for anew.
func (f *Fetcher) Bounds(ctx context.Context) (first, end int64, err error) {
	if first, err = f.listOffset(ctx, kafka.FirstOffset); err != nil {
		return 0, 0, err
	}
	if end, err = f.listOffset(ctx, kafka.LastOffset); err != nil {
		return 0, 0, err
	}
	return first, end, nil
}

// OffsetAt returns the offset of the first record whose timestamp is t or later,
// of those that can be read (see Bounds), and the end if there is none. Kafka's
// timestamps are what producers wrote, in whole milliseconds and not necessarily
// in order: earlier ones may follow. A transaction's marker carries the time of
// its end, so that the offset may be a marker's.
func (f *Fetcher) OffsetAt(ctx context.Context, t time.Time) (offset int64, err error) {
	// The end first: a record that arrives between the two answers lies behind it.
	end, err := f.listOffset(ctx, kafka.LastOffset)
	if err != nil {
		return 0, err
	}
	ms := t.UnixMilli()
	if t.Nanosecond()%1e6 != 0 {
		ms++
	}
	if offset, err = f.listOffset(ctx, max(ms, 0)); err != nil { // below 0 are the special times
		return 0, err
	}
	if offset < 0 {
		return end, nil
	}
	return offset, nil
}

// listOffset asks for the offset that stands for a time, or for one of Kafka's
// two special times.
func (f *Fetcher) listOffset(ctx context.Context, timestamp int64) (int64, error) {
	op := fmt.Sprintf("list offsets of %s/%d", f.topic, f.partition)
	isolation := kafka.ReadCommitted
	if f.options.Uncommitted {
		isolation = kafka.ReadUncommitted
	}
	var offset int64
	err := f.options.Retry(ctx, func(ctx context.Context) error {
		if err := f.lead(ctx); err != nil {
			return err
		}
		res, err := wire.RoundTrip(ctx, f.client, &wire.Exchange{To: f.leader, Message: &listoffsets.Request{
			ReplicaID: -1, IsolationLevel: int8(isolation),
			Topics: []listoffsets.RequestTopic{{Topic: f.topic, Partitions: []listoffsets.RequestPartition{{
				Partition: f.partition, CurrentLeaderEpoch: -1, Timestamp: timestamp,
			}}}},
		}}, f.options.RequestTimeout)
		if err == nil {
			offset, err = readListOffsets(op, res)
		} else {
			err = wire.Failed(f.client, op, err)
		}
		if errors.Is(err, wire.ErrTemporary) {
			f.leader = wire.AnyBroker
		}
		return err
	})
	return offset, err
}

func readListOffsets(op string, res protocol.Message) (int64, error) {
	answer, ok := res.(*listoffsets.Response)
	if !ok {
		return 0, wire.Unexpected(op, res)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return 0, &wire.Error{Op: op, Temporary: true, Err: errors.New("the broker's answer leaves the partition out")}
	}
	p := answer.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return 0, wire.Refused(op, kafka.Error(p.ErrorCode))
	}
	return p.Offset, nil
}

// Committed returns a group's committed offset of a partition: the next one to
// process. Found is false only if the coordinator said that there is none.
//
// It waits until no transaction that commits an offset of the partition is
// pending (KIP-447): an offset read while one is would be the old one. kafka-go
// cannot ask for that. Fence the predecessor first, or the wait may last until
// its transaction times out.
func Committed(ctx context.Context, client *kafka.Client, o wire.Options, group, topic string, partition int32) (offset int64, found bool, err error) {
	if err := o.Validate(); err != nil {
		return 0, false, err
	}
	o = o.WithDefaults()
	op := fmt.Sprintf("read the offset of group %s for %s/%d", group, topic, partition)
	err = o.Retry(ctx, func(ctx context.Context) error {
		broker, err := wire.FindCoordinator(ctx, client, o, group)
		if err != nil {
			return err
		}
		request := &offsetFetch{group: group, topic: topic, partition: partition}
		res, err := wire.RoundTrip(ctx, client, &wire.Exchange{Message: request, To: broker, Raw: true}, o.RequestTimeout)
		if err != nil {
			return wire.Failed(client, op, err)
		}
		answer, ok := res.(*wire.Frame)
		if !ok {
			return wire.Unexpected(op, res)
		}
		offset, found, err = request.read(op, answer.Body)
		return err
	})
	return offset, found, err
}

// offsetFetch is OffsetFetch version 7, the first that can require stable
// offsets. kafka-go has 5.
type offsetFetch struct {
	group, topic string
	partition    int32
}

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (*offsetFetch) ApiKey() protocol.ApiKey { return protocol.OffsetFetch } //nolint:revive // kafka-go's name

// Encode writes the request:
//
//	size 4 | key 2 | version 2 | correlation id 4 | client id string | tags
//	group compact string | topics compact array of
//	  (name compact string | partitions compact array of int32 | tags) |
//	require stable 1 | tags
func (q *offsetFetch) Encode(correlationID int32, clientID string) ([]byte, int16) {
	const version, oneElement, noTags, requireStable = 7, 2, 0, 1
	be := binary.BigEndian
	b := make([]byte, 4, 64+len(clientID)+len(q.group)+len(q.topic))
	b = be.AppendUint16(b, uint16(protocol.OffsetFetch))
	b = be.AppendUint16(b, version)
	b = be.AppendUint32(b, uint32(correlationID))
	b = be.AppendUint16(b, uint16(len(clientID)))
	b = append(b, clientID...)
	b = append(b, noTags)
	b = wire.AppendCompact(b, q.group)
	b = append(b, oneElement)
	b = wire.AppendCompact(b, q.topic)
	b = append(b, oneElement)
	b = be.AppendUint32(b, uint32(q.partition))
	b = append(b, noTags, requireStable, noTags)
	be.PutUint32(b, uint32(len(b)-4))
	return b, version
}

// read takes the answer:
//
//	tags | throttle 4 | topics compact array of (name compact string |
//	  partitions compact array of (index 4 | offset 8 | leader epoch 4 |
//	  metadata compact string | error 2 | tags) | tags) | error 2 | tags
//
// A group that does not exist is answered with an offset of -1 by Kafka, and
// with GROUP_ID_NOT_FOUND by others: both mean that there is none.
func (q *offsetFetch) read(op string, body []byte) (offset int64, found bool, err error) {
	r := &wire.Reader{Rest: body}
	r.SkipTags()
	r.Int32() // throttle time
	offset = -1
	var code kafka.Error
	listed := false
	for range r.CompactCount(3) {
		name := r.CompactString()
		for range r.CompactCount(20) {
			index, committed := r.Int32(), r.Int64()
			r.Int32() // leader epoch
			r.CompactString()
			partCode := kafka.Error(r.Int16())
			r.SkipTags()
			if index == q.partition && string(name) == q.topic {
				offset, code, listed = committed, partCode, true
			}
		}
		r.SkipTags()
	}
	if all := kafka.Error(r.Int16()); all != 0 {
		code = all
	}
	switch {
	case r.Short:
		return 0, false, &wire.Error{Op: op, Temporary: true, Err: errors.New("the coordinator's answer is cut short")}
	case code == kafka.GroupIdNotFound:
		return 0, false, nil
	case code != 0:
		return 0, false, wire.Refused(op, code)
	case !listed:
		return 0, false, &wire.Error{Op: op, Temporary: true, Err: errors.New("the coordinator's answer leaves the partition out")}
	}
	return max(offset, 0), offset >= 0, nil
}
