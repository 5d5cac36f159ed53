package service_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas"
)

// TestRulesOfReleaseVerified: a service whose options leave fixes without records,
// under pseudonyms and step times, has committed what can be recomputed; nobody is
// named; and each fix is counted where it belongs.
func TestRulesOfReleaseVerified(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	o := atwork.Options(w, "rules")
	o.Release.ReleaseInterval, o.Release.Between = 3, mechanism.BetweenSkip
	o.Release.Budget = mechanism.Budget{Lifetime: 4}
	o.Publish = engine.Publish{Timestamp: engine.TimestampStep, User: engine.UserPseudonym}
	servicetest.OK(t, topics.Create(t.Context(), w.Client, wire.Options{},
		servicetest.Topics(o.Group)))
	for range 20 {
		w.Feed(t)
	}
	service := atwork.Start(t, o)
	servicetest.Await(t, "everything is processed",
		func() bool { return o.Counters.Snapshot().RecordsIn >= w.Fed }, service)
	service.Stop(t)

	s := o.Counters.Snapshot()
	if s.RecordsIn != w.Fed || s.RecordsIn != s.RecordsOut+s.Silent()+s.DeadLetters {
		t.Errorf("%d records were fed, and counted as %+v", w.Fed, s)
	}
	if s.Releases != 6*4 || s.Epsilon != 24 || s.Skipped == 0 || s.Suppressed == 0 || s.Late == 0 {
		t.Errorf("six users with a budget of four releases each: %+v", s)
	}
	names := map[string]bool{}
	for _, r := range w.Records(t, servicetest.Topics(o.Group).Sanitized) {
		record, err := servicetest.NewCodec(t, schemas.Avro).DecodeSanitized(r.Value)
		servicetest.OK(t, err)
		names[record.UserID] = true
		if string(r.Key) != record.UserID || record.Timestamp%60_000 != 0 ||
			r.Timestamp%60_000 != 0 {
			t.Errorf("key %q, timestamp %d, record %+v", r.Key, r.Timestamp, record)
		}
	}
	var want []string
	for _, user := range []string{
		"vehicle-000", "vehicle-001", "vehicle-002", "vehicle-003", "vehicle-004", "vehicle-005",
	} {
		want = append(want, engine.Pseudonym(servicetest.Key, user))
	}
	if got := slices.Sorted(
		maps.Keys(names)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("names %q, want %q", got, want)
	}
	report := atwork.Verify(t, o)
	if !report.Verified {
		t.Errorf("not verified: %+v", report)
	}
}
