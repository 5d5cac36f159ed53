package engine

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/schemas"
)

// TestFixesOutsideTheMap: a fix within one cell of the map counts as in the nearest
// cell; one further away is a dead letter unless it is to be clamped, and changes
// nothing: what follows is as if it had not been there.
func TestFixesOutsideTheMap(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	width, height := float64(model.Grid.Width()), float64(model.Grid.Height())
	for _, c := range []struct {
		name        string
		column, row float64
		outside     bool
		far         bool
	}{
		{"inside", 5.5, 5.5, false, false},
		{"in the corner", .001, .001, false, false},
		{"on the margin, east", width + .99, 5.5, true, false},
		{"on the margin, both ways", -.99, height + .99, true, false},
		{"beyond it, west", -1.01, 5.5, true, true},
		{"beyond it, east", width + 1.01, 5.5, true, true},
		{"beyond it, south", 5.5, -1.01, true, true},
		{"beyond it, north", 5.5, height + 1.01, true, true},
		{"200 km away", 205, 5.5, true, true},
	} {
		for _, policy := range []string{"", OutsideDeadLetter, OutsideClamp} {
			t.Run(c.name+" "+policy, func(t *testing.T) {
				o := testSettings(t, model)
				o.Input.Outside = policy
				p := newTestProcessor(t, o, 0)
				state := servicetest.Process(t, p,
					servicetest.Record(t, 0, servicetest.Sentinel()), nil).State
				p.tally = Tally{}
				fix := servicetest.FixAt(model, c.column, c.row)
				fix.Timestamp += 60_000
				got := servicetest.Process(t, p, servicetest.Record(t, 1, fix), state)
				want := Tally{OutsideClamped: 1}
				switch {
				case c.far && policy != OutsideClamp:
					want = Tally{OutsideRefused: 1}
					letter := got.Letter(t, schemas.Avro)
					if letter.Reason != schemas.ReasonOutsideMap || letter.Offset != 1 {
						t.Errorf("the dead letter is %+v", letter)
					}
					secrets := append(servicetest.CoordinateSecrets(fix, model.Grid),
						servicetest.UserSecrets(fix.UserID)...)
					servicetest.RequireNoLeak(t, "the dead letter", got.Dead[0].Value, secrets)
				case !c.outside:
					want = Tally{}
					got.Sanitized(t, schemas.Avro)
				default: // the same as in the nearest cell
					nearest := fix
					centre := model.Grid.Centre(model.Grid.Locate(fix.Latitude, fix.Longitude))
					nearest.Latitude, nearest.Longitude = model.Grid.ToDegrees(centre)
					servicetest.RequireEqual(t, "the clamped fix", servicetest.Process(
						t, newTestProcessor(t, o, 0), servicetest.Record(t, 1, nearest),
						state), got)
				}
				if p.tally.OutsideClamped != want.OutsideClamped ||
					p.tally.OutsideRefused != want.OutsideRefused {
					t.Errorf("counted are %d clamped and %d refused",
						p.tally.OutsideClamped, p.tally.OutsideRefused)
				}
			})
		}
	}
}

// TestLateComesBeforeOutside: whether a fix is late is known without its place, so a late
// fix outside the map says the same as one inside, and is not counted as outside.
func TestLateComesBeforeOutside(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	p := newTestProcessor(t, testSettings(t, model), 0)
	state := servicetest.Process(t, p, servicetest.Record(t, 0, servicetest.Sentinel()), nil).State
	fix := servicetest.FixAt(model, 205, 5.5)
	fix.Timestamp -= 60_000
	if got := servicetest.Process(t, p, servicetest.Record(t, 1, fix),
		state).Letter(t, schemas.Avro); got.Reason != schemas.ReasonLate {
		t.Errorf("refused as %s", got.Reason)
	}
	if p.tally.OutsideRefused != 0 || p.tally.Late != 1 {
		t.Errorf("tally %+v", p.tally)
	}
}

// TestOutsideWhichMap: the map that counts is that of the version chosen for the fix. A
// fix that is refused does not bring the user's state to that version.
func TestOutsideWhichMap(t *testing.T) {
	north := servicetest.Town
	north.South, north.North = servicetest.Town.North+.5, servicetest.Town.North+.7
	one, two := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4),
		servicetest.NeighbourModel(t, north, 1000, 4)
	settings := testSettings(t, one)
	settings.Later = []*Version{newVersion(t, 10, two)}
	p := newTestProcessor(t, settings, 0)
	inOne, inTwo := servicetest.FixAt(one, 5.5, 5.5), servicetest.FixAt(two, 5.5, 5.5)
	step := func(fix schemas.Raw, n int64) schemas.Raw {
		fix.Timestamp = servicetest.StartMS + n*60_000
		return fix
	}
	state := servicetest.Process(t, p, servicetest.Record(t, 0, step(inOne, 1)), nil).State
	for name, c := range map[string]struct {
		fix     schemas.Raw
		refused bool
	}{
		"on the first map, in its time":    {step(inOne, 9), false},
		"on the second map, before it":     {step(inTwo, 9), true},
		"on the second map, in its time":   {step(inTwo, 10), false},
		"on the first map, after its time": {step(inOne, 10), true},
	} {
		got := servicetest.Process(t, p, servicetest.Record(t, 1, c.fix), state)
		if c.refused {
			if letter := got.Letter(t, schemas.Avro); letter.Reason != schemas.ReasonOutsideMap {
				t.Errorf("%s: refused as %s", name, letter.Reason)
			}
			continue
		}
		got.Sanitized(t, schemas.Avro)
	}
	// A file's states are kept in memory, so that a refused fix could leave a mark on one.
	engine, err := New(settings)
	servicetest.OK(t, err)
	if err := p.state.DecodeBinary(state); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Sanitize(step(inOne, 10), &p.state); err == nil {
		t.Error("a fix outside the map is sanitized")
	}
	if !bytes.Equal(p.state.AppendBinary(nil), state) {
		t.Error("a refused fix changes the state")
	}
}

