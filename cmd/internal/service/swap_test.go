package service_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// TestSwap adds a version of the model twice, each time between a clean stop and a start, under two
// instances of which one is cut off and replaced: once on the same map, and once on another one.
// What they publish is what one instance gives that has the whole list from the beginning.
func TestSwap(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 30)
	o := atwork.Options(w, "swap")
	o.SessionTimeout = 2 * time.Second
	published := w.Answers(t, o.Group)
	instance := func(name string, maxRecords int) (*atwork.Running, *servicetest.Network) {
		o, network := o, new(servicetest.Network)
		o.StateDir, o.MaxRecords, o.Counters = filepath.Join(w.Dir, name),
			maxRecords, new(engine.Counters)
		return atwork.Start(t, o, func(s *service.Service) {
			s.SetClient(network.Client(w.Addr))
			s.SetGrace(100 * time.Millisecond)
		}), network
	}
	// work feeds two instances, of which one is cut off in the middle and replaced, and stops them
	// when everything is answered.
	work := func(name string) {
		t.Helper()
		pump := func(n int64, services ...servicetest.AtWork) {
			t.Helper()
			want := published.Read(t) + n
			servicetest.Await(t, "more is published", func() bool {
				if published.Read(t) >= w.Fed-400 {
					w.Feed(t)
				}
				return published.Read(t) >= want
			}, services...)
		}
		a, wire := instance(name+"-a", 7)
		pump(300, a)
		b, _ := instance(name+"-b", 23)
		pump(600, a, b)
		wire.Cut() // it does not know how its transactions end
		a.Cancel()
		pump(600, b)
		w.Feed(t) // only who has worked in a partition leaves a closed mark
		servicetest.Await(t, "everything is answered",
			func() bool { return published.Read(t) >= w.Fed }, b)
		b.Stop(t)
	}
	// next starts a model behind everything that was processed.
	next := func(m *mobility.Model) *engine.Version {
		latest := int64(0)
		for _, mark := range w.LastMarks(t, o.Topics.Changelog) {
			latest = max(latest, mark.Latest)
		}
		step := o.Model.Step.Milliseconds()
		return atwork.Version(t, (latest-servicetest.StartMS)/step+1, m)
	}
	two, three := servicetest.NeighbourModel(t, servicetest.Town, 1000, 9),
		servicetest.NeighbourModel(
			t, grid.Box{South: 53.29, West: -3.12, North: 53.51, East: -2.79}, 1000, 4)
	work("first")
	second := next(two)
	o.Later = []*engine.Version{second}
	work("second")
	early := next(three)
	o.Later = append(o.Later, early)
	work("third")

	requireModels(t, w, published.Out, []string{o.Model.ID(), two.ID(), three.ID()})
	w.RequireRepeats(t, published.Out, o.Topics.Sanitized)
	for p, m := range w.LastMarks(t, o.Topics.Changelog) {
		if len(m.Versions) != 2 || m.Latest < early.ID.StartMS || m.Open {
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

	without := o
	without.Later = o.Later[:1]
	requireRefused(t, without, three.ID())
	between := o
	between.Later = []*engine.Version{second, atwork.Version(t, 1+
		(second.ID.StartMS-servicetest.StartMS)/o.Model.Step.Milliseconds(), two), early}
	requireRefused(t, between, three.ID())
	late := o
	late.Later = append(slices.Clone(o.Later), atwork.Version(t, 1+
		(early.ID.StartMS-servicetest.StartMS)/o.Model.Step.Milliseconds(), two))
	requireRefused(t, late, two.ID())
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

// requireRefused: under a list that does not extend the one in use nothing begins, is replayed or
// verified, and each says which model is wrong.
func requireRefused(tb testing.TB, o service.Options, id string) {
	tb.Helper()
	s, err := service.New(o)
	servicetest.OK(tb, err)
	if err := s.Run(tb.Context()); !errors.Is(err, task.ErrVersions) ||
		!strings.Contains(err.Error(), id) {
		tb.Errorf("a start with another list: %v", err)
	}
	if _, err := replay.Run(tb.Context(), o, replay.Options{
		Output: "without",
	}); !errors.Is(err, replay.ErrSpend) || !strings.Contains(err.Error(), id) {
		tb.Errorf("a replay with it: %v", err)
	}
	report := atwork.Verify(tb, o)
	if n := report.Partitions[0].NotVerified; report.Verified || len(n) != 1 ||
		!strings.Contains(n[0], id) {
		tb.Errorf("a verification with it: %+v", report)
	}
}

// TestAnotherListBeside: an instance with another list of models is refused beside one at work, and
// after one that was killed, until that one's list was stopped cleanly.
func TestAnotherListBeside(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 20)
	o := atwork.Options(w, "beside")
	o.SessionTimeout = 2 * time.Second
	published := w.Answers(t, o.Group)
	network := new(servicetest.Network)
	a := atwork.Start(t, o, func(s *service.Service) {
		s.SetClient(network.Client(w.Addr))
		s.SetGrace(100 * time.Millisecond)
	})
	servicetest.Await(t, "it works", func() bool {
		if published.Read(t) >= w.Fed {
			w.Feed(t)
		}
		return published.Read(t) > 100
	}, a)
	longer := o
	longer.StateDir = filepath.Join(w.Dir, "longer")
	longer.Later = []*engine.Version{atwork.Version(t, w.Step+1000,
		servicetest.NeighbourModel(t, servicetest.Town, 1000, 9))}
	refused := func(when string, words ...string) {
		t.Helper()
		s, err := service.New(longer)
		servicetest.OK(t, err)
		err = s.Run(t.Context())
		for _, word := range words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v does not say %q", when, err, word)
			}
		}
	}
	refused("beside one at work", "the list of versions is another one")
	network.Cut()
	a.Cancel()
	refused("after one that was killed", "without a clean stop",
		"the list of versions is another one")
	back := o
	back.StateDir = filepath.Join(w.Dir, "back") // the folder of the killed one is still locked
	again := atwork.Start(t, back)
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, again)
	w.Feed(t)
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, again)
	again.Stop(t)
	last := atwork.Start(t, longer)
	w.Feed(t)
	servicetest.Await(t, "the longer list is in use",
		func() bool { return published.Read(t) >= w.Fed }, last)
	last.Stop(t)
	if report := atwork.Verify(t, longer); !report.Verified {
		t.Errorf("it does not verify: %+v", report)
	}
}

