package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
)

// Bounds asks the broker for the first offset of the partition and for the offset after the last
// one that can be read: the last stable offset, or the high watermark if the fetcher reads
// uncommitted records.
func (f *Fetcher) Bounds(ctx context.Context) (first, end int64, err error) {
	if first, err = f.listOffset(ctx, kafka.FirstOffset); err != nil {
		return 0, 0, err
	}
	if end, err = f.listOffset(ctx, kafka.LastOffset); err != nil {
		return 0, 0, err
	}
	return first, end, nil
}

// High asks the broker for the offset after the last record of the partition, whatever the fetcher
// reads: records of open transactions count.
func (f *Fetcher) High(ctx context.Context) (end int64, err error) {
	return f.listOffsetOf(ctx, kafka.LastOffset, int8(kafka.ReadUncommitted))
}

// noEpoch stands for a leader epoch that is not known.
const noEpoch = -1

// EpochEnd asks the leader where the records of a leader epoch and of all earlier ones end in its
// log: at the first record of a later epoch, or at the log's end. A reader that was beyond that has
// read records that are not in the log any more (KIP-320). It returns -1 if the leader does not
// know, epoch is -1 or the brokers are older than Kafka 2.8, and 0 if the epoch is later than the
// leader's own: then the log is not the one in which a reader has seen that epoch.
func (f *Fetcher) EpochEnd(ctx context.Context, epoch int32) (end int64, err error) {
	if epoch < 0 {
		return noEpoch, nil
	}
	if able, err := f.knowsEpochs(ctx); err != nil || !able {
		return noEpoch, err
	}
	op := fmt.Sprintf("find the end of leader epoch %d of %s/%d", epoch, f.topic, f.partition)
	err = f.atLeader(ctx, func(ctx context.Context) error {
		end, err = f.askEpochEnd(ctx, op, noEpoch, epoch)
		if err != nil || end >= 0 {
			return err
		}
		// It knows no such epoch. Its own number says whether the epoch is still to come.
		_, err = f.askEpochEnd(ctx, op, epoch, epoch)
		if errors.Is(err, kafka.UnknownLeaderEpoch) {
			end, err = 0, nil
		} else if errors.Is(err, kafka.FencedLeaderEpoch) {
			err = nil
		}
		return err
	})
	return end, err
}

// epochVersion is the version of OffsetForLeaderEpoch that is asked: the first in Kafka 2.8.
const epochVersion = 4

