//go:build kafka

package kafkatest

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/cmd/internal/doctor"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/producer/partition"
	"github.com/geodither/geodither/schemas"
)

// Arguments of kcat, which is librdkafka: its own default for records with a key is
// CRC-32, and murmur2_random is what Java's client does.
var (
	asLibrdkafka = []string(nil)
	asJava       = []string{"-X", "topic.partitioner=murmur2_random"}
)

// kcat writes a fix of some users in JSON, all of one step.
func (w *world) kcat(args []string, ms int64, users ...string) {
	w.Helper()
	codec, err := schemas.NewCodec(schemas.JSON)
	w.ok(err)
	var lines bytes.Buffer
	for i, user := range users {
		lat, lon := w.model.Grid.ToDegrees(w.model.Grid.Centre(w.cells[i%len(w.cells)]))
		value, err := codec.AppendRaw(nil, schemas.Raw{
			UserID: user, Timestamp: ms, Latitude: lat, Longitude: lon,
		})
		w.ok(err)
		fmt.Fprintf(&lines, "%s\t%s\n", user, value)
	}
	cmd := exec.CommandContext(w.Context(), "kcat",
		append([]string{"-P", "-b", strings.Join(w.brokers, ","), "-t", w.raw, "-K", "\t"},
			args...)...)
	cmd.Stdin = &lines
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("kcat, which Debian has as a package of that name: %v\n%s", err, out)
	}
	w.fed += int64(len(users))
}

// fleetOf names users.
func fleetOf(n int) (users []string) {
	for i := range n {
		users = append(users, fmt.Sprintf("truck-%03d", i))
	}
	return users
}

// json are the options of a service that reads what kcat writes.
func (w *world) json(name string, by engine.Partitioner) service.Options {
	o := w.options(name)
	o.RawEncoding, o.Partitioner = schemas.JSON, by
	return o
}

// answer runs a service until it has answered all that was fed.
func (w *world) answer(o service.Options) {
	w.Helper()
	s := w.serve(o)
	w.eventually("everything is answered", func() bool { return s.ended() || w.answered(o) })
	if s.ended() {
		w.Fatalf("the service ends with %v", s.err)
	}
	s.stop()
}

// spent is Σε of each user in a sanitized topic, over all partitions.
func (w *world) spent(topic string) map[string]float64 {
	w.Helper()
	start, sums, want := map[int32]kgo.Offset{}, map[string]float64{}, 0
	for p := range int32(w.partitions) {
		w.settled(topic, p)
		start[p], want = kgo.NewOffset().AtStart(), want+len(w.read(topic, p, false))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start}))
	w.ok(err)
	defer client.Close()
	for n := 0; n < want; {
		fetches := client.PollFetches(w.Context())
		w.ok(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			s, err := w.codec.DecodeSanitized(r.Value)
			w.ok(err)
			sums[s.UserID] += s.Epsilon
		})
	}
	return sums
}

// TestPartitionsAreLibrdkafkas: what the hashes here say is where librdkafka writes.
func TestPartitionsAreLibrdkafkas(t *testing.T) {
	for name, test := range map[string]struct {
		args  []string
		place func([]byte, int) int32
	}{
		"crc32":   {asLibrdkafka, partition.CRC32},
		"murmur2": {asJava, partition.Murmur2},
	} {
		w := newHarness(t).world(7, 1)
		w.createRaw()
		users := fleetOf(300)
		for i := range users { // of many lengths: murmur2 takes four bytes at a time
			users[i] += strings.Repeat("ä", i%9)
		}
		w.kcat(test.args, startMS, users...)
		seen := 0
		client, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.ConsumeTopics(w.raw))
		w.ok(err)
		for seen < len(users) {
			client.PollFetches(w.Context()).EachRecord(func(r *kgo.Record) {
				seen++
				if want := test.place(r.Key, 7); r.Partition != want {
					t.Errorf("%s: librdkafka puts %q into partition %d, not %d",
						name, r.Key, r.Partition, want)
				}
			})
		}
		client.Close()
	}
}

