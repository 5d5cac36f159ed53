package pipeline

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	kafka "github.com/segmentio/kafka-go"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// served is a world whose service "first" has answered everything and stopped.
func served(tb testing.TB, vehicles, steps int) *world {
	tb.Helper()
	w := newWorld(tb, vehicles)
	w.serve(tb, w.options("first"), steps)
	return w
}

// serve feeds some steps, and runs a service until it has answered everything.
func (w *world) serve(tb testing.TB, o Options, steps int) {
	tb.Helper()
	for range steps {
		w.feed(tb)
	}
	a := w.answers(tb, o.Group)
	service := start(tb, o)
	await(tb, "everything is answered", func() bool { return a.read(tb) >= w.fed }, service)
	service.stop(tb)
}

// verify runs a verification whose temporary folders are looked after.
func verify(tb testing.TB, o Options) Report {
	tb.Helper()
	dir := tb.TempDir()
	var done, total int64
	report, err := Verify(tb.Context(), o, VerifyOptions{TempDir: dir, Progress: func(d, t int64) { done, total = d, t }})
	ok(tb, err)
	left, err := os.ReadDir(dir)
	ok(tb, err)
	if len(left) > 0 {
		tb.Errorf("verification leaves %d folders behind", len(left))
	}
	if done != total {
		tb.Errorf("verification ends at %d of %d", done, total)
	}
	for _, p := range report.Partitions {
		for _, v := range p.Violations {
			if strings.Contains(v.Detail, "vehicle") {
				tb.Errorf("a violation names a user: %s", v.Detail)
			}
		}
	}
	return report
}

// requireKinds requires that violations of just these kinds were found, all of
// them in one partition.
func requireKinds(tb testing.TB, r Report, partition int32, kinds ...string) {
	tb.Helper()
	if r.Verified {
		tb.Error("the report says verified")
	}
	for _, p := range r.Partitions {
		found := map[string]bool{}
		for _, v := range p.Violations {
			found[v.Kind] = true
		}
		if p.Partition != partition {
			if !p.Verified || len(found) > 0 {
				tb.Errorf("partition %d, which nobody touched, has %+v", p.Partition, p)
			}
			continue
		}
		for _, kind := range kinds {
			if !found[kind] {
				tb.Errorf("no violation %q is found: %+v", kind, p)
			}
			delete(found, kind)
		}
		if len(found) > 0 {
			tb.Errorf("violations that are none are found: %+v", p.Violations)
		}
	}
}

// TestVerify: what a service has published is verified, with all of it counted;
// also while another one works on it.
func TestVerify(t *testing.T) {
	w := served(t, 30, 12)
	report := verify(t, w.options("first"))
	if !report.Verified {
		t.Fatalf("a clean run does not verify: %+v", report)
	}
	var raw, answered, users int64
	for _, p := range report.Partitions {
		raw, answered, users = raw+p.Raw, answered+p.Sanitized+p.DeadLetters, users+p.Users
	}
	if raw != w.fed || answered != w.fed || users != 30 {
		t.Errorf("%d raw records, %d answers and %d users are counted, want %d, as many, and 30", raw, answered, users, w.fed)
	}
	t.Run("beside a service", func(t *testing.T) {
		service := start(t, w.options("first"))
		for range 3 {
			w.feed(t)
			if report := verify(t, w.options("first")); !report.Verified {
				t.Errorf("a running service does not verify: %+v", report)
			}
		}
		service.stop(t)
	})
	t.Run("nothing yet", func(t *testing.T) {
		o := w.options("nobody")
		ok(t, topics.Create(t.Context(), w.client, wire.Options{}, o.Topics))
		report := verify(t, o)
		if report.Verified || !strings.Contains(fmt.Sprint(report.Partitions[0].NotVerified), "group nobody has committed nothing") {
			t.Errorf("a service that never ran has %+v", report)
		}
	})
	t.Run("no topics", func(t *testing.T) {
		if _, err := Verify(t.Context(), w.options("typo"), VerifyOptions{}); err == nil || !strings.Contains(err.Error(), "typo") {
			t.Errorf("the error is %v", err)
		}
	})
}

