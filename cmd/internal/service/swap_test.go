package service_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/schemas"
)

// board is where the versions of a model are put up.
type board struct {
	mu    sync.Mutex
	first engine.VersionID
	later []*engine.Version
}

func newBoard(tb testing.TB, o service.Options) *board {
	tb.Helper()
	first, err := engine.NewVersionID(o.Model, 0)
	servicetest.OK(tb, err)
	return &board{first: first}
}

func (b *board) watch() (engine.Schedule, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return engine.Schedule{First: b.first, Later: slices.Clone(b.later)}, nil
}

func (b *board) put(later ...*engine.Version) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.later = append(b.later, later...)
	slices.SortFunc(b.later, func(x, y *engine.Version) int {
		return int(x.ID.StartMS - y.ID.StartMS)
	})
}

// often makes a service look at its schedule often.
func often(s *service.Service) { s.SetWatchEvery(5 * time.Millisecond) }

// TestSwap changes the model in the middle of a stream, twice, under two instances that are cut off
// and replaced: once with a start that is still to come, and once with a start that is past, on
// another map. What they publish is what one instance gives that nothing disturbs
// and that has other transactions.
func TestSwap(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 30)
	o := atwork.Options(w, "swap")
	o.SessionTimeout = 2 * time.Second
	puts := newBoard(t, o)
	o.Watch = puts.watch
	published := w.Answers(t, o.Group)
	instance := func(name string, maxRecords int) (*atwork.Running, *servicetest.Network) {
		o, network := o, new(servicetest.Network)
		o.StateDir, o.MaxRecords, o.Counters = filepath.Join(w.Dir, name),
			maxRecords, new(engine.Counters)
		scheduled, err := puts.watch()
		servicetest.OK(t, err)
		o.Later = scheduled.Later
		return atwork.Start(t, o, often, func(s *service.Service) {
			s.SetClient(network.Client(w.Addr))
			s.SetGrace(100 * time.Millisecond)
		}), network
	}
	// pump feeds on, never far ahead, until a condition holds.
	pump := func(what string, holds func() bool, services ...servicetest.AtWork) {
		t.Helper()
		servicetest.Await(t, what, func() bool {
			if published.Read(t) >= w.Fed-400 {
				w.Feed(t)
			}
			return holds()
		}, services...)
	}
	more := func(n int64) func() bool {
		want := published.Read(t) + n
		return func() bool { return published.Read(t) >= want }
	}
	// begun: each partition has results.
	begun := func() bool {
		for p := range int32(servicetest.Partitions) {
			if m, found, err := topics.LastMark(t.Context(), w.Client, o.Topics.Changelog,
				p); err != nil || !found || m.Input == 0 {
				return false
			}
		}
		return true
	}
	// amended: each partition has adopted so many, some committed after that.
	amended := func(n int) func() bool {
		return func() bool {
			marks := w.LastMarks(t, o.Topics.Changelog)
			return !slices.ContainsFunc(marks, func(m task.Mark) bool {
				return len(m.Amendments) < n || m.Input < m.Amendments[n-1].From+40
			})
		}
	}
	two, three := servicetest.NeighbourModel(t, servicetest.Town, 1000, 9),
		servicetest.NeighbourModel(
			t, grid.Box{South: 53.29, West: -3.12, North: 53.51, East: -2.79}, 1000, 4)

	a, wireA := instance("a", 7)
	pump("the first has begun", more(300), a)
	b, wireB := instance("b", 23)
	pump("both work", func() bool { return b.Counters.Snapshot().RecordsIn > 200 }, a, b)
	pump("each partition has begun", begun, a, b)
	second := w.Step + 4
	puts.put(atwork.Version(t, second, two))
	pump("some adopt the second version",
		func() bool { return a.Counters.Snapshot().Adopted+b.Counters.Snapshot().Adopted > 0 }, a,
		b)
	wireA.Cut() // it does not know how its transactions end
	a.Cancel()
	pump("the second version is in use", amended(1), b)
	c, wireC := instance("c", 11)
	pump("both work again", func() bool { return c.Counters.Snapshot().RecordsIn > 200 }, b, c)
	pump("the second version has some steps of its own",
		func() bool { return w.Step-6 > second+5 }, b, c)
	puts.put(atwork.Version(t, w.Step-6, three))
	pump("some adopt the third version",
		func() bool { return b.Counters.Snapshot().Adopted+c.Counters.Snapshot().Adopted > 1 }, b,
		c)
	wireB.Cut()
	b.Cancel()
	pump("the third version is in use", amended(2), c)
	wireC.Cut()
	c.Cancel()
	d, _ := instance("d", 31)
	// c may have answered all there was, and only who has worked in a partition leaves a closed
	// mark
	w.Feed(t)
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, d)
	d.Stop(t)

	scheduled, err := puts.watch()
	servicetest.OK(t, err)
	o.Later, o.Watch = scheduled.Later, nil
	requireModels(t, w, published.Out, []string{o.Model.ID(), two.ID(), three.ID()})
	w.RequireRepeats(t, published.Out, o.Topics.Sanitized)
	for p, m := range w.LastMarks(t, o.Topics.Changelog) {
		if len(m.Amendments) != 2 || m.Amendments[0].From == 0 || m.Open {
			t.Errorf("partition %d: the last mark is %+v", p, m)
		}
	}
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("it does not verify: %+v", report)
	}
	alone := o
	alone.MaxRecords = 1000
	plan := atwork.Replay(t, alone, replay.Options{Output: "alone"})
	if !plan.Identical {
		t.Errorf("the plan of a replay is %+v", plan)
	}
	again := atwork.Replayed(t, w, plan)
	servicetest.RequireSame(t, again.Out, published.Out)
	servicetest.RequireSame(t, again.Dead, published.Dead)
	requireNeedsVersions(t, w, o, three.ID())
}

