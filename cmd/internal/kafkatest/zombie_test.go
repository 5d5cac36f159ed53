//go:build kafka

package kafkatest

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
)

// TestAFrozenInstanceWakesUp freezes an instance at work for longer than its
// session, so that the other takes its partitions, and lets it go on. It commits
// nothing any more: in each partition, committed records come under epochs that
// only grow, and none comes under an instance's old epoch once a new one is there.
func TestAFrozenInstanceWakesUp(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(4, 20)
	o := w.options("service")
	o.SessionTimeout, o.TransactionTimeout = 2*time.Second, 15*time.Second
	w.createRaw()
	w.ok(topics.Create(t.Context(), w.client, wire.Options{}, o.Topics))
	instances := []*process{w.spawn(o, "a"), w.spawn(o, "b")}
	assigned := func(p *process) int { return strings.Count(p.log.String(), "partitions assigned") }
	for _, p := range instances {
		w.eventually("the instance has joined", func() bool { return assigned(p) > 0 })
	}
	takenOver := 0
	for round := range 4 {
		zombie := instances[round%2]
		w.feed(20)
		zombie.signal(syscall.SIGSTOP)
		before := assigned(zombie)
		w.feed(5)
		w.eventually("the other has answered all", func() bool { return w.answered(o) })
		takenOver++
		zombie.signal(syscall.SIGCONT)
		w.feed(20)
		w.eventually("the zombie has joined again",
			func() bool { return assigned(zombie) > before })
		w.eventually("all is answered", func() bool { return w.answered(o) })
	}
	for _, p := range instances {
		p.terminate()
	}
	w.exactlyOnce(o)
	epochs := 0
	for partition := range int32(w.partitions) {
		epochs += w.growingEpochs(o.Topics.Sanitized, partition)
	}
	t.Logf("%d times frozen, %d epochs in %d partitions, 0 commits by a zombie",
		takenOver, epochs, w.partitions)
	if epochs < 2*w.partitions {
		t.Error("no partition was taken over; the test shows nothing")
	}
}

// growingEpochs requires that the committed records of a partition were written
// under epochs that never go back, and returns how many there were. Franz-go
// reads them: the project's own reader leaves epochs away.
func (w *world) growingEpochs(topic string, partition int32) int {
	w.Helper()
	_, end, err := w.fetcher(topic, partition, false).Bounds(w.Context())
	w.ok(err)
	reader, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {
			partition: kgo.NewOffset().AtStart(),
		}}))
	w.ok(err)
	defer reader.Close()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	type author struct {
		id    int64
		epoch int16
	}
	gone := map[author]bool{} // who has had a successor
	last := author{-1, -1}
	for next := int64(0); next < end; {
		fetches := reader.PollFetches(ctx)
		w.ok(fetches.Err())
		for _, r := range fetches.Records() {
			next = r.Offset + 1
			if r.Attrs.IsControl() {
				continue
			}
			now := author{r.ProducerID, r.ProducerEpoch}
			if gone[now] || now.id == last.id && now.epoch < last.epoch {
				w.Errorf("%s/%d: offset %d was committed under epoch %d, after one of epoch %d",
					topic, partition, r.Offset, now.epoch, last.epoch)
			}
			if now != last {
				gone[last] = true
			}
			last = now
		}
	}
	return len(gone) // the first successor's predecessor is nobody
}
