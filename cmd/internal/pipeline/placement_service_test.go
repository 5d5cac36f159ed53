package pipeline

import (
	"errors"
	"hash/crc32"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/producer/partition"
	"github.com/geodither/geodither/schemas"
)

// crc32Place is where librdkafka's default writes a key, computed apart from the code
// under test.
func crc32Place(key []byte) int32 { return int32(crc32.ChecksumIEEE(key) % partitions) }

// feedBy writes some users' fixes of one step with a partitioner of the test's.
func (w *world) feedBy(tb testing.TB, place func(key []byte) int32, shiftMS int64, users ...[]byte) {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ok(tb, err)
	defer client.Close()
	var records []*kgo.Record
	for i, user := range users {
		lat, lon := w.model.Grid.ToDegrees(w.model.Grid.Centre(w.cells[i]))
		fix := schemas.Raw{UserID: string(user), Timestamp: startMS + w.step*60_000 + shiftMS, Latitude: lat, Longitude: lon}
		value, err := w.codec.AppendRaw(nil, fix)
		ok(tb, err)
		records = append(records, &kgo.Record{Topic: "raw", Partition: place(user), Key: user, Value: value})
	}
	ok(tb, client.ProduceSync(tb.Context(), records...).FirstErr())
	w.fed += int64(len(records))
}

// spent is Σε of each user in a sanitized topic, over all partitions, read by another
// client library.
func (w *world) spent(tb testing.TB, topic string) map[string]float64 {
	tb.Helper()
	start := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		start[p] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.addr), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start}))
	ok(tb, err)
	defer client.Close()
	v := w.view(tb, topic, false)
	sums, read := map[string]float64{}, int64(0)
	for want := v.read(tb); read < want; {
		fetches := client.PollFetches(tb.Context())
		ok(tb, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			read++
			s, err := w.codec.DecodeSanitized(r.Value)
			ok(tb, err)
			sums[s.UserID] += s.Epsilon
		})
	}
	return sums
}

// reasons counts the dead letters of a group.
func (w *world) reasons(tb testing.TB, dead *view) map[schemas.Reason]int {
	tb.Helper()
	dead.read(tb)
	counts := map[schemas.Reason]int{}
	for _, lines := range dead.lines {
		for _, l := range lines {
			letter, err := w.codec.DecodeDeadLetter([]byte(l.value))
			ok(tb, err)
			counts[letter.Reason]++
		}
	}
	return counts
}

// twoProducers feeds every user by murmur2, and six of them by librdkafka's default too.
// It returns how many records of the latter lie elsewhere.
func (w *world) twoProducers(tb testing.TB, steps int) (misplaced int) {
	tb.Helper()
	all := users(len(w.cells))
	for range steps {
		w.feedBy(tb, func(key []byte) int32 { return partition.Murmur2(key, partitions) }, 0, all...)
		w.feedBy(tb, crc32Place, 30_000, all[:6]...)
		for _, user := range all[:6] {
			if crc32Place(user) != partition.Murmur2(user, partitions) {
				misplaced++
			}
		}
		w.step++
	}
	return misplaced
}

