package follow

import (
	"errors"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
)

// published writes a record in degrees, as a service with these options publishes it.
func published(g *grid.Grid, o mechanism.Options, r Record) Published {
	p := Published{Record: r, Mechanism: o.Mechanism, Delta: o.Delta, HasRelease: true}
	p.Release, p.Estimate, p.Where = grid.Point{}, grid.Point{}, "here"
	if r.Kind == mechanism.Released {
		p.Epsilon = o.Epsilon
	}
	p.ReleaseLatitude, p.ReleaseLongitude = g.ToDegrees(r.Release)
	p.Latitude, p.Longitude = g.ToDegrees(r.Estimate)
	return p
}

// TestReaderRefuses gives records of other settings, and settings that cannot be.
func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 3, 1, 2, nil)
	first, second := published(model.Grid, o, records[0]), published(model.Grid, o, records[1])
	options := Options{Public: Public{Models: Models{model}, Release: o}, LagSteps: 1}
	for name, change := range map[string]func(*Published){
		"mechanism": func(p *Published) { p.Mechanism = law.PIM },
		"delta":     func(p *Published) { p.Delta = .3 },
		"epsilon":   func(p *Published) { p.Epsilon = 3 },
		"kind":      func(p *Published) { p.Kind = mechanism.Late },
		"number":    func(p *Published) { p.Number = -1 },
	} {
		other := second
		change(&other)
		_, _, err := smooth(t, options, []Published{first, other})
		setting, is := errors.AsType[*SettingError](err)
		if wants := name != "kind" && name != "number"; err == nil || is != wants ||
			is && setting.Name != name || !strings.HasPrefix(err.Error(), "here: ") {
			t.Errorf("another %s: %v", name, err)
		}
	}
	options.Public.Release.Epsilon = -1
	_, _, err := smooth(t, options, []Published{first})
	if _, is := errors.AsType[*OptionsError](err); !is {
		t.Errorf("a negative ε: %v", err)
	}
	if _, err := NewReader[int](Options{}, PastOf, nil); err == nil {
		t.Error("no model is no error")
	}
}

// TestFollowSettings: a reader with other settings than the service's is told so.
func TestFollowSettings(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .3}
	records, _ := drive(t, model, o, 4, 5, 10, nil)
	for name, change := range map[string]func(*mechanism.Options){
		"wrong ε": func(o *mechanism.Options) { o.Epsilon = 1 },
		"wrong δ": func(o *mechanism.Options) { o.Delta = .01 },
		"surrogates ignored": func(o *mechanism.Options) {
			o.Inference = mechanism.InferencePaper
		},
		"another mechanism": func(o *mechanism.Options) { o.Mechanism = law.Laplace },
		"the median instead of a mean": func(o *mechanism.Options) {
			o.Estimate = mechanism.EstimateMedian
		},
		"a location set that is padded": func(o *mechanism.Options) { o.MinCells = 60 },
	} {
		wrong := o
		change(&wrong)
		f := newFollower(t, Models{model}, wrong)
		if _, err := f.Follow(new(Track), records[0]); !errors.Is(err, ErrSettings) ||
			!strings.Contains(err.Error(), "those of the service's config") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
