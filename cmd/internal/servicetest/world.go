// Package servicetest is what the tests of the service and of the commands beside it share: a world
// with an embedded broker, a map and a fleet (World), fixes and what comes of them (Sentinel,
// Process), the secrets that must not get out (RequireNoLeak), and something at work beside a test
// (Run, Await). It knows none of the packages that it helps to test but topics, so that their
// internal tests can use it.
package servicetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// World is a broker with a raw topic that outlives the services which read it.
// Each service is named by its group, and so are its other topics.
type World struct {
	Addr   string            // of the broker
	Broker *devbroker.Broker // nil: it was there before
	Client *kafka.Client
	Model  *mobility.Model
	Dir    string // for the folders of services

	Feeder *producer.Idempotent
	Codec  *schemas.Codec
	Fleet  *rand.Rand
	Cells  []grid.Cell // of each vehicle
	Step   int64       // of the next Feed
	Fed    int64       // records in the raw topic
}

// Partitions is how many the raw topic has.
const Partitions = 4

// Patience is how long a test waits for what must happen. It decides how soon a
// broken test ends, and nothing else.
const Patience = 5 * time.Minute

// NewWorld starts a broker, with a raw topic and a fleet of vehicles that has fed nothing yet.
func NewWorld(tb testing.TB, vehicles int) *World {
	tb.Helper()
	broker, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = broker.Close() })
	w := NewWorldAt(tb, broker.Addr(), vehicles)
	w.Broker = broker
	return w
}

// NewWorldAt is NewWorld at a broker that is there.
func NewWorldAt(tb testing.TB, addr string, vehicles int) *World {
	tb.Helper()
	w := &World{
		Addr: addr, Client: kafkaconn.NewClient([]string{addr}), Dir: tb.TempDir(),
		Model: NeighbourModel(tb, Town, 1000, 4), Codec: NewCodec(tb, schemas.Avro),
		Fleet: rand.New(rand.NewPCG(1, 1)),
	}
	OK(tb, admin.CreateTopics(tb.Context(), w.Client, wire.Options{},
		admin.Topic{Name: "raw", Partitions: Partitions}))
	var err error
	w.Feeder, err = producer.NewIdempotent(w.Client, producer.Options{})
	OK(tb, err)
	for range vehicles {
		w.Cells = append(w.Cells, w.Model.SampleInitial(w.Fleet))
	}
	return w
}

// NeighbourModel stays with weight stay and else moves to one of the four cells
// beside; users start anywhere in the middle ninth.
func NeighbourModel(tb testing.TB, box grid.Box, cellM, stay float64) *mobility.Model {
	tb.Helper()
	g, err := grid.New(box, cellM)
	if err != nil {
		tb.Fatal(err)
	}
	return LocalModel(tb, g, 1, func(dx, dy int) float64 {
		switch {
		case dx == 0 && dy == 0:
			return stay
		case dx == 0 || dy == 0:
			return 1
		}
		return 0
	})
}

// OK ends the test on an error.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Feed writes one step of the fleet to the raw topic: a fix of every vehicle,
// the first one's twice, a late one every tenth step, and one that is cut short.
func (w *World) Feed(tb testing.TB) {
	tb.Helper()
	var records []producer.Record
	add := func(vehicle int, ms int64) {
		lat, lon := w.Model.Grid.ToDegrees(w.Model.Grid.Centre(w.Cells[vehicle]))
		fix := schemas.Raw{
			UserID: fmt.Sprintf("vehicle-%03d", vehicle), Timestamp: ms, Latitude: lat,
			Longitude: lon,
		}
		value, err := w.Codec.AppendRaw(nil, fix)
		OK(tb, err)
		records = append(records,
			producer.Record{Key: []byte(fix.UserID), Value: value, Timestamp: ms})
	}
	at := StartMS + w.Step*60_000
	for v := range w.Cells {
		add(v, at)
		w.Cells[v] = w.Model.SampleNext(w.Fleet, w.Cells[v], w.Step)
	}
	add(0, at+1)
	if w.Step%10 == 9 {
		add(1, at-60_000)
	}
	bad := records[w.Step%int64(len(records))]
	bad.Value = bad.Value[:len(bad.Value)-3]
	w.Send(tb, append(records, bad)...)
	w.Step++
}

// Send writes records to the raw topic.
func (w *World) Send(tb testing.TB, records ...producer.Record) {
	tb.Helper()
	_, err := w.Feeder.Send(tb.Context(), "raw", Partitions, records)
	OK(tb, err)
	w.Fed += int64(len(records))
}

// Topics are those of the service of a group.
func Topics(group string) topics.Set {
	return topics.Set{
		Raw: "raw", Sanitized: group + ".out", Changelog: group + ".log",
		DeadLetters: group + ".dead", Create: true,
	}
}

// Line is a record as it is compared.
type Line struct {
	Key, Value string
	Timestamp  int64
}