// TestAnotherListBesideIdle: the group alone refuses an instance with another list of models beside
// one that has nothing to do. Its partitions are closed, so no mark refuses it.
func TestAnotherListBesideIdle(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 20)
	o := atwork.Options(w, "idle")
	atwork.Serve(t, w, o, 2)
	a := atwork.Start(t, o)
	servicetest.Await(t, "it has its partitions", func() bool {
		return strings.Count(a.Log.String(), "state restored") == servicetest.Partitions
	}, a)
	if slices.ContainsFunc(w.LastMarks(t, o.Topics.Changelog),
		func(m task.Mark) bool { return m.Open }) {
		t.Error("an instance that has nothing to do opens a partition")
	}
	longer := o
	longer.StateDir, longer.Counters = filepath.Join(w.Dir, "longer"), new(engine.Counters)
	longer.Later = []*engine.Version{atwork.Version(t, w.Step+1000,
		servicetest.NeighbourModel(t, servicetest.Town, 1000, 9))}
	s, err := service.New(longer)
	servicetest.OK(t, err)
	err = s.Run(t.Context())
	if _, beside := errors.AsType[*group.SettingsError](err); !beside ||
		!strings.Contains(err.Error(), "models: it has another list") {
		t.Errorf("beside an idle instance it ends with %v", err)
	}
	a.Stop(t)
}
