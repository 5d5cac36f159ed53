//go:build kafka

package kafkatest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/schemas"
)

// aftermath is what a good run leaves in the topics, of one partition: fixes at 0 to
// 4, of which 2 became a dead letter.
type aftermath struct {
	t                                    *testing.T
	partitions                           int
	codec                                *schemas.Codec
	raw, sanitized, dead, all, changelog []*kgo.Record
}

func newAftermath(t *testing.T) *aftermath {
	t.Helper()
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		t.Fatal(err)
	}
	w := &aftermath{t: t, partitions: 1, codec: codec}
	for n := range int64(5) {
		value, err := codec.AppendRaw(nil, schemas.Raw{
			UserID: "u", Timestamp: n, Latitude: 53, Longitude: -3,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.raw = append(w.raw, &kgo.Record{
			Topic: rawTopic, Offset: n, Key: []byte("u"), Value: value,
		})
		if n == 2 {
			w.dead = append(w.dead, w.letter(n))
			continue
		}
		w.sanitized = append(w.sanitized, w.release(n, 53))
	}
	w.all = slices.Clone(w.sanitized)
	w.changelog = []*kgo.Record{marker(1, 7), marker(0, 7), marker(1, 8)}
	return w
}

// release is the sanitized record of a fix.
func (w *aftermath) release(n int64, latitude float64) *kgo.Record {
	w.t.Helper()
	value, err := w.codec.AppendSanitized(nil, schemas.Sanitized{
		UserID: "u", Timestamp: n, Latitude: latitude, Longitude: -3, Mechanism: "pim",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return &kgo.Record{
		Topic: sanitizedTopic, Key: []byte("u"), Value: value, ProducerID: 1, ProducerEpoch: 8,
		Timestamp: time.UnixMilli(n),
	}
}

// spend publishes releases that cost 1 each, at these steps, in a partition.
func (w *aftermath) spend(partition int32, steps ...int64) {
	w.t.Helper()
	w.partitions = max(w.partitions, int(partition)+1)
	for _, step := range steps {
		value, err := w.codec.AppendSanitized(nil, schemas.Sanitized{
			UserID: "u", Timestamp: step * fleetStep.Milliseconds(), Step: step, Epsilon: 1,
			Kind: schemas.KindReleased, Mechanism: "lattice",
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.sanitized = append(w.sanitized, &kgo.Record{
			Topic: sanitizedTopic, Partition: partition, Key: []byte("u"), Value: value,
		})
	}
}

// stray feeds a fix in a partition that is not the user's, and answers it with a dead
// letter. There are as many partitions as put the user's other fixes in their place.
func (w *aftermath) stray(reason schemas.Reason) {
	w.t.Helper()
	value, err := w.codec.AppendRaw(nil, schemas.Raw{
		UserID: "u", Timestamp: 50, Latitude: 53, Longitude: -3,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	fix := &kgo.Record{Topic: rawTopic, Partition: 1, Offset: 50, Key: []byte("u"), Value: value}
	places := kgo.StickyKeyPartitioner(nil).ForTopic(rawTopic)
	for w.partitions = 2; places.Partition(fix, w.partitions) != 0; {
		w.partitions++
	}
	letter, err := w.codec.AppendDeadLetter(nil, schemas.DeadLetter{
		Topic: rawTopic, Partition: fix.Partition, Offset: 50, Reason: reason,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.raw = append(w.raw, fix)
	w.dead = append(w.dead, &kgo.Record{Topic: deadTopic, Partition: fix.Partition, Value: letter})
}

// steps are n of them from first on.
func steps(first int64, n int) (all []int64) {
	for i := range int64(n) {
		all = append(all, first+i)
	}
	return all
}

func (w *aftermath) letter(n int64) *kgo.Record { return w.refusedFor(n, schemas.ReasonLate) }

func (w *aftermath) refused(n int64) *kgo.Record {
	return w.refusedFor(n,
		schemas.ReasonWrongPartition)
}

func (w *aftermath) refusedFor(n int64, reason schemas.Reason) *kgo.Record {
	w.t.Helper()
	value, err := w.codec.AppendDeadLetter(nil, schemas.DeadLetter{
		Topic: rawTopic, Offset: n, Reason: reason,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return &kgo.Record{Topic: deadTopic, Value: value}
}

// marker is the end of a transaction: 1 commit, 0 abort.
func marker(kind byte, epoch int16) *kgo.Record {
	return &kgo.Record{
		Topic: changelogTopic, Key: []byte{0, 0, 0, kind}, ProducerID: 1, ProducerEpoch: epoch,
		Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true, Control: true}),
	}
}

func (w *aftermath) judge() *ledger {
	w.t.Helper()
	l, err := newLedger(w.partitions)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range w.raw {
		l.addRaw(r)
	}
	for _, r := range slices.Concat(w.sanitized, w.dead) {
		l.addCommitted(r)
	}
	for _, r := range w.all {
		l.addUncommitted(r)
	}
	for _, r := range w.changelog {
		l.addChangelog(r)
	}
	l.count()
	return l
}

func TestLedgerOfGoodRun(t *testing.T) {
	w := newAftermath(t)
	w.all = append(w.all, w.release(3, 53)) // aborted and repeated: the same bytes
	l := w.judge()
	if broken := l.violations(); len(broken) > 0 {
		t.Errorf("a good run breaks promises: %q", broken)
	}
	if l.Raw != 5 || l.Sanitized != 4 || l.Dead != 1 || l.Uncommitted != 1 || l.Committed != 2 ||
		l.Aborted != 1 {
		t.Errorf("counts are %+v", l)
	}
}

// TestLedgerFindsPlants plants one fault after the other and wants it named.
func TestLedgerFindsPlants(t *testing.T) {
	for name, test := range map[string]struct {
		plant func(*aftermath)
		want  string
	}{
		"lost": {
			func(w *aftermath) { w.sanitized = w.sanitized[1:] }, "1 raw records lost",
		},
		"differing": {
			func(w *aftermath) { w.all = append(w.all, w.release(3, 54)) },
			"1 fixes with two different releases",
		},
		"zombie": {
			func(w *aftermath) { w.changelog = append(w.changelog, marker(1, 7)) },
			"1 records of fenced producers",
		},
		"budget": {
			func(w *aftermath) { w.spend(0, steps(100, budgetEpsilon+1)...) }, "1 budgets exceeded",
		},
		"two budgets": {
			func(w *aftermath) { w.spend(0, steps(100, budgetEpsilon)...); w.spend(1, 120) },
			"1 budgets exceeded",
		},
		"misplaced, answered": {
			func(w *aftermath) { w.stray(schemas.ReasonLate) },
			"1 misplaced records without a dead letter",
		},
		"in its place, refused": {
			func(w *aftermath) { w.dead[0] = w.refused(2) },
			"1 dead letters that say wrong_partition of a record in its place",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAftermath(t)
			test.plant(w)
			broken := strings.Join(w.judge().violations(), "\n")
			if !strings.Contains(broken, test.want) {
				t.Errorf("planted %s, found %q, want %q", name, broken, test.want)
			}
		})
	}
}

// TestBudgetsAreCounted over stretches of fix times and over partitions, from what is
// published alone.
func TestBudgetsAreCounted(t *testing.T) {
	for name, test := range map[string]struct {
		spend func(*aftermath)
		most  float64
		users int
	}{
		"the budget": {
			func(w *aftermath) { w.spend(0, steps(100, budgetEpsilon)...) }, budgetEpsilon, 0,
		},
		"one more": {
			func(w *aftermath) { w.spend(0, steps(100, budgetEpsilon+1)...) }, budgetEpsilon + 1, 1,
		},
		"half in each": {
			func(w *aftermath) { w.spend(0, steps(100, 20)...); w.spend(1, steps(110, 20)...) },
			budgetEpsilon, 0,
		},
		"too much in two": {
			func(w *aftermath) {
				w.spend(1, steps(100, 30)...)
				w.spend(0, steps(100, 30)...)
			}, 60, 1,
		},
		"a window's end": {
			func(w *aftermath) {
				w.spend(0, append(steps(100, budgetEpsilon), 101+budgetSteps)...)
			},
			budgetEpsilon, 0,
		},
		"just inside of it": {
			func(w *aftermath) {
				w.spend(0, append(steps(100, budgetEpsilon),
					100+budgetSteps)...)
			},
			budgetEpsilon + 1, 1,
		},
	} {
		w := newAftermath(t)
		test.spend(w)
		if l := w.judge(); l.Exceeded != test.users || l.MostSpent != test.most || l.Users != 1 {
			t.Errorf("%s: %d exceeded, most %g; want %d and %g", name, l.Exceeded, l.MostSpent,
				test.users, test.most)
		}
	}
}

// TestBudgetsThatAreNotReached are told: a check that could not fail shows nothing.
func TestBudgetsThatAreNotReached(t *testing.T) {
	for most, want := range map[int]int{
		0: 1, budgetEpsilon - 1: 1, budgetEpsilon: 0, budgetEpsilon + 1: 0,
	} {
		w := newAftermath(t)
		w.spend(0, steps(100, most)...)
		if got := w.judge().untried(); len(got) != want ||
			want > 0 && !strings.Contains(got[0], "budgets were not tried") {
			t.Errorf("at most %d spent: %q", most, got)
		}
	}
}

// TestMisplacedAreAccountedFor by dead letters with that reason.
func TestMisplacedAreAccountedFor(t *testing.T) {
	w := newAftermath(t)
	w.stray(schemas.ReasonWrongPartition)
	if l := w.judge(); l.Misplaced != 1 || l.MisplacedLetters != 1 || l.Unrefused != 0 ||
		l.WronglyMisplaced != 0 || l.Lost != 0 {
		t.Errorf("counts are %+v", l)
	}
}

func TestReaderIsCompared(t *testing.T) {
	now := [][]seen{{{0, 10}, {1, 11}, {2, 12}}, {}}
	for name, test := range map[string]struct {
		saw  [][]seen
		want int
	}{
		"same":          {[][]seen{{{0, 10}, {1, 11}, {2, 12}}, {}}, 0},
		"missed":        {[][]seen{{{0, 10}, {1, 11}}, {}}, 1},
		"saw more":      {[][]seen{{{0, 10}, {1, 11}, {2, 12}}, {{0, 13}}}, 1},
		"other order":   {[][]seen{{{1, 11}, {0, 10}, {2, 12}}, {}}, 1},
		"other content": {[][]seen{{{0, 10}, {1, 99}, {2, 12}}, {}}, 1},
	} {
		l, err := newLedger(2)
		if err != nil {
			t.Fatal(err)
		}
		if broken := l.compare("t", test.saw, now); len(broken) != test.want ||
			l.ReaderDiffer != test.want {
			t.Errorf("%s: %q, want %d", name, broken, test.want)
		}
	}
}