// TestTwoProducersOneBudget: of users whose records come by two partitioners no more
// than the budget is published, and a rerun and a verification give the same. With the
// check turned off the same count finds budgets exceeded.
func TestTwoProducersOneBudget(t *testing.T) {
	const steps, budget = 8, 5
	w := newWorld(t, 24)
	misplaced := w.twoProducers(t, steps)
	o := w.options("first")
	o.Release.Budget = mechanism.Budget{Epsilon: budget, WindowSteps: 60, Spent: mechanism.SpentPredict}
	a := w.answers(t, o.Group)
	service := start(t, o)
	await(t, "everything is answered", func() bool { return a.read(t) >= w.fed }, service)
	service.stop(t)
	spent := w.spent(t, "first.out")
	if len(spent) != 24 {
		t.Errorf("%d users are published, want 24", len(spent))
	}
	for user, sum := range spent {
		if sum != budget {
			t.Errorf("ε %v are published of %s, want the budget, %v", sum, user, budget)
		}
	}
	if got := w.reasons(t, a.dead); !maps.Equal(got, map[schemas.Reason]int{schemas.ReasonWrongPartition: misplaced}) {
		t.Errorf("the dead letters are %v, want %d of wrong_partition", got, misplaced)
	}
	if got := o.Counters.Snapshot(); got.Misplaced != int64(misplaced) || got.DeadLetters != int64(misplaced) {
		t.Errorf("counted %+v", got)
	}
	said := service.log.String()
	if !strings.Contains(said, "wrong_partition") || strings.Contains(said, "vehicle-0") {
		t.Errorf("the log says\n%s", said)
	}
	if report := verify(t, o); !report.Verified {
		t.Errorf("it is not verified: %+v", report)
	}

	again := o
	again.Group, again.Topics, again.StateDir = "again", topicsOf("again"), w.dir+"/again"
	again.Counters, again.MaxRecords = new(Counters), 1000
	b := w.answers(t, again.Group)
	rerun := start(t, again)
	await(t, "the rerun has answered everything", func() bool { return b.read(t) >= w.fed }, rerun)
	rerun.stop(t)
	requireSame(t, a.out, b.out)
	for p := range a.dead.lines {
		if len(a.dead.lines[p]) != len(b.dead.lines[p]) {
			t.Errorf("partition %d: a rerun has %d dead letters, want %d", p, len(b.dead.lines[p]), len(a.dead.lines[p]))
		}
	}

	// The fault that the check is for: without it the independent count finds it.
	blind := again
	blind.Group, blind.Topics, blind.StateDir = "blind", topicsOf("blind"), w.dir+"/blind"
	blind.Counters, blind.Partitioner = new(Counters), AnyPartitioner
	c := w.answers(t, blind.Group)
	unchecked := start(t, blind)
	await(t, "the unchecked run has answered everything", func() bool { return c.read(t) >= w.fed }, unchecked)
	unchecked.stop(t)
	exceeded := 0
	for _, sum := range w.spent(t, "blind.out") {
		if sum > budget {
			exceeded++
		}
	}
	if want := misplaced / steps; exceeded != want {
		t.Errorf("without the check %d budgets are exceeded, want %d", exceeded, want)
	}

	// Inspect finds both states of such a user, and doctor both partitions.
	for _, user := range users(6) {
		if crc32Place(user) == partition.Murmur2(user, partitions) {
			continue
		}
		for _, local := range []bool{false, true} {
			got, err := Inspect(t.Context(), blind, InspectOptions{User: string(user), Local: local})
			ok(t, err)
			if len(got.Elsewhere) != 1 || got.EpsilonSpentAll != 2*budget || got.EpsilonSpent != budget || got.Elsewhere[0].EpsilonSpent != budget ||
				got.EpsilonWindowAll == nil || *got.EpsilonWindowAll != 2*budget || got.Partition == got.Elsewhere[0].Partition {
				t.Errorf("local %t: a user in two partitions is inspected as %+v", local, got)
			}
		}
		got, err := Inspect(t.Context(), o, InspectOptions{User: string(user)})
		ok(t, err)
		if len(got.Elsewhere) != 0 || got.EpsilonSpentAll != budget || got.Partition != partition.Murmur2(user, partitions) {
			t.Errorf("a user in one partition is inspected as %+v", got)
		}
	}
	if said := details(Diagnose(t.Context(), blind), LevelWarning); !strings.Contains(said, "were found in more than one partition") {
		t.Errorf("doctor says of any: %s", said)
	}
	if said := details(Diagnose(t.Context(), o), LevelWarning); !strings.Contains(said, "partitioner: ") || !strings.Contains(said, "crc32 (the default of librdkafka) puts them there") {
		t.Errorf("doctor says of murmur2: %s", said)
	}
}

