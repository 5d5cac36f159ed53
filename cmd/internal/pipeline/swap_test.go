package pipeline

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/schemas"
)

// board is where the versions of a model are put up.
type board struct {
	mu    sync.Mutex
	first VersionID
	later []*Version
	err   error
}

func newBoard(tb testing.TB, o Options) *board {
	tb.Helper()
	first, err := (&Material{o.Model, o.Personals}).ID(0)
	ok(tb, err)
	return &board{first: first}
}

func (b *board) watch() (Schedule, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Schedule{First: b.first, Later: slices.Clone(b.later)}, b.err
}

func (b *board) put(later ...*Version) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.later = append(b.later, later...)
	slices.SortFunc(b.later, func(x, y *Version) int { return int(x.ID.StartMS - y.ID.StartMS) })
}

func (b *board) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// often makes a service look at its schedule often.
func often(s *Service) { s.watchEvery = 5 * time.Millisecond }

// lastMarks are the last marks of a service's changelog, by partition.
func (w *world) lastMarks(tb testing.TB, topic string) (marks []task.Mark) {
	tb.Helper()
	for p := range int32(partitions) {
		mark, found, err := topics.LastMark(tb.Context(), w.client, topic, p)
		ok(tb, err)
		if !found {
			tb.Fatalf("partition %d has no mark", p)
		}
		marks = append(marks, mark)
	}
	return marks
}

// requireRepeats requires that a reader of uncommitted data sees what is committed, or
// the same again.
func (w *world) requireRepeats(tb testing.TB, committed *view, topic string) {
	tb.Helper()
	all := w.view(tb, topic, true)
	all.read(tb)
	repeated := 0
	for p, lines := range all.lines {
		known := map[line]bool{}
		for _, l := range committed.lines[p] {
			known[l] = true
		}
		for i, l := range lines {
			if !known[l] {
				tb.Fatalf("partition %d: a read_uncommitted reader sees another release in record %d", p, i)
			}
		}
		repeated += len(lines) - len(committed.lines[p])
	}
	tb.Logf("a read_uncommitted reader sees %d repeated records", repeated)
}

