package service_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// beforeMidnight is a step of a world's feed eight steps before the day ends.
const beforeMidnight = 98

// TestAdvanceTheKey: a service that is stopped, gets the key without the past day and is started
// again goes on without a question; what it published until then can be verified and replayed with
// the older key and not with the newer.
func TestAdvanceTheKey(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 8)
	w.Step = beforeMidnight
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 12)
	older := o
	o.Key = servicetest.NextDay(t)
	atwork.Serve(t, w, o, 4)
	if report := atwork.Verify(t, older); !report.Verified {
		t.Errorf("with the older key: %+v", report)
	}
	report := atwork.Verify(t, o)
	for _, p := range report.Partitions {
		text := strings.Join(p.NotVerified, "; ")
		if p.Verified || p.ViolationCount > 0 ||
			!strings.Contains(text, "this key begins at "+o.Key.FirstDay().String()) ||
			p.From != -1 {
			t.Errorf("with the newer key partition %d: %+v", p.Partition, p)
		}
	}
	for _, again := range []bool{false, true} {
		_, err := replay.NewPlan(t.Context(), o, replay.Options{Output: "gone", SpendAgain: again})
		if !errors.Is(err, noise.ErrDestroyed) ||
			!strings.Contains(err.Error(), o.Key.FirstDay().String()) {
			t.Errorf("spend again %t: planned, %v", again, err)
		}
		if _, err := replay.Run(t.Context(), o, replay.Options{
			Output: "gone", SpendAgain: again,
		}); !errors.Is(err, noise.ErrDestroyed) {
			t.Errorf("spend again %t: replayed, %v", again, err)
		}
	}
	first := w.Answers(t, "first")
	first.Read(t)
	plan := atwork.Replay(t, older, replay.Options{Output: "again"})
	if !plan.Identical {
		t.Errorf("with the older key the replay is another release: %+v", plan.Partitions)
	}
	servicetest.RequireSame(t, first.Out, atwork.Replayed(t, w, plan).Out)

	// A vehicle that comes late from the destroyed day is refused, and the others are as before.
	late := servicetest.Sentinel()
	late.UserID, late.Timestamp = "vehicle-of-yesterday", servicetest.StartMS
	rec := servicetest.Record(t, 0, late)
	w.Send(t, producer.Record{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp})
	atwork.Serve(t, w, o, 1)
	first.Read(t)
	refused := 0
	for _, lines := range first.Dead.Lines {
		for _, l := range lines {
			letter, err := servicetest.NewCodec(t, schemas.Avro).DecodeDeadLetter([]byte(l.Value))
			servicetest.OK(t, err)
			if letter.Reason == schemas.ReasonKeyDestroyed {
				refused++
			}
		}
	}
	if refused != 1 {
		t.Errorf("%d fixes were refused for their day, want 1", refused)
	}
	requireOlder(t, w, first, older, "older", 1)
}

// requireOlder: a key that has days which the service's had not verifies what was published, and
// makes it once more, refusals and all: the dead letters say what was refused.
func requireOlder(
	t *testing.T, w *servicetest.World, first servicetest.Answers, older service.Options,
	output string, refused int64,
) {
	t.Helper()
	report := atwork.Verify(t, older)
	sum := int64(0)
	for _, p := range report.Partitions {
		sum += p.RefusedDays
	}
	if !report.Verified || sum != refused {
		t.Errorf("with the older key, %d fixes refused, want %d: %+v", sum, refused, report)
	}
	first.Read(t)
	plan := atwork.Replay(t, older, replay.Options{Output: output})
	if !plan.Identical || plan.Cost != nil {
		t.Errorf("with the older key the replay is another release: %+v", plan.Partitions)
	}
	servicetest.RequireSame(t, first.Out, atwork.Replayed(t, w, plan).Out)
	servicetest.RequireSame(t, first.Dead, atwork.Replayed(t, w, plan).Dead)
}