// TestTopicOfAnotherPartitioner: a topic that is wholly crc32's stops a murmur2 service
// before it answers anything, with a line that names crc32; crc32 and any let it pass.
func TestTopicOfAnotherPartitioner(t *testing.T) {
	w := newWorld(t, 40)
	for range 3 {
		w.feedBy(t, crc32Place, 0, users(40)...)
		w.step++
	}
	o := w.options("first")
	a := w.answers(t, o.Group)
	for range 2 { // a restart does not help
		service := start(t, o)
		err := service.wait(t)
		if !errors.Is(err, ErrPartitioner) || !strings.Contains(err.Error(), "set topics.partitioner: crc32") || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "vehicle") {
			t.Fatalf("the service ends with %v", err)
		}
	}
	if n := a.read(t); n != 0 {
		t.Errorf("%d records were answered", n)
	}
	if n := w.view(t, "first.log", true).read(t); n != 0 {
		t.Errorf("the changelog has %d records", n)
	}
	if said := details(Diagnose(t.Context(), o), LevelFailure); !strings.Contains(said, "set topics.partitioner: crc32") || strings.Count(said, "\n") != 1 {
		t.Errorf("doctor says: %s", said)
	}
	for _, by := range []Partitioner{AnyPartitioner, CRC32} {
		o := w.options("by-" + string(by))
		o.Partitioner = by
		if bad := details(Diagnose(t.Context(), o), LevelFailure); bad != "" {
			t.Errorf("%s: doctor says %s", by, bad)
		}
		if said := details(Diagnose(t.Context(), o), LevelOK); !strings.Contains(said, "lie where crc32 puts them") {
			t.Errorf("%s: doctor says %s", by, said)
		}
		a := w.answers(t, o.Group)
		service := start(t, o)
		await(t, "everything is answered", func() bool { return a.read(t) >= w.fed }, service)
		service.stop(t)
		if got := o.Counters.Snapshot(); got.Misplaced != 0 || got.RecordsOut != w.fed {
			t.Errorf("%s: counted %+v", by, got)
		}
		if report := verify(t, o); !report.Verified {
			t.Errorf("%s: it is not verified: %+v", by, report)
		}
	}
}

// TestAnotherPartitionerLater: a service that waits at an empty topic stops when records
// come that another partitioner has placed, as cleanly as at a signal: with the right
// setting it goes on at once, and nobody's state is lost.
func TestAnotherPartitionerLater(t *testing.T) {
	w := newWorld(t, 40)
	o := w.options("first")
	a := w.answers(t, o.Group)
	service := start(t, o)
	await(t, "it has its partitions", func() bool { return strings.Contains(service.log.String(), "partitions assigned") }, service)
	w.feedBy(t, crc32Place, 0, users(40)...)
	if err := service.wait(t); !errors.Is(err, ErrPartitioner) {
		t.Fatalf("the service ends with %v", err)
	}
	// What was answered before it was known is right under both partitioners, or refused.
	if before := a.read(t); before >= w.fed {
		t.Errorf("all %d records were answered", before)
	}
	o.Partitioner = CRC32
	service = start(t, o)
	w.feedBy(t, crc32Place, 60_000, users(40)...)
	await(t, "the second fixes are answered", func() bool {
		a.read(t)
		counts := map[int64]int{}
		for _, lines := range a.out.lines {
			for _, l := range lines {
				s, err := w.codec.DecodeSanitized([]byte(l.value))
				ok(t, err)
				counts[s.Timestamp]++
			}
		}
		return counts[startMS+60_000] == 40
	}, service)
	service.stop(t)
	if strings.Contains(service.log.String(), "accept_settings") {
		t.Errorf("the stop was not clean:\n%s", service.log)
	}
}

