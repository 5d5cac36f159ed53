package engine

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// TestBoundsOfTime: what is just within them is published.
func TestBoundsOfTime(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	o.MaxAhead = 30 * time.Second
	p := newTestProcessor(t, o, 0)
	for _, c := range []struct {
		name       string
		kafka, fix int64
		reason     schemas.Reason // "" for none
	}{
		{"at the bound", servicetest.StartMS, servicetest.StartMS + 30_000, ""},
		{
			"beyond the bound", servicetest.StartMS, servicetest.StartMS + 30_001,
			schemas.ReasonTimestampAhead,
		},
		{"long before the Kafka timestamp", servicetest.StartMS, schemas.FirstGPSMS + 1, ""},
		{"before GPS time", servicetest.StartMS, schemas.FirstGPSMS, schemas.ReasonBeforeGPS},
		{"without a Kafka timestamp", -1, servicetest.StartMS, schemas.ReasonNoRecordTime},
		{"Kafka's first moment", 0, 30_000, schemas.ReasonBeforeGPS},
		{"beyond Kafka's first moment", 0, 30_001, schemas.ReasonTimestampAhead},
		{"Kafka's last moment", math.MaxInt64, servicetest.StartMS, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			fix := servicetest.Sentinel()
			fix.Timestamp = c.fix
			rec := servicetest.Record(t, 5, fix)
			rec.Timestamp = c.kafka
			got := servicetest.Process(t, p, rec, nil)
			if c.reason != "" {
				if letter := got.Letter(t, schemas.Avro); letter.Reason != c.reason {
					t.Errorf("refused as %s", letter.Reason)
				}
				return
			}
			if s := got.Sanitized(t, schemas.Avro); s.Timestamp != c.fix ||
				got.Output[0].Timestamp != c.kafka {
				t.Errorf("timestamps %d and %d", s.Timestamp, got.Output[0].Timestamp)
			}
		})
	}
}

// TestAnyAhead: max_ahead: off takes records without a Kafka timestamp, and times that no clock of
// today has; one before GPS is refused as always.
func TestAnyAhead(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	o.MaxAhead = AnyAhead
	p := newTestProcessor(t, o, 0)
	for _, c := range []struct {
		kafka, fix int64
		reason     schemas.Reason // "" for none
	}{
		{-1, servicetest.StartMS, ""},
		{servicetest.StartMS, servicetest.StartMS * 3, ""},
		{-1, schemas.FirstGPSMS, schemas.ReasonBeforeGPS},
	} {
		fix := servicetest.Sentinel()
		fix.Timestamp = c.fix
		rec := servicetest.Record(t, 5, fix)
		rec.Timestamp = c.kafka
		got := servicetest.Process(t, p, rec, nil)
		if c.reason == "" {
			if s := got.Sanitized(t, schemas.Avro); s.Timestamp != c.fix {
				t.Errorf("%d at %d: published with %d", c.fix, c.kafka, s.Timestamp)
			}
		} else if letter := got.Letter(t, schemas.Avro); letter.Reason != c.reason {
			t.Errorf("%d at %d: refused as %s", c.fix, c.kafka, letter.Reason)
		}
	}
}

// TestPublished: every field of the sanitized record says what it should, step
// after step, in both encodings.
func TestPublished(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	for _, encoding := range []schemas.Encoding{schemas.Avro, schemas.JSON} {
		o := testSettings(t, model)
		o.SanitizedEncoding = encoding
		o.Release.Mechanism = law.Laplace
		p := newTestProcessor(t, o, 0)
		var state []byte
		for i := range int64(20) {
			fix := servicetest.Sentinel()
			fix.Timestamp += i * 60_000
			rec := servicetest.Record(t, i, fix)
			rec.Timestamp = fix.Timestamp + 777
			got := servicetest.Process(t, p, rec, state)
			s := got.Sanitized(t, encoding)
			m := got.Output[0]
			if string(m.Key) != fix.UserID || m.Timestamp != rec.Timestamp {
				t.Fatalf("key %q, timestamp %d", m.Key, m.Timestamp)
			}
			requirePublic(t, s, fix, o, i+1)
			requireOfState(t, s, got.State, o)
			state = got.State
		}
	}
}

