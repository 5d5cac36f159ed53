package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"
)

// Transactional is the transactional producer of one worker. It is a state
// machine:
//
//	                 Produce, CommitOffsets
//	        ┌───────┐ ───────────────────► ┌──────┐ ──┐ Produce,
//	 Init   │ ready │                      │ open │ ◄─┘ CommitOffsets
//	 ┌────► └───────┘ ◄─────────────────── └──────┘
//	 │          ▲       Commit, Abort          │ refused, or in doubt
//	 │          │ Abort, nothing in doubt      ▼
//	┌──────┐    └───────────────────────── ┌────────┐
//	│ idle │ ◄──────────────────────────── │ failed │
//	└──────┘    Abort, a send is in doubt  └────────┘
//
//	from any state:  fenced, evicted ───────────────────────────► fenced
//	                 offsets refused for the group's generation ─► outdated
//	                 Commit or Abort without a definite answer ─► unknown
//	                 Init ──────────────────────────────────────► ready
//
// Which call each state allows, and what it does:
//
//	state    Init    Produce         CommitOffsets   Commit            Abort
//	idle     fence   ErrState        ErrState        ErrState          nothing to do
//	ready    fence   add, send       add, send       nothing to do     nothing to do
//	open     fence   add, send       add, send       end, definitely   end, definitely
//	failed   fence   ErrState        ErrState        ErrState          end, definitely
//	unknown  fence   ErrState        ErrState        ErrState          ErrState
//	fenced   fence   ErrState        ErrState        ErrState          ErrState
//	outdated fence   ErrState        add, send       ErrState          ErrState
//
// ErrState comes with the remedy of the state: abortable in idle and failed,
// unknown in unknown, fenced in fenced and outdated.
//
// Why a send in doubt leads to idle rather than to ready: if the lost batch was written, the broker
// expects the sequence number after it, otherwise the same number again. If the producer guesses
// that it was written and it was not, the broker refuses the next batch. If it guesses the other
// way round, the broker takes the next, different batch for a repetition and drops it. A new epoch
// starts at zero.
//
// A Transactional is not safe for concurrent use.
type Transactional struct {
	sender    *sender
	session   session
	state     state
	doubt     bool                    // it is not known whether a batch or partition has arrived
	confirmed bool                    // the coordinator has said that the transaction is open
	added     map[TopicPartition]bool // partitions of the open transaction
	groups    map[string]bool         // groups whose offsets the transaction carries
	offsets   Offsets                 // last offsets of its records
}

type state uint8

const (
	idle state = iota
	ready
	open
	failed
	unknown
	fenced
	outdated
)

// String returns the state's name as in the diagram.
func (s state) String() string {
	return [...]string{"idle", "ready", "open", "failed", "unknown", "fenced", "outdated"}[s]
}