// copyTopic writes a partition of a topic, changed, into a new one, and the other
// partitions as they are.
func (w *world) copyTopic(tb testing.TB, from, to string, partition int, change func([]line) []line) {
	tb.Helper()
	v := w.view(tb, from, false)
	v.read(tb)
	ok(tb, admin.CreateTopics(tb.Context(), w.client, wire.Options{}, admin.Topic{Name: to, Partitions: partitions}))
	for p, lines := range v.lines {
		if p == partition {
			lines = change(slices.Clone(lines))
		}
		w.write(tb, true, to, int32(p), lines...)
	}
}

// write puts records into a partition in a transaction of their own.
func (w *world) write(tb testing.TB, commit bool, topic string, partition int32, lines ...line) {
	tb.Helper()
	tx, err := producer.NewTransactional(w.client, fmt.Sprintf("test/%s/%d", topic, partition), producer.Options{})
	ok(tb, err)
	ok(tb, tx.Init(tb.Context()))
	var batch producer.Batch
	batch.TopicPartition = producer.TopicPartition{Topic: topic, Partition: partition}
	for _, l := range lines {
		r := producer.Record{Value: []byte(l.value), Timestamp: l.timestamp}
		if l.key != "" {
			r.Key = []byte(l.key)
		}
		batch.Records = append(batch.Records, r)
	}
	_, err = tx.Produce(tb.Context(), batch)
	ok(tb, err)
	if commit {
		_, err = tx.Commit(tb.Context())
	} else {
		err = tx.Abort(tb.Context())
	}
	ok(tb, err)
}

// altered changes the last byte of a record's value.
func altered(l line) line {
	b := []byte(l.value)
	b[len(b)-1] ^= 2
	l.value = string(b)
	return l
}

// TestVerifyFindsDamage: each way in which the output can be wrong is found, in
// its partition, and named.
func TestVerifyFindsDamage(t *testing.T) {
	w := served(t, 30, 12)
	const p, at = 1, 20
	cases := map[string]struct {
		change func([]line) []line
		kinds  []string
	}{
		"removed":         {func(l []line) []line { return slices.Delete(l, at, at+1) }, []string{Missing}},
		"first removed":   {func(l []line) []line { return l[1:] }, []string{Missing}},
		"last removed":    {func(l []line) []line { return l[:len(l)-1] }, []string{Missing}},
		"all removed":     {func([]line) []line { return []line{} }, []string{Missing}},
		"duplicated":      {func(l []line) []line { return slices.Insert(l, at, l[at]) }, []string{Duplicate}},
		"duplicated late": {func(l []line) []line { return append(l, l[len(l)-3]) }, []string{Duplicate}},
		"altered":         {func(l []line) []line { l[at] = altered(l[at]); return l }, []string{Different}},
		"another time":    {func(l []line) []line { l[at].timestamp++; return l }, []string{Different}},
		"swapped":         {func(l []line) []line { l[at], l[at+1] = l[at+1], l[at]; return l }, []string{Order}},
		"moved": {func(l []line) []line {
			late := l[at]
			return append(slices.Delete(l, at, at+1), late)
		}, []string{Order}},
		"foreign": {func(l []line) []line {
			return slices.Insert(l, at, line{key: "somebody", value: "something", timestamp: 1})
		}, []string{Extra}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := w.options("first")
			o.Topics.Sanitized = strings.ReplaceAll(name, " ", "-") + ".out"
			w.copyTopic(t, "first.out", o.Topics.Sanitized, p, func(l []line) []line {
				if len(l) <= at+2 {
					t.Fatalf("there are %d records only", len(l))
				}
				return c.change(l)
			})
			report := verify(t, o)
			requireKinds(t, report, p, c.kinds...)
			if n := report.Partitions[p].ViolationCount; n != 1 && name != "all removed" {
				t.Errorf("%d violations are counted, want 1: %+v", n, report.Partitions[p].Violations)
			}
		})
	}
	for name, change := range map[string]func([]line) []line{
		"removed":    func(l []line) []line { return l[1:] },
		"altered":    func(l []line) []line { l[0] = altered(l[0]); return l },
		"duplicated": func(l []line) []line { return append(l, l[len(l)-1]) },
	} {
		t.Run("dead letter "+name, func(t *testing.T) {
			o := w.options("first")
			o.Topics.DeadLetters = name + ".dead"
			w.copyTopic(t, "first.dead", o.Topics.DeadLetters, p, change)
			requireKinds(t, verify(t, o), p, DeadLetter)
		})
	}
}