// View reads a topic on from where it was.
type View struct {
	fetchers []*consumer.Fetcher
	next     []int64
	Lines    [][]Line // by partition
}

// View returns a view of a topic, from its beginning.
func (w *World) View(tb testing.TB, topic string, uncommitted bool) *View {
	tb.Helper()
	v := &View{next: make([]int64, Partitions), Lines: make([][]Line, Partitions)}
	for p := range int32(Partitions) {
		f, err := consumer.NewFetcher(w.Client, topic, p,
			consumer.FetcherOptions{Uncommitted: uncommitted, MaxWait: time.Millisecond})
		OK(tb, err)
		v.fetchers = append(v.fetchers, f)
	}
	return v
}

// Read brings the view up to the end and returns how many records it holds.
func (v *View) Read(tb testing.TB) (n int64) {
	tb.Helper()
	for p, f := range v.fetchers {
		for {
			got, err := f.Fetch(tb.Context(), v.next[p])
			OK(tb, err)
			for _, r := range got.Records {
				v.Lines[p] = append(v.Lines[p], Line{string(r.Key), string(r.Value), r.Timestamp})
			}
			if got.Next == v.next[p] {
				break
			}
			v.next[p] = got.Next
		}
		n += int64(len(v.Lines[p]))
	}
	return n
}

// Answers are the committed outputs of one service.
type Answers struct{ Out, Dead *View }

// Answers makes the topics of a group, and returns views of its outputs.
func (w *World) Answers(tb testing.TB, group string) Answers {
	tb.Helper()
	OK(tb, topics.Create(tb.Context(), w.Client, wire.Options{}, Topics(group)))
	return Answers{Out: w.View(tb, group+".out", false), Dead: w.View(tb, group+".dead", false)}
}

// Read brings both views up to their ends and returns how many records they hold.
func (a Answers) Read(tb testing.TB) int64 {
	tb.Helper()
	return a.Out.Read(tb) + a.Dead.Read(tb)
}

// RequireSame requires the same records in the same order in each partition.
func RequireSame(tb testing.TB, want, got *View) {
	tb.Helper()
	for p, lines := range want.Lines {
		if len(lines) == 0 {
			tb.Errorf("partition %d: nothing to compare", p)
		}
		if len(got.Lines[p]) != len(lines) {
			tb.Errorf("partition %d holds %d records, want %d", p, len(got.Lines[p]), len(lines))
		}
		for i := range min(len(lines), len(got.Lines[p])) {
			if got.Lines[p][i] != lines[i] {
				tb.Fatalf("partition %d: record %d differs from the undisturbed service's", p, i)
			}
		}
	}
}

// Records reads all of a topic, keys included.
func (w *World) Records(t *testing.T, topic string) (all []consumer.Record) {
	t.Helper()
	v := w.View(t, topic, true)
	v.Read(t)
	for _, lines := range v.Lines {
		for _, l := range lines {
			all = append(all, consumer.Record{
				Key: []byte(l.Key), Value: []byte(l.Value), Timestamp: l.Timestamp,
			})
		}
	}
	return all
}

// Spent is Σε of each user in a sanitized topic, over all partitions, read by another
// client library.
func (w *World) Spent(tb testing.TB, topic string) map[string]float64 {
	tb.Helper()
	start := map[int32]kgo.Offset{}
	for p := range int32(Partitions) {
		start[p] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Addr),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start}))
	OK(tb, err)
	defer client.Close()
	v := w.View(tb, topic, false)
	sums, read := map[string]float64{}, int64(0)
	for want := v.Read(tb); read < want; {
		fetches := client.PollFetches(tb.Context())
		OK(tb, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			read++
			s, err := w.Codec.DecodeSanitized(r.Value)
			OK(tb, err)
			sums[s.UserID] += s.Epsilon
		})
	}
	return sums
}

// Reasons counts the dead letters of a group.
func (w *World) Reasons(tb testing.TB, dead *View) map[schemas.Reason]int {
	tb.Helper()
	dead.Read(tb)
	counts := map[schemas.Reason]int{}
	for _, lines := range dead.Lines {
		for _, l := range lines {
			letter, err := w.Codec.DecodeDeadLetter([]byte(l.Value))
			OK(tb, err)
			counts[letter.Reason]++
		}
	}
	return counts
}

// RequireRepeats requires that a reader of uncommitted data sees what is committed, or
// the same again.
func (w *World) RequireRepeats(tb testing.TB, committed *View, topic string) {
	tb.Helper()
	all := w.View(tb, topic, true)
	all.Read(tb)
	repeated := 0
	for p, lines := range all.Lines {
		known := map[Line]bool{}
		for _, l := range committed.Lines[p] {
			known[l] = true
		}
		for i, l := range lines {
			if !known[l] {
				tb.Fatalf("partition %d: a read_uncommitted reader sees another release "+
					"in record %d", p, i)
			}
		}
		repeated += len(lines) - len(committed.Lines[p])
	}
	tb.Logf("a read_uncommitted reader sees %d repeated records", repeated)
}
