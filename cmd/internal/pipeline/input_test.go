package pipeline

import (
	"bytes"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// fixAt is the sentinel's, at a place given in cells of a model's map from its
// south-west corner.
func fixAt(m *mobility.Model, column, row float64) schemas.Raw {
	fix := sentinel()
	side := m.Grid.CellKM()
	fix.Latitude, fix.Longitude = m.Grid.ToDegrees(grid.Point{X: column * side, Y: row * side})
	return fix
}

// TestFixesOutsideTheMap: a fix within one cell of the map counts as in the nearest
// cell; one further away is a dead letter unless it is to be clamped, and changes
// nothing: what follows is as if it had not been there.
func TestFixesOutsideTheMap(t *testing.T) {
	model := neighbourModel(t, town, 1000, 4)
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
				o := testOptions(t, model)
				o.Input.Outside = policy
				p := newTestProcessor(t, o, 0)
				state := process(t, p, record(t, 0, sentinel()), nil).state
				p.tally = Tally{}
				fix := fixAt(model, c.column, c.row)
				fix.Timestamp += 60_000
				got := process(t, p, record(t, 1, fix), state)
				want := Tally{OutsideClamped: 1}
				switch {
				case c.far && policy != OutsideClamp:
					want = Tally{OutsideRefused: 1}
					letter := got.letter(t, schemas.Avro)
					if letter.Reason != schemas.ReasonOutsideMap || letter.Offset != 1 {
						t.Errorf("the dead letter is %+v", letter)
					}
					secrets := append(coordinateSecrets(fix, model.Grid), userSecrets(fix.UserID)...)
					requireNoLeak(t, "the dead letter", got.dead[0].Value, secrets)
				case !c.outside:
					want = Tally{}
					got.sanitized(t, schemas.Avro)
				default: // the same as in the nearest cell
					nearest := fix
					centre := model.Grid.Centre(model.Grid.Locate(fix.Latitude, fix.Longitude))
					nearest.Latitude, nearest.Longitude = model.Grid.ToDegrees(centre)
					requireEqual(t, "the clamped fix", process(t, newTestProcessor(t, o, 0), record(t, 1, nearest), state), got)
				}
				if p.tally.OutsideClamped != want.OutsideClamped || p.tally.OutsideRefused != want.OutsideRefused {
					t.Errorf("counted are %d clamped and %d refused", p.tally.OutsideClamped, p.tally.OutsideRefused)
				}
			})
		}
	}
}

// TestLateComesBeforeOutside: whether a fix is late is known without its place, so a late
// fix outside the map says the same as one inside, and is not counted as outside.
func TestLateComesBeforeOutside(t *testing.T) {
	model := neighbourModel(t, town, 1000, 4)
	p := newTestProcessor(t, testOptions(t, model), 0)
	state := process(t, p, record(t, 0, sentinel()), nil).state
	fix := fixAt(model, 205, 5.5)
	fix.Timestamp -= 60_000
	if got := process(t, p, record(t, 1, fix), state).letter(t, schemas.Avro); got.Reason != schemas.ReasonLate {
		t.Errorf("refused as %s", got.Reason)
	}
	if p.tally.OutsideRefused != 0 || p.tally.Late != 1 {
		t.Errorf("tally %+v", p.tally)
	}
}

// TestOutsideWhichMap: the map that counts is that of the version chosen for the fix. A
// fix that is refused does not bring the user's state to that version.
func TestOutsideWhichMap(t *testing.T) {
	north := town
	north.South, north.North = town.North+.5, town.North+.7
	one, two := neighbourModel(t, town, 1000, 4), neighbourModel(t, north, 1000, 4)
	p := newTestProcessor(t, testOptions(t, one), 0)
	p.Use(FromTheStart([]*Version{newVersion(t, 10, two)}))
	inOne, inTwo := fixAt(one, 5.5, 5.5), fixAt(two, 5.5, 5.5)
	step := func(fix schemas.Raw, n int64) schemas.Raw {
		fix.Timestamp = startMS + n*60_000
		return fix
	}
	state := process(t, p, record(t, 0, step(inOne, 1)), nil).state
	for name, c := range map[string]struct {
		fix     schemas.Raw
		refused bool
	}{
		"on the first map, in its time":    {step(inOne, 9), false},
		"on the second map, before it":     {step(inTwo, 9), true},
		"on the second map, in its time":   {step(inTwo, 10), false},
		"on the first map, after its time": {step(inOne, 10), true},
	} {
		got := process(t, p, record(t, 1, c.fix), state)
		if c.refused {
			if letter := got.letter(t, schemas.Avro); letter.Reason != schemas.ReasonOutsideMap {
				t.Errorf("%s: refused as %s", name, letter.Reason)
			}
			continue
		}
		got.sanitized(t, schemas.Avro)
	}
	// A file's states are kept in memory, so that a refused fix could leave a mark on one.
	engine, err := NewEngine(Settings{Model: one, Key: testKey, Release: testRelease})
	ok(t, err)
	ok(t, engine.Follow([]*Version{newVersion(t, 10, two)}))
	if err := p.state.DecodeBinary(state); err != nil {
		t.Fatal(err)
	}
	if _, _, err := engine.Sanitize(step(inOne, 10), &p.state); err == nil {
		t.Error("a fix outside the map is sanitized")
	}
	if !bytes.Equal(p.state.AppendBinary(nil), state) {
		t.Error("a refused fix changes the state")
	}
}