// TestSwap changes the model in the middle of a stream, twice, under two instances that
// are cut off and replaced: once with a start that is still to come, and personal models, and once with a
// start that is past, on another map. What they publish is what one instance gives that
// nothing disturbs and that has other transactions, and what two give that are interrupted.
func TestSwap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 30)
	o := w.options("swap")
	o.SessionTimeout = 500 * time.Millisecond
	o.Personals = newOwn(t, w.model, 1)
	puts := newBoard(t, o)
	o.Watch = puts.watch
	published := w.answers(t, o.Group)
	instance := func(name string, maxRecords int) (*running, *cable) {
		o, network := o, new(cable)
		o.StateDir, o.MaxRecords, o.Counters = filepath.Join(w.dir, name), maxRecords, new(Counters)
		scheduled, err := puts.watch()
		ok(t, err)
		o.Later = scheduled.Later
		return start(t, o, often, func(s *Service) {
			s.client = network.client(w.addr)
			s.grace = 100 * time.Millisecond
		}), network
	}
	// pump feeds on, never far ahead, until a condition holds.
	pump := func(what string, holds func() bool, services ...*running) {
		t.Helper()
		await(t, what, func() bool {
			if published.read(t) >= w.fed-400 {
				w.feed(t)
			}
			return holds()
		}, services...)
	}
	more := func(n int64) func() bool {
		want := published.read(t) + n
		return func() bool { return published.read(t) >= want }
	}
	// begun: each partition has results.
	begun := func() bool {
		for p := range int32(partitions) {
			if m, found, err := topics.LastMark(t.Context(), w.client, o.Topics.Changelog, p); err != nil || !found || m.Input == 0 {
				return false
			}
		}
		return true
	}
	// amended: each partition has adopted so many, some committed after that.
	amended := func(n int) func() bool {
		return func() bool {
			marks := w.lastMarks(t, o.Topics.Changelog)
			return !slices.ContainsFunc(marks, func(m task.Mark) bool {
				return len(m.Amendments) < n || m.Input < m.Amendments[n-1].From+40
			})
		}
	}
	two, three := neighbourModel(t, town, 1000, 9), neighbourModel(t, grid.Box{South: 53.29, West: -3.12, North: 53.51, East: -2.79}, 1000, 4)

	a, wireA := instance("a", 7)
	pump("the first has begun", more(300), a)
	b, wireB := instance("b", 23)
	pump("both work", func() bool { return b.options.Counters.Snapshot().RecordsIn > 200 }, a, b)
	pump("each partition has begun", begun, a, b)
	second := w.step + 4
	puts.put(newVersionOf(t, second, Material{two, newOwn(t, two, 2)}))
	pump("some adopt the second version", func() bool { return a.options.Counters.Snapshot().Adopted+b.options.Counters.Snapshot().Adopted > 0 }, a, b)
	wireA.cut() // it does not know how its transactions end
	a.cancel()
	pump("the second version is in use", amended(1), b)
	c, wireC := instance("c", 11)
	pump("both work again", func() bool { return c.options.Counters.Snapshot().RecordsIn > 200 }, b, c)
	pump("the second version has some steps of its own", func() bool { return w.step-6 > second+5 }, b, c)
	puts.put(newVersion(t, w.step-6, three))
	pump("some adopt the third version", func() bool { return b.options.Counters.Snapshot().Adopted+c.options.Counters.Snapshot().Adopted > 1 }, b, c)
	wireB.cut()
	b.cancel()
	pump("the third version is in use", amended(2), c)
	wireC.cut()
	c.cancel()
	d, _ := instance("d", 31)
	w.feed(t) // c may have answered all there was, and only who has worked in a partition leaves a closed mark
	await(t, "everything is answered", func() bool { return published.read(t) >= w.fed }, d)
	d.stop(t)

	scheduled, err := puts.watch()
	ok(t, err)
	o.Later, o.Watch = scheduled.Later, nil
	w.requireModels(t, published.out, []string{o.Model.ID(), two.ID(), three.ID()})
	w.requireRepeats(t, published.out, o.Topics.Sanitized)
	for p, m := range w.lastMarks(t, o.Topics.Changelog) {
		if len(m.Amendments) != 2 || m.Amendments[0].From == 0 || m.Open {
			t.Errorf("partition %d: the last mark is %+v", p, m)
		}
	}
	if report := verify(t, o); !report.Verified {
		t.Errorf("it does not verify: %+v", report)
	}
	alone := o
	alone.MaxRecords = 1000
	plan := replay(t, alone, ReplayOptions{Output: "alone"})
	if !plan.Identical || plan.Publish != w.fed {
		t.Errorf("the plan of a replay is %+v", plan)
	}
	again := w.replayed(t, plan)
	requireSame(t, again.out, published.out)
	requireSame(t, again.dead, published.dead)
	small := o
	small.MaxRecords = 3
	plan = w.interrupted(t, small, "interrupted")
	again = w.replayed(t, plan)
	requireSame(t, again.out, published.out)
	requireSame(t, again.dead, published.dead)
	w.requireNeedsVersions(t, o, three.ID())
}

// requireModels requires releases under each of some models, and under personal ones.
func (w *world) requireModels(tb testing.TB, out *view, ids []string) {
	tb.Helper()
	used := map[string]int{}
	for _, lines := range out.lines {
		for _, l := range lines {
			s, err := newTestCodec(tb, schemas.Avro).DecodeSanitized([]byte(l.value))
			ok(tb, err)
			used[s.ModelID]++
		}
	}
	for _, id := range ids {
		if used[id] == 0 {
			tb.Errorf("nothing is released under %s", id)
		}
	}
	if len(used) < len(ids)+4 {
		tb.Errorf("released under %d models: hardly any of them is a user's own", len(used))
	}
}

// interrupted replays with two instances; one is stopped on the way, and both are
// started again.
func (w *world) interrupted(tb testing.TB, o Options, output string) (plan ReplayPlan) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		_, err := Replay(ctx, o, ReplayOptions{Output: output, StateDir: filepath.Join(w.dir, output, "a"), Progress: func(done, total int64) {
			if done > total/4 {
				cancel()
			}
		}})
		if err != nil {
			tb.Error(err)
		}
	})
	wait.Go(func() {
		plan = replay(tb, o, ReplayOptions{Output: output, StateDir: filepath.Join(w.dir, output, "b")})
	})
	wait.Wait()
	cancel()
	return plan
}