// requirePublic holds one record against its fix and the options.
func requirePublic(t *testing.T, s schemas.Sanitized, fix schemas.Raw, o Settings, release int64) {
	t.Helper()
	g := o.Model.Grid
	want := s // the numbers that noise decides are looked at below
	want.UserID, want.Timestamp, want.Epsilon, want.Delta = fix.UserID, fix.Timestamp,
		o.Release.Epsilon, o.Release.Delta
	want.Mechanism, want.ModelID, want.Step, want.Release, want.Kind = o.Release.Mechanism,
		o.Model.ID(), fix.Timestamp/60_000, release, schemas.KindReleased
	if s != want {
		t.Errorf("record %d has a wrong field: got %+v, want %+v", release, s, want)
	}
	if !g.Contains(s.Latitude, s.Longitude) {
		t.Errorf("the estimate of record %d lies off the map", release)
	}
	diagonalM := 1000 * g.CellKM() * math.Hypot(float64(g.Width()), float64(g.Height()))
	if !(s.RadiusM >= 0 && s.RadiusM <= diagonalM) {
		t.Errorf("record %d has a radius of %v m", release, s.RadiusM)
	}
	if s.ReleaseLatitude.Number == fix.Latitude || s.ReleaseLongitude.Number == fix.Longitude ||
		s.Latitude == fix.Latitude || s.Longitude == fix.Longitude {
		t.Errorf("record %d releases a true coordinate", release)
	}
}

// requireOfState: release, estimate and radius are those of the state that is
// stored beside the record, and so public as it is.
func requireOfState(t *testing.T, s schemas.Sanitized, stored []byte, o Settings) {
	t.Helper()
	var state mechanism.State
	servicetest.OK(t, state.DecodeBinary(stored))
	var estimator mechanism.Estimator
	mean, radiusKM := estimator.Estimate(o.Model.Grid, &state.Posterior)
	lat, lon := o.Model.Grid.ToDegrees(state.Release)
	meanLat, meanLon := o.Model.Grid.ToDegrees(mean)
	if s.ReleaseLatitude != schemas.Some(lat) || s.ReleaseLongitude != schemas.Some(lon) {
		t.Error("the release is not the state's")
	}
	if s.Latitude != meanLat || s.Longitude != meanLon || s.RadiusM != 1000*radiusKM {
		t.Error("the estimate is not that of the state's posterior")
	}
	ellipse := mechanism.EllipseOf(o.Model.Grid, &state.Posterior)
	if s.SigmaMajorM != schemas.Some(1000*ellipse.MajorKM) ||
		s.SigmaMinorM != schemas.Some(1000*ellipse.MinorKM) ||
		s.AzimuthDeg != schemas.Some(ellipse.AzimuthDeg) {
		t.Error("the ellipse is not that of the state's posterior")
	}
	if state.Releases != uint64(s.Release) || state.Step != s.Step ||
		math.Abs(state.EpsilonSpent-float64(s.Release)*o.Release.Epsilon) > 1e-9 {
		t.Errorf("the state counts %d releases and ε %v at step %d",
			state.Releases, state.EpsilonSpent, state.Step)
	}
}

