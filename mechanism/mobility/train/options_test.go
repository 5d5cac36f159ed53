package train

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/mobility"
)

// TestOptionsOf: a model tells the options that it was trained with, to the last bit. One that
// tells less, or something else, is refused.
func TestOptionsOf(t *testing.T) {
	for name, o := range map[string]Options{
		"defaults": {},
		"smoothing": {
			KernelRadius: 3, Backoff: 1.0 / 3, UserCap: 7, Jumps: 0.1 + 0.2,
			Uniform: 1e-9,
		},
		"no jumps":     {Jumps: -1},
		"interpolated": {Interpolate: true, MaxGap: 150 * time.Second},
		"cut":          {MaxGap: 90 * time.Minute},
		"check-ins":    {EveryFix: true, MaxGap: time.Millisecond},
		"shared":       {KeepShared: true},
		"chain alone":  {NoGapLaw: true},
		"calendar": {Calendar: mobility.Calendar{
			Hours: []int{6, 20}, Weekend: true,
			UTCOffset: -150 * time.Minute,
		}},
	} {
		want := o.Defaults()
		model := &mobility.Model{
			Step: time.Minute, Calendar: o.Calendar,
			Provenance: mobility.Provenance{Options: want.String()},
		}
		if got, err := OptionsOf(model); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v (%v), want %+v", name, got, err, want)
		}
	}
	whole := Options{}.Defaults().String()
	for name, text := range map[string]string{
		"nothing":          "",
		"another program":  "the usual ones",
		"an option less":   strings.Replace(whole, " user_cap=30", "", 1),
		"an option more":   whole + " salt=1",
		"cut short":        whole[:len(whole)-12],
		"another calendar": strings.Replace(whole, "always", "utc+0m hours=6,20 weekend=false", 1),
		"another place":    strings.Replace(whole, "last fix", "first fix", 1),
		"no radius":        strings.Replace(whole, "kernel_radius=5", "kernel_radius=-5", 1),
		"a padded number":  strings.Replace(whole, "backoff=20", "backoff=20.0", 1),
	} {
		model := &mobility.Model{Step: time.Minute, Provenance: mobility.Provenance{Options: text}}
		if o, err := OptionsOf(model); err == nil ||
			!strings.Contains(err.Error(), "lacks its training options") {
			t.Errorf("%s: %+v (%v)", name, o, err)
		}
	}
}
