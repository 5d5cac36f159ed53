package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire/wiretest"
)

func TestCommitMakesEverythingVisibleTogether(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	var batches []Batch
	for partition := range int32(4) { // over three leaders
		batches = append(batches,
			Batch{TopicPartition{"out", partition}, values(int(partition)*10, 3)},
			Batch{TopicPartition{"log", partition}, values(int(partition)*10, 2)})
	}
	offsets, err := p.Produce(t.Context(), batches...)
	h.OK(err)
	h.OK(p.CommitOffsets(t.Context(), Member{Group: "group", Generation: -1},
		map[TopicPartition]int64{{"in", 2}: 7, {"in", 3}: 9}))
	h.expect("out", 1)
	committed, err := p.Commit(t.Context())
	h.OK(err)
	for partition := range int32(4) {
		h.expect("log", partition, names(int(partition)*10, 2)...)
		if got := committed[TopicPartition{"out", partition}]; got != 2 ||
			offsets[TopicPartition{"out", partition}] != 2 {
			t.Errorf("the last offset of out/%d is %d, want 2", partition, got)
		}
	}
	h.expect("out", 0, names(0, 3)...)
	commits := h.GroupInfo("group").Commits["in"]
	if len(commits) != 2 || commits[2].Offset != 7 || commits[3].Offset != 9 {
		t.Errorf("the group's offsets are %v", commits)
	}

	// A second transaction goes on where the first ended.
	h.produce(p, "out", 0, values(3, 2))
	committed, err = p.Commit(t.Context())
	h.OK(err)
	h.expect("out", 0, append(names(0, 3), names(3, 2)...)...)
	if len(committed) != 1 {
		t.Errorf("the second transaction has offsets %v", committed)
	}
}

func TestAbortHidesEverything(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	h.produce(p, "out", 0, values(0, 3))
	h.OK(p.CommitOffsets(t.Context(), Member{Group: "group", Generation: -1},
		map[TopicPartition]int64{{"in", 0}: 3}))
	h.OK(p.Abort(t.Context()))
	h.produce(p, "out", 0, values(10, 2))
	_, err := p.Commit(t.Context())
	h.OK(err)
	h.expect("out", 0, names(10, 2)...)
	if info := h.GroupInfo("group"); info != nil && len(info.Commits["in"]) > 0 {
		t.Errorf("an aborted transaction left offsets: %v", info.Commits)
	}
}

func TestInitFencesTheOldProducer(t *testing.T) {
	h := newHarness(t)
	calls := map[string]func(*Transactional) error{
		"produce": func(p *Transactional) error {
			_, err := p.Produce(h.Context(), Batch{TopicPartition{"out", 0}, values(90, 1)})
			return err
		},
		"produce elsewhere": func(p *Transactional) error {
			_, err := p.Produce(h.Context(), Batch{TopicPartition{"log", 3}, values(90, 1)})
			return err
		},
		"offsets": func(p *Transactional) error {
			return p.CommitOffsets(h.Context(), Member{Group: "group", Generation: -1},
				map[TopicPartition]int64{{"in", 0}: 5})
		},
		"commit": func(p *Transactional) error { _, err := p.Commit(h.Context()); return err },
		"abort":  func(p *Transactional) error { return p.Abort(h.Context()) },
	}
	for name, call := range calls {
		old := h.started(name, quick)
		h.produce(old, "out", 0, values(80, 1))
		fresh := h.started(name, quick)
		err := call(old)
		h.Is(err, ErrFenced)
		if errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("%s: a plain refusal is taken for an unknown outcome", name)
		}
		if old.state != fenced {
			t.Errorf("%s: state %v after %v", name, old.state, err)
		}
		_, err = old.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(91, 1)})
		h.Is(err, ErrFenced)
		h.Is(err, ErrState)
		h.Is(old.Abort(t.Context()), ErrFenced)
		h.produce(fresh, "out", 0, []Record{{Value: []byte(name)}})
		_, err = fresh.Commit(t.Context())
		h.OK(err)
	}
	if got := h.read("out", 0); len(got) != len(calls) || slices.Contains(got, "v80") ||
		slices.Contains(got, "v90") {
		t.Errorf("readers see %q", got)
	}
}

