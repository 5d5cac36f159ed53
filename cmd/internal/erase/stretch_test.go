package erase_test

import (
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// TestBudgetInFixTimes runs a service over two days of users in several partitions, who report near
// the end of their steps, with a stop and an erasure in between. No 24 hours of fix times hold more
// than the budget, by the records alone: 24 hours touch one step more than 24 hours of steps do.
func TestBudgetInFixTimes(t *testing.T) {
	t.Parallel()
	const step, day = 30 * time.Second, 24 * time.Hour
	first := servicetest.StepTime(0).Add(step - 100*time.Millisecond)
	var regular []time.Time
	for at := first; at.Before(first.Add(2 * day)); at = at.Add(4 * step) {
		regular = append(regular, at)
	}
	for name, c := range map[string]struct {
		release mechanism.Options
		fixes   []time.Time
	}{
		"one release a day": {
			mechanism.Options{Epsilon: 8, Budget: mechanism.Budget{Epsilon: 8, WindowSteps: 2880}},
			[]time.Time{first, first.Add(day - step + 200*time.Millisecond), first.Add(day + step)},
		},
		"three, 40 minutes apart": {
			mechanism.Options{
				Epsilon: 6.6, ReleaseInterval: 80,
				Budget: mechanism.Budget{Epsilon: 20, WindowSteps: 2880},
			},
			regular,
		},
	} {
		w := servicetest.NewWorld(t, 0)
		w.Model.Step = step
		o := atwork.Options(w, "first")
		o.Release.Epsilon, o.Release.ReleaseInterval = c.release.Epsilon, c.release.ReleaseInterval
		o.Release.Budget, o.MaxRecords = c.release.Budget, 1000
		half := (len(c.fixes) + 1) / 2
		users := []string{user, "ann", "bob", "carl"}
		send(t, w, users, c.fixes[:half])
		serve(t, w, o, 0)
		run(t, options(o, user))
		send(t, w, users, c.fixes[half:])
		serve(t, w, o, 0)
		requireVerified(t, o)
		most := mostInADay(t, w, o)
		want := c.release.Epsilon * float64(int(c.release.Budget.Epsilon/c.release.Epsilon))
		for _, user := range users {
			if most[user] > want+1e-9 || most[user] < want-1e-9 {
				t.Errorf("%s: 24 hours of %s hold Σε %g, want %g", name, user, most[user], want)
			}
			if s, err := account.User(t.Context(), atwork.AccountOptions(o), user); err != nil ||
				*s.EpsilonWindow > want+1e-9 {
				t.Errorf("%s: the account of %s has Σε %v, %v", name, user, s.EpsilonWindow, err)
			}
		}
	}
}

// send sends the same fixes of several users.
func send(t *testing.T, w *servicetest.World, users []string, at []time.Time) {
	t.Helper()
	var records []producer.Record
	for _, one := range at {
		for _, user := range users {
			fix := servicetest.Sentinel()
			fix.UserID, fix.Timestamp = user, one.UnixMilli()
			value, err := w.Codec.AppendRaw(nil, fix)
			servicetest.OK(t, err)
			records = append(records, producer.Record{
				Key: []byte(user), Value: value, Timestamp: fix.Timestamp,
			})
		}
	}
	w.Send(t, records...)
}

// mostInADay is the largest Σε of each user in any 24 hours of fix times, by the published records.
func mostInADay(t *testing.T, w *servicetest.World, o service.Options) map[string]float64 {
	t.Helper()
	byUser := map[string][]schemas.Sanitized{}
	for _, r := range w.Records(t, o.Topics.Sanitized) {
		s, err := w.Codec.DecodeSanitized(r.Value)
		servicetest.OK(t, err)
		if s.Epsilon > 0 {
			byUser[s.UserID] = append(byUser[s.UserID], s)
		}
	}
	most := map[string]float64{}
	for user, all := range byUser {
		for _, first := range all {
			sum := 0.
			for _, s := range all {
				if ms := s.Timestamp - first.Timestamp; 0 <= ms && ms <= 86_400_000 {
					sum += s.Epsilon
				}
			}
			most[user] = max(most[user], sum)
		}
	}
	return most
}
