package replay

import (
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestReplayShortened: a replay that is taken up again after the service has adopted another
// version ends before that one, and is no other replay; one that has come past it is.
func TestReplayShortened(t *testing.T) {
	version := func(n int64, stay float64) *engine.Version {
		m := servicetest.NeighbourModel(t, servicetest.Town, 5000, stay)
		v, _, err := engine.NewVersion(servicetest.StepTime(n), "model.avro",
			func() (*mobility.Model, error) { return m, nil })
		servicetest.OK(t, err)
		return v
	}
	two, three := version(3, 4), version(5, 5)
	settings := []byte("settings")
	begun := PartitionPlan{
		Origin: 0, From: 2, To: 80, amended: []engine.Amended{{From: 10, Version: two}},
	}
	now := begun
	now.To, now.amended = 200, []engine.Amended{
		{From: 10, Version: two}, {From: 90, Version: three}, {From: 95, Version: two},
	}
	mark := func(part PartitionPlan, input int64) task.Mark {
		return task.Mark{Input: input, Settings: part.window(settings, "again").Settings}
	}
	other := begun
	other.From = 3
	byTime := now
	byTime.amended = engine.FromTheStart([]*engine.Version{two, three})
	byTimeBegun := begun
	byTimeBegun.amended = engine.FromTheStart([]*engine.Version{two})
	for name, test := range map[string]struct {
		part PartitionPlan
		own  task.Mark
		to   topics.Bound
		want int64 // To; -1: refused
		left int   // amendments
	}{
		"nothing adopted since":   {begun, mark(begun, 50), topics.Bound{}, 80, 1},
		"the service has gone on": {now, mark(now, 50), topics.Bound{}, 200, 3},
		"two adopted since":       {now, mark(begun, 50), topics.Bound{}, 90, 1},
		"at its end":              {now, mark(begun, 90), topics.Bound{}, 90, 1},
		"it has come past one":    {now, mark(begun, 91), topics.Bound{}, -1, 0},
		"another replay":          {now, mark(other, 50), topics.Bound{}, -1, 0},
		"with an end as an offset": {
			now, mark(begun, 50), topics.Bound{IsOffset: true, Offset: 200}, -1, 0,
		},
		"with an end as a time": {
			now, mark(begun, 50), topics.Bound{Time: time.UnixMilli(servicetest.StartMS)}, -1, 0,
		},
		"by event time alone, and longer": {byTime, mark(byTimeBegun, 50), topics.Bound{}, -1, 0},
	} {
		p := &planner{settings: settings, r: Options{Output: "again", To: test.to}}
		part := test.part
		if got := p.shorten(&part, test.own); got != (test.want >= 0) {
			t.Errorf("%s: taken up again: %t", name, got)
		} else if got && (part.To != test.want || len(part.amended) != test.left) {
			t.Errorf("%s: it ends at %d with %d versions, want %d and %d",
				name, part.To, len(part.amended), test.want, test.left)
		}
	}
}
