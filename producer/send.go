package producer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"

	"github.com/geodither/geodither/consumer/wire"
)

// maxRequestBytes bounds one produce request, but a single batch may be larger. Kafka's default
// socket.request.max.bytes is 100 MiB.
const maxRequestBytes = 32 << 20

// sender delivers batches to the leaders of their partitions: one request for each leader, to all
// leaders at the same time. It never has two requests in flight for one partition, because on
// kafka-go's connections they could overtake each other.
type sender struct {
	*caller
	leaders map[TopicPartition]int32
	free    []*encoder // no connection can still be reading their buffers
	// resend repeats a batch whose answer was lost; the broker recognizes the sequence number.
	// Without resend such a batch stays uncertain: see DESIGN.md.
	resend bool
}

// parcel is what remains to be sent to one partition.
type parcel struct {
	to      TopicPartition
	records []Record // not acknowledged yet
	enc     *encoder // holds the first n of them
	n       int
	frame   []byte
	shared  bool // an attempt is uncertain, so its connection may still read the frame
	offset  int64
	err     *Error // of the last attempt, nil once acknowledged
}

func newSender(c *caller, resend bool) *sender {
	return &sender{caller: c, leaders: map[TopicPartition]int32{}, resend: resend}
}

// send delivers the batches and adds the last offset of each partition to last. After an error some
// of them may be written; the error's Uncertain says whether any sequence number is uncertain.
func (s *sender) send(ctx context.Context, ses *session, batches []Batch, last Offsets) *Error {
	parcels := s.parcels(batches)
	for len(parcels) > 0 {
		for _, p := range parcels {
			if err := s.encode(ses, p); err != nil {
				return err
			}
		}
		if err := s.deliver(ctx, ses, parcels, last); err != nil {
			return err
		}
		rest := parcels[:0]
		for _, p := range parcels {
			if p.records = p.records[p.n:]; len(p.records) > 0 {
				rest = append(rest, p)
			}
		}
		parcels = rest
	}
	return nil
}

// parcels groups the batches by partition, in the order of their appearance.
func (s *sender) parcels(batches []Batch) []*parcel {
	parcels := make([]*parcel, 0, len(batches))
next:
	for _, b := range batches {
		if len(b.Records) == 0 {
			continue
		}
		for _, p := range parcels {
			if p.to == b.TopicPartition {
				p.records = append(p.records[:len(p.records):len(p.records)], b.Records...)
				continue next
			}
		}
		parcels = append(parcels, &parcel{to: b.TopicPartition, records: b.Records})
	}
	return parcels
}

// encode fills a parcel's encoder with its next batch.
func (s *sender) encode(ses *session, p *parcel) *Error {
	if n := len(s.free); n > 0 {
		p.enc, s.free = s.free[n-1], s.free[:n-1]
	} else {
		p.enc = &encoder{}
	}
	p.shared = false
	size := 0
	if p.n, size = p.enc.fill(p.records, s.options.MaxBatchBytes); p.n == 0 {
		cause := &TooLargeError{TopicPartition: p.to, Bytes: size, Limit: s.options.MaxBatchBytes}
		return &Error{Op: "produce", Where: &p.to, Remedy: Fatal, Err: cause}
	}
	var err error
	if p.frame, err = p.enc.seal(ses, ses.sequences[p.to], s.options.Compression); err != nil {
		return &Error{Op: "produce", Where: &p.to, Remedy: Fatal, Err: err}
	}
	return nil
}

// deliver repeats the parcels' current batches, always with the same bytes, until all of them are
// acknowledged.
func (s *sender) deliver(ctx context.Context, ses *session, parcels []*parcel,
	last Offsets,
) *Error {
	patience, cancel := context.WithTimeout(ctx, s.options.RetryTimeout)
	defer cancel()
	pause := wire.Backoff{Next: s.options.MinBackoff, Longest: s.options.MaxBackoff}
	waiting := append([]*parcel(nil), parcels...)
	var failure *Error
	for {
		err := s.attempt(ctx, ses, &waiting, last)
		if len(waiting) == 0 {
			return nil
		}
		failure = latest(failure, err)
		failure.Uncertain = false
		for _, p := range waiting {
			failure.Uncertain = failure.Uncertain || p.shared
		}
		if failure.Remedy != Retriable {
			return failure
		}
		s.options.Retrying(ctx, failure)
		if !pause.Wait(patience) {
			return gaveUp(patience, failure)
		}
	}
}

