package consumer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

func (h *harness) join(group string) *Group {
	h.Helper()
	g, err := NewGroup(h.Client, GroupOptions{
		Options: wire.Options{MaxBackoff: 20 * time.Millisecond}, ID: group, Topic: "in",
		HeartbeatInterval: 20 * time.Millisecond, WatchInterval: 20 * time.Millisecond,
	})
	h.OK(err)
	h.Cleanup(func() { g.Close() })
	return g
}

func (h *harness) next(g *Group) *Generation {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 20*time.Second)
	defer cancel()
	gen, err := g.Next(ctx)
	h.OK(err)
	return gen
}

func TestGroupSharesPartitions(t *testing.T) {
	h := newHarness(t)
	a := h.join("group")
	alone := h.next(a)
	if !slices.Equal(alone.Partitions, []int32{0, 1, 2, 3}) || alone.MemberID == "" {
		t.Fatalf("a member alone has %+v", alone)
	}
	h.OK(alone.Check(t.Context()))
	stopped := make(chan error, 1)
	alone.Start(func(ctx context.Context) {
		<-ctx.Done()
		stopped <- context.Cause(ctx)
	})

	b := h.join("group")
	var first, second *Generation
	var wg sync.WaitGroup
	wg.Go(func() { first = h.next(a) })
	wg.Go(func() { second = h.next(b) })
	wg.Wait()
	h.Is(<-stopped, kafka.ErrGenerationEnded)
	for first.ID != second.ID { // a generation that b's arrival has already ended
		if first.ID < second.ID {
			first = h.next(a)
		} else {
			second = h.next(b)
		}
	}
	all := append(slices.Clone(first.Partitions), second.Partitions...)
	slices.Sort(all)
	if !slices.Equal(all, []int32{0, 1, 2, 3}) || len(first.Partitions) != 2 {
		t.Errorf("two members have %v and %v", first.Partitions, second.Partitions)
	}
	h.OK(first.Check(t.Context()))
	h.OK(second.Check(t.Context()))
	h.Is(alone.Check(t.Context()), ErrNotMember)
	stranger := *first
	stranger.MemberID = "somebody-else"
	h.Is(stranger.Check(t.Context()), ErrNotMember)

	h.OK(b.Close())
	h.Is(second.Check(t.Context()), ErrNotMember)
	if again := h.next(a); len(again.Partitions) != 4 {
		t.Errorf("after the other has left: %v", again.Partitions)
	}
	if _, err := b.Next(t.Context()); !errors.Is(err, kafka.ErrGroupClosed) {
		t.Errorf("a closed group: %v", err)
	}
}

func TestNewPartitionsBeginAGeneration(t *testing.T) {
	h := newHarness(t)
	g := h.join("group")
	h.next(g)
	req := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = "in", 6
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 5000
	_, err := req.RequestWith(t.Context(), h.Writer(""))
	h.OK(err)
	if gen := h.next(g); len(gen.Partitions) != 6 {
		t.Errorf("partitions %v", gen.Partitions)
	}
}

func TestGroupWaitsForItsBrokers(t *testing.T) {
	h := newHarness(t)
	var told atomic.Int32
	h.Refuse(kmsg.JoinGroup, 15, 2)
	g, err := NewGroup(h.Client, GroupOptions{
		Options: wire.Options{MaxBackoff: 5 * time.Millisecond}, ID: "group", Topic: "in",
		Retrying: func(error) { told.Add(1) },
	})
	h.OK(err)
	defer g.Close()
	h.next(g)
	if told.Load() != 2 {
		t.Errorf("told of %d errors, want 2", told.Load())
	}
}

