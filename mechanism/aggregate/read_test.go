package aggregate

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
)

// published writes a record in degrees, as a service with these options publishes it.
func published(g *grid.Grid, o mechanism.Options, r Record) Published {
	p := Published{Record: r, Mechanism: law.Lattice, Delta: o.Delta, HasRelease: true}
	p.Release, p.Estimate, p.Place.Where = grid.Point{}, grid.Point{}, "here"
	if r.Kind == mechanism.Released {
		p.Epsilon = o.Epsilon
	}
	p.ReleaseLatitude, p.ReleaseLongitude = g.ToDegrees(r.Release)
	p.Latitude, p.Longitude = g.ToDegrees(r.Estimate)
	return p
}

// read returns the estimates of records.
func read(
	t *testing.T, o ReadOptions, records []Published,
) (all []Density, summary Summary, err error) {
	t.Helper()
	r, err := NewReader(o, func(_ *Window, d Density) error {
		all = append(all, d)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range records {
		if err := r.Add(p); err != nil {
			return all, summary, err
		}
	}
	summary, err = r.Finish()
	return all, summary, err
}

// TestReaderLearns: what the records tell is as good as what the reader is told, also where
// releases come only after records that do not tell ε; and the estimates are a Collector's.
func TestReaderLearns(t *testing.T) {
	t.Parallel()
	model := testcase.Town(t)
	o := mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05, ReleaseInterval: 3}
	records, _ := drive(t, model, o, 3, 20, 12, nil)
	windows, counts := collect(t, Models{model}, o, CollectOptions{WindowSteps: 5}, records)
	all := make([]Published, len(records))
	for i, r := range records {
		all[i] = published(model.Grid, o, r)
	}
	told := ReadOptions{
		Models: Models{model}, Release: o, Collect: CollectOptions{WindowSteps: 5},
	}
	want, summary, err := read(t, told, all)
	if err != nil || len(want) != len(windows) || summary.Counts.Followed != counts.Followed {
		t.Fatalf("%v, %d of %d windows, %+v", err, len(want), len(windows), summary)
	}
	for i, w := range windows {
		if got := w.Estimate(EstimateOptions{}); Variation(got.Fitted, want[i].Fitted) > 1e-9 {
			t.Errorf("window %d: a collector finds something else", i)
		}
	}
	learns := told
	learns.Release = mechanism.Options{ReleaseInterval: 3}
	learns.TellEpsilon, learns.TellDelta, learns.TellMechanism = true, true, true
	if got, _, err := read(t, learns, all); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("learning from the records finds something else, or %v", err)
	}
	// A reader who comes in between two releases: until the next one, nothing tells ε.
	if _, s, err := read(t, learns, all[80:]); err != nil ||
		s.Counts.Records != int64(len(all)-80) || s.Counts.Followed != 0 {
		t.Errorf("records that wait for a release: %v, %+v", err, s)
	}
	if s := summary; s.Windows != 3 || s.Vehicles != 60 || s.Smallest != 20 ||
		s.Most.Vehicles != 20 || s.MostMS != 0 || s.Lost+s.Empty != 0 {
		t.Errorf("%+v", s)
	}
}

// TestReaderBounds: records after what is wanted are not looked at, those before are followed and
// counted apart.
func TestReaderBounds(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 3, 4, 20, nil)
	all := make([]Published, len(records))
	for i, r := range records {
		all[i] = published(model.Grid, o, r)
		if r.Step >= 15 {
			all[i].Kind = 0 // of a newer program
		}
	}
	options := ReadOptions{
		Models: Models{model}, Release: o,
		Collect: CollectOptions{WindowSteps: 5, FromMS: 300_000, BeforeMS: 900_000},
	}
	_, s, err := read(t, options, all)
	if err != nil || s.After != 20 || s.Windows != 2 || s.Counts.Unwanted != 20 ||
		s.Counts.Wanted.Records != 40 || s.Counts.Wanted.Followed != 40 || s.Counts.Followed != 60 {
		t.Errorf("%v, %+v", err, s)
	}
	options.Collect.FromMS, options.Collect.BeforeMS = 0, 60_000
	if _, _, err := read(t, options, all); !errors.Is(err, ErrAfter) {
		t.Errorf("no record is wanted: %v", err)
	}
	if _, _, err := read(t, options, nil); err == nil ||
		!strings.Contains(err.Error(), "no record") {
		t.Errorf("no record: %v", err)
	}
}

// TestReaderRefuses gives records of other settings, and settings that cannot be.
func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 3, 1, 2, nil)
	first, second := published(model.Grid, o, records[0]), published(model.Grid, o, records[1])
	options := ReadOptions{
		Models: Models{model}, Release: o, Collect: CollectOptions{WindowSteps: 5},
	}
	for name, change := range map[string]func(*Published){
		"mechanism": func(p *Published) { p.Mechanism = law.PIM },
		"delta":     func(p *Published) { p.Delta = .3 },
		"epsilon":   func(p *Published) { p.Epsilon = 3 },
		"kind":      func(p *Published) { p.Kind = mechanism.Late },
		"number":    func(p *Published) { p.Number = -1 },
	} {
		other := second
		change(&other)
		_, _, err := read(t, options, []Published{first, other})
		setting, is := errors.AsType[*SettingError](err)
		if wants := name != "kind" && name != "number"; err == nil || is != wants ||
			is && setting.Name != name {
			t.Errorf("another %s: %v", name, err)
		}
	}
	bare := second
	bare.HasRelease = false
	if _, _, err := read(t, options, []Published{first, bare}); !errors.Is(err, ErrNoRelease) {
		t.Errorf("without a release: %v", err)
	}
	options.Release.Epsilon = -1
	if _, _, err := read(t, options, []Published{first}); !isOptions(err) {
		t.Errorf("a negative ε: %v", err)
	}
	for name, o := range map[string]ReadOptions{
		"no model":     {Collect: CollectOptions{WindowSteps: 5}},
		"empty window": {Models: options.Models},
	} {
		if _, err := NewReader(o, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func isOptions(err error) bool {
	_, is := errors.AsType[*OptionsError](err)
	return is
}
