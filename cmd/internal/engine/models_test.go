package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// fixOf is a fix in the middle of the town at the nth step and some milliseconds more.
func fixOf(user string, n, ms int64) schemas.Raw {
	return schemas.Raw{
		UserID: user, Timestamp: servicetest.StepTime(n).UnixMilli() + ms, Latitude: 53.4,
		Longitude: -2.95,
	}
}

// publishedBy runs one fix and answers with the model that it was released under.
func publishedBy(
	t *testing.T, p *Processor, offset int64, fix schemas.Raw, state []byte,
) (string, []byte) {
	t.Helper()
	got := servicetest.Process(t, p, servicetest.Record(t, offset, fix), state)
	if len(got.Dead) > 0 {
		return "dead", state
	}
	if len(got.State) > 0 {
		state = got.State
	}
	return got.Sanitized(t, schemas.Avro).ModelID, state
}

// TestLanesAreBounded, and which of them are there changes nothing.
func TestLanesAreBounded(t *testing.T) {
	one := servicetest.NeighbourModel(t, servicetest.Town, 2000, 4)
	settings := testSettings(t, one)
	for n := range int64(5) {
		settings.Later = append(settings.Later, newVersion(t, 10*(n+1),
			servicetest.NeighbourModel(t, servicetest.Town, 2000, 5+float64(n))))
	}
	run := func(order []int64, after func(*Processor)) (outputs map[int64]string) {
		p := newTestProcessor(t, settings, 0)
		outputs = map[int64]string{}
		for _, step := range order {
			// each a new user, in effect
			got := servicetest.Process(t, p, servicetest.Record(t, 0, fixOf("user", step, 0)), nil)
			outputs[step] = string(got.Output[0].Value)
			if n := len(p.engine.models.lanes); n >= maxLanes {
				t.Errorf("%d lanes beside the first", n)
			}
			after(p)
		}
		return outputs
	}
	order := []int64{5, 15, 25, 35, 45, 55, 15, 5, 25, 55, 45, 35}
	want := run(order, func(*Processor) {})
	slices.Reverse(order)
	for step, value := range run(order, func(p *Processor) { p.engine.models.lanes = nil }) {
		if value != want[step] {
			t.Errorf("step %d has another record", step)
		}
	}
}

// TestMigrations: on the same map the posterior stays, on another one the user begins
// over; both are counted, once, and only where the state is stored.
func TestMigrations(t *testing.T) {
	one, same := servicetest.NeighbourModel(t, servicetest.Town, 2000, 4),
		servicetest.NeighbourModel(t, servicetest.Town, 2000, 5)
	moved := servicetest.NeighbourModel(
		t, grid.Box{South: 53.31, West: -3.1, North: 53.5, East: -2.8}, 2000, 4)
	settings := testSettings(t, one)
	settings.Later = []*Version{newVersion(t, 2, same), newVersion(t, 4, moved)}
	p := newTestProcessor(t, settings, 0)
	var state []byte
	var s mechanism.State
	for _, step := range []int64{0, 1, 2, 3} {
		_, state = publishedBy(t, p, step, fixOf("u", step, 0), state)
	}
	servicetest.OK(t, s.DecodeBinary(state))
	before := s.EpsilonSpent
	if p.tally.Moved != 1 || p.tally.Restarted != 0 {
		t.Errorf("moved %d, restarted %d on one map", p.tally.Moved, p.tally.Restarted)
	}
	publishedBy(t, p, 4, fixOf("u", 3, 1), state) // a repeat is not stored
	_, state = publishedBy(t, p, 5, fixOf("u", 4, 0), state)
	servicetest.OK(t, s.DecodeBinary(state))
	if p.tally.Moved != 1 || p.tally.Restarted != 1 || s.Grid.String() != moved.Grid.ID() ||
		s.EpsilonSpent != before+1 || s.Releases != 5 {
		t.Errorf("moved %d, restarted %d; the state is on %v after %d releases, ε %g",
			p.tally.Moved, p.tally.Restarted, s.Grid, s.Releases, s.EpsilonSpent)
	}
	if got, _ := p.Take(); got.Moved != 1 || got.Restarted != 1 {
		t.Errorf("the counters are %+v", got)
	}
}