// TestVerifyFindsOtherReleases: an aborted transaction may repeat a record, and
// nothing else.
func TestVerifyFindsOtherReleases(t *testing.T) {
	w := served(t, 30, 12)
	v := w.view(t, "first.out", false)
	v.read(t)
	const p = 2
	w.write(t, false, "first.out", p, v.lines[p][5:15]...)
	report := verify(t, w.options("first"))
	if !report.Verified || report.Partitions[p].NotCommitted != 10 {
		t.Fatalf("an aborted repetition does not verify: %+v", report)
	}
	w.write(t, false, "first.out", p, v.lines[p][15], altered(v.lines[p][16]))
	report = verify(t, w.options("first"))
	requireKinds(t, report, p, Uncommitted)
	if n := report.Partitions[p].ViolationCount; n != 1 {
		t.Errorf("%d violations are counted, want 1", n)
	}
}

// TestVerifyFindsStates: a state in the changelog that is altered, removed, or of
// nobody.
func TestVerifyFindsStates(t *testing.T) {
	w := served(t, 30, 12)
	const p = 0
	v := w.view(t, "first.log", false)
	v.read(t)
	last := v.lines[p][slices.IndexFunc(v.lines[p], func(l line) bool { return l.key != task.MarkKey })]
	old := last // an older value of a user whose state has changed since
	for name, l := range map[string]line{
		"altered": altered(old),
		"removed": {key: old.key, timestamp: old.timestamp},
		"nobody":  {key: "nobody", value: old.value, timestamp: old.timestamp},
	} {
		t.Run(name, func(t *testing.T) {
			o := w.options("first")
			o.Topics.Changelog = name + ".log"
			w.copyTopic(t, "first.log", o.Topics.Changelog, p, func(lines []line) []line { return append(lines, l) })
			requireKinds(t, verify(t, o), p, StateDiffer)
		})
	}
}

// moveOffset commits an offset for the group, as an administrator does.
func (w *world) moveOffset(tb testing.TB, group string, partition int, offset int64) {
	tb.Helper()
	res, err := w.client.OffsetCommit(tb.Context(), &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{"raw": {{Partition: partition, Offset: offset}}},
	})
	ok(tb, err)
	ok(tb, res.Topics["raw"][0].Error)
}

// TestVerifyFindsMovedOffsets: back, and forward.
func TestVerifyFindsMovedOffsets(t *testing.T) {
	w := served(t, 30, 12)
	const p = 3
	at, found, err := consumer.Committed(t.Context(), w.client, wire.Options{}, "first", "raw", p)
	ok(t, err)
	if !found {
		t.Fatal("there is no offset")
	}
	for _, to := range []int64{at - 5, at + 5} {
		w.moveOffset(t, "first", p, to)
		report := verify(t, w.options("first"))
		requireKinds(t, report, p, OffsetMoved)
		if v := report.Partitions[p].Violations; len(v) != 1 || v[0].Offset != to {
			t.Errorf("violations of a group moved to %d: %+v", to, v)
		}
	}
}

// deleteRecords moves the beginning of a partition, as retention does.
func (w *world) deleteRecords(tb testing.TB, topic string, partition int32, before int64) {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.addr))
	ok(tb, err)
	defer client.Close()
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, before
	topics := kmsg.NewDeleteRecordsRequestTopic()
	topics.Topic, topics.Partitions = topic, append(topics.Partitions, p)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Topics = append(req.Topics, topics)
	res, err := req.RequestWith(tb.Context(), client)
	ok(tb, err)
	ok(tb, kerr.ErrorForCode(res.Topics[0].Partitions[0].ErrorCode))
}

// TestVerifyAfterRetention: without the raw records there is nothing to verify
// against, and the report says so.
func TestVerifyAfterRetention(t *testing.T) {
	w := served(t, 30, 12)
	const p = 1
	w.deleteRecords(t, "raw", p, 3)
	report := verify(t, w.options("first"))
	for _, got := range report.Partitions {
		if got.Verified != (got.Partition != p) || got.ViolationCount > 0 {
			t.Errorf("partition %d: %+v", got.Partition, got)
		}
	}
	if n := report.Partitions[p].NotVerified; len(n) != 1 || !strings.Contains(n[0], "retention") {
		t.Errorf("the reason is %q", n)
	}
}
