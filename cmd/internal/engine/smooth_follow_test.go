package engine

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

// everyFive releases every five steps.
var everyFive = mechanism.Options{Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 5}

// TestSmoothProcessorVersions: where records change to a later version of the model, on the same
// map and on another one, the service says what files say that have all versions.
func TestSmoothProcessorVersions(t *testing.T) {
	t.Parallel()
	one := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	same := servicetest.NeighbourModel(t, servicetest.Town, 1000, 5)
	other := servicetest.NeighbourModel(t, servicetest.Town, 1500, 4)
	later := []*Version{newVersion(t, 40, same), newVersion(t, 90, other)}
	records := sanitizedTopic(t, one, everyFive, 3, 300, later...)
	s := SmoothSettings{Model: one, Scheduled: true, Release: everyFive, LagSteps: 5}
	want, at := smoothedFiles(t, s, records, same, other)
	s.Later = later
	j := newSmoothJob(t, s)
	for _, rec := range records {
		j.process(rec)
	}
	if smoothed, unsmoothed := j.sameAs(t, records, want, at); smoothed < 10*unsmoothed {
		t.Errorf("%d smoothed, %d not", smoothed, unsmoothed)
	}
}

// TestSmoothProcessorUnknownModel: without a schedule a record under another model passes, once,
// behind its user's open block; and so do the records that wait when the config's model is
// replaced. What follows is smoothed when the filter starts again, behind a long gap.
func TestSmoothProcessorUnknownModel(t *testing.T) {
	t.Parallel()
	one := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	two := servicetest.NeighbourModel(t, servicetest.Town, 1500, 4)
	o := everyFive
	o.MaxGap = 3
	records := sanitizedTopic(t, one, o, 1, 240, newVersion(t, 30, two))
	user := string(records[0].Key)
	first := newSmoothJob(t, SmoothSettings{Model: one, Release: o, LagSteps: 5})
	for _, rec := range records {
		first.process(rec)
	}
	smoothed := first.inOrder(t, records)
	if n := smoothed[one.ID()]; n < 30 || smoothed[two.ID()] != 0 || first.open(user) != 0 {
		t.Errorf("of the config's model %d, of another %d are smoothed; %d wait", n,
			smoothed[two.ID()], first.open(user))
	}

	// An instance with the other model takes over while records of the first one wait.
	at := 33
	before := newSmoothJob(t, SmoothSettings{Model: one, Release: o, LagSteps: 5})
	for _, rec := range records[:at] {
		before.process(rec)
	}
	wait := before.open(user)
	after := newSmoothJob(t, SmoothSettings{Model: two, Release: o, LagSteps: 5})
	after.states, after.out = before.states, before.out
	fx := after.process(records[at])
	if wait == 0 || len(fx.Output) != wait+1 || after.open(user) != 0 {
		t.Errorf("%d of %d records pass, and %d wait", len(fx.Output), wait+1, after.open(user))
	}
	for _, rec := range records[at+1:] {
		after.process(rec)
	}
	smoothed = after.inOrder(t, records)
	if smoothed[one.ID()] != at-wait || smoothed[two.ID()] < 40 {
		t.Errorf("smoothed: %v; %d waited", smoothed, wait)
	}
	if passed := after.tally(t).Unsmoothed; passed[0] < int64(wait) || passed[1] > 0 {
		t.Errorf("passed by reason: %v", passed)
	}
}

// tally returns what the first processor has counted.
func (j *smoothJob) tally(t *testing.T) Tally {
	t.Helper()
	tally, _ := j.p.Take()
	return tally
}

