package pipeline

import (
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire"
)

// line is a record as it is compared.
type line struct {
	key, value string
	timestamp  int64
}

// view reads a topic on from where it was.
type view struct {
	fetchers []*consumer.Fetcher
	next     []int64
	lines    [][]line // by partition
}

func (w *world) view(tb testing.TB, topic string, uncommitted bool) *view {
	tb.Helper()
	v := &view{next: make([]int64, partitions), lines: make([][]line, partitions)}
	for p := range int32(partitions) {
		f, err := consumer.NewFetcher(w.client, topic, p, consumer.FetcherOptions{Uncommitted: uncommitted, MaxWait: time.Millisecond})
		ok(tb, err)
		v.fetchers = append(v.fetchers, f)
	}
	return v
}

// read brings the view up to the end and returns how many records it holds.
func (v *view) read(tb testing.TB) (n int64) {
	tb.Helper()
	for p, f := range v.fetchers {
		for {
			got, err := f.Fetch(tb.Context(), v.next[p])
			ok(tb, err)
			for _, r := range got.Records {
				v.lines[p] = append(v.lines[p], line{string(r.Key), string(r.Value), r.Timestamp})
			}
			if got.Next == v.next[p] {
				break
			}
			v.next[p] = got.Next
		}
		n += int64(len(v.lines[p]))
	}
	return n
}

// answers are the committed outputs of one service.
type answers struct{ out, dead *view }

func (w *world) answers(tb testing.TB, group string) answers {
	tb.Helper()
	ok(tb, topics.Create(tb.Context(), w.client, wire.Options{}, topicsOf(group)))
	return answers{w.view(tb, group+".out", false), w.view(tb, group+".dead", false)}
}

func (a answers) read(tb testing.TB) int64 {
	tb.Helper()
	return a.out.read(tb) + a.dead.read(tb)
}

// calm is what one undisturbed service makes of all that was fed.
func (w *world) calm(tb testing.TB) answers {
	tb.Helper()
	o := w.options("calm")
	o.MaxRecords = 1000
	a := w.answers(tb, o.Group)
	service := start(tb, o)
	await(tb, "the undisturbed service has answered everything", func() bool { return a.read(tb) >= w.fed }, service)
	service.stop(tb)
	if got := o.Counters.Snapshot(); got.RecordsIn != w.fed || got.RecordsOut+got.DeadLetters != w.fed || got.Aborts != 0 {
		tb.Errorf("the counters of %d records are %+v", w.fed, got)
	}
	return a
}

// requireUndisturbed holds what a group has published against what an
// undisturbed service makes of the same records: the same in each partition, in
// the same order, and the uncommitted view nothing but repetitions.
func (w *world) requireUndisturbed(tb testing.TB, group string) {
	tb.Helper()
	want, got := w.calm(tb), w.answers(tb, group)
	got.read(tb)
	requireSame(tb, want.out, got.out)
	requireSame(tb, want.dead, got.dead)
	all := w.view(tb, group+".out", true)
	all.read(tb)
	repeated := 0
	for p, lines := range all.lines {
		known := map[line]bool{}
		for _, l := range want.out.lines[p] {
			known[l] = true
		}
		for i, l := range lines {
			if !known[l] {
				tb.Fatalf("partition %d: a read_uncommitted reader sees another release in record %d", p, i)
			}
		}
		repeated += len(lines) - len(want.out.lines[p])
	}
	tb.Logf("%d records; a read_uncommitted reader sees %d repeated ones", w.fed, repeated)
}

func requireSame(tb testing.TB, want, got *view) {
	tb.Helper()
	for p, lines := range want.lines {
		if len(lines) == 0 {
			tb.Errorf("partition %d: nothing to compare", p)
		}
		if len(got.lines[p]) != len(lines) {
			tb.Errorf("partition %d holds %d records, want %d", p, len(got.lines[p]), len(lines))
		}
		for i := range min(len(lines), len(got.lines[p])) {
			if got.lines[p][i] != lines[i] {
				tb.Fatalf("partition %d: record %d differs from the undisturbed service's", p, i)
			}
		}
	}
}
