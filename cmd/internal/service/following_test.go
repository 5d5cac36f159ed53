package service_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// held publishes a user's record when the user's next one comes, with the number of records before
// it. So an answer depends on the state, and every record but a user's last has one.
type held struct {
	tally engine.Tally
	next  int64
}

func (h *held) Process(rec task.Record, state []byte, fx *task.Effects) error {
	h.tally.RecordsIn++
	h.next = rec.Offset + 1
	n := uint64(0)
	if len(state) > 0 {
		n = binary.BigEndian.Uint64(state)
		value := append(binary.BigEndian.AppendUint64(nil, n), state[8:]...)
		fx.Output = append(fx.Output, task.Message{
			Key: rec.Key, Value: value, Timestamp: rec.Timestamp,
		})
		h.tally.RecordsOut++
	}
	fx.State = append(binary.BigEndian.AppendUint64(nil, n+1), rec.Value...)
	return nil
}

func (h *held) Key(rec task.Record) ([]byte, error) { return rec.Key, nil }

func (h *held) Take() (t engine.Tally, next int64) {
	t, h.tally = h.tally, engine.Tally{}
	return t, h.next
}

// plainSettings are those of held.
type plainSettings struct{ text string }

func (s plainSettings) Fingerprint() []byte                    { return []byte(s.text) }
func (s plainSettings) GroupFingerprint() []byte               { return []byte(s.text) }
func (s plainSettings) Differences(other []byte) string        { return "not " + string(other) }
func (s plainSettings) DifferencesInGroup(other []byte) string { return s.Differences(other) }

var holds = service.Following{
	Fingerprints: plainSettings{"held 1"},
	Try:          func(v *engine.Version) (any, error) { return v.Load() },
	Processor: func(engine.Partition, schemas.IDs) (service.Processor, error) {
		return new(held), nil
	},
	StartOver: "with what is new",
}

// followers is what runs a job after the service "first".
type followers struct {
	w   *servicetest.World
	o   service.Options
	job service.Following
}

func newFollowers(w *servicetest.World, group string, job service.Following) followers {
	o := atwork.Options(w, group)
	o.Topics.Raw, o.Key, o.SessionTimeout = "first.out", noise.Key{}, 2*time.Second
	return followers{w, o, job}
}

// start starts an instance with a folder of its own, which a network can be cut from.
func (f followers) start(t *testing.T, folder string) (*servicetest.Running, *servicetest.Network) {
	t.Helper()
	log, network, o := new(servicetest.Log), new(servicetest.Network), f.o
	o.StateDir += folder
	o.Logger, o.Counters = log.Logger(), new(engine.Counters)
	s, err := service.NewFollowing(o, f.job)
	servicetest.OK(t, err)
	s.SetClient(network.Client(f.w.Addr))
	s.SetGrace(100 * time.Millisecond)
	return servicetest.Run(t, log, s.Run), network
}

// answers computes from the input's records what the output must be.
func (f followers) answers(t *testing.T) (want [][]servicetest.Line, n int64) {
	t.Helper()
	input := f.w.View(t, f.o.Topics.Raw, false)
	input.Read(t)
	want = make([][]servicetest.Line, len(input.Lines))
	for p, lines := range input.Lines {
		states := map[string][]byte{}
		at := engine.Partition{Topic: f.o.Topics.Raw, Number: int32(p), Of: servicetest.Partitions}
		processor, err := f.job.Processor(at, schemas.IDs{})
		servicetest.OK(t, err)
		for i, l := range lines {
			rec := task.Record{Offset: int64(i), Key: []byte(l.Key), Value: []byte(l.Value)}
			rec.Timestamp = l.Timestamp
			key, err := processor.Key(rec)
			servicetest.OK(t, err)
			var fx task.Effects
			servicetest.OK(t, processor.Process(rec, states[string(key)], &fx))
			if fx.State != nil {
				states[string(key)] = bytes.Clone(fx.State)
			}
			for _, m := range fx.Output {
				want[p] = append(want[p], servicetest.Line{
					Key: string(m.Key), Value: string(m.Value), Timestamp: m.Timestamp,
				})
			}
		}
		n += int64(len(want[p]))
	}
	return want, n
}

