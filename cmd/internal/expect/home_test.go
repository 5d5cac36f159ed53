package expect

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
)

// TestHomes: on the sample's model, nights give a home away, and hours that keep late of the night
// do not. Hours that begin when the user rises show the home once a day.
func TestHomes(t *testing.T) {
	t.Parallel()
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	model, err := fleet.SampleModelOf(fixes, 500)
	if err != nil {
		t.Fatal(err)
	}
	o := mechanism.Options{
		Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: int(3 * time.Hour / model.Step),
	}
	within := func(from int) mechanism.Options {
		limited := o
		limited.Hours = []hours.Span{{Days: 127, From: from, To: 1080, Zone: "Europe/London"}}
		return limited
	}
	homes := func(o mechanism.Options) []Home {
		homes, err := Homes(t.Context(), model, o, []int{1, 3}, Options{Tracks: 12, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		return homes
	}
	free, late, rising := homes(o), homes(within(480)), homes(within(360))
	if free[0].Nights != 1 || free[1].Users != 12 || free[1].Nights != 3 ||
		free[0].Releases < 3 || free[0].Releases > 4 ||
		free[1].Releases != 3*free[0].Releases || rising[1].Releases != 3 || late[1].Releases != 0 {
		t.Errorf("%+v, from 8 h %+v, from 6 h %+v", free, late, rising)
	}
	if !(free[1].Posterior > 2*late[1].Posterior && free[1].MedianM < late[1].MedianM &&
		rising[1].Posterior > 1.2*late[1].Posterior && free[1].Posterior > free[0].Posterior) {
		t.Errorf("%+v, from 8 h %+v, from 6 h %+v", free, late, rising)
	}
	if late[0].Posterior != late[1].Posterior || late[0].MedianM != late[1].MedianM {
		t.Errorf("without a release the adversary learned something: %+v", late)
	}
	if again := homes(within(360)); !reflect.DeepEqual(again, rising) {
		t.Errorf("%+v, and then %+v", rising, again)
	}
	stop := errors.New("stop")
	if _, err := Homes(t.Context(), model, o, []int{1}, Options{
		Tracks: 1, Progress: func(int64, int64) error { return stop },
	}); !errors.Is(err, stop) {
		t.Errorf("stopped, it says %v", err)
	}
}