// TestRepeatsAndLateRecords: a second fix in a step repeats the release at no
// cost and leaves the state alone; one of an earlier step is a dead letter.
func TestRepeatsAndLateRecords(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	p := newTestProcessor(t, o, 0)
	fix := servicetest.Sentinel()
	first := servicetest.Process(t, p, servicetest.Record(t, 0, fix), nil)
	released := first.Sanitized(t, schemas.Avro)

	again := fix
	again.Timestamp += 30_000
	// another place: no new release all the same
	again.Latitude, again.Longitude = servicetest.Town.South+.01, servicetest.Town.East-.01
	second := servicetest.Process(t, p, servicetest.Record(t, 1, again), first.State)
	if len(second.State) != 0 {
		t.Error("a repeat changes the state")
	}
	want := released
	want.Timestamp, want.Epsilon, want.Kind = again.Timestamp, 0, schemas.KindRepeated
	if got := second.Sanitized(t, schemas.Avro); got != want {
		t.Errorf("the repeat is %+v, want %+v", got, want)
	}

	late := fix
	late.Timestamp = servicetest.StartMS - 1
	if got := servicetest.Process(t, p, servicetest.Record(t, 2, late),
		first.State).Letter(t, schemas.Avro); got.Reason != schemas.ReasonLate || got.Offset != 2 {
		t.Errorf("late: %+v", got)
	}
	booked, next := p.Take()
	if booked.SetCells < 1 {
		t.Error("the size of the location set is not counted")
	}
	var sizes SetSizes
	sizes.Add(int(booked.SetCells)) // of the one release
	if booked.Sets != sizes {
		t.Errorf("the sizes of location sets are %v, want %v", booked.Sets, sizes)
	}
	booked.SetCells, booked.Drifts, booked.Sets = 0, 0, SetSizes{}
	if booked != (Tally{
		RecordsIn: 3, RecordsOut: 2, DeadLetters: 1, Releases: 1, Repeats: 1, Late: 1, Epsilon: 1,
		Lateness: booked.Lateness, Refusals: booked.Refusals,
	}) || booked.Lateness.Counts[3] != 1 || booked.Refusals.String() != "late 1" || next != 3 {
		t.Errorf("tally %+v", booked)
	}
}

// TestDeterminism: the bytes are a function of record, state, model, key and
// options, whatever the processor did before; and each of them matters.
func TestDeterminism(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	base := testSettings(t, model)
	p := newTestProcessor(t, base, 0)
	first := servicetest.Process(t, p, servicetest.Record(t, 0, servicetest.Sentinel()), nil)
	fix := servicetest.Sentinel()
	fix.Timestamp += 120_000
	rec := servicetest.Record(t, 9, fix)
	want := servicetest.Process(t, p, rec, first.State)
	for range 3 { // from the same state, with others in between
		other := servicetest.Sentinel()
		other.UserID = "somebody"
		servicetest.Process(t, p, servicetest.Record(t, 8, other), nil)
		servicetest.RequireEqual(t, "the same record", want,
			servicetest.Process(t, p, rec, first.State))
	}
	moved := rec
	moved.Offset += 100
	servicetest.RequireEqual(t, "the record at another offset",
		want, servicetest.Process(t, newTestProcessor(t, base, 3), moved, first.State))

	for name, change := range map[string]func(*Settings){
		"key":     func(o *Settings) { o.Key = noise.KeyFromSeed(2) },
		"epsilon": func(o *Settings) { o.Release.Epsilon = 1.01 },
		"delta":   func(o *Settings) { o.Release.Delta = .02 },
		"model": func(o *Settings) {
			o.Model = servicetest.NeighbourModel(t, servicetest.Town, 1000, 5)
		},
		"grid": func(o *Settings) {
			o.Model = servicetest.NeighbourModel(t, servicetest.Town, 900, 4)
		},
		"law": func(o *Settings) { o.Release.Mechanism = law.LaplaceTight },
	} {
		o := base
		change(&o)
		s := servicetest.Process(t, newTestProcessor(t, o, 0), rec,
			first.State).Sanitized(t, schemas.Avro)
		if was := want.Sanitized(t, schemas.Avro); s.Latitude == was.Latitude ||
			s.Longitude == was.Longitude {
			t.Errorf("another %s gives the same release", name)
		}
	}
	user := fix
	user.UserID = "user-canary-7732"
	s := servicetest.Process(t, p, servicetest.Record(t, 9, user),
		first.State).Sanitized(t, schemas.Avro)
	if was := want.Sanitized(t, schemas.Avro); s.Latitude == was.Latitude {
		t.Error("another user has the same noise")
	}
}