// NewTransactional returns a producer in state idle. It connects to nothing before Init. The
// transactional id names the worker, not the process: the next worker on the same partition uses
// the same id, and so fences this one.
func NewTransactional(client *kafka.Client, transactionalID string, o Options) (
	*Transactional, error,
) {
	if transactionalID == "" {
		return nil, errors.New("producer: there is no transactional id")
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Transactional{
		sender:  newSender(newCaller(client, o.withDefaults()), false),
		session: session{transactionalID: transactionalID},
	}, nil
}

// Init fences every earlier producer with the same transactional id, ends that producer's open
// transaction, and makes this one ready, from any state. When it returns nil, the committed offset
// does not change until this producer commits. Safe to repeat. Only the current owner of the
// partition may call Init: a zombie would fence the owner.
func (t *Transactional) Init(ctx context.Context) error {
	var got *initproducerid.Response
	err := t.sender.do(ctx, call{
		op: "init producer id", to: t.coordinator(),
		message: func() protocol.Message {
			return &initproducerid.Request{
				TransactionalID:      t.session.transactionalID,
				TransactionTimeoutMs: int32(t.sender.options.TransactionTimeout.Milliseconds()),
				ProducerID:           -1, ProducerEpoch: -1, // there is none yet; 0 is an id
			}
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
		// It does not matter whether it fenced anyone: the next Init does so again.
		err.Uncertain = false
		if t.state != unknown && t.state != fenced {
			t.clear()
			t.state = idle
		}
		return err
	}
	t.clear()
	t.session.producerID, t.session.producerEpoch = got.ProducerID, got.ProducerEpoch
	t.session.sequences = map[TopicPartition]int32{}
	t.state = ready
	return nil
}

// Produce writes records to any number of partitions as part of the transaction, which it opens if
// there is none. It returns when all in-sync replicas have acknowledged all records, with the last
// offset of every partition that the transaction has written to so far. The producer owns that map
// until the transaction ends. Nothing is visible to read_committed consumers before Commit.
//
// Produce repeats a refusal that may pass, such as too few replicas, a moved leader, or a topic
// that is still being created, with the same sequence numbers. If an answer is lost, the error is
// abortable. The records are encoded before the first request, so the caller may reuse them after
// Produce returns, whatever it returns.
func (t *Transactional) Produce(ctx context.Context, batches ...Batch) (Offsets, error) {
	if err := t.require("produce"); err != nil {
		return nil, err
	}
	if err := t.addPartitions(ctx, batches); err != nil {
		return nil, t.fail(err)
	}
	if err := t.sender.send(ctx, &t.session, batches, t.offsets); err != nil {
		return nil, t.fail(err)
	}
	return t.offsets, nil
}

// Member names the member of a consumer group for which offsets are committed, and the group's
// generation. Kafka refuses it once the group has moved on, or once another
// process has taken the instance id over.
type Member struct {
	Group      string
	Generation int32 // -1 without a membership
	MemberID   string
	InstanceID string // of a static member (KIP-345), else empty
}

// CommitOffsets makes consumer offsets part of the transaction: the next offset to read, by
// partition. Kafka refuses them (ErrFenced) if the member is no longer in the group. That stops a
// zombie that has not noticed its eviction. After kafka.IllegalGeneration, or
// kafka.RebalanceInProgress, a member that is in the group's new generation can call CommitOffsets
// once more. Without a membership (Generation -1, no ids) Kafka checks nothing.
func (t *Transactional) CommitOffsets(ctx context.Context, by Member,
	offsets map[TopicPartition]int64,
) error {
	if t.state == outdated {
		t.state = open
	}
	if err := t.require("commit offsets"); err != nil {
		return err
	}
	if err := t.addGroup(ctx, by.Group); err != nil {
		return t.fail(err)
	}
	err := t.sender.do(ctx, call{
		op: "commit offsets of group " + by.Group,
		to: coordinator{by.Group, kafka.CoordinatorKeyTypeConsumer},
		message: func() protocol.Message {
			return &txnoffsetcommit.Request{
				TransactionalID: t.session.transactionalID, GroupID: by.Group,
				ProducerID: t.session.producerID, ProducerEpoch: t.session.producerEpoch,
				GenerationID: by.Generation, MemberID: by.MemberID, GroupInstanceID: by.InstanceID,
				Topics: offsetTopics(offsets),
			}
		},
		answer: func(m protocol.Message) (kafka.Error, *TopicPartition) {
			res, ok := m.(*txnoffsetcommit.Response)
			if !ok {
				return kafka.Unknown, nil
			}
			for _, topic := range res.Topics {
				for _, p := range topic.Partitions {
					if p.ErrorCode != 0 {
						return kafka.Error(p.ErrorCode), &TopicPartition{topic.Name, p.Partition}
					}
				}
			}
			return 0, nil
		},
	})
	if err == nil {
		return nil
	}
	failure := t.fail(err)
	if errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.RebalanceInProgress) {
		t.state = outdated
	}
	return failure
}

// Commit ends the transaction and returns the last offset of every partition that it wrote to. A
// nil error means definitely committed. ErrUnknownOutcome means that no definite answer came within
// Options.RetryTimeout or before the context ended: neither apply nor drop what depends on the
// transaction, but call Init and read the committed offset. Any other error means definitely not
// committed. Commit does not end a transaction that carries nothing, and returns no offsets.
func (t *Transactional) Commit(ctx context.Context) (Offsets, error) {
	if err := t.require("commit"); err != nil {
		return nil, err
	}
	if t.state == ready {
		return Offsets{}, nil
	}
	if err := t.end(ctx, true); err != nil {
		return nil, err
	}
	offsets := t.offsets
	t.clear()
	t.state = ready
	return offsets, nil
}

// Abort ends the transaction without making anything of it visible. Nil means that it is ended. The
// next call may still have to be Init (see the diagram); any other call then returns ErrState.
// Abort without a transaction returns nil.
func (t *Transactional) Abort(ctx context.Context) error {
	switch t.state {
	case idle, ready:
		return nil
	case unknown, fenced, outdated:
		return t.misuse("abort")
	case open, failed:
	}
	doubt := t.doubt
	if t.confirmed || doubt {
		if err := t.end(ctx, false); err != nil {
			return err
		}
	}
	doubt = doubt || t.doubt
	t.clear()
	t.state = ready
	if doubt {
		t.state = idle
	}
	return nil
}

// end asks the coordinator to end the transaction until the answer is definite.
func (t *Transactional) end(ctx context.Context, commit bool) error {
	op := "abort transaction"
	if commit {
		op = "commit transaction"
	}
	err := t.sender.do(ctx, call{
		op: op, to: t.coordinator(),
		message: func() protocol.Message {
			return &endtxn.Request{
				TransactionalID: t.session.transactionalID,
				ProducerID:      t.session.producerID, ProducerEpoch: t.session.producerEpoch,
				Committed: commit,
			}
		},
		answer: func(m protocol.Message) (kafka.Error, *TopicPartition) {
			res, ok := m.(*endtxn.Response)
			if !ok {
				return kafka.Unknown, nil
			}
			return kafka.Error(res.ErrorCode), nil
		},
	})
	switch {
	case err == nil:
		return nil
	case !commit && !t.confirmed && errors.Is(err, kafka.InvalidTransactionState):
		// The only request that would have opened the transaction never arrived, so there is
		// nothing to abort.
		t.doubt = true
		return nil
	case err.Remedy == Fenced:
		t.state = fenced
	case err.Uncertain || !known(err):
		err.Remedy = Unknown
		t.state = unknown
	default:
		t.state = failed
		if commit && err.Remedy == Retriable {
			err.Remedy = Abortable // definitely not committed
		}
	}
	return err
}

// known reports whether the coordinator refused to end the transaction with a code whose meaning is
// clear. Any other answer leaves the outcome open.
func known(err *Error) bool {
	return err.Remedy == Retriable || err.Remedy == Fatal || errors.Is(err, transactionAbortable)
}

// addPartitions tells the coordinator about the partitions that the transaction writes to and that
// the coordinator does not know yet.
func (t *Transactional) addPartitions(ctx context.Context, batches []Batch) *Error {
	var added []TopicPartition
	for _, b := range batches {
		if len(b.Records) == 0 || t.added[b.TopicPartition] {
			continue
		}
		t.added[b.TopicPartition] = true
		added = append(added, b.TopicPartition)
	}
	if len(added) == 0 {
		return nil
	}
	t.state = open
	err := t.sender.do(ctx, call{
		op: "add partitions to transaction", to: t.coordinator(),
		message: func() protocol.Message {
			return &addpartitionstotxn.Request{
				TransactionalID: t.session.transactionalID,
				ProducerID:      t.session.producerID, ProducerEpoch: t.session.producerEpoch,
				Topics: partitionTopics(added),
			}
		},
		answer: addPartitionsAnswer,
	})
	t.confirmed = t.confirmed || err == nil
	return err
}

// addPartitionsAnswer returns the first refusal of a partition. If Kafka refuses one partition, it
// answers the others with OPERATION_NOT_ATTEMPTED, which says nothing about them.
func addPartitionsAnswer(m protocol.Message) (kafka.Error, *TopicPartition) {
	const operationNotAttempted = 55
	res, ok := m.(*addpartitionstotxn.Response)
	if !ok {
		return kafka.Unknown, nil
	}
	var code kafka.Error
	var where *TopicPartition
	for _, topic := range res.Results {
		for _, p := range topic.Results {
			if p.ErrorCode != 0 && (code == 0 || code == operationNotAttempted) {
				code = kafka.Error(p.ErrorCode)
				where = &TopicPartition{topic.Name, p.PartitionIndex}
			}
		}
	}
	return code, where
}

// partitionTopics lists each topic once, as the coordinator wants it.
func partitionTopics(added []TopicPartition) []addpartitionstotxn.RequestTopic {
	type topic = addpartitionstotxn.RequestTopic
	var topics []topic
	for _, tp := range added {
		i := slices.IndexFunc(topics, func(t topic) bool { return t.Name == tp.Topic })
		if i < 0 {
			i = len(topics)
			topics = append(topics, topic{Name: tp.Topic})
		}
		topics[i].Partitions = append(topics[i].Partitions, tp.Partition)
	}
	return topics
}

// addGroup tells the coordinator that the transaction carries offsets of a group.
func (t *Transactional) addGroup(ctx context.Context, group string) *Error {
	if t.groups[group] {
		return nil
	}
	t.groups[group] = true
	t.state = open
	err := t.sender.do(ctx, call{
		op: "add offsets to transaction", to: t.coordinator(),
		message: func() protocol.Message {
			return &addoffsetstotxn.Request{
				TransactionalID: t.session.transactionalID, GroupID: group,
				ProducerID: t.session.producerID, ProducerEpoch: t.session.producerEpoch,
			}
		},
		answer: func(m protocol.Message) (kafka.Error, *TopicPartition) {
			res, ok := m.(*addoffsetstotxn.Response)
			if !ok {
				return kafka.Unknown, nil
			}
			return kafka.Error(res.ErrorCode), nil
		},
	})
	t.confirmed = t.confirmed || err == nil
	return err
}

func offsetTopics(offsets map[TopicPartition]int64) []txnoffsetcommit.RequestTopic {
	byTopic := map[string][]txnoffsetcommit.RequestPartition{}
	for tp, offset := range offsets {
		byTopic[tp.Topic] = append(byTopic[tp.Topic], txnoffsetcommit.RequestPartition{
			Partition: tp.Partition, CommittedOffset: offset, CommittedLeaderEpoch: -1,
		})
	}
	topics := make([]txnoffsetcommit.RequestTopic, 0, len(byTopic))
	for name, partitions := range byTopic {
		topics = append(topics, txnoffsetcommit.RequestTopic{Name: name, Partitions: partitions})
	}
	return topics
}

func (t *Transactional) coordinator() coordinator {
	return coordinator{t.session.transactionalID, kafka.CoordinatorKeyTypeTransaction}
}

// clear forgets the transaction.
func (t *Transactional) clear() {
	t.doubt, t.confirmed = false, false
	t.added, t.groups = map[TopicPartition]bool{}, map[string]bool{}
	t.offsets = Offsets{}
}

// fail changes the state after an error of a call inside the transaction. A retriable error has
// used up its retries, so the transaction is given up.
func (t *Transactional) fail(err *Error) error {
	t.doubt = t.doubt || err.Uncertain
	t.state = failed
	switch err.Remedy {
	case Fenced:
		t.state = fenced
	case Retriable:
		err.Remedy = Abortable
	case Abortable, Unknown, Fatal:
	}
	return err
}

// require allows a call in the states that continue a transaction.
func (t *Transactional) require(op string) error {
	if t.state == ready || t.state == open {
		return nil
	}
	return t.misuse(op)
}

// misuse returns the error of a call that the state does not allow.
func (t *Transactional) misuse(op string) error {
	e := &Error{Op: op, Remedy: Abortable, Err: fmt.Errorf("%w: %s", ErrState, t.state)}
	switch t.state {
	case idle:
		e.Hint = "call Init first"
	case failed:
		e.Hint = "call Abort or Init"
	case unknown:
		e.Remedy, e.Hint = Unknown, "call Init, then read the committed offset"
	case fenced:
		e.Remedy, e.Hint = Fenced, "another worker has taken over: stop"
	case outdated:
		e.Remedy, e.Hint = Fenced, "call CommitOffsets again if the member is still in the group"
	case ready, open:
	}
	return e
}
