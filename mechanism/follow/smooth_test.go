package follow

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
)

// smoothedAs is a record as it comes back: its place among those that were added, and its past.
type smoothedAs struct {
	number int
	past   *Past
}

func smooth(
	tb testing.TB, o Options, records []Published,
) (all []smoothedAs, counts Counts, err error) {
	tb.Helper()
	s, err := NewReader(o, PastOf, func(number int, past *Past, _ Unfollowed) error {
		if past != nil {
			kept := *past
			past = &kept
		}
		all = append(all, smoothedAs{number, past})
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	defer s.Close()
	for i, p := range records {
		if err := s.Add(p, i); err != nil {
			return all, counts, err
		}
	}
	err = s.Finish()
	return all, s.Counts(), err
}

// smoothFleet returns the records of vehicles, and what a Reader of them is told.
func smoothFleet(tb testing.TB, steps int64) ([]Published, Options) {
	tb.Helper()
	model := testcase.Town(tb)
	o := mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05, ReleaseInterval: 3}
	records, _ := drive(tb, model, o, 3, 12, steps, nil)
	all := make([]Published, len(records))
	for i, r := range records {
		all[i] = published(model.Grid, o, r)
	}
	return all, Options{
		Public:   Public{Models: Models{model}, Release: o, TellEpsilon: true},
		LagSteps: 4,
	}
}

// TestSmoothing: what comes back of each user is what a mechanism.Smoother makes of the user's
// records, in their order; each record once, and the same with any number of workers.
func TestSmoothing(t *testing.T) {
	t.Parallel()
	records, o := smoothFleet(t, 60)
	var first []smoothedAs
	for _, workers := range []int{1, 2, 5} {
		o.Workers = workers
		all, counts, err := smooth(t, o, records)
		if err != nil || counts.Records != int64(len(records)) || counts.Users != 12 ||
			len(counts.Unfollowed) > 0 || len(all) != len(records) {
			t.Fatalf("%d workers: %d records, %+v, %v", workers, len(all), counts, err)
		}
		if first == nil {
			first = all
		}
		if !reflect.DeepEqual(all, first) {
			t.Fatalf("%d workers say something else than one", workers)
		}
	}
	v, err := newFilter(o.Public.Models[0], o.Public.Release)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"v0", "v7"} {
		var want, got []grid.Point
		var block mechanism.Block
		var state mechanism.State
		sm := mechanism.NewSmoother(o.Public.Release, o.LagSteps)
		each := func(m mechanism.Smoothed) {
			for int64(len(want)) <= m.Number {
				want = append(want, grid.Point{})
			}
			want[m.Number] = m.Estimate
		}
		for _, p := range records {
			if p.User != user {
				continue
			}
			v.locate(&p)
			seen := mechanism.Seen{Step: p.Step, Kind: p.Kind, Release: p.Release}
			if _, err := sm.Observe(&block, v.sanitizer, &state, seen, each); err != nil {
				t.Fatal(err)
			}
		}
		sm.Finish(&block, each)
		for _, one := range first {
			if records[one.number].User == user {
				got = append(got, one.past.Estimate)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the smoothed estimates are not a Smoother's", user)
		}
	}
}

// TestSmoothingPassesOn: what cannot be followed comes back as it is, in its place among the user's
// records, with a reason; before it the user's records are smoothed by what there is.
func TestSmoothingPassesOn(t *testing.T) {
	t.Parallel()
	for reason, change := range map[Unfollowed]func([]Published, int) []Published{
		NotFollowed: func(all []Published, i int) []Published { return slices.Delete(all, i, i+1) },
		NoRelease: func(all []Published, i int) []Published {
			all[i].HasRelease = false
			return all
		},
		NoModel: func(all []Published, i int) []Published {
			all[i].Model = "0123456789abcdef"
			return all
		},
	} {
		records, o := smoothFleet(t, 30)
		at := slices.IndexFunc(records, func(p Published) bool {
			return p.User == "v3" && p.Step > 10 && p.Kind == mechanism.Released
		})
		step := records[at].Step
		records = change(records, at)
		all, counts, err := smooth(t, o, records)
		if err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
		last, passed := int64(-1), int64(0)
		for _, one := range all {
			p := &records[one.number]
			if p.User != "v3" {
				if one.past == nil {
					t.Fatalf("%s: a record of %s is not smoothed", reason, p.User)
				}
				continue
			}
			if p.Step < last {
				t.Errorf("%s: step %d comes after step %d", reason, p.Step, last)
			}
			last = p.Step
			if (one.past == nil) != (p.Step >= step) {
				t.Errorf("%s: step %d is smoothed: %t", reason, p.Step, one.past != nil)
			}
			if one.past == nil {
				passed++
			} else if one.past.Until >= step {
				t.Errorf("%s: step %d takes in step %d", reason, p.Step, one.past.Until)
			}
		}
		if counts.Unfollowed[reason] == 0 || passed == 0 {
			t.Errorf("%s: %+v, and %d records are passed on", reason, counts, passed)
		}
	}
}

// TestSmoothingRefuses: wrong settings, records of another setting and in a wrong order, and a
// model that none was made under.
func TestSmoothingRefuses(t *testing.T) {
	t.Parallel()
	setting := new(SettingError)
	for name, change := range map[string]func(*Options, []Published){
		"settings": func(o *Options, _ []Published) { o.Public.Release.Inference = "paper" },
		"setting":  func(_ *Options, all []Published) { all[40].Delta = .3 },
		"order":    func(_ *Options, all []Published) { slices.Reverse(all[100:]) },
		"model": func(_ *Options, all []Published) {
			for i := range all {
				all[i].Model = "0123456789abcdef"
			}
		},
	} {
		for _, workers := range []int{1, 3} {
			records, o := smoothFleet(t, 20)
			o.Workers = workers
			change(&o, records)
			_, _, err := smooth(t, o, records)
			want := map[string]bool{
				"settings": errors.Is(err, ErrSettings), "setting": errors.As(err, &setting),
				"order": errors.Is(err, ErrOrder), "model": errors.Is(err, ErrModel),
			}[name]
			if name == "model" {
				want = want && strings.Contains(err.Error(), "the records name 0123456789abcdef") &&
					strings.Contains(err.Error(), o.Public.Models[0].ID()[:16])
			}
			if !want {
				t.Errorf("%s, %d workers: %v", name, workers, err)
			}
		}
	}
}
