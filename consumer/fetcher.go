package consumer

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/geodither/geodither/consumer/wire"
)

// Record is one record of a partition. A nil key or value is Kafka's null. Timestamp is Kafka's
// own, in milliseconds since 1970.
type Record struct {
	Offset, Timestamp int64
	Key, Value        []byte
	Headers           Headers
	// Appended says that Timestamp is the time at which the broker appended the record, and not one
	// that its producer chose.
	Appended bool
}

// Headers are those of a record, as they are encoded: nothing is decoded that nobody asks for. Nil
// has none.
type Headers []byte

// Last returns the value of the last header of that name, a part of the record's memory, and false
// if there is none. A header may have no value, which is nil.
func (h Headers) Last(name string) (value []byte, found bool) {
	for r := (wire.Reader{Rest: h}); len(r.Rest) > 0; {
		key, of := r.VarintBytes(), r.VarintBytes()
		if string(key) == name {
			value, found = of, true
		}
	}
	return value, found
}

// Fetched is the answer to Fetch. The fetcher owns its memory and reuses it in the next Fetch.
type Fetched struct {
	// Records are in ascending order and start at the offset asked for or later. They leave out
	// control batches and, unless the fetcher reads uncommitted records, transactions that are
	// aborted or still open. There may be none.
	Records []Record
	// Next is the offset to ask for next. It can move although there is no record: past aborted
	// records, markers, and what compaction removed.
	Next int64
	// StableEnd is the last stable offset: where read_committed ends for now.
	StableEnd int64
	// End is the high watermark: where read_uncommitted ends for now.
	End int64
	// Start is the first offset of the log.
	Start int64
	// Epoch is the leader epoch of the last batch before Next: the number of the leader that
	// appended it. -1 if the answer has no batch, or the broker does not say.
	Epoch int32
}

// FetcherOptions are the settings of a Fetcher. The zero value reads committed records.
type FetcherOptions struct {
	wire.Options
	// Uncommitted also delivers records of open and of aborted transactions.
	Uncommitted bool
	// MaxBytes is how much to ask for at once. A single batch that is larger comes in full.
	// Default 1 MiB.
	MaxBytes int
	// MaxWait is how long Fetch waits for a record at the end of the log. Default 100 ms.
	MaxWait time.Duration
}

// Fetcher reads one partition, from its leader or, if the client's transport has a rack, from the
// replica that the leader names for that rack (KIP-392). It keeps no position. Not safe for
// concurrent use.
type Fetcher struct {
	client    *kafka.Client
	options   FetcherOptions
	topic     string
	partition int32
	leader    int32     // wire.AnyBroker while it is not known
	near      int32     // the replica to read from; wire.AnyBroker: the leader
	nearUntil time.Time // when to ask the leader again for one
	epochs    *bool     // the brokers tell where leader epochs end; nil: not asked yet
	buf       []byte
	records   []Record
	aborted   []aborted
}

// NewFetcher returns a fetcher, which connects to nothing before it is used.
func NewFetcher(client *kafka.Client, topic string, partition int32, o FetcherOptions) (
	*Fetcher, error,
) {
	checked, err := o.Checked()
	if err != nil {
		return nil, err
	}
	o.Options = checked
	if o.MaxBytes < 0 || o.MaxBytes > wire.MaxAnswerBytes/2 || o.MaxWait < 0 {
		return nil, fmt.Errorf("consumer: MaxBytes %d is not in 0 to %d, or MaxWait %v is "+
			"negative", o.MaxBytes, wire.MaxAnswerBytes/2, o.MaxWait)
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<20)
	o.MaxWait = cmp.Or(o.MaxWait, 100*time.Millisecond)
	return &Fetcher{
		client: client, options: o, topic: topic, partition: partition,
		leader: wire.AnyBroker, near: wire.AnyBroker,
	}, nil
}

// Fetch reads from an offset on. It is Poll with the wait of the options.
func (f *Fetcher) Fetch(ctx context.Context, offset int64) (Fetched, error) {
	return f.Poll(ctx, offset, f.options.MaxWait)
}

// Poll reads from an offset on. At the end of the log it waits for the given time, which the broker
// counts in whole milliseconds, and then returns no record and the same offset. It retries moved
// leaders, restarting brokers and topics that are still being created for Options.RetryTimeout;
// after that the error is a wire.ErrTemporary. An offset outside the log is an OffsetError, damaged
// data a CorruptError, and records in a message format before 2 a wire.Error.
func (f *Fetcher) Poll(ctx context.Context, offset int64, wait time.Duration) (
	got Fetched, err error,
) {
	err = f.atLeader(ctx, func(ctx context.Context) (err error) {
		got, err = f.nearest(ctx, offset, wait)
		return err
	})
	if err != nil {
		return Fetched{}, err
	}
	return got, nil
}

