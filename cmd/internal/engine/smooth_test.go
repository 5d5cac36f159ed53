package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// sanitizedTopic returns the records that a service writes of vehicles: a fix every half step, with
// gaps now and then.
func sanitizedTopic(
	tb testing.TB, model *mobility.Model, o mechanism.Options, vehicles, fixes int,
	later ...*Version,
) (records []task.Record) {
	tb.Helper()
	s := testSettings(tb, model)
	s.Release = o
	s.Later = later
	p := newTestProcessor(tb, s, 0)
	random, codec := rand.New(rand.NewPCG(1, 2)), servicetest.NewCodec(tb, schemas.Avro)
	states, late := make([][]byte, vehicles), make([]int64, vehicles)
	var fx task.Effects
	for i := range fixes {
		for v := range vehicles {
			fix := servicetest.Sentinel()
			fix.UserID = fmt.Sprintf("vehicle-%d", v)
			if random.IntN(40) == 0 {
				late[v] += random.Int64N(50)
			}
			fix.Timestamp = servicetest.StartMS + (int64(i)/2+late[v])*60_000 + int64(i)%2*20_000
			rec := task.Record{Offset: int64(len(records)), Key: []byte(fix.UserID)}
			rec.Timestamp = fix.Timestamp + random.Int64N(900)
			var err error
			rec.Value, err = codec.AppendRaw(nil, fix)
			servicetest.OK(tb, err)
			fx = task.Effects{}
			servicetest.OK(tb, p.Process(rec, states[v], &fx))
			if len(fx.State) > 0 {
				states[v] = bytes.Clone(fx.State)
			}
			for _, m := range fx.Output {
				records = append(records, task.Record{
					Offset: int64(len(records)), Timestamp: m.Timestamp,
					Key: bytes.Clone(m.Key), Value: bytes.Clone(m.Value),
				})
			}
		}
	}
	return records
}

// smoothJob processes records as a task does, and a retry of each by another processor, which keeps
// no block in memory.
type smoothJob struct {
	tb       testing.TB
	settings SmoothSettings
	p, retry *SmoothProcessor
	states   map[string][]byte
	out      map[string][]task.Message
}

func newSmoothJob(tb testing.TB, s SmoothSettings) *smoothJob {
	tb.Helper()
	j := &smoothJob{
		tb: tb, settings: s, states: map[string][]byte{}, out: map[string][]task.Message{},
	}
	j.p, j.retry = j.processor(), j.processor()
	return j
}

func (j *smoothJob) processor() *SmoothProcessor {
	j.tb.Helper()
	p, err := NewSmoothProcessor(j.settings, Partition{"sanitized", 0, 1})
	servicetest.OK(j.tb, err)
	return p
}

func (j *smoothJob) process(rec task.Record) servicetest.Effects {
	j.tb.Helper()
	key, err := j.p.Key(rec)
	servicetest.OK(j.tb, err)
	state := j.states[string(key)]
	fx := servicetest.Process(j.tb, j.p, rec, state)
	j.retry.blocks.clear()
	servicetest.RequireEqual(j.tb, "a retry", fx, servicetest.Process(j.tb, j.retry, rec, state))
	if len(fx.State) > 0 {
		j.states[string(key)] = fx.State
	}
	for _, m := range fx.Output {
		j.out[string(m.Key)] = append(j.out[string(m.Key)], m)
	}
	return fx
}

// smoothedFiles returns what "geodither smooth" makes of records, by user, with the offset of each.
func smoothedFiles(
	tb testing.TB, s SmoothSettings, records []task.Record, later ...*mobility.Model,
) (out map[string][]schemas.Sanitized, at map[string][]int) {
	tb.Helper()
	out, at = map[string][]schemas.Sanitized{}, map[string][]int{}
	codec := servicetest.NewCodec(tb, schemas.Avro)
	type kept struct {
		record schemas.Sanitized
		at     int
	}
	smoothing, err := aggregate.NewSmoothing(aggregate.SmoothOptions{
		Read: aggregate.ReadOptions{
			Models: append(aggregate.Models{s.Model}, later...), Release: s.Release,
		},
		LagSteps: s.LagSteps,
	}, func(k kept, past *aggregate.Past) error {
		SetPast(&k.record, past)
		out[k.record.UserID] = append(out[k.record.UserID], k.record)
		at[k.record.UserID] = append(at[k.record.UserID], k.at)
		return nil
	})
	servicetest.OK(tb, err)
	defer smoothing.Close()
	for i, rec := range records {
		r, err := codec.DecodeSanitized(rec.Value)
		servicetest.OK(tb, err)
		servicetest.OK(tb, smoothing.Add(Published(r, ""), kept{r, i}))
	}
	_, err = smoothing.Finish()
	servicetest.OK(tb, err)
	return out, at
}

