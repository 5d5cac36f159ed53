//go:build kafka

package kafkatest

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
)

// TestMoveToMirroredTopics: franz-go copies the raw topic and the changelog, as a mirror does: what
// was committed, at other offsets. A second service goes on with the copies. Accounts carry over,
// fixes that were processed give no other release, and later ones give the first service's.
func TestMoveToMirroredTopics(t *testing.T) {
	t.Parallel()
	w := newHarnessAt(t, private(t).brokers()...).world(2, 5)
	w.createRaw()
	old := w.options("old")
	w.feed(6)
	w.readAll(old)
	moved := *w
	moved.raw = w.prefix + "copy.raw"
	moved.createRaw()
	o := moved.options("moved")
	o.TransactionTimeout = 10 * time.Second
	o.Topics.Changelog = w.topic("copy.log", w.partitions, topics.Compacted)
	const lost = 4 // the oldest raw records of each partition
	ends := w.mirror(w.raw, o.Topics.Raw, []int{lost, lost})
	w.mirror(old.Topics.Changelog, o.Topics.Changelog, []int{0, 0})
	w.ok(topics.Create(t.Context(), w.client, wire.Options{}, o.Topics))

	config := w.config(o, "moved", "")
	move := []string{"state", "rebuild-changelog", "-c", config, "--from", "earliest"}
	w.refused(o, "moved", "(raw-remade)")
	w.command(append(move, "--dry-run")...)
	w.refused(o, "moved", "(raw-remade)")
	said := w.command(move...)
	t.Log(said)
	if !strings.Contains(said, "carried over") {
		t.Error("it does not say so")
	}
	w.sameAccounts(old, o)
	before := w.accounts(old)
	later := startMS + w.step*60_000
	w.feed(6)
	w.readAll(old)
	w.mirror(w.raw, o.Topics.Raw, ends)
	moved.readAll(o)
	moved.once(o, w.fed-int64(lost*w.partitions))
	for p := range int32(w.partitions) {
		w.carriedOver(w.lines(old.Topics.Sanitized, p, false), w.lines(o.Topics.Sanitized, p, true),
			later)
	}
	w.sameAccounts(old, o)
	if now := w.accounts(o); now.Lifetime.Mean <= before.Lifetime.Mean {
		t.Errorf("Σε was %v on average, and is %v", before.Lifetime.Mean, now.Lifetime.Mean)
	}
}

// readAll runs a service until it has read everything.
func (w *world) readAll(o service.Options) {
	w.Helper()
	r := w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) || r.ended() })
	r.stop()
}

// mirror copies what is committed in each partition behind the first records of it, and returns
// how many records the partitions have.
func (w *world) mirror(from, to string, skip []int) (ends []int) {
	w.Helper()
	for p, first := range skip {
		w.settled(from, int32(p))
		n := len(w.lines(from, int32(p), false))
		ends = append(ends, n)
		w.mirrorPartition(from, to, int32(p), first, n)
	}
	return ends
}

func (w *world) mirrorPartition(from, to string, p int32, first, n int) {
	w.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(4000),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			from: {p: kgo.NewOffset().AtStart()},
		}))
	w.ok(err)
	defer client.Close()
	for seen := 0; seen < n; {
		fetched := client.PollFetches(w.Context())
		w.ok(fetched.Err())
		fetched.EachRecord(func(r *kgo.Record) {
			if seen++; seen > first && seen <= n {
				w.ok(client.ProduceSync(w.Context(), &kgo.Record{
					Topic: to, Partition: p, Key: r.Key, Value: r.Value, Headers: r.Headers,
					Timestamp: r.Timestamp,
				}).FirstErr())
			}
		})
	}
}

// carriedOver requires that a service in another place has released nothing else than the first
// one, and has released everything that is due from a time on.
func (w *world) carriedOver(want, got []line, later int64) {
	w.Helper()
	type release struct {
		user     string
		number   int64
		lat, lon schemas.Nullable
	}
	released := func(l line) (schemas.Sanitized, release) {
		r, err := w.codec.DecodeSanitized([]byte(l.value))
		w.ok(err)
		return r, release{r.UserID, r.Release, r.ReleaseLatitude, r.ReleaseLongitude}
	}
	known := map[release]bool{}
	for _, l := range want {
		_, as := released(l)
		known[as] = true
	}
	repeated := 0
	for i, l := range got {
		r, as := released(l)
		if r.Epsilon > 0 && !slices.Contains(want, l) || as.lat.Known && !known[as] {
			w.Errorf("record %d is another release: %+v", i, r)
		}
		if l.timestamp < later {
			repeated++
		}
	}
	for i, l := range want {
		if l.timestamp >= later && !slices.Contains(got, l) {
			w.Errorf("record %d is missing", i)
		}
	}
	w.Logf("%d records of the first service, %d of the other one: %d from before the move",
		len(want), len(got), repeated)
}

// accounts is what "state inspect" says of all users, without its time and the group.
func (w *world) accounts(o service.Options) account.Report {
	w.Helper()
	r, err := account.Accounts(w.Context(), repairOptions(o))
	w.ok(err)
	r.Time, r.Group = time.Time{}, ""
	return r
}

func (w *world) sameAccounts(a, b service.Options) {
	w.Helper()
	want, got := w.accounts(a), w.accounts(b)
	w.Logf("the accounts: %+v", got)
	if want.Users == 0 || !reflect.DeepEqual(want, got) {
		w.Errorf("the accounts are %+v, want %+v", got, want)
	}
}