// TestBeyondTheCellNothingMatters: two fixes in one cell give the same bytes, so
// that nothing finer than the cell, nor the accuracy, can be in any of them. And
// two cells with one surrogate give the same bytes, though one of them is true.
func TestBeyondTheCellNothingMatters(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	p := newTestProcessor(t, testSettings(t, model), 0)
	state := servicetest.Process(t, p, servicetest.Record(t, 0, servicetest.Sentinel()), nil).State
	at := func(column, row int, dx, dy float64) servicetest.Effects {
		centre := model.Grid.Centre(grid.Cell(row*model.Grid.Width() + column))
		fix := servicetest.Sentinel()
		fix.Latitude, fix.Longitude = model.Grid.ToDegrees(
			grid.Point{X: centre.X + dx, Y: centre.Y + dy})
		fix.Timestamp += 60_000
		fix.AccuracyM = nil
		return servicetest.Process(t, p, servicetest.Record(t, 1, fix), state)
	}
	centre := at(9, 11, 0, 0)
	servicetest.RequireEqual(t, "a fix in the cell's corner", centre, at(9, 11, .4, -.4))
	west := at(0, 11, 0, 0)
	servicetest.RequireEqual(t, "a cell of the same surrogate", west, at(1, 11, 0, 0))
	if bytes.Equal(centre.Output[0].Value, west.Output[0].Value) {
		t.Error("the place does not matter at all")
	}
}

// TestCorruptState: a state that cannot be read ends the task with an error that
// names the place and nobody, and says what to do.
func TestCorruptState(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	p := newTestProcessor(t, testSettings(t, model), 5)
	good := servicetest.Process(t, p, servicetest.Record(t, 0, servicetest.Sentinel()), nil).State
	rec := servicetest.Record(t, 8123, servicetest.Sentinel())
	rec.Timestamp += 60_000
	small := newTestProcessor(
		t, testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)), 5)
	foreign := mechanism.State{}
	if err := foreign.DecodeBinary(good); err != nil {
		t.Fatal(err)
	}
	var donor mechanism.State
	if err := donor.DecodeBinary(servicetest.Process(t, small,
		servicetest.Record(t, 0, servicetest.Sentinel()), nil).State); err != nil {
		t.Fatal(err)
	}
	// cells of a larger grid under a smaller one's name
	donor.Posterior.CopyFrom(&foreign.Posterior)
	for name, c := range map[string]struct {
		p     *Processor
		state []byte
	}{
		"version":   {p, append([]byte{9}, good[1:]...)},
		"cut":       {p, good[:len(good)/2]},
		"trailing":  {p, append(slices.Clone(good), 1)},
		"garbage":   {p, []byte("user-canary-7731 53.40718281828459")},
		"misplaced": {small, donor.AppendBinary(nil)},
	} {
		var fx task.Effects
		err := c.p.Process(rec, c.state, &fx)
		if !errors.Is(err, mechanism.ErrState) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(fx.Output)+len(fx.DeadLetters)+len(fx.State) != 0 {
			t.Errorf("%s: something is written", name)
		}
		for _, part := range []string{
			"partition 5", "offset 8123", "run doctor", "geodither state reset",
		} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", name, err, part)
			}
		}
		secrets := append(servicetest.CoordinateSecrets(servicetest.Sentinel(), model.Grid),
			servicetest.UserSecrets(servicetest.Sentinel().UserID)...)
		servicetest.RequireNoLeak(t, "the error", []byte(err.Error()), secrets)
		// A bad record is refused without a look at the state.
		bad := rec
		bad.Value = bad.Value[:20]
		servicetest.Process(t, c.p, bad, c.state).Letter(t, schemas.Avro)
	}
}
