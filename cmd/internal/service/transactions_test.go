package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// member is one of a group, with the transactions of the only partition.
type member struct {
	group *group.Member
	*transactions
}

// membership joins a group whose coordinator is the cluster's, as a static
// member if it has an instance id.
func membership(t *testing.T, client *kafka.Client, instance string) *member {
	t.Helper()
	group, err := group.Join(client, group.Options{
		ID: "g", Topic: "raw", InstanceID: instance, SessionTimeout: 6 * time.Second,
		HeartbeatInterval: 20 * time.Millisecond,
	})
	servicetest.OK(t, err)
	t.Cleanup(func() { group.Close() })
	return &member{group: group}
}

// next waits for the member's next generation and gives it fresh transactions.
func (m *member) next(t *testing.T, client *kafka.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), servicetest.Patience)
	defer cancel()
	generation, err := m.group.Next(ctx)
	servicetest.OK(t, err)
	if len(generation.Leases) != 1 {
		t.Fatalf("generation %d has leases %v", generation.ID, generation.Leases)
	}
	tx, err := producer.NewTransactional(client, "g/raw/0", producer.Options{})
	servicetest.OK(t, err)
	m.transactions = &transactions{
		outputs:  newOutputs(slog.New(slog.DiscardHandler)),
		producer: tx, client: client, group: "g", lease: generation.Leases[0],
		input: producer.TopicPartition{Topic: "raw"}, output: producer.TopicPartition{Topic: "out"},
		changelog:   producer.TopicPartition{Topic: "log"},
		deadLetters: producer.TopicPartition{Topic: "dead"},
	}
}

func (m *member) produce(t *testing.T, value string) error {
	t.Helper()
	messages := []task.Message{{
		Key: []byte("k"), Value: []byte(value), Timestamp: servicetest.StartMS,
	}}
	_, err := m.Produce(t.Context(), task.Outputs{Output: messages, Changelog: messages})
	return err
}

func transactionsWorld(t *testing.T) (*kfake.Cluster, *kafka.Client) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1),
		kfake.SeedTopics(1, "raw", "out", "log", "dead"))
	servicetest.OK(t, err)
	t.Cleanup(cluster.Close)
	return cluster, kafkaconn.NewClient(cluster.ListenAddrs())
}

// TestZombie: a member whose generation is over neither commits nor fences its
// successor, and is told to leave.
func TestZombie(t *testing.T) {
	for name, instance := range map[string]string{"dynamic": "", "static": "one"} {
		t.Run(name, func(t *testing.T) { testZombie(t, instance) })
	}
}