// attempt sends every waiting parcel once, keeps those that were not acknowledged, and returns the
// gravest of their errors.
func (s *sender) attempt(ctx context.Context, ses *session, waiting *[]*parcel,
	last Offsets,
) *Error {
	if err := s.lead(ctx, *waiting); err != nil {
		return err
	}
	groups := s.byLeader(*waiting)
	var wg sync.WaitGroup
	for _, g := range groups[1:] {
		wg.Go(func() { s.request(ctx, ses, g) })
	}
	s.request(ctx, ses, groups[0]) // on this goroutine, because usually there is one group
	wg.Wait()

	var worst *Error
	left := (*waiting)[:0]
	for _, p := range *waiting {
		if p.err == nil {
			s.acknowledge(ses, p, last)
			continue
		}
		left = append(left, p)
		delete(s.leaders, p.to)
		p.shared = p.shared || p.err.Uncertain
		worst = graver(worst, p.err)
	}
	*waiting = left
	return worst
}

// acknowledge takes note that a batch is written.
func (s *sender) acknowledge(ses *session, p *parcel, last Offsets) {
	ses.sequences[p.to] = advance(ses.sequences[p.to], p.n)
	if p.offset >= 0 {
		last[p.to] = p.offset + int64(p.n) - 1
	}
	if !p.shared {
		s.free = append(s.free, p.enc)
	}
	p.enc, p.frame = nil, nil
}

// advance returns the sequence number after n records. After 2^31-1 the numbers start again at 0
// (Kafka's DefaultRecordBatch.incrementSequence).
func advance(sequence int32, n int) int32 {
	return int32((int64(sequence) + int64(n)) & 0x7fffffff)
}

// graver returns the error that decides what happens next.
func graver(a, b *Error) *Error {
	if a == nil || gravity(b.Remedy) > gravity(a.Remedy) {
		return b
	}
	return a
}

// gravity orders remedies: the one that forbids the most is the greatest.
func gravity(r Remedy) int {
	switch r {
	case Fenced:
		return 4
	case Fatal:
		return 3
	case Unknown:
		return 2
	case Abortable:
		return 1
	case Retriable:
	}
	return 0
}

// request sends one leader its batches and sets the parcels' errors.
func (s *sender) request(ctx context.Context, ses *session, parcels []*parcel) {
	fail := func(remedy Remedy, uncertain bool, cause error) {
		for _, p := range parcels {
			p.err = &Error{
				Op: "produce", Where: &p.to, Remedy: remedy, Uncertain: uncertain,
				Hint: wire.ReachHint(s.client, cause), Err: cause,
			}
		}
	}
	res, err := s.roundTrip(ctx, s.leaders[parcels[0].to], s.message(ses, parcels))
	if err != nil {
		sent, remedy := !wire.NeverSent(err), Retriable
		if sent && !s.resend {
			remedy = Abortable
		}
		fail(remedy, sent, err)
		return
	}
	answer, ok := res.(*produce.Response)
	if !ok {
		fail(Fatal, true, fmt.Errorf("the transport answered with %T", res))
		return
	}
	fail(Abortable, true, errLeftOut)
	for _, t := range answer.Topics {
		for i := range t.Partitions {
			a := &t.Partitions[i]
			for _, p := range parcels {
				if p.to.Partition == a.Partition && p.to.Topic == t.Topic {
					s.read(p, a)
				}
			}
		}
	}
}

var errLeftOut = errors.New("the broker's answer leaves the partition out")

// message builds one attempt's request.
func (s *sender) message(ses *session, parcels []*parcel) *rawproduce.Request {
	const allReplicas = -1
	topics := make([]rawproduce.RequestTopic, 0, len(parcels))
next:
	for _, p := range parcels {
		part := rawproduce.RequestPartition{
			Partition: p.to.Partition,
			RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(p.frame)},
		}
		for i := range topics {
			if topics[i].Topic == p.to.Topic {
				topics[i].Partitions = append(topics[i].Partitions, part)
				continue next
			}
		}
		topics = append(topics, rawproduce.RequestTopic{
			Topic: p.to.Topic, Partitions: []rawproduce.RequestPartition{part},
		})
	}
	// The broker waits for its replicas for less time than the producer waits for the answer. After
	// a refusal the producer can send the same bytes again, but not after a lost answer.
	return &rawproduce.Request{
		TransactionalID: ses.transactionalID, Acks: allReplicas,
		Timeout: int32(s.options.RequestTimeout.Milliseconds() / 2), Topics: topics,
	}
}