// released verifies what the service of o published, and replays it: the replay must be
// identical. It returns the service's answers and the replay's.
func released(
	t *testing.T, w *servicetest.World, o service.Options,
) (first, again servicetest.Answers) {
	t.Helper()
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("%+v", report)
	}
	first = w.Answers(t, "first")
	first.Read(t)
	plan := atwork.Replay(t, o, replay.Options{Output: "again"})
	if !plan.Identical {
		t.Errorf("the replay is another release: %+v", plan.Partitions)
	}
	again = atwork.Replayed(t, w, plan)
	servicetest.RequireSame(t, first.Out, again.Out)
	return first, again
}

// TestBegunUnderAnAdvancedKey: of a service that never had the day, all is as it should be, under
// its own key.
func TestBegunUnderAnAdvancedKey(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 8)
	w.Step = beforeMidnight
	o := atwork.Options(w, "first")
	o.Key = servicetest.NextDay(t)
	atwork.Serve(t, w, o, 16)
	refused := o.Counters.Snapshot().Destroyed
	if n := o.Counters.Snapshot(); refused == 0 || n.Releases == 0 ||
		n.Epsilon != float64(n.Releases) {
		t.Fatalf("counted %+v", n)
	}
	first, again := released(t, w, o)
	servicetest.RequireSame(t, first.Dead, again.Dead)
	whole := o
	whole.Key = servicetest.Key
	requireOlder(t, w, first, whole, "older", refused)

	// Without the dead letters nothing says what was refused but the states.
	w.DeleteTopic(t, o.Topics.DeadLetters, false)
	if plan, err := replay.NewPlan(t.Context(), o, replay.Options{Output: "own"}); err != nil ||
		!plan.Identical {
		t.Errorf("without dead letters, with the service's own key: %v, %+v", err, plan.Partitions)
	}
	requireUnknown(t, whole)
	servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
		admin.Topic{Name: o.Topics.DeadLetters, Partitions: servicetest.Partitions}))
	requireUnknown(t, whole)
	text := ""
	for _, p := range atwork.Verify(t, whole).Partitions {
		text += strings.Join(p.NotVerified, "; ")
	}
	if !strings.Contains(text, "dead letters are gone") {
		t.Errorf("verify says %q", text)
	}
}

// requireUnknown: a key that has more days than the service's may have had releases nothing for
// free where the dead letters do not say what was refused.
func requireUnknown(t *testing.T, whole service.Options) {
	t.Helper()
	r := replay.Options{Output: "unknown"}
	plan, err := replay.NewPlan(t.Context(), whole, r)
	if err != nil || plan.Identical || plan.Cost == nil {
		t.Errorf("without dead letters: %v, identical %t", err, plan.Identical)
	}
	if _, err := replay.Run(t.Context(), whole, r); !errors.Is(err, replay.ErrSpend) ||
		!strings.Contains(err.Error(), "not known which fixes were refused") {
		t.Errorf("without dead letters it is replayed: %v", err)
	}
}

// TestDeadLettersAgedOut: of a service whose key has always been whole the dead letters are of no
// account, also where some fixes have no answer.
func TestDeadLettersAgedOut(t *testing.T) {
	w := servicetest.NewWorld(t, 8)
	o := atwork.Options(w, "first")
	o.Release.ReleaseInterval, o.Release.Between = 3, mechanism.BetweenSkip
	atwork.Process(t, w, o, 12)
	if n := o.Counters.Snapshot(); n.Skipped == 0 {
		t.Fatalf("counted %+v", n)
	}
	for _, gone := range []bool{false, true} {
		if gone {
			w.DeleteTopic(t, o.Topics.DeadLetters, false)
		}
		plan, err := replay.NewPlan(t.Context(), o, replay.Options{Output: "again"})
		if err != nil || !plan.Identical {
			t.Errorf("dead letters gone %t: %v, %+v", gone, err, plan.Partitions)
		}
	}
}
