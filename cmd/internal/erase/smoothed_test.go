package erase_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/erase"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
)

// smoothing returns the options of the service that smooths what a service publishes, and what a
// command that erases has to know of it.
func smoothing(w *servicetest.World, first service.Options) (service.Options, *erase.Smoothed) {
	o := atwork.Options(w, "after")
	o.Topics.Raw, o.Key = first.Topics.Sanitized, engine.Settings{}.Key
	return o, &erase.Smoothed{
		Cluster: o.Cluster.WithDefaults(), StateDir: o.StateDir,
		SmoothSettings: engine.SmoothSettings{
			Model: w.Model, Release: first.Release, LagSteps: 100,
			Encoding: first.SanitizedEncoding,
		},
	}
}

// smooth starts that service, and waits until it has read a number of records.
func smooth(t *testing.T, o service.Options, of *erase.Smoothed, records int64,
) *servicetest.Running {
	t.Helper()
	log := new(servicetest.Log)
	o.Logger, o.Counters = log.Logger(), new(engine.Counters)
	s, err := service.NewFollowing(o, service.Smoothing(of.SmoothSettings))
	servicetest.OK(t, err)
	r := servicetest.Run(t, log, s.Run)
	servicetest.Await(t, "it has read everything", func() bool {
		return o.Counters.Snapshot().RecordsIn >= records
	}, r)
	return r
}

// TestSmoothed: a user is erased where records are smoothed too, whether that service is at work or
// not, by the name that is published; and the service goes on with the user's next records.
func TestSmoothed(t *testing.T) {
	for name, atWork := range map[string]bool{"stopped": false, "at work": true} {
		for _, published := range []string{engine.UserPlain, engine.UserPseudonym} {
			t.Run(name+", "+published, func(t *testing.T) {
				t.Parallel()
				w := servicetest.NewWorld(t, 6)
				o := atwork.Options(w, "first")
				o.Publish.User = published
				serve(t, w, o, 3)
				after, of := smoothing(w, o)
				out := w.View(t, after.Topics.Raw, false)
				before := out.Read(t)
				r := smooth(t, after, of, before)
				if !atWork {
					r.Stop(t)
				}
				asked := options(o, user)
				asked.Smoothed = of
				first := run(t, asked).Receipts
				if len(first) != 1 || first[0].Smoothed.Code != "removed" {
					t.Fatalf("%+v", first)
				}
				if atWork {
					servicetest.Await(t, "it has caught up, without a record", func() bool {
						return bytes.Count(r.Log.Bytes(), []byte("state restored")) >
							servicetest.Partitions
					}, r)
				}
				requireGone(t, after.StateDir)
				r.Stop(t)
				again := run(t, asked).Receipts
				if len(again) != 1 || again[0].Smoothed.Code != "nothing_stored" {
					t.Errorf("repeated: %+v", again)
				}
				serve(t, w, o, 2)
				smooth(t, after, of, out.Read(t)-before).Stop(t)
				if again = run(t, asked).Receipts; len(again) != 1 ||
					again[0].Smoothed.Code != "removed" {
					t.Errorf("the user came back, and the state was not found: %+v", again)
				}
			})
		}
	}
}

// TestSmoothedPending: a service that smooths, and that was killed with records in hand, finds the
// request when it starts; the user is erased from the other service at once.
func TestSmoothedPending(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	o := atwork.Options(w, "first")
	serve(t, w, o, 3)
	after, of := smoothing(w, o)
	out := w.View(t, after.Topics.Raw, false)
	before := out.Read(t)
	smooth(t, after, of, before).Stop(t)
	serve(t, w, o, 1)
	open(t, w, after, servicetest.Murmur2Place([]byte(user)))
	asked := options(o, user)
	asked.Smoothed = of
	result, err := erase.Run(t.Context(), asked)
	if !errors.Is(err, erase.ErrPending) || !strings.Contains(err.Error(), "start it") ||
		len(result.Receipts) != 1 || result.Receipts[0].Smoothed.Code != "pending" {
		t.Fatalf("%+v, %v", result, err)
	}
	smooth(t, after, of, out.Read(t)-before).Stop(t)
	if result = run(t, asked); result.Receipts[0].Smoothed.Code != "nothing_stored" &&
		result.Receipts[0].Smoothed.Code != "removed" {
		t.Errorf("after its start: %+v", result)
	}
	requireGone(t, after.StateDir)
}

// TestNotSmoothed: a receipt says that there is no such service.
func TestNotSmoothed(t *testing.T) {
	w := servicetest.NewWorld(t, 3)
	o := atwork.Options(w, "first")
	serve(t, w, o, 2)
	asked := options(o, user)
	if r := run(t, asked).Receipts[0]; r.Smoothed.Code != "no_service" {
		t.Errorf("without options: %+v", r)
	}
	_, asked.Smoothed = smoothing(w, o)
	if r := run(t, asked).Receipts[0]; r.Smoothed.Code != "no_service" {
		t.Errorf("without its changelog: %+v", r)
	}
}