// join makes a group of one member and returns its generation.
func join(h *harness, group string) (generation int32, member string) {
	h.Helper()
	for range 2 { // the first attempt is told its member id
		res, err := h.Client.JoinGroup(h.Context(), &kafka.JoinGroupRequest{
			GroupID: group, MemberID: member, ProtocolType: "consumer",
			SessionTimeout: 30 * time.Second, RebalanceTimeout: 30 * time.Second,
			Protocols: []kafka.GroupProtocol{{
				Name:     "range",
				Metadata: kafka.GroupProtocolSubscription{Topics: []string{"in"}},
			}},
		})
		h.OK(err)
		generation, member = int32(res.GenerationID), res.MemberID
	}
	_, err := h.Client.SyncGroup(h.Context(), &kafka.SyncGroupRequest{
		GroupID: group, GenerationID: int(generation), MemberID: member, ProtocolType: "consumer",
		ProtocolName: "range",
		Assignments: []kafka.SyncGroupRequestAssignment{{
			MemberID: member,
			Assignment: kafka.GroupProtocolAssignment{
				AssignedPartitions: map[string][]int{"in": {0}},
			},
		}},
	})
	h.OK(err)
	return generation, member
}

func TestZombieCommitIsRefusedByGeneration(t *testing.T) {
	h := newHarness(t)
	generation, member := join(h, "group")
	in := map[TopicPartition]int64{{"in", 0}: 5}
	for name, c := range map[string]struct {
		generation int32
		member     string
		cause      error
	}{
		"old generation": {generation - 1, member, kafka.IllegalGeneration},
		"evicted member": {generation, "somebody-else", kafka.UnknownMemberId},
	} {
		p := h.started(name, quick)
		h.produce(p, "out", 0, values(0, 1))
		err := p.CommitOffsets(t.Context(),
			Member{Group: "group", Generation: c.generation, MemberID: c.member}, in)
		h.Is(err, ErrFenced)
		h.Is(err, c.cause)
		_, err = p.Commit(t.Context())
		h.Is(err, ErrState)
		h.Is(err, ErrFenced)
		h.Is(p.Abort(t.Context()), ErrFenced)
		h.OK(h.started(name, quick).Abort(t.Context())) // the successor ends it
	}
	h.expect("out", 0)

	// The group has moved on, and the member with it: the same transaction is committed.
	moved := h.started("moved", quick)
	h.produce(moved, "out", 0, values(0, 1))
	h.Is(moved.CommitOffsets(t.Context(),
		Member{Group: "group", Generation: generation - 1, MemberID: member}, in),
		kafka.IllegalGeneration)
	_, refused := moved.Produce(t.Context(),
		Batch{TopicPartition{"out", 0}, []Record{{Value: []byte("not now")}}})
	h.Is(refused, ErrState)
	h.OK(moved.CommitOffsets(t.Context(),
		Member{Group: "group", Generation: generation, MemberID: member}, in))
	_, err := moved.Commit(t.Context())
	h.OK(err)
	h.expect("out", 0, "v0")

	p := h.started("current", quick)
	h.produce(p, "out", 0, values(0, 1))
	h.OK(p.CommitOffsets(t.Context(),
		Member{Group: "group", Generation: generation, MemberID: member}, in))
	_, err = p.Commit(t.Context())
	h.OK(err)
	h.expect("out", 0, "v0", "v0")
}

func TestPassingRefusalsAreRepeated(t *testing.T) {
	h := newHarness(t)
	for _, key := range []kmsg.Key{
		kmsg.InitProducerID, kmsg.AddPartitionsToTxn,
		kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn,
	} {
		for _, code := range []int16{14, 15, 16, 51} {
			fault := h.Refuse(key, code, 2)
			p := h.started(fmt.Sprint(key, code), quick)
			h.produce(p, "out", 0, values(0, 1))
			h.OK(p.CommitOffsets(t.Context(), Member{Group: "group", Generation: -1},
				map[TopicPartition]int64{{"in", 0}: 1}))
			if _, err := p.Commit(t.Context()); err != nil {
				t.Errorf("%s refused with %d twice: %v", key.Name(), code, err)
			}
			if fault.Hits() != 2 {
				t.Errorf("%s was refused with %d %d times, not twice", key.Name(), code,
					fault.Hits())
			}
			fault.Remove()
		}
	}
}