// TestSwapped: fixes outside the map are held against it with latitude and longitude
// swapped; those on it are not.
func TestSwapped(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	for name, c := range map[string]struct {
		policy string
		change func(*schemas.Raw)
		want   int64
	}{
		"swapped": {
			"", func(f *schemas.Raw) { f.Latitude, f.Longitude = f.Longitude, f.Latitude }, 1,
		},
		"swapped, clamped": {
			OutsideClamp,
			func(f *schemas.Raw) { f.Latitude, f.Longitude = f.Longitude, f.Latitude }, 1,
		},
		"elsewhere":          {"", func(f *schemas.Raw) { f.Latitude, f.Longitude = 48, 11 }, 0},
		"where it should be": {"", func(*schemas.Raw) {}, 0},
	} {
		o := testSettings(t, model)
		o.Input.Outside = c.policy
		p := newTestProcessor(t, o, 0)
		fix := servicetest.Sentinel()
		c.change(&fix)
		servicetest.Process(t, p, servicetest.Record(t, 0, fix), nil)
		if p.tally.OutsideSwapped != c.want {
			t.Errorf("%s: counted %d", name, p.tally.OutsideSwapped)
		}
	}
}

// TestLate: a late fix is a dead letter. It changes no state and its lateness is counted.
func TestLate(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)).WithDefaults()
	o.Partitioner = AnyPartitioner
	p := newTestProcessor(t, o, 0)
	state := servicetest.Process(t, p, servicetest.Record(t, 0, servicetest.Sentinel()), nil).State
	for i, by := range []time.Duration{
		time.Minute, 2 * time.Minute, 5 * time.Minute, 7 * time.Hour, 25 * time.Hour,
	} {
		fix := servicetest.Sentinel()
		fix.Timestamp -= by.Milliseconds()
		got := servicetest.Process(t, p, servicetest.Record(t, int64(i+1), fix), state)
		if letter := got.Letter(t, schemas.Avro); letter.Reason != schemas.ReasonLate ||
			len(got.State) > 0 {
			t.Errorf("refused as %s, with a state of %d bytes", letter.Reason, len(got.State))
		}
	}
	s, _ := p.Take()
	want := Lateness{
		Counts:  [10]int64{0, 0, 0, 1, 2, 0, 0, 0, 1, 1},
		Seconds: (8*time.Minute + 32*time.Hour).Seconds(),
	}
	if s.Late != 5 || s.Lateness != want || s.DeadLetters != 5 || s.Silent() != 0 {
		t.Errorf("counted %+v", s)
	}
	if got := s.Lateness.String(); got != "≤1m 1, ≤5m 2, ≤24h 1, >24h 1" {
		t.Errorf("the histogram reads %q", got)
	}
	var none Lateness
	if got := none.String(); got != "none" {
		t.Errorf("an empty histogram reads %q", got)
	}
}

// TestAhead: accepted fixes that are ahead of their Kafka records are counted by how much, and
// refused ones are not.
func TestAhead(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	p := newTestProcessor(t, o, 0)
	for i, by := range []time.Duration{
		-time.Second, 0, 400 * time.Millisecond, time.Second, 90 * time.Second, time.Hour,
	} {
		fix := servicetest.Sentinel()
		fix.UserID += string(rune('a' + i))
		rec := servicetest.Record(t, int64(i), fix)
		rec.Timestamp = fix.Timestamp - by.Milliseconds()
		servicetest.Process(t, p, rec, nil)
	}
	s, _ := p.Take()
	want := Lateness{Counts: [10]int64{0: 2, 4: 1}, Seconds: 91.4}
	if s.Ahead != want || s.Refusals.Of(schemas.ReasonTimestampAhead) != 1 {
		t.Errorf("%+v, want %+v; refused: %s", s.Ahead, want, s.Refusals.String())
	}
	if got := s.Ahead.String(); got != "≤1s 2, ≤5m 1" {
		t.Errorf("the histogram reads %q", got)
	}
}

// TestSetSizes: each size is in the first bucket whose bound is not below it.
func TestSetSizes(t *testing.T) {
	var s SetSizes
	for _, cells := range []int{1, 2, 3, 5, 500, 501} {
		s.Add(cells)
	}
	want := SetSizes{1, 1, 2, 0, 0, 0, 0, 0, 1, 1}
	if s != want || len(SetBounds) != len(s)-1 || !slices.IsSorted(SetBounds) {
		t.Errorf("%v, want %v", s, want)
	}
}