// atLeader repeats an attempt for which the leader is known, and forgets the leader after a
// temporary error: it may have moved.
func (f *Fetcher) atLeader(ctx context.Context, attempt func(context.Context) error) error {
	return f.options.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		if f.leader == wire.AnyBroker {
			leader, err := findLeader(ctx, f.client, o, f.topic, f.partition)
			if err != nil {
				return err
			}
			f.leader = leader
		}
		err := attempt(ctx)
		if errors.Is(err, wire.ErrTemporary) {
			f.leader = wire.AnyBroker
		}
		return err
	})
}

// findLeader asks a broker for the leader of a partition.
func findLeader(ctx context.Context, client *kafka.Client, o wire.Options, topic string,
	partition int32,
) (int32, error) {
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

// isolation returns Kafka's code for what the fetcher reads.
func (f *Fetcher) isolation() int8 {
	if f.options.Uncommitted {
		return int8(kafka.ReadUncommitted)
	}
	return int8(kafka.ReadCommitted)
}

// nearLife is how long a near replica is read from before the leader is asked again whether there
// is a better one: the metadata.max.age of Kafka's own consumers. After a replica has failed, the
// leader is not asked for nearPause: it would name the same one.
const (
	nearLife  = 5 * time.Minute
	nearPause = 10 * time.Second
)

// nearest makes one attempt, at the near replica if the client has a rack. The leader names one in
// the place of records. If that fails, because it is away or does not have yet what the leader has,
// the leader answers.
func (f *Fetcher) nearest(ctx context.Context, offset int64, wait time.Duration) (
	Fetched, error,
) {
	rack := wire.RackOf(f.client)
	if rack != "" && !time.Now().Before(f.nearUntil) {
		got, near, err := f.once(ctx, f.leader, rack, offset, wait)
		f.near = wire.AnyBroker
		if err != nil || near == wire.AnyBroker || near == f.leader {
			return got, err
		}
		f.near, f.nearUntil = near, time.Now().Add(nearLife)
		if got.Next > offset {
			return got, nil
		}
	}
	if f.near != wire.AnyBroker {
		got, _, err := f.once(ctx, f.near, rack, offset, wait)
		if err == nil {
			return got, nil
		}
		f.near, f.nearUntil = wire.AnyBroker, time.Now().Add(nearPause)
	}
	got, _, err := f.once(ctx, f.leader, "", offset, wait)
	return got, err
}

// once makes one attempt at a broker. It returns the replica that the broker names as nearer to the
// rack, or wire.AnyBroker.
func (f *Fetcher) once(
	ctx context.Context, broker int32, rack string, offset int64, wait time.Duration,
) (got Fetched, near int32, err error) {
	buf := f.buf
	f.buf = nil // a connection may still write into it after a failure
	answer, err := wire.Ask[*wire.Frame](ctx, f.client, wire.Exchange{
		Op: f.op(), Message: f.request(rack, offset, wait), To: broker,
		Timeout: wait + f.options.RequestTimeout, Raw: true, Buf: buf,
	})
	if err != nil {
		return Fetched{}, wire.AnyBroker, err
	}
	f.buf = answer.Body
	part, err := f.parse(answer)
	if err != nil {
		return Fetched{}, wire.AnyBroker, err
	}
	switch code := kafka.Error(part.code); {
	case code == kafka.OffsetOutOfRange:
		err = &OffsetError{f.topic, f.partition, offset}
	case code == kafka.InvalidMessage:
		err = f.corrupt(offset, "the broker found its checksum wrong")
	case code != 0:
		err = wire.Refused(f.op(), code)
	}
	if err != nil {
		return Fetched{}, wire.AnyBroker, err
	}
	got, err = f.decode(part, offset)
	return got, part.near, err
}

// request asks for the partition alone, without a fetch session. It limits the partition's bytes
// and not the request's. To Kafka that is the same, but kfake leaves the aborted transactions out
// of an answer that fills the request's limit.
func (f *Fetcher) request(rack string, offset int64, wait time.Duration) *fetch.Request {
	return &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(wait.Milliseconds()), MinBytes: 1,
		MaxBytes: wire.MaxAnswerBytes, IsolationLevel: f.isolation(), SessionEpoch: -1,
		RackID: rack,
		Topics: []fetch.RequestTopic{{
			Topic: f.topic,
			Partitions: []fetch.RequestPartition{{
				Partition: f.partition, CurrentLeaderEpoch: -1, FetchOffset: offset,
				LogStartOffset: -1, PartitionMaxBytes: int32(f.options.MaxBytes),
			}},
		}},
	}
}

// answered is one partition of a fetch answer.
type answered struct {
	code               int16
	end, stable, start int64
	near               int32 // the replica to read from instead, or wire.AnyBroker
	aborted            []aborted
	records            []byte
}

// parse reads the answer in versions 4 to 11, on which kafka-go and every broker since Kafka 0.11
// can agree.
func (f *Fetcher) parse(a *wire.Frame) (answered, error) {
	if a.Version < 4 || a.Version > 11 {
		return answered{}, &wire.Error{
			Op: f.op(), Err: kafka.UnsupportedVersion, Hint: "the broker is older than Kafka 0.11",
		}
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
		topic := r.String()
		for range r.Count(18) {
			partition, p := f.parsePartition(r, a.Version)
			if partition == f.partition && string(topic) == f.topic {
				part, found = p, true
			}
		}
	}
	switch {
	case r.Short:
		return answered{}, wire.CutShort(f.op())
	case !found:
		return answered{}, leftOut(f.op())
	}
	return part, nil
}