func TestProduceRepeatsTheSameSequence(t *testing.T) {
	h := newHarness(t)
	want := []string{}
	for i, code := range []int16{3, 5, 6, 7, 19, 20, 56} {
		p := h.started("worker", quick)
		fault := h.Refuse(kmsg.Produce, code, 2)
		h.produce(p, "out", 1, values(10*i, 2))
		h.produce(p, "out", 1, values(10*i+2, 1))
		_, err := p.Commit(t.Context())
		h.OK(err)
		if fault.Hits() != 2 {
			t.Errorf("Produce was refused with %d %d times, not twice", code, fault.Hits())
		}
		fault.Remove()
		want = append(want, names(10*i, 3)...)
	}
	h.expect("out", 1, want...)
}

func TestRefusedProduceIsAborted(t *testing.T) {
	h := newHarness(t)
	for code, target := range map[int16]error{
		2: ErrAbortable, 46: ErrAbortable, 59: ErrAbortable,
		120: ErrAbortable, -1: ErrAbortable, 29: ErrFatal, 45: ErrFenced, 48: ErrFenced,
		47: ErrFenced,
	} {
		p := h.started("worker", quick)
		fault := h.Refuse(kmsg.Produce, code, 1)
		_, err := p.Produce(t.Context(), Batch{TopicPartition{"out", 2}, values(0, 1)})
		h.Is(err, target)
		h.Is(err, kafka.Error(code))
		fault.Remove()
		if !errors.Is(target, ErrFenced) {
			_, err = p.Commit(t.Context())
			h.Is(err, ErrState)
			h.OK(p.Abort(t.Context()))
		}
	}
	h.expect("out", 2)
}

func TestLostProduceAnswerIsAborted(t *testing.T) {
	h := newHarness(t)
	for _, arrives := range []bool{true, false} {
		p := h.started("worker", quick)
		h.Network.Lose(protocol.Produce, wiretest.Loss{Times: 1, Answer: arrives})
		_, err := p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(0, 2)})
		h.Is(err, ErrAbortable)
		h.OK(p.Abort(t.Context()))
		_, err = p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(2, 2)})
		h.Is(err, ErrState)
		h.OK(p.Init(t.Context()))
		h.produce(p, "out", 0, values(4, 2))
		_, err = p.Commit(t.Context())
		h.OK(err)
	}
	h.expect("out", 0, "v4", "v5", "v4", "v5")
}

// The reason for the rule above: a producer that goes on after an abort, with
// the sequence number of a batch that did arrive, has its next batch taken for a
// repetition.
func TestGoingOnAfterALostAnswerLosesRecords(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	h.Network.Lose(protocol.Produce, wiretest.Loss{Times: 1, Answer: true})
	_, err := p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(0, 2)})
	h.Is(err, ErrAbortable)
	h.OK(p.Abort(t.Context()))
	p.state = ready // the planted fault: no Init
	h.produce(p, "out", 0, values(4, 2))
	_, err = p.Commit(t.Context())
	h.OK(err)
	if got := h.read("out", 0); len(got) != 0 {
		t.Errorf("readers see %q: the broker has not taken the batch for a repetition, and this "+
			"test proves nothing", got)
	}
}

func TestLostEndOfTransaction(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)

	// Lost once: asked again, and definite.
	for i, deliver := range []bool{true, false} {
		h.produce(p, "out", int32(i), values(0, 1))
		h.Network.Lose(protocol.EndTxn, wiretest.Loss{Times: 1, Answer: deliver})
		_, err := p.Commit(t.Context())
		h.OK(err)
		h.expect("out", int32(i), "v0")
		h.produce(p, "out", int32(i), values(1, 1))
		h.Network.Lose(protocol.EndTxn, wiretest.Loss{Times: 1, Answer: deliver})
		h.OK(p.Abort(t.Context()))
	}

	// Lost for good: unknown, and Init settles it either way.
	for i, deliver := range []bool{true, false} {
		p := h.started("other", impatient)
		partition := int32(2 + i)
		h.produce(p, "out", partition, values(0, 1))
		h.Network.Lose(protocol.EndTxn, wiretest.Loss{Times: -1, Answer: deliver})
		_, err := p.Commit(t.Context())
		h.Is(err, ErrUnknownOutcome)
		_, err = p.Produce(t.Context(), Batch{TopicPartition{"out", partition}, values(1, 1)})
		h.Is(err, ErrUnknownOutcome)
		h.Is(p.Abort(t.Context()), ErrState)
		h.Network.Heal()
		p.sender.options = quick.withDefaults()
		h.OK(p.Init(t.Context()))
		if deliver {
			h.expect("out", partition, "v0")
		} else {
			h.expect("out", partition)
		}
	}
}

