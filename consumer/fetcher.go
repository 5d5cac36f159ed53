package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// Record is one record of a partition. A nil key or value is Kafka's null.
// Timestamp is Kafka's own, in milliseconds since 1970.
type Record struct {
	Offset, Timestamp int64
	Key, Value        []byte
}

// Fetched is the answer to Fetch. Its memory is the fetcher's, and valid until
// its next Fetch.
type Fetched struct {
	// Records in ascending order, none below the offset asked for, none of a
	// control batch, and under read_committed none of an aborted or still open
	// transaction. It may be empty.
	Records []Record
	// Next is the offset to ask for next. It can move without any record: over
	// aborted ones, markers, and what compaction removed.
	Next int64
	// StableEnd is the last stable offset: where read_committed ends for now.
	StableEnd int64
	// End is the high watermark: where read_uncommitted ends for now.
	End int64
	// Start is the first offset of the log.
	Start int64
}

// FetcherOptions are the settings of a Fetcher. The zero value reads committed
// records.
type FetcherOptions struct {
	wire.Options
	// Uncommitted also delivers records of open and of aborted transactions.
	Uncommitted bool
	// MaxBytes is how much to ask for at once; a single larger batch is
	// answered in full. Default 1 MiB.
	MaxBytes int
	// MaxWait is how long the broker waits for a record at the end of the
	// log. Default 100 ms.
	MaxWait time.Duration
}

// Fetcher reads one partition from its leader. It keeps no position. Not safe
// for concurrent use.
type Fetcher struct {
	client    *kafka.Client
	options   FetcherOptions
	topic     string
	partition int32
	leader    int32 // anyBroker: to be asked for
	buf       []byte
	records   []Record
	aborted   []aborted
}

// NewFetcher returns a fetcher, which connects to nothing before it is used.
func NewFetcher(client *kafka.Client, topic string, partition int32, o FetcherOptions) (*Fetcher, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.MaxBytes < 0 || o.MaxBytes > wire.MaxAnswerBytes/2 || o.MaxWait < 0 {
		return nil, fmt.Errorf("consumer: MaxBytes %d is not between 0 and %d, or MaxWait %v is negative", o.MaxBytes, wire.MaxAnswerBytes/2, o.MaxWait)
	}
	o.Options = o.WithDefaults()
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<20)
	o.MaxWait = cmp.Or(o.MaxWait, 100*time.Millisecond)
	return &Fetcher{client: client, options: o, topic: topic, partition: partition, leader: wire.AnyBroker}, nil
}

// Fetch reads from an offset on. At the end of the log it waits for MaxWait and
// then returns no record and the same offset. Moved leaders, restarting brokers
// and topics that are still being created are retried for Options.RetryTimeout
// and then returned as ErrTemporary. An offset outside of the log is an
// OffsetError, damaged data a CorruptError.
func (f *Fetcher) Fetch(ctx context.Context, offset int64) (Fetched, error) {
	var got Fetched
	err := f.options.Retry(ctx, func(ctx context.Context) error {
		if err := f.lead(ctx); err != nil {
			return err
		}
		var err error
		if got, err = f.once(ctx, offset); errors.Is(err, wire.ErrTemporary) {
			f.leader = wire.AnyBroker
		}
		return err
	})
	if err != nil {
		return Fetched{}, err
	}
	return got, nil
}

// lead makes sure that the leader is known.
func (f *Fetcher) lead(ctx context.Context) error {
	if f.leader != wire.AnyBroker {
		return nil
	}
	leader, err := findLeader(ctx, f.client, f.options.Options, f.topic, f.partition)
	if err != nil {
		return err
	}
	f.leader = leader
	return nil
}

// findLeader asks a broker for the leader of a partition.
func findLeader(ctx context.Context, client *kafka.Client, o wire.Options, topic string, partition int32) (int32, error) {
	res, err := wire.Metadata(ctx, client, o, topic)
	if err != nil {
		return 0, err
	}
	op := fmt.Sprintf("find the leader of %s/%d", topic, partition)
	code := kafka.UnknownTopicOrPartition
	for _, t := range res.Topics {
		if t.Name != topic {
			continue
		}
		if t.ErrorCode != 0 {
			code = kafka.Error(t.ErrorCode)
		}
		for _, p := range t.Partitions {
			if p.PartitionIndex != partition {
				continue
			}
			if p.LeaderID >= 0 {
				return p.LeaderID, nil
			}
			code = kafka.LeaderNotAvailable
		}
	}
	return 0, wire.Refused(op, code)
}

func (f *Fetcher) op() string { return fmt.Sprintf("fetch %s/%d", f.topic, f.partition) }