func (f *Fetcher) parsePartition(r *wire.Reader, version int16) (int32, answered) {
	partition := r.Int32()
	p := answered{code: r.Int16(), end: r.Int64(), stable: r.Int64(), near: wire.AnyBroker}
	if version >= 5 {
		p.start = r.Int64()
	}
	f.aborted = f.aborted[:0]
	for range r.Count(16) {
		f.aborted = append(f.aborted, aborted{producerID: r.Int64(), first: r.Int64()})
	}
	p.aborted = f.aborted
	if version >= 11 {
		p.near = r.Int32()
	}
	if size := r.Int32(); size > 0 {
		p.records = r.Take(int(size))
	}
	return partition, p
}

// decode walks the batches. If batches precede a damaged one it returns those, and the error comes
// with the next fetch.
func (f *Fetcher) decode(part answered, offset int64) (Fetched, error) {
	got := Fetched{
		Records: f.records[:0], Next: offset,
		Start: part.start, StableEnd: part.stable, End: part.end, Epoch: noEpoch,
	}
	hidden := newFilter(part.aborted)
	data := part.records
	for len(data) > 0 {
		b, err := parseBatch(data)
		if err == nil {
			err = f.addBatch(&got, hidden, &b, offset)
		}
		if err != nil {
			if got.Next > offset {
				break
			}
			if old, ok := errors.AsType[oldFormat](err); ok {
				return Fetched{}, &wire.Error{
					Op: fmt.Sprintf("%s from offset %d", f.op(), offset), Err: old,
					Hint: "copy its records to another topic, or start after them",
				}
			}
			return Fetched{}, f.corrupt(max(b.base, offset), err.Error())
		}
		data = data[b.offsetOfNext:]
	}
	f.records = got.Records
	return got, nil
}

// addBatch adds one batch to the answer, and moves past the batch even if compaction has removed
// its last records, or all of them.
func (f *Fetcher) addBatch(got *Fetched, hidden *filter, b *batch, offset int64) error {
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
	got.Next, got.Epoch = max(got.Next, b.last+1), b.epoch
	return nil
}

func (f *Fetcher) corrupt(offset int64, reason string) error {
	return &CorruptError{f.topic, f.partition, offset, reason}
}

// leftOut is the error for an answer without the partition that was asked for.
func leftOut(op string) error {
	return &wire.Error{
		Op: op, Temporary: true, Err: errors.New("the broker's answer leaves the partition out"),
	}
}

// aborted is one entry of a fetch answer: a producer, and the first offset of its transaction that
// was aborted.
type aborted struct{ producerID, first int64 }

// filter decides which batches of an answer a read_committed reader sees. The broker lists the
// aborted transactions that touch the answer. A batch belongs to one of them if it is listed for
// the batch's producer and its abort marker comes later.
type filter struct {
	pending  []aborted // sorted by first offset, not reached yet
	aborting []int64   // producers whose abort marker is still to come; few at any time
}

// newFilter takes ownership of the answer's list and sorts it.
func newFilter(list []aborted) *filter {
	slices.SortFunc(list, func(a, b aborted) int { return int(min(max(a.first-b.first, -1), 1)) })
	return &filter{pending: list}
}

// skip reports whether a batch is hidden, because it is a control batch or its transaction was
// aborted. It must be called for every batch, in order.
//
// It opens transactions before it looks at the batch, even if that is a control batch: compaction
// can remove the aborted records and leave their marker, and a producer that was opened after its
// own marker would stay hidden forever.
func (f *filter) skip(b *batch) (bool, error) {
	f.open(b)
	if b.control() {
		abort, err := abortMarker(b)
		if abort {
			f.aborting = slices.DeleteFunc(f.aborting, func(id int64) bool {
				return id == b.producerID
			})
		}
		return true, err
	}
	return b.transactional() && slices.Contains(f.aborting, b.producerID), nil
}

// open moves the transactions that begin in or before a batch from pending to aborting.
func (f *filter) open(b *batch) {
	for len(f.pending) > 0 && f.pending[0].first <= b.last {
		if id := f.pending[0].producerID; !slices.Contains(f.aborting, id) {
			f.aborting = append(f.aborting, id)
		}
		f.pending = f.pending[1:]
	}
}

// abortMarker reports whether a control batch aborts its producer's transaction. A marker that
// compaction has removed leaves an empty batch, which ends nothing. The key of a control record is
// its version and its type, both int16.
func abortMarker(b *batch) (bool, error) {
	const abort = 0
	records, err := b.appendRecords(nil, b.base)
	if err != nil || len(records) == 0 {
		return false, err
	}
	key := records[0].Key
	if len(key) < 4 {
		return false, flaw("a control record's key is cut short")
	}
	return binary.BigEndian.Uint16(key[2:]) == abort, nil
}