func TestFencedAfterALostCommitIsBoth(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	h.produce(p, "out", 0, values(0, 1))
	h.Network.Lose(protocol.EndTxn, wiretest.Loss{Times: 1, Answer: true})
	done := false
	h.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		if !done { // the first one goes through, its answer is lost
			done = true
			return nil, nil, false
		}
		res := kmsg.NewEndTxnResponse()
		res.Version, res.ErrorCode = 3, 90
		return &res, nil, true
	})
	_, err := p.Commit(t.Context())
	h.Is(err, ErrFenced)
	h.Is(err, ErrUnknownOutcome)
	h.expect("out", 0, "v0")
}

func TestUnclearAnswersToCommitAreUnknown(t *testing.T) {
	h := newHarness(t)
	for code, target := range map[int16]error{
		-1: ErrUnknownOutcome, 15: ErrUnknownOutcome,
		7: ErrUnknownOutcome, 51: ErrAbortable, 53: ErrFatal, 48: ErrFenced,
	} {
		p := h.started("worker", impatient)
		h.produce(p, "out", 0, values(0, 1))
		fault := h.Refuse(kmsg.EndTxn, code, -1)
		_, err := p.Commit(t.Context())
		h.Is(err, target)
		fault.Remove()
	}
	h.started("worker", quick)
	h.expect("out", 0)
}

func TestCancelledCommitIsUnknown(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	h.produce(p, "out", 0, values(0, 1))
	ctx, cancel := context.WithCancel(t.Context())
	h.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		cancel()
		return nil, nil, true // and no answer
	})
	_, err := p.Commit(ctx)
	h.Is(err, ErrUnknownOutcome)
	h.Is(err, context.Canceled)
}

func TestAbortOfATransactionThatNeverOpened(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	h.produce(p, "out", 0, values(0, 1))
	_, err := p.Commit(t.Context())
	h.OK(err)
	p.sender.options.RetryTimeout = 100 * time.Millisecond
	h.Network.Lose(protocol.AddPartitionsToTxn, wiretest.Loss{Times: -1})
	_, err = p.Produce(t.Context(), Batch{TopicPartition{"out", 1}, values(1, 1)})
	h.Is(err, ErrAbortable)
	p.sender.options.RetryTimeout = quick.RetryTimeout
	h.OK(p.Abort(t.Context()))
	h.OK(p.Init(t.Context()))
}

func TestTransactionTimeout(t *testing.T) {
	h := newHarness(t)
	o := quick
	o.TransactionTimeout = 50 * time.Millisecond
	p := h.started("worker", o)
	h.produce(p, "out", 0, values(0, 1))
	deadline := time.Now().Add(10 * time.Second)
	for h.PartitionInfo("out", 0).LastStableOffset < 2 { // the record and its abort marker
		if time.Now().After(deadline) {
			t.Fatal("the broker does not end the transaction")
		}
		time.Sleep(5 * time.Millisecond)
	}
	_, err := p.Commit(t.Context())
	if err == nil || errors.Is(err, ErrRetriable) {
		t.Errorf("a transaction that timed out: %v", err)
	}
	h.expect("out", 0)
}

