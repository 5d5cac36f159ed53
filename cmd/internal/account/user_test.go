package account_test

import (
	"errors"
	"math"
	"testing"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas"
)

// TestInspect: a user's state in the changelog agrees with the user's last sanitized record.
func TestInspect(t *testing.T) {
	w := atwork.Served(t, 12, 6)
	v := w.View(t, "first.out", false)
	v.Read(t)
	const user = "vehicle-003"
	var last schemas.Sanitized
	for _, lines := range v.Lines {
		for _, l := range lines {
			if l.Key == user {
				s, err := servicetest.NewCodec(t, schemas.Avro).DecodeSanitized([]byte(l.Value))
				servicetest.OK(t, err)
				last = s
			}
		}
	}
	o := atwork.Options(w, "first")
	query := atwork.AccountOptions(o)
	got, err := account.User(t.Context(), query, user)
	servicetest.OK(t, err)
	if got.Step != last.Step || int64(got.Releases) != last.Release ||
		got.ModelID != last.ModelID || !got.OfThisModel ||
		*got.Estimate != (account.Place{last.Latitude, last.Longitude}) ||
		*got.LastRelease != (account.Place{
			last.ReleaseLatitude.Number, last.ReleaseLongitude.Number,
		}) || got.RadiusM != last.RadiusM ||
		schemas.Some(got.SigmaMajorM) != last.SigmaMajorM ||
		schemas.Some(got.SigmaMinorM) != last.SigmaMinorM ||
		schemas.Some(got.AzimuthDeg) != last.AzimuthDeg {
		t.Errorf("%+v, want what the last record says: %+v", got, last)
	}
	if got.EpsilonSpent != float64(last.Release)*servicetest.Release.Epsilon || got.Cells < 3 ||
		!(got.EntropyBits > 0) || got.EntropyBits > math.Log2(float64(got.Cells)) {
		t.Errorf("%+v", got)
	}
	for _, nobody := range []string{"nobody", "", "\x00input"} {
		if _, err := account.User(t.Context(), query, nobody); !errors.Is(err, account.ErrNoState) {
			t.Errorf("the state of %q gives %v", nobody, err)
		}
	}
	// With a budget of two steps and a pseudonym in the config: the last two of six steps, and the
	// one before, whose fix can lie less than two steps before the last one.
	budgeted := o
	budgeted.Release.Budget = mechanism.Budget{Epsilon: 5, WindowSteps: 2}
	budgeted.Publish.User = engine.UserPseudonym
	spent, err := account.User(t.Context(), atwork.AccountOptions(budgeted), user)
	servicetest.OK(t, err)
	if spent.EpsilonWindow == nil || *spent.EpsilonWindow != 3*servicetest.Release.Epsilon ||
		spent.PublishedAs != engine.Pseudonym(servicetest.Key, user) {
		t.Errorf("with a budget: %+v", spent)
	}
	// Under another map the points mean nothing, and are not shown.
	other := o
	other.Model = servicetest.NeighbourModel(t, servicetest.Town, 2000, 4)
	got, err = account.User(t.Context(), atwork.AccountOptions(other), user)
	servicetest.OK(t, err)
	if got.OfThisModel || got.Estimate != nil || got.LastRelease != nil ||
		got.Step != last.Step {
		t.Errorf("under another map: %+v", got)
	}
}

// TestInspectElsewhere: a user whom another producer has put into another
// partition is found there.
func TestInspectElsewhere(t *testing.T) {
	w := atwork.Served(t, 4, 2)
	s := mechanism.State{}
	w.Write(t, true, "first.log", 0, servicetest.Line{Key: "a", Value: string(s.AppendBinary(nil))},
		servicetest.Line{Key: "b", Value: string(s.AppendBinary(nil))},
		servicetest.Line{Key: "c", Value: string(s.AppendBinary(nil))},
		servicetest.Line{Key: "d", Value: string(s.AppendBinary(nil))})
	for _, user := range []string{"a", "b", "c", "d"} {
		got, err := account.User(t.Context(),
			atwork.AccountOptions(atwork.Options(w, "first")), user)
		servicetest.OK(t, err)
		if got.Partition != 0 {
			t.Errorf("%s is found in partition %d", user, got.Partition)
		}
	}
}
