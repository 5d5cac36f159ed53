package engine

import (
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
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
	var list []Amended
	for n := range int64(5) {
		list = append(list, Amended{0, newVersion(t, 10*(n+1),
			servicetest.NeighbourModel(t, servicetest.Town, 2000, 5+float64(n)))})
	}
	run := func(order []int64, after func(*Processor)) (outputs map[int64]string) {
		p := newTestProcessor(t, testSettings(t, one), 0)
		p.Use(list)
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
	p := newTestProcessor(t, testSettings(t, one), 0)
	p.Use([]Amended{{0, newVersion(t, 2, same)}, {0, newVersion(t, 4, moved)}})
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

// TestOneReleaseAStep: a version of another map that is adopted after its start, between two
// fixes of one step, does not release the step a second time.
func TestOneReleaseAStep(t *testing.T) {
	one, same := servicetest.NeighbourModel(t, servicetest.Town, 2000, 4),
		servicetest.NeighbourModel(t, servicetest.Town, 2000, 5)
	moved := servicetest.NeighbourModel(
		t, grid.Box{South: 53.31, West: -3.1, North: 53.5, East: -2.8}, 2000, 4)
	for name, before := range map[string][]Amended{
		"from the first": nil, "from a later one": {{0, newVersion(t, 1, same)}},
	} {
		p := newTestProcessor(t, testSettings(t, one), 0)
		p.Use(append(slices.Clone(before), Amended{5, newVersion(t, 3, moved)}))
		first := servicetest.Process(t, p, servicetest.Record(t, 4, fixOf("u", 10, 0)), nil)
		again := servicetest.Process(t, p, servicetest.Record(t, 5, fixOf("u", 10, 500)),
			first.State)
		a, b := first.Sanitized(t, schemas.Avro), again.Sanitized(t, schemas.Avro)
		if b.Kind != schemas.KindRepeated || b.Epsilon != 0 || len(again.State) > 0 ||
			a.Latitude != b.Latitude || a.Longitude != b.Longitude {
			t.Errorf("%s: the step's second fix is %s, for ε %g, under %s",
				name, b.Kind, b.Epsilon, b.ModelID)
		}
		got, _ := publishedBy(t, p, 6, fixOf("u", 11, 0), first.State)
		if got != moved.ID() {
			t.Errorf("%s: the next step is released under %s", name, got)
		}
	}
	// Under other settings than the state's there is no version of its map.
	p := newTestProcessor(t, testSettings(t, moved), 0)
	q := newTestProcessor(t, testSettings(t, one), 0)
	state := servicetest.Process(t, q, servicetest.Record(t, 4, fixOf("u", 10, 0)), nil).State
	if got, _ := publishedBy(t, p, 5, fixOf("u", 10, 500), state); got != moved.ID() {
		t.Errorf("a state of another map is handled under %s", got)
	}
}

// TestFollow: for a file there is no offset, and the baseline goes with the engine.
func TestFollow(t *testing.T) {
	one, two := servicetest.NeighbourModel(t, servicetest.Town, 2000, 4),
		servicetest.NeighbourModel(t, servicetest.Town, 1000, 5)
	engine, err := New(Settings{Model: one, Key: servicetest.Key, Release: servicetest.Release})
	servicetest.OK(t, err)
	blind, err := NewBlind(one, servicetest.Release)
	servicetest.OK(t, err)
	later := []*Version{newVersion(t, 3, two)}
	servicetest.OK(t, engine.Follow(later))
	if engine.Follow([]*Version{later[0], later[0]}) == nil {
		t.Error("a start that comes twice was accepted")
	}
	blind.Follow(later)
	var state mechanism.State
	var unseen Unseen
	for i := range int64(10) { // each step has two fixes
		step := i / 2
		fix := fixOf("u", step, 0)
		got, outcome, err := engine.Sanitize(fix, &state)
		servicetest.OK(t, err)
		want := one
		if step >= 3 {
			want = two
		}
		if got.ModelID != want.ID() || outcome.Grid != want.Grid {
			t.Errorf("step %d is released under %s, want %s", step, got.ModelID, want.ID())
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

// TestVersionAt reads like the rule: which version counts, by start, by offset and by the user's
// last step.
func TestVersionAt(t *testing.T) {
	const minute = 60_000
	maps := map[string]*grid.Grid{}
	for i, name := range []string{"town", "country", "sea", "moon"} {
		g, err := grid.Plain(1+i, 1, 1)
		servicetest.OK(t, err)
		maps[name] = g
	}
	on := func(name string, step int64) mechanism.State {
		id, err := mechanism.ParseID(maps[name].ID())
		servicetest.OK(t, err)
		return mechanism.State{Started: true, StepMS: minute, Step: step, Grid: id}
	}
	at := func(step int64) mechanism.State { return on("town", step) }
	m := &models{
		first: &mobility.Model{Grid: maps["town"]}, stepMS: minute,
	}
	for _, v := range []struct { // 0 to 4, in the order in which they were taken up
		startMS int64
		name    string
		from    int64
	}{
		{10 * minute, "town", 100},
		{30*minute + 1, "country", 200},
		{20 * minute, "town", 300},    // starts before the one above
		{20 * minute, "country", 400}, // replaces the one of the same start
		{50 * minute, "sea", 500},
	} {
		version := &Version{ID: VersionID{StartMS: v.startMS}, grid: maps[v.name]}
		m.amended = append(m.amended, Amended{v.from, version})
	}
	const end = math.MaxInt64
	for name, test := range map[string]struct {
		position, step int64
		last           mechanism.State
		want           int
	}{
		"before every start":               {end, 9, mechanism.State{}, -1},
		"at a start":                       {end, 10, mechanism.State{}, 0},
		"after a start":                    {end, 19, mechanism.State{}, 0},
		"before the position":              {99, 10, mechanism.State{}, -1},
		"at the position":                  {100, 10, mechanism.State{}, 0},
		"taken up late":                    {300, 20, mechanism.State{}, 2},
		"of one start, the last one":       {400, 20, mechanism.State{}, 3},
		"a start inside the step":          {end, 30, mechanism.State{}, 3},
		"a start before the step":          {end, 31, mechanism.State{}, 1},
		"a start before others":            {300, 31, mechanism.State{}, 1},
		"negative steps":                   {end, -5, mechanism.State{}, -1},
		"a late record":                    {end, 5, at(12), 0},
		"a late record after two changes":  {end, 5, at(60), 4},
		"the next step":                    {end, 20, at(19), 3},
		"the same step on the same map":    {end, 10, at(10), 0},
		"the same step on another map":     {end, 20, at(20), 2},
		"the same step on the first map":   {end, 55, at(55), 2},
		"the same step, an older position": {250, 31, at(31), 0},
		"the same step on no known map": {
			end, 20,
			on("moon", 20),
			3,
		},
		"the same step of a new user": {end, 20, mechanism.State{Step: 20}, 3},
	} {
		got := m.at(test.position, test.step, &test.last)
		i := slices.IndexFunc(m.amended, func(a Amended) bool { return a.Version == got })
		if i != test.want {
			t.Errorf("%s: version %d counts, want %d", name, i, test.want)
		}
	}
	m.amended = []Amended{{0, &Version{grid: maps["sea"]}}}
	if last := at(3); m.at(end, 3, &last) != nil {
		t.Error("a later version counts, not the first one's map")
	}
}