func TestStates(t *testing.T) {
	h := newHarness(t)
	ctx := t.Context()
	produce := func(p *Transactional) error {
		_, err := p.Produce(ctx, Batch{TopicPartition{"out", 0}, values(0, 1)})
		return err
	}
	offsets := func(p *Transactional) error {
		return p.CommitOffsets(ctx, Member{Group: "group", Generation: -1},
			map[TopicPartition]int64{{"in", 0}: 1})
	}
	commit := func(p *Transactional) error { _, err := p.Commit(ctx); return err }
	abort := func(p *Transactional) error { return p.Abort(ctx) }
	init := func(p *Transactional) error { return p.Init(ctx) }
	type step struct {
		call func(*Transactional) error
		want error
		then state
	}
	for from, steps := range map[state]map[string]step{
		idle: {
			"produce": {produce, ErrAbortable, idle}, "offsets": {offsets, ErrAbortable, idle},
			"commit": {commit, ErrAbortable, idle},
			"abort":  {abort, nil, idle}, "init": {init, nil, ready},
		},
		ready: {
			"produce": {produce, nil, open}, "offsets": {offsets, nil, open},
			"commit": {commit, nil, ready},
			"abort":  {abort, nil, ready}, "init": {init, nil, ready},
		},
		open: {
			"produce": {produce, nil, open}, "offsets": {offsets, nil, open},
			"commit": {commit, nil, ready},
			"abort":  {abort, nil, ready}, "init": {init, nil, ready},
		},
		failed: {
			"produce": {produce, ErrAbortable, failed}, "offsets": {offsets, ErrAbortable, failed},
			"commit": {commit, ErrAbortable, failed},
			"abort":  {abort, nil, ready}, "init": {init, nil, ready},
		},
		unknown: {
			"produce": {produce, ErrUnknownOutcome, unknown},
			"offsets": {offsets, ErrUnknownOutcome, unknown},
			"commit":  {commit, ErrUnknownOutcome, unknown},
			"abort":   {abort, ErrUnknownOutcome, unknown}, "init": {init, nil, ready},
		},
		fenced: {
			"produce": {produce, ErrFenced, fenced}, "offsets": {offsets, ErrFenced, fenced},
			"commit": {commit, ErrFenced, fenced},
			"abort":  {abort, ErrFenced, fenced}, "init": {init, nil, ready},
		},
	} {
		for name, s := range steps {
			p := h.transactional(fmt.Sprint(from, name), quick)
			if from != idle {
				h.OK(p.Init(ctx))
			}
			if from == open || from == failed {
				h.OK(produce(p))
			}
			p.state = from
			err := s.call(p)
			if !errors.Is(err, s.want) {
				t.Errorf("%s in state %v: %v, want %v", name, from, err, s.want)
			}
			if s.want != nil && !errors.Is(err, ErrState) {
				t.Errorf("%s in state %v: %v does not match ErrState", name, from, err)
			}
			if p.state != s.then {
				t.Errorf("%s in state %v leads to %v, want %v", name, from, p.state, s.then)
			}
		}
	}
}

func TestEmptyTransactionIsNotEnded(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	offsets, err := p.Commit(t.Context())
	h.OK(err)
	h.OK(p.Abort(t.Context()))
	_, err = p.Produce(t.Context(), Batch{TopicPartition: TopicPartition{"out", 0}})
	h.OK(err)
	if n := h.Network.Sent(protocol.EndTxn) + h.Network.Sent(protocol.AddPartitionsToTxn); n != 0 ||
		len(offsets) != 0 {
		t.Errorf("%d requests and offsets %v for nothing", n, offsets)
	}
}

func TestFiveRoundTripsATransaction(t *testing.T) {
	h := newHarness(t, kfake.NumBrokers(1))
	p := h.started("worker", quick)
	run := func() {
		_, err := p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(0, 5)},
			Batch{TopicPartition{"log", 0}, values(0, 5)})
		h.OK(err)
		h.OK(p.CommitOffsets(t.Context(), Member{Group: "group", Generation: -1},
			map[TopicPartition]int64{{"in", 0}: 1}))
		_, err = p.Commit(t.Context())
		h.OK(err)
	}
	run()
	before := h.Network.Sent()
	run()
	if n := h.Network.Sent() - before; n != 5 {
		t.Errorf("a transaction takes %d round trips, want 5: add partitions, produce, add "+
			"offsets, commit offsets, end", n)
	}
}

func TestInitWaitsForAPendingCommit(t *testing.T) {
	h := newHarness(t)
	fault := h.Refuse(kmsg.InitProducerID, 51, 5)
	h.started("worker", quick)
	if fault.Hits() != 5 {
		t.Errorf("asked %d times", fault.Hits())
	}
	h.Refuse(kmsg.InitProducerID, 51, -1)
	p := h.transactional("other", impatient)
	err := p.Init(t.Context())
	h.Is(err, ErrRetriable)
	h.Is(err, kafka.ConcurrentTransactions)
	h.Is(err, context.DeadlineExceeded)
}

func TestUnreachableBrokerIsNamed(t *testing.T) {
	client := &kafka.Client{Addr: kafka.TCP("127.0.0.1:1"), Transport: &kafka.Transport{}}
	p, err := NewTransactional(client, "worker", impatient)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Init(t.Context())
	var e *Error
	if !errors.As(err, &e) || e.Remedy != Retriable || e.Uncertain ||
		e.Hint != "cannot reach any of 127.0.0.1:1: is Kafka running there?" {
		t.Errorf("got %v", err)
	}
}
