package expect

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/parallel"
)

// TestHomes: on the sample's model, nights give a home away, and hours that keep late of the night
// do not. Hours that begin when the user rises show the home once a day.
func TestHomes(t *testing.T) {
	t.Parallel()
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	model, err := fleet.SampleModel(fixes)
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
		homes, err := Homes(t.Context(), model, o, []int{1, 3}, Options{Tracks: 4, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		return homes
	}
	free, late, rising := homes(o), homes(within(480)), homes(within(360))
	if free[0].Nights != 1 || free[1].Nights != 3 || free[0].Releases < 3 || free[0].Releases > 4 ||
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

// TestLeap: many steps at once are as many predictions of the chain.
func TestLeap(t *testing.T) {
	t.Parallel()
	model := town(t)
	predictor := mobility.NewPredictor(model)
	for _, steps := range []int64{1, 2, 13, 59} {
		l := newLeap(model, steps, 0, parallel.Pool{Workers: 2})
		got := mobility.Distribution{Cells: []grid.Cell{3, 7}, P: []float64{.25, .75}}
		var want mobility.Distribution
		predictor.Predict(&want, &got, 0, int(steps))
		l.predict(&got, make([]float64, model.Grid.Cells()), 0)
		if l.steps != steps || got.Len() != want.Len() {
			t.Fatalf("%d steps, %d cells, want %d", l.steps, got.Len(), want.Len())
		}
		for i, c := range want.Cells {
			if p := want.P[i]; got.Cells[i] != c || math.Abs(got.P[i]-p) > 1e-12+1e-9*p {
				t.Errorf("%d steps: cell %d has %v, want %v", steps, c, got.P[i], p)
			}
		}
	}
}