// TestSmoothProcessorIsSmoothing: record for record, the service says what files say, up to the
// open block, and to the last record where it knows that the topic is whole; under each mechanism,
// with reports that leave no record, with a missing record and with one that lacks its release, and
// with room in memory for all blocks or for two.
func TestSmoothProcessorIsSmoothing(t *testing.T) {
	t.Parallel()
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	lattice := mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05, ReleaseInterval: 5}
	codebook := mechanism.Options{Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 5}
	hiding := codebook
	hiding.Between = mechanism.BetweenSkip
	every := codebook
	every.ReleaseInterval = 1
	for name, o := range map[string]mechanism.Options{
		"lattice": lattice, "codebook": codebook, "hiding": hiding, "every step": every,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := SmoothSettings{Model: model, Release: o, LagSteps: int64(o.ReleaseInterval)}
			records := sanitizedTopic(t, model, o, 5, 160)
			records = damaged(t, records)
			want, at := smoothedFiles(t, s, records)
			j := newSmoothJob(t, s)
			kept := 0
			for i, rec := range records {
				j.process(rec)
				kept = max(kept, len(j.p.blocks.users))
				if i == len(records)/2 {
					kept, j.p.blocks.most = 0, 2*j.p.blocks.bytes/len(want) // room for two
				}
				if b := &j.p.blocks; i > len(records)/2+len(want) && b.bytes > b.most {
					t.Fatalf("after record %d blocks have %d bytes, %d at most", i, b.bytes, b.most)
				}
			}
			if kept == 0 || kept == len(want) {
				t.Errorf("with room for two, the blocks of %d users are kept", kept)
			}
			smoothed, unsmoothed := j.sameAs(t, records, want, at)
			tally, next := j.p.Take()
			// The reasons: one release is not there, and what follows it or a missing one.
			passed := tally.Unsmoothed
			if tally.RecordsOut != int64(smoothed+unsmoothed) || smoothed < 3*unsmoothed ||
				passed[0] != 0 || passed[1] != 1 || passed[2] == 0 ||
				passed[1]+passed[2] != int64(unsmoothed) ||
				next != records[len(records)-1].Offset+1 {
				t.Errorf("%d smoothed, %d not; %+v, next %d", smoothed, unsmoothed, tally, next)
			}

			last, whole := map[string]int64{}, s
			for _, rec := range records {
				last[string(rec.Key)] = rec.Offset
			}
			whole.Ends = []End{{Last: map[int64]bool{}}}
			for _, offset := range last {
				whole.Ends[0].Last[offset] = true
				whole.Ends[0].Next = max(whole.Ends[0].Next, offset+1)
			}
			j = newSmoothJob(t, whole)
			for _, rec := range records {
				j.process(rec)
			}
			j.sameAs(t, records, want, at)
			for user := range want {
				if n := j.open(user); n > 0 {
					t.Errorf("at the end %d records of %s wait", n, user)
				}
			}
			longer := s
			longer.Ends = []End{{Next: whole.Ends[0].Next + 1}}
			if is := whole.Fingerprint(); bytes.Equal(is, s.Fingerprint()) ||
				bytes.Equal(is, longer.Fingerprint()) {
				t.Error("two that write other records have one fingerprint")
			}
		})
	}
}

// sameAs requires that the job has written what files say of the records, up to each user's open
// block, and at least half of it.
func (j *smoothJob) sameAs(
	t *testing.T, records []task.Record, want map[string][]schemas.Sanitized, at map[string][]int,
) (smoothed, unsmoothed int) {
	t.Helper()
	codec := servicetest.NewCodec(t, schemas.Avro)
	for user, all := range want {
		got, open := j.out[user], j.open(user)
		if len(got)+open != len(all) || 2*len(got) < len(all) {
			t.Fatalf("%s: %d records and %d open, want %d in all", user, len(got), open, len(all))
		}
		for i, m := range got {
			r, err := codec.DecodeSanitized(m.Value)
			servicetest.OK(t, err)
			if r != all[i] || m.Timestamp != records[at[user][i]].Timestamp {
				t.Fatalf("%s, record %d:\n%+v at %d, files\n%+v", user, i, r, m.Timestamp, all[i])
			}
			if schemas.HasNote(r.Mechanism, schemas.Smoothed) {
				smoothed++
			} else {
				unsmoothed++
			}
		}
	}
	return smoothed, unsmoothed
}

