package producer

import (
	"context"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
)

// Idempotent writes records outside transactions. They are visible as soon as they are
// acknowledged. A retry after a lost answer doubles nothing, because every batch carries the
// producer's id and a sequence number, by which the broker recognizes it. The promise covers one
// value of Idempotent: a feed that is started again from the beginning is written again.
//
// It has one request in flight for each partition. An error that matches ErrRetriable means that
// nothing of the call was written. After any other error a part of it may be written, and every
// later call returns the same error, because to go on would write records twice or lose them. Not
// safe for concurrent use.
type Idempotent struct {
	sender  *sender
	session session
	started bool
	broken  *Error
	rotate  int32 // partition of the next record without a key
}

// NewIdempotent returns a producer, which connects to nothing before it is used.
func NewIdempotent(client *kafka.Client, o Options) (*Idempotent, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Idempotent{
		sender:  newSender(newCaller(client, o.withDefaults()), true),
		session: session{sequences: map[TopicPartition]int32{}},
	}, nil
}

// Send writes records to a topic of the given number of partitions: each to the
// partition of its key, in the order given within a partition;
// records with a null key go around. It returns when all are acknowledged by all
// in-sync replicas, with the last offset written to each partition (a partition
// is left out if the broker could not say which). The records may be reused
// after Send returns.
func (p *Idempotent) Send(ctx context.Context, topic string, partitions int, records []Record) (
	Offsets, error,
) {
	batches, all := make([]Batch, partitions), make([]int, partitions)
	byKey := kafka.Murmur2Balancer{} // as Kafka's Java client does
	for i := range batches {
		batches[i].TopicPartition, all[i] = TopicPartition{topic, int32(i)}, i
	}
	for _, r := range records {
		to := p.rotate % int32(partitions)
		if r.Key != nil {
			to = int32(byKey.Balance(kafka.Message{Key: r.Key}, all...))
		} else {
			p.rotate = (to + 1) % int32(partitions)
		}
		batches[to].Records = append(batches[to].Records, r)
	}
	return p.Produce(ctx, batches...)
}

// Produce writes batches to the partitions that they name, as Send does.
func (p *Idempotent) Produce(ctx context.Context, batches ...Batch) (Offsets, error) {
	if p.broken != nil {
		return nil, p.broken
	}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	last := Offsets{}
	if err := p.sender.send(ctx, &p.session, batches, last); err != nil {
		if err.Remedy == Retriable && (err.Uncertain || len(last) > 0) {
			err.Remedy = Unknown
		}
		if err.Remedy != Retriable {
			p.broken = err
		}
		return last, err
	}
	return last, nil
}

// start fetches a producer id, once. Any broker gives one.
func (p *Idempotent) start(ctx context.Context) error {
	if p.started {
		return nil
	}
	var got *initproducerid.Response
	err := p.sender.do(ctx, call{
		op: "init producer id",
		message: func() protocol.Message {
			// kafka-go encodes an empty transactional id as null.
			return &initproducerid.Request{ProducerID: -1, ProducerEpoch: -1}
		},
		answer: func(m protocol.Message) (kafka.Error, *TopicPartition) {
			var ok bool
			if got, ok = m.(*initproducerid.Response); !ok {
				return kafka.Unknown, nil
			}
			return kafka.Error(got.ErrorCode), nil
		},
	})
	if err != nil {
		err.Uncertain = false
		return err
	}
	p.session.producerID, p.session.producerEpoch = got.ProducerID, got.ProducerEpoch
	p.started = true
	return nil
}
