package servicetest

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
)

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

// LastMarks are the last marks of a service's changelog, by partition.
func (w *World) LastMarks(tb testing.TB, topic string) (marks []task.Mark) {
	tb.Helper()
	for p := range int32(Partitions) {
		mark, found, err := topics.LastMark(tb.Context(), w.Client, topic, p)
		OK(tb, err)
		if !found {
			tb.Fatalf("partition %d has no mark", p)
		}
		marks = append(marks, mark)
	}
	return marks
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