// inOrder requires that a single user's records came out once and in their order, up to the open
// ones, and that one which is not smoothed says what it said, to a centimetre. It returns how many
// are smoothed, by model.
func (j *smoothJob) inOrder(t *testing.T, records []task.Record) map[string]int {
	t.Helper()
	user, smoothed := string(records[0].Key), map[string]int{}
	if got := len(j.out[user]) + j.open(user); got != len(records) {
		t.Fatalf("%d records came out or wait, of %d", got, len(records))
	}
	codec := servicetest.NewCodec(t, schemas.Avro)
	for i, m := range j.out[user] {
		r, err := codec.DecodeSanitized(m.Value)
		servicetest.OK(t, err)
		in, err := codec.DecodeSanitized(records[i].Value)
		servicetest.OK(t, err)
		if r.Timestamp != in.Timestamp || m.Timestamp != records[i].Timestamp {
			t.Fatalf("record %d is of %d, want %d", i, r.Timestamp, in.Timestamp)
		}
		if schemas.HasNote(r.Mechanism, schemas.Smoothed) {
			smoothed[r.ModelID]++
			continue
		}
		in.Mechanism = schemas.Noted(in.Mechanism, schemas.Unsmoothed)
		want, got := estimateOf(&in), estimateOf(&r)
		setEstimate(&in, want, true) // a record that waited was rounded
		setEstimate(&r, got, true)
		if in.RadiusM <= 0 || got != want || r != in {
			t.Fatalf("record %d is not smoothed and says\n%+v, want\n%+v", i, r, in)
		}
	}
	return smoothed
}

// TestSmoothProcessorOtherSettings: an instance with other settings takes over states with records
// that wait: each comes out once and in order, whatever the settings are.
func TestSmoothProcessorOtherSettings(t *testing.T) {
	t.Parallel()
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	records := sanitizedTopic(t, model, everyFive, 1, 120)
	base := SmoothSettings{Model: model, Release: everyFive, LagSteps: 5}
	for name, change := range map[string]func(s *SmoothSettings){
		"lag":      func(s *SmoothSettings) { s.LagSteps = 20 },
		"epsilon":  func(s *SmoothSettings) { s.Release.Epsilon = 5 },
		"interval": func(s *SmoothSettings) { s.Release.ReleaseInterval = 3 },
		"between":  func(s *SmoothSettings) { s.Release.Between = mechanism.BetweenSkip },
		"mechanism": func(s *SmoothSettings) {
			s.Release.Mechanism, s.Release.Delta = law.Lattice, .1
		},
		"encoding": func(s *SmoothSettings) { s.Encoding = schemas.JSON },
	} {
		other := base
		change(&other)
		if bytes.Equal(base.Fingerprint(), other.Fingerprint()) ||
			base.Differences(other.Fingerprint()) == "" {
			t.Errorf("%s: the fingerprint is the same", name)
		}
		if name == "encoding" {
			continue
		}
		before, after := newSmoothJob(t, base), newSmoothJob(t, other)
		for _, rec := range records[:33] {
			before.process(rec)
		}
		after.states, after.out = before.states, before.out
		for _, rec := range records[33:] {
			after.process(rec)
		}
		if smoothed := after.inOrder(t, records)[model.ID()]; smoothed < 20 {
			t.Errorf("%s: %d records are smoothed", name, smoothed)
		}
	}
	scheduled := base
	scheduled.Scheduled = true
	if bytes.Equal(base.Fingerprint(), scheduled.Fingerprint()) {
		t.Error("with a schedule the fingerprint is the same")
	}
}

// TestSmoothProcessorBounds: a block closes at MaxWait records, and where the filter goes on over
// more than MaxBack steps, as files have it.
func TestSmoothProcessorBounds(t *testing.T) {
	t.Parallel()
	model := servicetest.NeighbourModel(t, servicetest.Town, 4000, 200) // it never forgets
	rare, far := everyFive, everyFive
	rare.ReleaseInterval = 1 << 20 // one release, as with a budget that is spent
	far.Between, far.ReleaseInterval = mechanism.BetweenSkip, mechanism.MaxBack+50
	for name, one := range map[string]struct {
		release mechanism.Options
		fixes   int
		first   int // the record that closes the first block, from 1
	}{
		"many": {rare, mechanism.MaxWait + 30, mechanism.MaxWait},
		"far":  {far, 5_000, 3},
	} {
		records := sanitizedTopic(t, model, one.release, 1, one.fixes)
		s := SmoothSettings{Model: model, Release: one.release, LagSteps: 1 << 12}
		want, _ := smoothedFiles(t, s, records)
		p := newSmoothJob(t, s).processor()
		var state []byte
		var got []task.Message
		largest, first := 0, 0
		for i, rec := range records {
			fx := servicetest.Process(t, p, rec, state)
			state, got = fx.State, append(got, fx.Output...)
			largest = max(largest, len(state))
			if first == 0 && len(got) > 0 {
				first = i + 1
			}
		}
		if first != one.first {
			t.Fatalf("%s: record %d of %d closes a block, want %d", name, first, len(records),
				one.first)
		}
		if largest > 22<<10 { // some ten bytes a record that waits
			t.Errorf("%s: a state has %d bytes", name, largest)
		}
		codec := servicetest.NewCodec(t, schemas.Avro)
		for i, m := range got {
			r, err := codec.DecodeSanitized(m.Value)
			servicetest.OK(t, err)
			if r != want["vehicle-0"][i] {
				t.Fatalf("%s, record %d: %+v, files %+v", name, i, r, want["vehicle-0"][i])
			}
		}
	}
}