// knowsEpochs reports whether brokers answer to epochVersion. One that does not would close the
// connection, which looks as if it were away.
func (f *Fetcher) knowsEpochs(ctx context.Context) (bool, error) {
	if f.epochs == nil {
		op := fmt.Sprintf("ask which versions the brokers of %s/%d know", f.topic, f.partition)
		err := f.options.Retry(ctx, func(ctx context.Context, o wire.Options) error {
			answer, err := wire.Ask[*apiversions.Response](ctx, f.client, wire.Exchange{
				Op: op, Message: &apiversions.Request{}, To: wire.AnyBroker,
				Timeout: o.RequestTimeout,
			})
			if err != nil {
				return err
			}
			able := slices.ContainsFunc(answer.ApiKeys, func(k apiversions.ApiKeyResponse) bool {
				return k.ApiKey == int16(protocol.OffsetForLeaderEpoch) &&
					k.MinVersion <= epochVersion && epochVersion <= k.MaxVersion
			})
			f.epochs = &able
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	return *f.epochs, nil
}

// askEpochEnd sends OffsetForLeaderEpoch, which kafka-go lacks:
//
//	replica 4 | topics array of (name |
//	  partitions array of (index 4 | current epoch 4 | leader epoch 4 | tags) | tags) | tags
//
// The leader refuses a current epoch that is not its own, unless it is -1.
func (f *Fetcher) askEpochEnd(ctx context.Context, op string, current, epoch int32) (
	end int64, err error,
) {
	const consumer = -1 // in the place of a replica
	q := wire.NewRequest(protocol.OffsetForLeaderEpoch, epochVersion).Int32(consumer)
	q.Count(1).String(f.topic).Count(1).Int32(f.partition).Int32(current).Int32(epoch).End()
	answer, err := wire.Ask[*wire.Frame](ctx, f.client, wire.Exchange{
		Op: op, Message: q.End().End(), To: f.leader, Timeout: f.options.RequestTimeout,
	})
	if err != nil {
		return noEpoch, err
	}
	return readEpochEnd(op, answer.Body)
}

// readEpochEnd reads the answer to a question about one partition:
//
//	tags | throttle 4 | topics array of (name | partitions array of
//	  (error 2 | index 4 | leader epoch 4 | end offset 8 | tags) | tags) | tags
func readEpochEnd(op string, body []byte) (end int64, err error) {
	r := &wire.Reader{Rest: body}
	r.SkipTags()
	r.Int32() // throttle time
	if r.CompactCount(3) != 1 {
		return noEpoch, leftOut(op)
	}
	r.CompactString()
	if r.CompactCount(19) != 1 {
		return noEpoch, leftOut(op)
	}
	code := kafka.Error(r.Int16())
	r.Take(4 + 4)
	end = r.Int64()
	switch {
	case r.Short:
		return noEpoch, wire.CutShort(op)
	case code != 0:
		return noEpoch, wire.Refused(op, code)
	}
	return end, nil
}

// OffsetAt returns the offset of the first record whose timestamp is t or later, among the records
// that can be read (see Bounds), and the end if there is none. Kafka's timestamps are what
// producers wrote, in whole milliseconds and not necessarily in order: records with earlier
// timestamps may follow. The marker that ends a transaction carries the time of its end, so the
// offset may be a marker's.
func (f *Fetcher) OffsetAt(ctx context.Context, t time.Time) (offset int64, err error) {
	// The end is asked for first: a record that arrives between the two answers lies after it.
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

// listOffset asks for the offset that stands for a time, or for one of Kafka's two special times.
func (f *Fetcher) listOffset(ctx context.Context, timestamp int64) (offset int64, err error) {
	return f.listOffsetOf(ctx, timestamp, f.isolation())
}

// listOffsetOf is listOffset among the records of an isolation level.
func (f *Fetcher) listOffsetOf(ctx context.Context, timestamp int64, isolation int8) (
	offset int64, err error,
) {
	op := fmt.Sprintf("list offsets of %s/%d", f.topic, f.partition)
	err = f.atLeader(ctx, func(ctx context.Context) error {
		answer, err := wire.Ask[*listoffsets.Response](ctx, f.client, wire.Exchange{
			Op: op, To: f.leader, Timeout: f.options.RequestTimeout,
			Message: &listoffsets.Request{
				ReplicaID: -1, IsolationLevel: isolation,
				Topics: []listoffsets.RequestTopic{{
					Topic: f.topic,
					Partitions: []listoffsets.RequestPartition{{
						Partition: f.partition, CurrentLeaderEpoch: -1, Timestamp: timestamp,
					}},
				}},
			},
		})
		if err != nil {
			return err
		}
		if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
			return leftOut(op)
		}
		p := answer.Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			return wire.Refused(op, kafka.Error(p.ErrorCode))
		}
		offset = p.Offset
		return nil
	})
	return offset, err
}

// Committed returns a group's committed offset of a partition: the next offset to process. Found
// is false only if the coordinator said that there is none.
//
// It waits until no transaction that commits an offset of the partition is pending (KIP-447),
// because an offset that is read meanwhile would be the old one. kafka-go cannot ask for that.
// Fence the predecessor first, or the wait may last until its transaction times out.
func Committed(ctx context.Context, client *kafka.Client, o wire.Options, group, topic string,
	partition int32,
) (offset int64, found bool, err error) {
	op := fmt.Sprintf("read the offset of group %s for %s/%d", group, topic, partition)
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		broker, err := wire.FindCoordinator(ctx, client, o, group)
		if err != nil {
			return err
		}
		answer, err := wire.Ask[*wire.Frame](ctx, client, wire.Exchange{
			Op: op, Message: requestCommitted(group, topic, partition),
			To: broker, Timeout: o.RequestTimeout,
		})
		if err != nil {
			return err
		}
		offset, found, err = readCommitted(op, answer.Body, topic, partition)
		return err
	})
	return offset, found, err
}

// requestCommitted is OffsetFetch version 7, the first that can require stable offsets; kafka-go
// has version 5:
//
//	group | topics array of (name | partitions array of 4 | tags) | require stable 1 | tags
func requestCommitted(group, topic string, partition int32) *wire.Request {
	const requireStable = 1
	q := wire.NewRequest(protocol.OffsetFetch, 7).String(group)
	q.Count(1).String(topic).Count(1).Int32(partition).End()
	return q.Byte(requireStable).End()
}

// readCommitted reads the answer to requestCommitted:
//
//	tags | throttle 4 | topics array of (name |
//	  partitions array of (index 4 | offset 8 | leader epoch 4 | metadata | error 2 | tags) |
//	  tags) | error 2 | tags
//
// For a group that does not exist Kafka answers the offset -1, and other brokers answer
// GROUP_ID_NOT_FOUND. Both mean that there is no offset.
func readCommitted(op string, body []byte, topic string, partition int32) (
	offset int64, found bool, err error,
) {
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
			if index == partition && string(name) == topic {
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
		return 0, false, wire.CutShort(op)
	case code == kafka.GroupIdNotFound:
		return 0, false, nil
	case code != 0:
		return 0, false, wire.Refused(op, code)
	case !listed:
		return 0, false, leftOut(op)
	}
	return max(offset, 0), offset >= 0, nil
}