// read takes one partition's answer.
func (s *sender) read(p *parcel, a *produce.ResponsePartition) {
	switch code := kafka.Error(a.ErrorCode); {
	case code == 0:
		p.offset, p.err = a.BaseOffset, nil
	case code == kafka.DuplicateSequenceNumber && s.resend:
		// The broker has the batch and no longer knows its offset. The batch is in the log, which
		// is all that the idempotent producer promises.
		p.offset, p.err = -1, nil
	case code == kafka.MessageSizeTooLarge || code == kafka.RecordListTooLarge:
		size := &TooLargeError{TopicPartition: p.to, Bytes: len(p.frame) - sizePrefixBytes}
		p.err = &Error{
			Op: "produce", Where: &p.to, Remedy: Fatal, Err: fmt.Errorf("%w: %w", code, size),
		}
	default:
		p.err = refused("produce", &p.to, code)
		if code == kafka.InvalidTimestamp {
			p.err.Hint = hintOfTimes(p.enc.min, p.enc.max, time.Now())
		}
		if a.ErrorMessage != "" {
			p.err.Err = fmt.Errorf("%w: %s", code, a.ErrorMessage)
		}
		switch code {
		case kafka.RequestTimedOut, kafka.NotEnoughReplicasAfterAppend,
			kafka.DuplicateSequenceNumber:
			p.err.Uncertain = true // it is in the leader's log, replicated or not
		}
	}
}

// lead makes sure that the leader of every parcel is known.
func (s *sender) lead(ctx context.Context, parcels []*parcel) *Error {
	var topics []string
	missing := false
	for _, p := range parcels {
		if _, ok := s.leaders[p.to]; !ok {
			missing = true
		}
		if !slices.Contains(topics, p.to.Topic) {
			topics = append(topics, p.to.Topic)
		}
	}
	if !missing {
		return nil
	}
	res, err := s.metadata(ctx, topics)
	if err != nil {
		return err
	}
	for _, t := range res.Topics {
		for _, part := range t.Partitions {
			if tp := (TopicPartition{t.Name, part.PartitionIndex}); part.LeaderID >= 0 {
				s.leaders[tp] = part.LeaderID
			}
		}
	}
	for _, p := range parcels {
		if _, ok := s.leaders[p.to]; !ok {
			return refused("produce", &p.to, kafka.UnknownTopicOrPartition)
		}
	}
	return nil
}

// metadata asks a broker and not the transport's cache.
func (s *sender) metadata(ctx context.Context, topics []string) (*metadata.Response, *Error) {
	var res *metadata.Response
	err := s.once(ctx, call{
		op: "find partition leaders",
		message: func() protocol.Message {
			return &metadata.Request{TopicNames: topics}
		},
		answer: func(m protocol.Message) (kafka.Error, *TopicPartition) {
			var ok bool
			if res, ok = m.(*metadata.Response); !ok {
				return kafka.Unknown, nil
			}
			for _, t := range res.Topics {
				if code := kafka.Error(t.ErrorCode); code != 0 && remedyOfCode(code) != Retriable {
					return code, &TopicPartition{Topic: t.Name}
				}
			}
			return 0, nil
		},
	})
	if err != nil {
		err.Uncertain = false // reading changes nothing
	}
	return res, err
}

// byLeader groups parcels by their leader, in the order of their appearance. It starts another
// group when a request would grow too large.
func (s *sender) byLeader(parcels []*parcel) [][]*parcel {
	var groups [][]*parcel
	open := map[int32]int{} // leader: its last group
	size := map[int32]int{}
	for _, p := range parcels {
		leader := s.leaders[p.to]
		i, ok := open[leader]
		if !ok || size[leader]+len(p.frame) > maxRequestBytes {
			i = len(groups)
			groups = append(groups, nil)
			open[leader], size[leader] = i, 0
		}
		groups[i] = append(groups[i], p)
		size[leader] += len(p.frame)
	}
	return groups
}