// testZombie: a static member's heir is its own next process, which the group
// takes for the same member.
func testZombie(t *testing.T, instance string) {
	t.Helper()
	_, client := transactionsWorld(t)
	old := membership(t, client, instance)
	old.next(t, client)
	servicetest.OK(t, old.Fence(t.Context()))
	servicetest.OK(t, old.produce(t, "first"))
	if _, err := old.Commit(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	servicetest.OK(t, old.produce(t, "of a zombie"))

	// the group moves on, though nobody has fenced the old member
	if instance == "" {
		servicetest.OK(t, old.group.Leave())
	}
	heir := membership(t, client, instance)
	heir.next(t, client)
	if _, err := old.Commit(t.Context(), 9); task.RemedyOf(err) != task.Leave {
		t.Errorf("a commit in a generation that is over: %v, %v", err, task.RemedyOf(err))
	}
	servicetest.OK(t, heir.Fence(t.Context()))
	servicetest.OK(t, heir.produce(t, "second"))
	if err := old.Fence(t.Context()); task.RemedyOf(err) != task.Leave ||
		!errors.Is(err, group.ErrNotMember) {
		t.Errorf("a fence in a generation that is over: %v, %v", err, task.RemedyOf(err))
	}
	if _, err := heir.Commit(t.Context(), 6); err != nil {
		t.Errorf("the rightful owner is shut out: %v", err)
	}
	offset, found, err := heir.Committed(t.Context())
	if err != nil || !found || offset != 6 {
		t.Errorf("committed is %d, %v, %v", offset, found, err)
	}
	f, err := consumer.NewFetcher(client, "out", 0, consumer.FetcherOptions{})
	servicetest.OK(t, err)
	var values []string
	_, end, err := f.Bounds(t.Context())
	servicetest.OK(t, err)
	for at := int64(0); at < end; {
		got, err := f.Fetch(t.Context(), at)
		servicetest.OK(t, err)
		for _, r := range got.Records {
			values = append(values, string(r.Value))
		}
		at = got.Next
	}
	if fmt.Sprint(values) != "[first second]" {
		t.Errorf("committed are %q", values)
	}
}

// TestCommitsGoOn: while members come and go, a task whose partition stays commits one transaction
// after the other, whatever generation that falls into, and is fenced by nobody.
func TestCommitsGoOn(t *testing.T) {
	_, client := transactionsWorld(t)
	m := membership(t, client, "")
	m.next(t, client)
	servicetest.OK(t, m.Fence(t.Context()))
	first := m.lease.Identity().Generation
	var changes sync.WaitGroup
	over := make(chan struct{})
	changes.Go(func() {
		defer close(over)
		for range 10 {
			other := membership(t, client, "")
			ctx, cancel := context.WithTimeout(t.Context(), servicetest.Patience)
			if gen, err := other.group.Next(ctx); err != nil || len(gen.Leases) > 0 {
				t.Errorf("the only partition has moved: %+v, %v", gen, err)
			}
			cancel()
			servicetest.OK(t, other.group.Leave())
		}
	})
	next := int64(0)
	for done := false; !done; {
		select {
		case <-over:
			done = true
		default:
		}
		next++
		servicetest.OK(t, m.produce(t, fmt.Sprint(next)))
		if _, err := m.Commit(t.Context(), next); err != nil {
			t.Fatalf("commit %d: %v", next, err)
		}
	}
	changes.Wait()
	servicetest.OK(t, m.lease.Check(t.Context()))
	if last := m.lease.Identity().Generation; last < first+10 {
		t.Errorf("generations %d to %d, of 10 members that came and went", first, last)
	}
	offset, _, err := m.Committed(t.Context())
	servicetest.OK(t, err)
	if offset != next {
		t.Errorf("committed is %d, want %d", offset, next)
	}
}

// afterInit does something between the broker's answer to InitProducerId and its arrival.
type afterInit struct {
	kafka.RoundTripper
	do func()
}

func (a afterInit) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (
	kafka.Response, error,
) {
	res, err := a.RoundTripper.RoundTrip(ctx, addr, req)
	x, wrapped := req.(*wire.Exchange)
	if wrapped && x.Message.ApiKey() == protocol.InitProducerId ||
		!wrapped && req.ApiKey() == protocol.InitProducerId {
		a.do()
	}
	return res, err
}

// TestLostWhileItFences: a task whose lease ends between the group's word and the fence leaves, and
// processes nothing.
func TestLostWhileItFences(t *testing.T) {
	_, client := transactionsWorld(t)
	m := membership(t, client, "")
	fenced := 0
	m.next(t, &kafka.Client{Addr: client.Addr, Transport: afterInit{client.Transport, func() {
		fenced++
		servicetest.OK(t, m.group.Leave())
	}}})
	if err := m.Fence(t.Context()); task.RemedyOf(err) != task.Leave ||
		!errors.Is(err, group.ErrNotMember) {
		t.Errorf("lost between check and fence: %v, %v", err, task.RemedyOf(err))
	}
	if fenced != 1 {
		t.Errorf("%d fences", fenced)
	}
}

// TestCommitWhileSharingOut: a coordinator that takes no offset while the group shares out is asked
// again afterwards.
func TestCommitWhileSharingOut(t *testing.T) {
	cluster, client := transactionsWorld(t)
	m := membership(t, client, "")
	m.next(t, client)
	servicetest.OK(t, m.Fence(t.Context()))
	servicetest.OK(t, m.produce(t, "one"))
	fault := cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.RebalanceInProgress, Count: 2,
	})
	if _, err := m.Commit(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if fault.Hits() != 2 {
		t.Errorf("%d refusals, want 2", fault.Hits())
	}
}

// TestFenceTellsOfRefusals: a client that may not write is told so at once.
func TestFenceTellsOfRefusals(t *testing.T) {
	cluster, client := transactionsWorld(t)
	m := membership(t, client, "")
	m.next(t, client)
	cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.TransactionalIDAuthorizationFailed,
	})
	if err := m.Fence(t.Context()); task.RemedyOf(err) != task.Fatal {
		t.Errorf("a refused transactional id: %v, %v", err, task.RemedyOf(err))
	}
	servicetest.OK(t, m.Fence(t.Context()))
}