// open returns how many records of a user wait.
func (j *smoothJob) open(user string) int {
	j.tb.Helper()
	var s smoothState
	servicetest.OK(j.tb, s.DecodeBinary(j.states[user], 60_000))
	return len(s.open)
}

// damaged leaves out a release of one vehicle, and the place of a release of another one.
func damaged(t *testing.T, records []task.Record) []task.Record {
	t.Helper()
	codec := servicetest.NewCodec(t, schemas.Avro)
	missing, blank := 0, 0
	var all []task.Record
	for i, rec := range records {
		r, err := codec.DecodeSanitized(rec.Value)
		servicetest.OK(t, err)
		if late := i > len(records)*3/4 && r.Kind == schemas.KindReleased; late {
			switch {
			case missing == 0 && r.UserID == "vehicle-1":
				missing++
				continue
			case blank == 0 && r.UserID == "vehicle-2":
				blank++
				r.ReleaseLatitude, r.ReleaseLongitude = schemas.Nullable{}, schemas.Nullable{}
				rec.Value, err = codec.AppendSanitized(nil, r)
				servicetest.OK(t, err)
			}
		}
		all = append(all, rec)
	}
	return all
}

// TestSmoothProcessorRefuses: damaged records are dead letters and change no state.
func TestSmoothProcessorRefuses(t *testing.T) {
	t.Parallel()
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	o := mechanism.Options{Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 5}
	records := sanitizedTopic(t, model, o, 1, 60)
	j := newSmoothJob(t, SmoothSettings{Model: model, Release: o, LagSteps: 5})
	for _, rec := range records {
		j.process(rec)
	}
	codec := servicetest.NewCodec(t, schemas.Avro)
	last := records[len(records)-1]
	changed := func(change func(r *schemas.Sanitized)) task.Record {
		rec := last
		r, err := codec.DecodeSanitized(rec.Value)
		servicetest.OK(t, err)
		change(&r)
		rec.Value, err = codec.AppendSanitized(nil, r)
		servicetest.OK(t, err)
		return rec
	}
	tombstone, other := last, last
	tombstone.Value, other.Key = nil, []byte("somebody")
	for _, one := range []struct {
		rec    task.Record
		reason schemas.Reason
	}{
		{tombstone, schemas.ReasonEmpty},
		{other, schemas.ReasonKeyMismatch},
		{records[0], schemas.ReasonLate},
		{changed(func(r *schemas.Sanitized) { r.Kind = "hovered" }), schemas.ReasonMalformed},
		{changed(func(r *schemas.Sanitized) { r.Release = -1 }), schemas.ReasonMalformed},
		{changed(func(r *schemas.Sanitized) {
			r.Mechanism = schemas.Noted(r.Mechanism, schemas.Smoothed)
		}), schemas.ReasonMalformed},
	} {
		if got := j.process(one.rec).Letter(t, schemas.Avro); got.Reason != one.reason {
			t.Errorf("%s, want %s", got.Reason, one.reason)
		}
	}
}

// TestSmoothEraser: nothing remains of a user, whose later records pass unsmoothed, each once,
// until the filter starts again.
func TestSmoothEraser(t *testing.T) {
	t.Parallel()
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	o := mechanism.Options{Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 5}
	records := sanitizedTopic(t, model, o, 1, 200)
	j := newSmoothJob(t, SmoothSettings{Model: model, Release: o, LagSteps: 5})
	user := string(records[0].Key)
	for i, rec := range records {
		if i == 50 {
			e := new(SmoothEraser)
			remains, err := e.Erase(task.Request{}, rec.Offset, j.states[user], nil)
			if err != nil || len(remains) > 0 || bytes.Contains(e.Kept(rec.Key), rec.Key) ||
				bytes.Contains(e.RequestKey(rec.Key), rec.Key) {
				t.Fatalf("%q remains, %v", remains, err)
			}
			delete(j.states, user)
			j.out[user] = nil
		}
		j.process(rec)
	}
	first, err := servicetest.NewCodec(t, schemas.Avro).DecodeSanitized(j.out[user][0].Value)
	servicetest.OK(t, err)
	if n := len(j.out[user]) + j.open(user); n != len(records)-50 ||
		!schemas.HasNote(first.Mechanism, schemas.Unsmoothed) {
		t.Errorf("%d records after the erasure, the first one by %s", n, first.Mechanism)
	}
}