// TestLibrdkafkaFeedsATopic: with its default partitioner a murmur2 service stops before
// it publishes anything, and says what to set; with that it answers everything. With
// Java's partitioner nothing has to be set.
func TestLibrdkafkaFeedsATopic(t *testing.T) {
	w := newHarness(t).world(6, 40)
	w.createRaw()
	for step := range int64(3) {
		w.kcat(asLibrdkafka, startMS+step*60_000, fleetOf(40)...)
	}
	o := w.json("wrong", engine.Murmur2)
	err := w.serve(o).wait()
	if !errors.Is(err, service.ErrPartitioner) ||
		!strings.Contains(err.Error(), "set topics.partitioner: crc32") {
		t.Fatalf("the service ends with %v", err)
	}
	for p := range int32(w.partitions) {
		for _, topic := range []string{
			o.Topics.Sanitized, o.Topics.DeadLetters, o.Topics.Changelog,
		} {
			w.expect(topic, p)
		}
	}
	found := ""
	for _, f := range doctor.Examine(w.Context(), o, nil) {
		if f.Check == "partitioner" {
			found = f.Level + ": " + f.Detail
		}
	}
	if !strings.HasPrefix(found, doctor.Failure) ||
		!strings.Contains(found, "set topics.partitioner: crc32") {
		t.Errorf("doctor says %q", found)
	}
	right := w.json("right", engine.CRC32)
	w.answer(right)
	if got := right.Counters.Snapshot(); got.RecordsOut != w.fed || got.Misplaced != 0 {
		t.Errorf("counted %+v", got)
	}
	w.exactlyOnce(right)

	java := newHarness(t).world(6, 40)
	java.createRaw()
	java.kcat(asJava, startMS, fleetOf(40)...)
	usual := java.json("usual", "")
	java.answer(usual)
	if got := usual.Counters.Snapshot(); got.RecordsOut != java.fed || got.Misplaced != 0 {
		t.Errorf("counted %+v", got)
	}
}

// TestTwoProducersOneBudget: of users that a murmur2 and a librdkafka producer report of,
// no more than the budget is published. Where the check is turned off it is more, so the
// count can fail.
func TestTwoProducersOneBudget(t *testing.T) {
	const budget, steps, both = 5, 8, 8
	w := newHarness(t).world(6, 40)
	w.createRaw()
	users, misplaced := fleetOf(40), 0
	for _, user := range users[:both] {
		if partition.CRC32([]byte(user), 6) != partition.Murmur2([]byte(user), 6) {
			misplaced++
		}
	}
	for step := range int64(steps) {
		w.kcat(asJava, startMS+step*60_000, users...)
		w.kcat(asLibrdkafka, startMS+step*60_000+30_000, users[:both]...)
	}
	exceeded := func(o service.Options) (n int) {
		o.Release.Budget = mechanism.Budget{
			Epsilon: budget, WindowSteps: 60, Spent: mechanism.SpentPredict,
		}
		w.answer(o)
		w.verified(o)
		for _, sum := range w.spent(o.Topics.Sanitized) {
			if sum > budget {
				n++
			}
		}
		return n
	}
	o := w.json("checked", engine.Murmur2)
	if n := exceeded(o); n != 0 {
		t.Errorf("%d budgets are exceeded", n)
	}
	if got := o.Counters.Snapshot(); got.Misplaced != int64(misplaced*steps) ||
		got.DeadLetters != got.Misplaced {
		t.Errorf("counted %+v, want %d misplaced", got, misplaced*steps)
	}
	if n := exceeded(w.json("unchecked", engine.AnyPartitioner)); n != misplaced {
		t.Errorf("without the check %d budgets are exceeded, want %d", n, misplaced)
	}
}