// TestRemedies translates each kind of error into what the task is to do.
func TestRemedies(t *testing.T) {
	for _, c := range []struct {
		err  error
		want task.Remedy
	}{
		{nil, task.Unmarked},
		{&producer.Error{Remedy: producer.Retriable}, task.Retry},
		{&producer.Error{Remedy: producer.Abortable}, task.Rebuild},
		{&producer.Error{Remedy: producer.Unknown}, task.Rebuild},
		{&producer.Error{Remedy: producer.Fenced}, task.Leave},
		{fmt.Errorf("deep: %w", &producer.Error{Remedy: producer.Fatal}), task.Fatal},
		{errors.New("of nobody's"), task.Unmarked},
	} {
		if got := task.RemedyOf(writeRemedy(c.err)); got != c.want {
			t.Errorf("writing, %v: %v, want %v", c.err, got, c.want)
		}
	}
	for _, c := range []struct {
		err  error
		want task.Remedy
	}{
		{nil, task.Unmarked},
		{fmt.Errorf("deep: %w", group.ErrNotMember), task.Leave},
		{&wire.Error{Temporary: true, Err: context.Canceled}, task.Retry},
		{&consumer.OffsetError{}, task.Rebuild},
		{context.Canceled, task.Rebuild},
		{context.DeadlineExceeded, task.Rebuild},
		{&consumer.CorruptError{}, task.Fatal},
		{&wire.Error{Err: kafka.TopicAuthorizationFailed}, task.Fatal},
		{&wire.Error{Err: group.ErrNotMember}, task.Leave},
		{errors.New("of nobody's"), task.Unmarked},
	} {
		if got := task.RemedyOf(readRemedy(c.err)); got != c.want {
			t.Errorf("reading, %v: %v, want %v", c.err, got, c.want)
		}
	}
}

// TestTargets: one transaction writes to any partitions of the output topic, and in each of them
// the messages keep their order.
func TestTargets(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "raw", "log", "dead"),
		kfake.SeedTopics(3, "out"))
	servicetest.OK(t, err)
	t.Cleanup(cluster.Close)
	client := kafkaconn.NewClient(cluster.ListenAddrs())
	m := membership(t, client, "")
	m.next(t, client)
	servicetest.OK(t, m.Fence(t.Context()))
	for round := range 2 { // the second one in memory of the first
		var out task.Outputs
		for i, to := range []task.Target{
			0, task.ToPartition(2), 0, task.ToPartition(0), task.ToPartition(2),
		} {
			out.Output = append(out.Output, task.Message{
				Key: []byte("k"), Value: fmt.Append(nil, 10*round+i), To: to,
			})
		}
		out.Changelog = []task.Message{{Key: []byte("k"), Value: []byte("v")}}
		_, err = m.Produce(t.Context(), out)
		servicetest.OK(t, err)
		_, err = m.Commit(t.Context(), int64(round))
		servicetest.OK(t, err)
	}
	for p, want := range []string{"0 2 3 10 12 13", "", "1 4 11 14"} {
		f, err := consumer.NewFetcher(client, "out", int32(p), consumer.FetcherOptions{})
		servicetest.OK(t, err)
		_, end, err := f.Bounds(t.Context())
		servicetest.OK(t, err)
		var values []string
		for at := int64(0); at < end; {
			got, err := f.Fetch(t.Context(), at)
			servicetest.OK(t, err)
			for _, r := range got.Records {
				values = append(values, string(r.Value))
			}
			at = got.Next
		}
		if got := strings.Join(values, " "); got != want {
			t.Errorf("partition %d has %q, want %q", p, got, want)
		}
	}
}

// TestOutputWrittenByAnother: a topic that is made again fences the tasks that could not write it.
// Those that follow them say that it can be written; the watch, which only sees it, does not.
func TestOutputWrittenByAnother(t *testing.T) {
	var log strings.Builder
	o := newOutputs(slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Unix(0, 0)
	o.now = func() time.Time { return now }
	o.failed("out", "a", errors.New("too few replicas"))
	now = now.Add(2 * outputPatience)
	if found := o.unwritten(); len(found) != 1 {
		t.Errorf("unwritten are %v", found)
	}
	o.gone("a")
	o.written("out", theWatch)
	if found := o.unwritten(); len(found) != 0 || strings.Contains(log.String(), "again") {
		t.Errorf("unwritten are %v, and the log is %s", found, log.String())
	}
	o.written("out", "b")
	if !strings.Contains(log.String(), `msg="an output can be written again" topic=out`) {
		t.Errorf("the log is %s", log.String())
	}
}