func TestGroupErrorsForGood(t *testing.T) {
	h := newHarness(t)
	h.Refuse(kmsg.JoinGroup, 26, 1)
	_, err := h.join("group").Next(t.Context())
	h.Is(err, kafka.InvalidSessionTimeout)
	if !strings.Contains(err.Error(), "group.min.session.timeout.ms") {
		t.Errorf("%v does not say what to do", err)
	}
	for _, bad := range []GroupOptions{{}, {ID: "g"}, {ID: "g", Topic: "t", SessionTimeout: time.Second, HeartbeatInterval: time.Second}, {ID: "g", Topic: "t", Options: wire.Options{MinBackoff: -1}}} {
		if _, err := NewGroup(h.Client, bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestUnreachableBrokersAreNamed(t *testing.T) {
	client := &kafka.Client{Addr: kafka.TCP("127.0.0.1:1"), Transport: &kafka.Transport{}}
	const hint = "cannot reach any of 127.0.0.1:1: is Kafka running there?"
	if err := Ping(t.Context(), client, wiretest.Impatient); err == nil || !strings.Contains(err.Error(), hint) {
		t.Errorf("Ping: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	g, err := NewGroup(client, GroupOptions{Options: wiretest.Impatient, ID: "group", Topic: "in"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := g.Next(ctx); err == nil || !strings.Contains(err.Error(), hint) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next: %v", err)
	}
	if _, err := Partitions(t.Context(), client, wiretest.Impatient, "in"); err == nil || !strings.Contains(err.Error(), hint) || !errors.Is(err, wire.ErrTemporary) {
		t.Errorf("Partitions: %v", err)
	}
}

func TestCommitted(t *testing.T) {
	h := newHarness(t)
	read := func(group string, partition int32) (int64, bool) {
		t.Helper()
		offset, found, err := Committed(t.Context(), h.Client, wiretest.Quick, group, "in", partition)
		h.OK(err)
		return offset, found
	}
	if _, found := read("nobody", 0); found {
		t.Error("a group that does not exist has an offset")
	}
	_, err := h.Client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
		GroupID: "group", GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{"in": {{Partition: 1, Offset: 42}, {Partition: 2, Offset: 0}}},
	})
	h.OK(err)
	if offset, found := read("group", 1); !found || offset != 42 {
		t.Errorf("offset %d, %v", offset, found)
	}
	if offset, found := read("group", 2); !found || offset != 0 {
		t.Errorf("an offset of 0: %d, %v", offset, found)
	}
	if offset, found := read("group", 3); found {
		t.Errorf("a partition without an offset has %d", offset)
	}
	for _, code := range []int16{14, 15, 16, 88} {
		fault := h.Refuse(kmsg.OffsetFetch, code, 2)
		if offset, _ := read("group", 1); offset != 42 || fault.Hits() != 2 {
			t.Errorf("refused with %d: offset %d after %d attempts", code, offset, fault.Hits())
		}
	}
	h.Refuse(kmsg.OffsetFetch, 30, 1)
	_, _, err = Committed(t.Context(), h.Client, wiretest.Quick, "group", "in", 1)
	h.Is(err, kafka.GroupAuthorizationFailed)
}

// An offset that a transaction is about to commit is waited for. kafka-go's own
// OffsetFetch returns the old one, which would process records twice.
func TestCommittedWaitsForPendingTransactions(t *testing.T) {
	h := newHarness(t)
	w := h.Writer("w")
	pend := func(offset int64) {
		t.Helper()
		id, epoch, err := w.ProducerID(t.Context())
		h.OK(err)
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = "w", id, epoch, "group"
		added, err := add.RequestWith(t.Context(), w)
		h.OK(errors.Join(err, kerr.ErrorForCode(added.ErrorCode)))
		commit := kmsg.NewPtrTxnOffsetCommitRequest()
		commit.TransactionalID, commit.Group, commit.ProducerID, commit.ProducerEpoch, commit.Generation = "w", "group", id, epoch, -1
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		topic.Topic, topic.TopicID, part.Partition, part.Offset = "in", h.TopicInfo("in").TopicID, 0, offset
		topic.Partitions = append(topic.Partitions, part)
		commit.Topics = append(commit.Topics, topic)
		committed, err := commit.RequestWith(t.Context(), w)
		h.OK(errors.Join(err, kerr.ErrorForCode(committed.Topics[0].Partitions[0].ErrorCode)))
	}
	_, err := h.Client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
		GroupID: "group", GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{"in": {{Partition: 0, Offset: 6}}},
	})
	h.OK(err)
	h.OK(w.BeginTransaction())
	h.Write(w, "in", 3, "x")
	pend(7)
	_, _, err = Committed(t.Context(), h.Client, wiretest.Impatient, "group", "in", 0)
	h.Is(err, kafka.UnstableOffsetCommit)
	h.Is(err, wire.ErrTemporary)
	naive, err := h.Client.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{GroupID: "group", Topics: map[string][]int{"in": {0}}})
	h.OK(err)
	if parts := naive.Topics["in"]; len(parts) != 1 || parts[0].CommittedOffset != 6 {
		t.Errorf("kafka-go reads %v and not the old offset: this test proves nothing", parts)
	}
	h.OK(w.EndTransaction(t.Context(), kgo.TryCommit))
	offset, found, err := Committed(t.Context(), h.Client, wiretest.Quick, "group", "in", 0)
	h.OK(err)
	if !found || offset != 7 {
		t.Errorf("offset %d, %v", offset, found)
	}
}

// certificate makes a certificate for 127.0.0.1 and the pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TLS and SASL are set in one place, the transport, and hold for the group too.
func TestTransportSettingsHoldEverywhere(t *testing.T) {
	cert, pool := certificate(t)
	h := newHarness(t, kfake.NumBrokers(1), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}), kfake.EnableSASL(), kfake.Superuser("PLAIN", "user", "secret"))
	transport := &kafka.Transport{TLS: &tls.Config{RootCAs: pool}, SASL: plain.Mechanism{Username: "user", Password: "secret"}}
	defer transport.CloseIdleConnections()
	h.Client.Transport = transport
	h.OK(Ping(t.Context(), h.Client, wiretest.Quick))
	if gen := h.next(h.join("group")); len(gen.Partitions) != 4 {
		t.Errorf("partitions %v", gen.Partitions)
	}
	h.expect(h.fetcher("in", 0, FetcherOptions{}), 0)
}
