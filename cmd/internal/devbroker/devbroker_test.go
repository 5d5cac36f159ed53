package devbroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func start(t *testing.T, o Options) *Broker {
	t.Helper()
	b, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func write(ctx context.Context, t *testing.T, addr, topic string, from, to int) {
	t.Helper()
	w := &kafka.Writer{
		Addr: kafka.TCP(addr), Topic: topic, Balancer: kafka.Murmur2Balancer{},
		BatchTimeout: time.Millisecond, RequiredAcks: kafka.RequireAll,
	}
	defer w.Close()
	var ms []kafka.Message
	for i := from; i < to; i++ {
		// Timestamps of long ago: retention must not take them for rubbish.
		ms = append(ms, kafka.Message{
			Key: fmt.Append(nil, i%7), Value: fmt.Append(nil, i),
			Time: time.UnixMilli(1_500_000_000_000 + int64(i)),
		})
	}
	if err := w.WriteMessages(ctx, ms...); err != nil {
		t.Fatal(err)
	}
}

// read reads n messages as a member of a group, commits them and counts values.
func read(ctx context.Context, t *testing.T, addr, topic string, n int) map[string]int {
	t.Helper()
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{addr}, GroupID: "readers", Topic: topic, MaxWait: 50 * time.Millisecond,
	})
	defer r.Close()
	got := map[string]int{}
	for range n {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got[string(m.Value)]++
	}
	return got
}

// TestRestart: topics, records and committed offsets survive, in a folder.
func TestRestart(t *testing.T) {
	ctx := within(t)
	dir := filepath.Join(t.TempDir(), "new", "folder")
	topics := []Topic{
		{
			Name: "raw",
		}, {
			Name: "changelog", Partitions: 2,
			Configs: map[string]string{"cleanup.policy": "compact"},
		},
	}
	b := start(t, Options{Dir: dir, Partitions: 3, Topics: topics})
	if n := len(b.cluster.PartitionInfos("raw")); n != 3 {
		t.Errorf("raw has %d partitions, want the default of 3", n)
	}
	write(ctx, t, b.Addr(), "raw", 0, 100)
	if got := read(ctx, t, b.Addr(), "raw", 100); len(got) != 100 {
		t.Errorf("read %d different records, want 100", len(got))
	}
	port := portOf(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}

	b = start(t, Options{Dir: dir, Port: port, Topics: topics})
	if n := len(b.cluster.PartitionInfos("raw")); n != 3 {
		t.Errorf("after a restart raw has %d partitions, want 3", n)
	}
	write(ctx, t, b.Addr(), "raw", 100, 120)
	got := read(ctx, t, b.Addr(), "raw", 20)
	for i := 100; i < 120; i++ {
		if got[strconv.Itoa(i)] != 1 {
			t.Errorf("record %d was read %d times after a restart", i, got[strconv.Itoa(i)])
		}
	}
}