// TestProbationEnds: after a partition's first records a wrong producer stops nobody,
// whoever has the partition then.
func TestProbationEnds(t *testing.T) {
	w := newWorld(t, 40)
	o := w.options("first")
	for range 12 { // 480 records, 100 and more in each partition
		w.feedBy(t, func(key []byte) int32 { return partition.Murmur2(key, partitions) }, 0, users(40)...)
		w.step++
	}
	a := w.answers(t, o.Group)
	service := start(t, o)
	await(t, "everything is answered", func() bool { return a.read(t) >= w.fed }, service)
	for i := range 3 {
		w.feedBy(t, crc32Place, int64(i), users(40)...)
		await(t, "the others are answered", func() bool { return a.read(t) >= w.fed }, service)
		service.stop(t)
		if i == 1 {
			ok(t, os.RemoveAll(o.StateDir))
		}
		service = start(t, o)
	}
	service.stop(t)
	if got := w.reasons(t, a.dead)[schemas.ReasonWrongPartition]; got < 60 {
		t.Errorf("%d records were refused for their partition", got)
	}
}

// TestProbationOfUnfitRecords: where records say nothing of the partitioner, some are
// looked at and not all: each start would read them again.
func TestProbationOfUnfitRecords(t *testing.T) {
	o := testOptions(t, neighbourModel(t, town, 5000, 4)).WithDefaults()
	p, err := newProbation(o, partitions)
	ok(t, err)
	p.begin(0, 0)
	unfit := make([]consumer.Record, 1000)
	for at := int64(0); !p.over(0); at += 1000 {
		if at == probationLooks {
			t.Fatalf("%d records have been looked at", at)
		}
		for i := range unfit {
			unfit[i] = consumer.Record{Offset: at + int64(i), Key: []byte("u"), Value: []byte("{")}
		}
		p.look(0, at, at+1000, unfit)
		if at+1000 < probationLooks && p.over(0) {
			t.Fatalf("%d records are enough", at+1000)
		}
	}
	if err := p.verdict(); err != nil {
		t.Error(err)
	}
}

// TestProbationWaits: brokers that do not answer while the first records are looked at are
// waited for, as everywhere before the start.
func TestProbationWaits(t *testing.T) {
	w := newWorld(t, 40)
	w.feedBy(t, crc32Place, 0, users(40)...)
	o, log, g := w.options("first"), new(captured), new(gate)
	o.Logger = log.logger()
	s, err := NewService(o)
	ok(t, err)
	s.client.Transport.(*kafka.Transport).Dial = g.dial
	s.partitions, s.patience = partitions, time.Second
	g.close()
	done := make(chan error, 1)
	go func() { done <- s.checkPlacement(t.Context()) }()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if strings.Contains(log.String(), "waiting to look at the first raw records") {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("it does not wait: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is said")
		}
	}
	g.open()
	if err := <-done; !errors.Is(err, ErrPartitioner) {
		t.Errorf("with brokers it ends with %v", err)
	}
}

// TestProbationOfOthers: records that another instance has had in the meantime end the
// probation of a partition here, and fetching again counts nothing twice.
func TestProbationOfOthers(t *testing.T) {
	o := testOptions(t, neighbourModel(t, town, 5000, 4)).WithDefaults()
	p, err := newProbation(o, partitions)
	ok(t, err)
	p.begin(0, 10)
	p.look(0, 10, 20, nil)
	p.look(0, 15, 25, nil) // again, after a rebuild
	if p.over(0) || p.parts[0].next != 25 {
		t.Errorf("the probation of a partition is %+v", p.parts[0])
	}
	p.look(0, 30, 40, nil)
	if !p.over(0) {
		t.Error("a gap that another instance has filled does not end it")
	}
	for _, o := range []Options{anywhere(o), o} {
		if p, err := newProbation(o, 1); err != nil || p != nil {
			t.Errorf("one partition is on probation: %v", err)
		}
	}
}