// TestSmoothProcessorEvicts: with more settings in the records than filters are kept, the output is
// that of a processor for each.
func TestSmoothProcessorEvicts(t *testing.T) {
	t.Parallel()
	model := servicetest.NeighbourModel(t, servicetest.Town, 2000, 4)
	codec := servicetest.NewCodec(t, schemas.Avro)
	var users [][]task.Record
	for n := range 2 * maxFilters {
		o := everyFive
		o.Epsilon = 1 + float64(n)/8
		records := sanitizedTopic(t, model, o, 1, 60)
		for i := range records {
			r, err := codec.DecodeSanitized(records[i].Value)
			servicetest.OK(t, err)
			r.UserID = fmt.Sprintf("user-%d", n)
			records[i].Key = []byte(r.UserID)
			records[i].Value, err = codec.AppendSanitized(nil, r)
			servicetest.OK(t, err)
		}
		users = append(users, records)
	}
	s := SmoothSettings{Model: model, Release: everyFive, LagSteps: 5}
	together, most := newSmoothJob(t, s), 0
	for i := range users[0] {
		for _, records := range users {
			together.process(records[i])
			most = max(most, together.p.replayer.Filters())
		}
	}
	if most > 2*maxFilters {
		t.Errorf("%d filters at once", most)
	}
	for _, records := range users {
		alone, user := newSmoothJob(t, s), string(records[0].Key)
		for _, rec := range records {
			alone.process(rec)
		}
		servicetest.RequireEqual(t, user, servicetest.Effects{Output: together.out[user]},
			servicetest.Effects{Output: alone.out[user]})
		if len(alone.out[user]) < 30 {
			t.Errorf("%s: %d records came out", user, len(alone.out[user]))
		}
	}
}

// TestSmoothProcessorHalfKnownBlock: where a block began under a model that the config does not
// have any more, and goes on under one that it has, its records pass when it closes, each once.
func TestSmoothProcessorHalfKnownBlock(t *testing.T) {
	t.Parallel()
	one := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	same := servicetest.NeighbourModel(t, servicetest.Town, 1000, 5)
	later := newVersion(t, 17, same)
	records := sanitizedTopic(t, one, everyFive, 1, 120, later)
	codec := servicetest.NewCodec(t, schemas.Avro)
	at := slices.IndexFunc(records, func(rec task.Record) bool {
		r, err := codec.DecodeSanitized(rec.Value)
		servicetest.OK(t, err)
		return r.ModelID == same.ID()
	}) + 1
	before := newSmoothJob(t, SmoothSettings{
		Model: one, Later: []*Version{later}, Scheduled: true, Release: everyFive, LagSteps: 5,
	})
	for _, rec := range records[:at] {
		before.process(rec)
	}
	wait := before.open(string(records[0].Key))
	after := newSmoothJob(t, SmoothSettings{Model: same, Release: everyFive, LagSteps: 5})
	after.states, after.out = before.states, before.out
	for _, rec := range records[at:] {
		after.process(rec)
	}
	smoothed := after.inOrder(t, records)
	if passed := after.tally(t).Unsmoothed; wait < 2 || passed[0] < int64(wait) ||
		passed[1]+passed[2] > 0 || smoothed[one.ID()] != at-wait || smoothed[same.ID()] < 40 {
		t.Errorf("%d waited, %v passed by reason, smoothed %v of the first %d", wait, passed,
			smoothed, at)
	}
}