func portOf(t *testing.T, b *Broker) int {
	t.Helper()
	_, port, err := net.SplitHostPort(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCompact: the cleaner keeps the last value of each key, and stays away from
// an open transaction.
func TestCompact(t *testing.T) {
	ctx := within(t)
	b := start(t, Options{
		Topics: []Topic{{
			Name: "states", Partitions: 1, Configs: map[string]string{"cleanup.policy": "compact"},
		}},
	})
	write(ctx, t, b.Addr(), "states", 0, 50)

	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.TransactionalID("t"),
		kgo.DefaultProduceTopic("states"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(ctx, kgo.KeyStringRecord("3", "open")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := b.Compact("states"); !errors.Is(err, ErrBusy) {
		t.Errorf("Compact with an open transaction answers %v", err)
	}
	if err := client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	// A record past the keys', because the cleaner leaves the newest batch alone.
	write(ctx, t, b.Addr(), "states", 50, 51)
	if err := b.Compact("states"); err != nil {
		t.Fatal(err)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumeTopics("states"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	last := map[string]string{}
	records := 0
	for last["1"] != "50" {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			last[string(r.Key)] = string(r.Value)
			records++
		})
	}
	if len(last) != 7 || last["3"] != "45" || records >= 51 {
		t.Errorf("%d records, last values %v", records, last)
	}
}

func TestErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := start(t, Options{})
	for name, o := range map[string]Options{
		"port":     {Port: portOf(t, b)},
		"folder":   {Dir: filepath.Join(file, "sub")},
		"no port":  {Port: 70000},
		"at least": {Partitions: -1},
		"topic":    {Topics: []Topic{{Name: "raw.fixes"}, {Name: "raw_fixes"}}},
	} {
		other, err := Start(o)
		if err == nil {
			_ = other.Close()
			t.Errorf("%+v was accepted", o)
		} else if !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: the error does not speak of %q: %v", o, name, err)
		}
	}
	if err := b.Compact(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLogger: requests are debug, complaints are heard.
func TestLogger(t *testing.T) {
	ctx := within(t)
	var out bytes.Buffer
	b := start(t, Options{
		Topics: []Topic{{Name: "raw"}},
		Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	write(ctx, t, b.Addr(), "raw", 0, 10)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		t.Errorf("an untroubled broker says %s", out.String())
	}
	var heard bytes.Buffer
	l := logger{slog.New(slog.NewTextHandler(&heard, nil))}
	l.Logf(2, "watch %d", 7)
	l.Logf(1, "trouble")
	l.Logf(4, "noise")
	if s := heard.String(); !strings.Contains(s, "level=WARN") || !strings.Contains(s, "watch 7") ||
		!strings.Contains(s, "level=ERROR") || strings.Contains(s, "noise") {
		t.Errorf("heard %s", s)
	}
}

// TestSilentMember: a member that is cut off before the answer to its join is removed, so that the
// others get its partitions.
func TestSilentMember(t *testing.T) {
	b := start(t, Options{Topics: []Topic{{Name: "in"}}})
	ctx := within(t)
	live, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumeTopics("in"),
		kgo.ConsumerGroup("g"), kgo.SessionTimeout(500*time.Millisecond),
		kgo.HeartbeatInterval(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer live.CloseAllowingRebalance()
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{"g"}
	await := func(n int) {
		t.Helper()
		for {
			got, err := describe.RequestWith(ctx, live)
			if err != nil {
				t.Fatalf("the group never has %d members: %v", n, err)
			}
			if g := got.Groups[0]; g.State == "Stable" && len(g.Members) == n {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	await(1)

	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType = 5, "g", "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 500, 60_000
	// It subscribes to nothing, in every protocol that the other member may speak.
	for _, name := range []string{"cooperative-sticky", "range", "roundrobin", "sticky"} {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, make([]byte, 10)
		join.Protocols = append(join.Protocols, p)
	}
	conn, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	asked, err := join.RequestWith(ctx, live)
	if err != nil || asked.MemberID == "" {
		t.Fatalf("no id of a member: %+v, %v", asked, err)
	}
	join.MemberID = asked.MemberID
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, join, 1)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil { // the answer waits for the other member's heartbeat
		t.Fatal(err)
	}
	await(2)
	await(1)
}

// TestFolderIsLocked: a second broker on a folder would make its topics unreadable. The lock of one
// that is gone is none.
func TestFolderIsLocked(t *testing.T) {
	dir := t.TempDir()
	b, err := Start(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Options{Dir: dir + "/"}); err == nil ||
		!strings.Contains(err.Error(), "perhaps another broker uses it") {
		t.Errorf("a second broker: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Dir: dir}) // the file is still there, as after a kill
}

// TestLogAppendTime: in a topic with LogAppendTime, records get the broker's time, and batches are
// intact, also after a restart and where a request comes at the end of a millisecond. Other topics
// keep their producers' times.
func TestLogAppendTime(t *testing.T) {
	t.Parallel()
	const records = 50 // each is a batch
	o := Options{Dir: t.TempDir(), Topics: []Topic{
		{Name: "kept", Partitions: 1},
		{
			Name: "given", Partitions: 1,
			Configs: map[string]string{"message.timestamp.type": "LogAppendTime"},
		},
	}}
	b := start(t, o)
	requests := 0
	b.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, TopLevel: true, Count: -1,
		When: func(kmsg.Request) bool {
			if requests++; requests%60 == 2 {
				time.Sleep(2 * time.Millisecond) // between begin and kfake's clock
			}
			return false
		},
	})
	sent, before := time.UnixMilli(1_500_000_000_000), time.Now().UnixMilli()
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression()} {
		client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ProducerBatchCompression(codec),
			kgo.MetadataMinAge(10*time.Millisecond)) // it asks for metadata before it sends again
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 * records {
			topic := []string{"kept", "given"}[i%2]
			r := kgo.Record{Topic: topic, Value: bytes.Repeat([]byte("v"), 100), Timestamp: sent}
			if err := client.ProduceSync(within(t), &r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		client.Close()
	}
	after := time.Now().UnixMilli()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(start(t, o).Addr()),
		kgo.ConsumeTopics("kept", "given"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx := within(t)
	for n := 0; n < 4*records; {
		fetches := reader.PollFetches(ctx) // it requires right checksums
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			n++
			at, given := r.Timestamp.UnixMilli(), r.Attrs.TimestampType() == 1
			if given != (r.Topic == "given") || !given && at != sent.UnixMilli() ||
				given && (at < before || at > after) {
				t.Fatalf("%s: record %d has the time %d, the broker's: %v", r.Topic, r.Offset, at,
					given)
			}
		}
	}
}