// TestSwapped: fixes outside the map are held against it with latitude and longitude
// swapped; those on it are not.
func TestSwapped(t *testing.T) {
	model := neighbourModel(t, town, 1000, 4)
	for name, c := range map[string]struct {
		policy string
		change func(*schemas.Raw)
		want   int64
	}{
		"swapped":            {"", func(f *schemas.Raw) { f.Latitude, f.Longitude = f.Longitude, f.Latitude }, 1},
		"swapped, clamped":   {OutsideClamp, func(f *schemas.Raw) { f.Latitude, f.Longitude = f.Longitude, f.Latitude }, 1},
		"elsewhere":          {"", func(f *schemas.Raw) { f.Latitude, f.Longitude = 48, 11 }, 0},
		"where it should be": {"", func(*schemas.Raw) {}, 0},
	} {
		o := testOptions(t, model)
		o.Input.Outside = c.policy
		p := newTestProcessor(t, o, 0)
		fix := sentinel()
		c.change(&fix)
		process(t, p, record(t, 0, fix), nil)
		if p.tally.OutsideSwapped != c.want {
			t.Errorf("%s: counted %d", name, p.tally.OutsideSwapped)
		}
	}
}

// TestLatePolicy: a late fix is a dead letter, or, if it is to be dropped, nothing but a
// number; either way it changes no state and its lateness is counted.
func TestLatePolicy(t *testing.T) {
	for _, policy := range []string{"", LateDeadLetter, LateDrop} {
		o := testOptions(t, neighbourModel(t, town, 1000, 4)).WithDefaults()
		o.Input.Late, o.Partitioner = policy, AnyPartitioner
		p := newTestProcessor(t, o, 0)
		state := process(t, p, record(t, 0, sentinel()), nil).state
		for i, by := range []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 7 * time.Hour, 25 * time.Hour} {
			fix := sentinel()
			fix.Timestamp -= by.Milliseconds()
			got := process(t, p, record(t, int64(i+1), fix), state)
			if policy != LateDrop {
				if letter := got.letter(t, schemas.Avro); letter.Reason != schemas.ReasonLate {
					t.Errorf("%s: refused as %s", policy, letter.Reason)
				}
			} else if len(got.output)+len(got.dead)+len(got.state) > 0 {
				t.Errorf("%s: a late fix leaves something", policy)
			}
		}
		s, _ := p.Take()
		want := Lateness{Counts: [7]int64{1, 2, 0, 0, 0, 1, 1}, Seconds: (8*time.Minute + 32*time.Hour).Seconds()}
		if s.Late != 5 || s.Lateness != want {
			t.Errorf("%s: %d late, %+v", policy, s.Late, s.Lateness)
		}
		dropped := int64(0)
		if policy == LateDrop {
			dropped = 5
		}
		if s.LateDropped != dropped || s.DeadLetters != 5-dropped || s.Silent() != dropped || s.RecordsIn != s.RecordsOut+s.DeadLetters+s.Silent() {
			t.Errorf("%s: counted %+v", policy, s)
		}
		if got := s.Lateness.String(); got != "≤1m 1, ≤5m 2, ≤24h 1, >24h 1" {
			t.Errorf("the histogram reads %q", got)
		}
	}
	var none Lateness
	if got := none.String(); got != "none" {
		t.Errorf("an empty histogram reads %q", got)
	}
}