// TestFollowing runs a job without a key behind a service: an instance is cut off in the middle of
// its work, another one with an empty folder joins, and the first comes back. The output is what
// the input's records give, each once.
func TestFollowing(t *testing.T) {
	for name, smooth := range map[string]bool{"a test's job": false, "smoothing": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runFollowing(t, smooth)
		})
	}
}

func runFollowing(t *testing.T, smooth bool) {
	t.Helper()
	w := servicetest.NewWorld(t, 12)
	first, job := atwork.Options(w, "first"), holds
	if smooth {
		job = service.Smoothing(engine.SmoothSettings{
			Model: w.Model, Release: first.Release, LagSteps: 3,
		})
	}
	atwork.Serve(t, w, first, 10)
	f := newFollowers(w, "after", job)
	out := w.Answers(t, "after").Out
	a, cut := f.start(t, ".a")
	servicetest.Await(t, "it is in the middle of its work",
		func() bool { return out.Read(t) > 0 }, a)
	cut.Cut()
	a.Cancel()
	_ = a.Wait(t) // it gives its folder up, and can tell nobody else
	atwork.Serve(t, w, first, 10)
	_, n := f.answers(t)
	b, _ := f.start(t, ".b")
	again, _ := f.start(t, ".a")
	servicetest.Await(t, "every record is answered",
		func() bool { return out.Read(t) >= n }, b, again)
	atwork.Serve(t, w, first, 5)
	again.Stop(t)
	want, n := f.answers(t)
	servicetest.Await(t, "the rest is answered by one instance",
		func() bool { return out.Read(t) >= n }, b)
	b.Stop(t)
	out.Read(t)
	servicetest.RequireSame(t, &servicetest.View{Lines: want}, out)
}

// TestFollowingLost: a lost changelog stops a job without accounts of ε, and the error says how to
// fill another topic. A new group beside a filled output stops too, or it would write all twice.
func TestFollowingLost(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 3)
	atwork.Serve(t, w, atwork.Options(w, "first"), 5)
	f := newFollowers(w, "after", holds)
	out := w.Answers(t, "after").Out
	_, n := f.answers(t)
	a, _ := f.start(t, "")
	servicetest.Await(t, "every record is answered", func() bool { return out.Read(t) >= n }, a)
	a.Stop(t)
	w.DeleteTopic(t, "after.log", false)
	other := f
	other.o.Group = "another"
	for name, lost := range map[string]followers{"the group": f, "another group": other} {
		r, _ := lost.start(t, name)
		err := r.Wait(t)
		if !errors.Is(err, task.ErrLost) || strings.Contains(err.Error(), "--accept=") ||
			!strings.Contains(err.Error(), "and start with what is new") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if out.Read(t) != n {
		t.Error("something was written after the loss")
	}
}

// TestFollowingWaits: a missing input topic is waited for. The log says who makes it, and does not
// advise the setting that says how large a raw topic is made.
func TestFollowingWaits(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 0)
	f := newFollowers(w, "after", holds)
	f.o.Topics.Raw, f.o.Topics.Follows = "missing", true
	r, _ := f.start(t, "")
	servicetest.Await(t, "a line about waiting",
		func() bool { return strings.Contains(r.Log.String(), "no such topic: missing") }, r)
	r.Stop(t)
	if said := r.Log.String(); !strings.Contains(said, "the service that writes it makes it") ||
		strings.Contains(said, "topics.partitions") {
		t.Errorf("the log says:\n%s", said)
	}
}

// TestFollowingWithoutKey: a job that follows a topic takes no key.
func TestFollowingWithoutKey(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	o := newFollowers(w, "after", holds).o
	o.Key, o.Logger = servicetest.Key, slog.New(slog.DiscardHandler)
	_, err := service.NewFollowing(o, holds)
	if err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("with a key: %v", err)
	}
}