// once makes one attempt.
func (f *Fetcher) once(ctx context.Context, offset int64) (Fetched, error) {
	buf := f.buf
	f.buf = nil // its connection may write to it after a failure
	res, err := wire.RoundTrip(ctx, f.client, &wire.Exchange{Message: f.request(offset), To: f.leader, Raw: true, Buf: buf},
		f.options.MaxWait+f.options.RequestTimeout)
	if err != nil {
		return Fetched{}, wire.Failed(f.client, f.op(), err)
	}
	answer, ok := res.(*wire.Frame)
	if !ok {
		return Fetched{}, wire.Unexpected(f.op(), res)
	}
	f.buf = answer.Body
	part, err := f.parse(answer)
	if err != nil {
		return Fetched{}, err
	}
	switch code := kafka.Error(part.code); {
	case code == kafka.OffsetOutOfRange:
		return Fetched{}, &OffsetError{f.topic, f.partition, offset}
	case code == kafka.InvalidMessage:
		return Fetched{}, f.corrupt(offset, "the broker found its checksum wrong")
	case code != 0:
		return Fetched{}, wire.Refused(f.op(), code)
	}
	return f.decode(part, offset)
}

// request asks for the partition alone, without a fetch session. The limit is
// the partition's and not the request's: it comes to the same, but kfake leaves
// the aborted transactions out of an answer that fills the request's.
func (f *Fetcher) request(offset int64) *fetch.Request {
	isolation := kafka.ReadCommitted
	if f.options.Uncommitted {
		isolation = kafka.ReadUncommitted
	}
	size := int32(f.options.MaxBytes)
	return &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(f.options.MaxWait.Milliseconds()), MinBytes: 1, MaxBytes: wire.MaxAnswerBytes,
		IsolationLevel: int8(isolation), SessionEpoch: -1,
		Topics: []fetch.RequestTopic{{Topic: f.topic, Partitions: []fetch.RequestPartition{{
			Partition: f.partition, CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1, PartitionMaxBytes: size,
		}}}},
	}
}

// answered is one partition of a fetch answer.
type answered struct {
	code               int16
	end, stable, start int64
	aborted            []aborted
	records            []byte
}

// parse reads the answer of versions 4 to 11, which kafka-go and every broker
// since Kafka 0.11 can agree on.
func (f *Fetcher) parse(a *wire.Frame) (answered, error) {
	if a.Version < 4 || a.Version > 11 {
		return answered{}, &wire.Error{Op: f.op(), Err: kafka.UnsupportedVersion, Hint: "the broker is older than Kafka 0.11"}
	}
	r := &wire.Reader{Rest: a.Body}
	r.Int32() // throttle time
	if a.Version >= 7 {
		code := kafka.Error(r.Int16())
		r.Int32() // session
		if code != 0 {
			return answered{}, wire.Refused(f.op(), code)
		}
	}
	var part answered
	found := false
	for range r.Count(6) {
		topic := r.String16()
		for range r.Count(18) {
			partition, p := f.parsePartition(r, a.Version)
			if partition == f.partition && string(topic) == f.topic {
				part, found = p, true
			}
		}
	}
	if r.Short || !found {
		return answered{}, &wire.Error{Op: f.op(), Temporary: true, Err: errors.New("the broker's answer is cut short or leaves the partition out")}
	}
	return part, nil
}

func (f *Fetcher) parsePartition(r *wire.Reader, version int16) (int32, answered) {
	partition := r.Int32()
	p := answered{code: r.Int16(), end: r.Int64(), stable: r.Int64()}
	if version >= 5 {
		p.start = r.Int64()
	}
	f.aborted = f.aborted[:0]
	for range r.Count(16) {
		f.aborted = append(f.aborted, aborted{producerID: r.Int64(), first: r.Int64()})
	}
	p.aborted = f.aborted
	if version >= 11 {
		r.Int32() // preferred replica: no rack is given, so that there is none
	}
	if size := r.Int32(); size > 0 {
		p.records = r.Take(int(size))
	}
	return partition, p
}

// decode walks the batches. It stops in front of the first damaged one if there
// is anything before it, so that the error comes when it is asked for.
func (f *Fetcher) decode(part answered, offset int64) (Fetched, error) {
	got := Fetched{Records: f.records[:0], Next: offset, StableEnd: part.stable, End: part.end, Start: part.start}
	hidden := newFilter(part.aborted)
	data := part.records
	for len(data) > 0 {
		b, err := parseBatch(data)
		if err == nil {
			err = f.take(&got, hidden, &b, offset)
		}
		if err != nil {
			if got.Next > offset {
				break
			}
			return Fetched{}, f.corrupt(max(b.base, offset), err.Error())
		}
		data = data[b.offsetOfNext:]
	}
	f.records = got.Records
	return got, nil
}

// take adds one batch to the answer, and moves past it whatever is left in it:
// compaction may have removed its last records, or all of them.
func (f *Fetcher) take(got *Fetched, hidden *filter, b *batch, offset int64) error {
	skip, err := hidden.skip(b)
	if err != nil {
		return err
	}
	if f.options.Uncommitted {
		skip = b.control()
	}
	if !skip {
		had := len(got.Records)
		if got.Records, err = b.appendRecords(got.Records, offset); err != nil {
			got.Records = got.Records[:had]
			return err
		}
	}
	got.Next = max(got.Next, b.last+1)
	return nil
}

func (f *Fetcher) corrupt(offset int64, reason string) error {
	return &CorruptError{f.topic, f.partition, offset, reason}
}