// requireModels requires releases under each of some models.
func requireModels(tb testing.TB, _ *servicetest.World, out *servicetest.View, ids []string) {
	tb.Helper()
	used := map[string]int{}
	for _, lines := range out.Lines {
		for _, l := range lines {
			s, err := servicetest.NewCodec(tb, schemas.Avro).DecodeSanitized([]byte(l.Value))
			servicetest.OK(tb, err)
			used[s.ModelID]++
		}
	}
	for _, id := range ids {
		if used[id] == 0 {
			tb.Errorf("nothing is released under %s", id)
		}
	}
}

// requireNeedsVersions: without a version that was adopted nothing begins, is replayed
// or verified, and each says which model to put back.
func requireNeedsVersions(tb testing.TB, _ *servicetest.World, o service.Options, id string) {
	tb.Helper()
	o.Later = slices.DeleteFunc(slices.Clone(o.Later),
		func(v *engine.Version) bool { return v.ID.Model.String() == id })
	s, err := service.New(o)
	servicetest.OK(tb, err)
	if err := s.Run(tb.Context()); !errors.Is(err, engine.ErrVersion) ||
		!strings.Contains(err.Error(), id) {
		tb.Errorf("a start without a version in use: %v", err)
	}
	if _, err := replay.Run(tb.Context(), o, replay.Options{
		Output: "without",
	}); !errors.Is(err, replay.ErrSpend) || !strings.Contains(err.Error(), id) {
		tb.Errorf("a replay without it: %v", err)
	}
	report := atwork.Verify(tb, o)
	if n := report.Partitions[0].NotVerified; report.Verified || len(n) != 1 ||
		!strings.Contains(n[0], id) {
		tb.Errorf("a verification without it: %+v", report)
	}
}

// TestSwapWaits: an instance that has not got the new model yet stands still with a
// word in the log where another has adopted it, and goes on when it comes.
func TestSwapWaits(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 20)
	o := atwork.Options(w, "late")
	boards := []*board{newBoard(t, o), newBoard(t, o)}
	v := atwork.Version(t, 2, servicetest.NeighbourModel(t, servicetest.Town, 1000, 9))
	published := w.Answers(t, o.Group)
	instance := func(i int) *atwork.Running {
		o := o
		o.Watch, o.StateDir, o.Counters = boards[i].watch,
			filepath.Join(w.Dir, string(rune('a'+i))), new(engine.Counters)
		return atwork.Start(t, o, often)
	}
	a, b := instance(0), instance(1)
	servicetest.Await(t, "both work", func() bool {
		if published.Read(t) >= w.Fed {
			w.Feed(t)
		}
		return a.Counters.Snapshot().RecordsIn > 0 && b.Counters.Snapshot().RecordsIn > 0
	}, a, b)
	boards[0].put(v)
	servicetest.Await(t, "one has adopted what it works on",
		func() bool { return a.Counters.Snapshot().Adopted > 0 }, a, b)
	a.Stop(t)
	for range 6 {
		w.Feed(t)
	}
	servicetest.Await(t, "the other waits", func() bool {
		return strings.Contains(b.Log.String(), "waiting to try again") &&
			strings.Contains(b.Log.String(), v.ID.Model.String()+", start")
	}, b)
	boards[1].put(v)
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, b)
	b.Stop(t)
	o.Later = []*engine.Version{v}
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("it does not verify: %+v", report)
	}
}