// TestAddedVersions: a list that was longer from the beginning gives the same bytes as one that
// grew behind everything that was processed, whatever the order of times.
func TestAddedVersions(t *testing.T) {
	one := servicetest.NeighbourModel(t, servicetest.Town, 2000, 4)
	moved := servicetest.NeighbourModel(
		t, grid.Box{South: 53.31, West: -3.1, North: 53.5, East: -2.8}, 2000, 4)
	same := servicetest.NeighbourModel(t, servicetest.Town, 2000, 5)
	random, grown := rand.New(rand.NewPCG(7, 7)), 0
	for range 20 {
		short, long := testSettings(t, one), testSettings(t, one)
		p := newTestProcessor(t, short, 0)
		var log []task.Record
		latest := int64(0)
		for offset := range int64(60) {
			n := offset/4 + random.Int64N(6)
			fix := fixOf(fmt.Sprint("user-", random.IntN(3)), n, random.Int64N(60_000))
			if random.IntN(10) == 0 {
				fix.Latitude = 60 // refused, by the map of its version
			}
			log = append(log, servicetest.Record(t, offset, fix))
		}
		states, whole := map[string][]byte{}, map[string][]byte{}
		var results []servicetest.Effects
		for _, rec := range log {
			if random.IntN(20) == 0 && len(short.Later) < 2 { // a stop, and a longer list
				start := latest/60_000 - servicetest.StartMS/60_000 + 1 + random.Int64N(3)
				v := newVersion(t, start, []*mobility.Model{moved, same}[len(short.Later)])
				longer := append(slices.Clone(short.Later), v)
				mark := task.Mark{Versions: short.Versions(), Latest: latest}
				short.Later = longer
				if CheckLater(one, longer, 1<<20) == nil && short.CheckVersions(mark) == nil {
					p = newTestProcessor(t, short, 0)
					grown++
				} else {
					short.Later = longer[:len(longer)-1]
				}
			}
			got := servicetest.Process(t, p, rec, states[string(rec.Key)])
			latest = max(latest, got.Time)
			results = append(results, got)
			if len(got.State) > 0 {
				states[string(rec.Key)] = got.State
			}
		}
		long.Later = short.Later
		q := newTestProcessor(t, long, 0)
		for i, rec := range log {
			got := servicetest.Process(t, q, rec, whole[string(rec.Key)])
			servicetest.RequireEqual(t, fmt.Sprint("record ", i), got, results[i])
			if len(got.State) > 0 {
				whole[string(rec.Key)] = got.State
			}
		}
	}
	if grown < 10 {
		t.Errorf("a list has grown %d times: a poor test", grown)
	}
}

// TestBlindFollows: the baseline goes with the engine.
func TestBlindFollows(t *testing.T) {
	one, two := servicetest.NeighbourModel(t, servicetest.Town, 2000, 4),
		servicetest.NeighbourModel(t, servicetest.Town, 1000, 5)
	settings := testSettings(t, one)
	settings.Later = []*Version{newVersion(t, 3, two)}
	engine, err := New(settings)
	servicetest.OK(t, err)
	blind, err := NewBlind(one, settings.Later, servicetest.Release)
	servicetest.OK(t, err)
	settings.Later = []*Version{settings.Later[0], settings.Later[0]}
	if _, err := New(settings); err == nil {
		t.Error("a start that comes twice was accepted")
	}
	var state mechanism.State
	var unseen Unseen
	for i := range int64(10) { // each step has two fixes
		step := i / 2
		fix := fixOf("u", step, 0)
		got, err := engine.Sanitize(fix, &state)
		servicetest.OK(t, err)
		want := one
		if step >= 3 {
			want = two
		}
		if got.Record.ModelID != want.ID() || got.Outcome.Grid != want.Grid {
			t.Errorf("step %d is released under %s, want %s", step, got.Record.ModelID, want.ID())
		}
		at, err := blind.Estimate(fix)
		servicetest.OK(t, err)
		again, err := blind.Continue(fix, &unseen)
		servicetest.OK(t, err)
		best := new(mechanism.Estimator).Best(want.Grid, &unseen.Posterior)
		if at != best || again != best || best.Mean == best.Median {
			t.Errorf("step %d: the baseline says %v and %v, want %v", step, at, again, best)
		}
		lat, lon := want.Grid.ToDegrees(at.Median)
		if math.Abs(lat-53.4) > .1 || math.Abs(lon+2.95) > .15 {
			t.Errorf("step %d: the baseline is at %v, %v of another map", step, lat, lon)
		}
	}
}

// TestVersionAt reads like the rule: which version counts, by start and by the user's last step.
func TestVersionAt(t *testing.T) {
	const minute = 60_000
	m := &models{stepMS: minute}
	for _, startMS := range []int64{10 * minute, 20 * minute, 30*minute + 1} {
		m.later = append(m.later, &Version{ID: VersionID{StartMS: startMS}})
	}
	at := func(step int64) mechanism.State {
		return mechanism.State{Started: true, StepMS: minute, Step: step}
	}
	for name, test := range map[string]struct {
		step int64
		last mechanism.State
		want int
	}{
		"before every start":              {9, mechanism.State{}, -1},
		"at a start":                      {10, mechanism.State{}, 0},
		"after a start":                   {19, mechanism.State{}, 0},
		"a start inside the step":         {30, mechanism.State{}, 1},
		"a start before the step":         {31, mechanism.State{}, 2},
		"negative steps":                  {-5, mechanism.State{}, -1},
		"a late record":                   {5, at(12), 0},
		"a late record after two changes": {5, at(60), 2},
		"the next step":                   {20, at(19), 1},
		"the same step":                   {20, at(20), 1},
		"a state of another length":       {9, mechanism.State{Started: true, Step: 90}, -1},
		"a new user":                      {9, mechanism.State{StepMS: minute, Step: 90}, -1},
	} {
		got := m.at(test.step, &test.last)
		if i := slices.Index(m.later, got); i != test.want {
			t.Errorf("%s: version %d counts, want %d", name, i, test.want)
		}
	}
}
