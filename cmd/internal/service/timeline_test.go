package service

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
)

// TestSameStart: of two versions with one start the last one listed is what partitions
// come to, whichever of the two they have adopted before.
func TestSameStart(t *testing.T) {
	one := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)
	wrong, right := newVersion(t, 3, servicetest.NeighbourModel(t, servicetest.Town, 5000, 5)),
		newVersion(t, 3, servicetest.NeighbourModel(t, servicetest.Town, 5000, 6))
	later := []*engine.Version{wrong, right}
	servicetest.OK(t, engine.CheckLater(one, later, 1<<20))
	for name, had := range map[string]*engine.Version{
		"none": nil, "the first": wrong, "the last": right,
	} {
		a := &amender{
			timeline:  newTimeline(later, nil),
			processor: newTestProcessor(t, testOptions(t, one), 0), counters: new(engine.Counters),
			log: new(servicetest.Log).Logger(),
		}
		var list []task.Amendment
		if had != nil {
			list = append(list, task.Amendment{From: 2, Name: had.ID.Name()})
		}
		servicetest.OK(t, a.Amended(list))
		for _, n := range a.Propose() {
			list = append(list, task.Amendment{From: 7, Name: n})
		}
		servicetest.OK(t, a.Amended(list))
		if n := len(a.Propose()); n > 0 {
			t.Errorf("%s adopted: %d more are proposed", name, n)
		}
		if got := modelAt(t, a.processor, 7, 3); got != right.ID.Model.String() {
			t.Errorf("%s adopted: the version is %v, want %v", name, got, right.ID)
		}
		if had != nil {
			if got := modelAt(t, a.processor, 6, 3); got != had.ID.Model.String() {
				t.Errorf("%s adopted: before the adoption of the last it is %v", name, got)
			}
		}
	}
}

// modelAt is the model of a new user's release, by the record's offset and step.
func modelAt(t *testing.T, p task.Processor, offset, step int64) string {
	t.Helper()
	fix := servicetest.Sentinel()
	fix.Timestamp = servicetest.StartMS + step*60_000
	return servicetest.Process(t, p, servicetest.Record(t, offset, fix),
		nil).Sanitized(t, schemas.Avro).ModelID
}

// TestTimelineReplace: what a partition has adopted stays.
func TestTimelineReplace(t *testing.T) {
	v, w := newVersion(t, 3, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)),
		newVersion(t, 5, servicetest.NeighbourModel(t, servicetest.Town, 5000, 5))
	line := newTimeline([]*engine.Version{v, w}, nil)
	_, err := line.resolve([]task.Amendment{{Name: v.ID.Name()}})
	servicetest.OK(t, err)
	servicetest.OK(t, line.replace([]*engine.Version{v}, nil))
	if err := line.replace([]*engine.Version{w}, nil); !errors.Is(err, engine.ErrVersion) ||
		!strings.Contains(err.Error(), v.ID.Model.String()) {
		t.Errorf("without a version in use: %v", err)
	}
	if got := line.current(); len(got) != 1 || got[0] != v {
		t.Errorf("the schedule is %v", got)
	}
	if !line.once("a") || line.once("a") || !line.once("b") {
		t.Error("once is not once")
	}
}

// TestAmender proposes what is not in force yet, as long as a mark holds it.
func TestAmender(t *testing.T) {
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	model := servicetest.NeighbourModel(t, servicetest.Town, 5000, 5)
	var later []*engine.Version
	for n := range int64(task.MaxAmendments + 2) {
		later = append(later, newVersion(t, n, model))
	}
	log := new(servicetest.Log)
	a := &amender{
		timeline: newTimeline(later[:2], nil), processor: newTestProcessor(t, o, 0),
		counters: new(engine.Counters), log: log.Logger(),
	}
	servicetest.OK(t, a.Amended(nil))
	names := a.Propose()
	if len(names) != 2 || !bytes.Equal(names[1], later[1].ID.Name()) {
		t.Fatalf("%d names", len(names))
	}
	servicetest.OK(t, a.Amended([]task.Amendment{{From: 4, Name: names[0]}}))
	if again := a.Propose(); len(again) != 1 || !bytes.Equal(again[0], names[1]) {
		t.Errorf("after an adoption %d names", len(again))
	}
	err := a.Amended(
		[]task.Amendment{{From: 4, Name: names[0]}, {From: 5, Name: later[2].ID.Name()}})
	if task.RemedyOf(err) != task.Rebuild || !errors.Is(err, engine.ErrVersion) {
		t.Errorf("a version that is not here yet: %v (%v)", err, task.RemedyOf(err))
	}
	servicetest.OK(t, a.timeline.replace(later, nil))
	if got := len(a.Propose()); got != task.MaxAmendments-1 || a.Propose() == nil {
		t.Errorf("%d names are proposed beside one", got)
	}
	if n := strings.Count(log.String(), "mark is full"); n != 1 {
		t.Errorf("a full mark is told of %d times", n)
	}
	if got := a.counters.Snapshot().Adopted; got != 1 {
		t.Errorf("%d adoptions are counted", got)
	}
	late := servicetest.Sentinel()
	late.Timestamp = servicetest.StepTime(1).UnixMilli()
	servicetest.Process(t, a.processor, servicetest.Record(t, 0, late), nil)
	servicetest.OK(t, a.Amended([]task.Amendment{
		{From: 4, Name: names[0]}, {From: 9, Name: names[1]}, {From: 9, Name: later[2].ID.Name()},
	}))
	if n := strings.Count(log.String(), "after its start"); n != 1 {
		t.Errorf("%d versions are said to be late", n)
	}
}

// TestWatch: a schedule that cannot be used is told of once, and changes nothing.
func TestWatch(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)
	first, err := engine.NewVersionID(model, 0)
	servicetest.OK(t, err)
	slow := servicetest.NeighbourModel(t, servicetest.Town, 5000, 5)
	slow.Step = 2 * time.Minute
	other := newVersion(t, 3, slow)
	type answer struct {
		schedule engine.Schedule
		err      error
	}
	var now atomic.Pointer[answer]
	var log servicetest.Log
	o := testOptions(t, model)
	o.Logger = log.Logger()
	o.Watch = func() (engine.Schedule, error) { a := now.Load(); return a.schedule, a.err }
	s, err := New(o)
	servicetest.OK(t, err)
	s.watchEvery = time.Millisecond
	later := []*engine.Version{
		newVersion(t, 3, servicetest.NeighbourModel(t, servicetest.Town, 5000, 6)),
	}
	for i, step := range []struct {
		answer
		want string
	}{
		{answer{err: errors.New("line 3: half of it is missing")}, "half of it is missing"},
		{answer{schedule: engine.Schedule{First: first}}, "can be used again"},
		{
			answer{schedule: engine.Schedule{First: first, Later: []*engine.Version{other}}},
			"and the first version one of",
		},
		{
			answer{schedule: engine.Schedule{First: other.ID, Later: later}},
			"the first version has changed",
		},
		{
			answer{schedule: engine.Schedule{First: first, Later: later}},
			"a new version of the model",
		},
	} {
		if now.Store(&step.answer); i == 0 {
			go s.watch(t.Context())
		}
		servicetest.Await(t, step.want, func() bool {
			return strings.Contains(log.String(), step.want)
		})
		if got := len(s.timeline.current()); (got > 0) != (i == 4) {
			t.Errorf("%s: the schedule has %d versions", step.want, got)
		}
	}
	if strings.Count(log.String(), "half of it is missing") != 1 {
		t.Errorf("the log is\n%s", log.String())
	}
}