// requireNeedsVersions: without a version that was adopted nothing begins, is replayed
// or verified, and each says which model to put back.
func (w *world) requireNeedsVersions(tb testing.TB, o Options, id string) {
	tb.Helper()
	o.Later = slices.DeleteFunc(slices.Clone(o.Later), func(v *Version) bool { return v.ID.Model.String() == id })
	s, err := NewService(o)
	ok(tb, err)
	if err := s.Run(tb.Context()); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), id) {
		tb.Errorf("a start without a version in use: %v", err)
	}
	if _, err := Replay(tb.Context(), o, ReplayOptions{Output: "without"}); !errors.Is(err, ErrSpend) || !strings.Contains(err.Error(), id) {
		tb.Errorf("a replay without it: %v", err)
	}
	report := verify(tb, o)
	if n := report.Partitions[0].NotVerified; report.Verified || len(n) != 1 || !strings.Contains(n[0], id) {
		tb.Errorf("a verification without it: %+v", report)
	}
}

// TestSwapWaits: an instance that has not got the new model yet stands still with a
// word in the log where another has adopted it, and goes on when it comes.
func TestSwapWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	o := w.options("late")
	boards := []*board{newBoard(t, o), newBoard(t, o)}
	v := newVersion(t, 2, neighbourModel(t, town, 1000, 9))
	published := w.answers(t, o.Group)
	instance := func(i int) *running {
		o := o
		o.Watch, o.StateDir, o.Counters = boards[i].watch, filepath.Join(w.dir, string(rune('a'+i))), new(Counters)
		return start(t, o, often)
	}
	a, b := instance(0), instance(1)
	await(t, "both work", func() bool {
		if published.read(t) >= w.fed {
			w.feed(t)
		}
		return a.options.Counters.Snapshot().RecordsIn > 0 && b.options.Counters.Snapshot().RecordsIn > 0
	}, a, b)
	boards[0].put(v)
	await(t, "one has adopted what it works on", func() bool { return a.options.Counters.Snapshot().Adopted > 0 }, a, b)
	a.stop(t)
	for range 6 {
		w.feed(t)
	}
	await(t, "the other waits", func() bool {
		return strings.Contains(b.log.String(), "waiting to try again") && strings.Contains(b.log.String(), v.ID.Model.String()+", start")
	}, b)
	boards[1].put(v)
	await(t, "everything is answered", func() bool { return published.read(t) >= w.fed }, b)
	b.stop(t)
	o.Later = []*Version{v}
	if report := verify(t, o); !report.Verified {
		t.Errorf("it does not verify: %+v", report)
	}
}

// TestWatch: what cannot be used is told of once and changes nothing.
func TestWatch(t *testing.T) {
	w := newWorld(t, 5)
	o := w.options("watched")
	puts := newBoard(t, o)
	o.Watch = puts.watch
	puts.set(errors.New("line 3: half of it is missing"))
	a := start(t, o, often)
	await(t, "the error is told", func() bool { return strings.Contains(a.log.String(), "half of it is missing") }, a)
	puts.set(nil)
	await(t, "it is good again", func() bool { return strings.Contains(a.log.String(), "can be used again") }, a)
	slow := neighbourModel(t, town, 1000, 5)
	slow.Step = 2 * time.Minute
	bad := newVersion(t, 3, slow)
	puts.put(bad)
	await(t, "another step is refused", func() bool { return strings.Contains(a.log.String(), "a service keeps its step") }, a)
	if strings.Count(a.log.String(), "half of it is missing") != 1 || len(a.timeline.current()) != 0 {
		t.Errorf("the schedule has %d versions, and the log is\n%s", len(a.timeline.current()), a.log)
	}
	puts.mu.Lock()
	puts.later, puts.first.Model = []*Version{newVersion(t, 3, neighbourModel(t, town, 1000, 6))}, bad.ID.Model
	puts.mu.Unlock()
	await(t, "another first version is refused", func() bool { return strings.Contains(a.log.String(), "the first version has changed") }, a)
	if len(a.timeline.current()) != 0 {
		t.Error("it was taken over all the same")
	}
	a.cancel()
	ok(t, a.wait(t))
}
