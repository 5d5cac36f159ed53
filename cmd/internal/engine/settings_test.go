package engine

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// TestSettings: the fingerprint changes with every option that changes bytes and
// with no other. Each field of the options has to be named here, so that none
// is added without a thought of it.
func TestSettings(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)
	base := testSettings(t, model)
	want := base.Fingerprint()
	if size := settingsSize + len(base.settings()); len(want) != size || size > task.MarkBytes {
		t.Fatalf("%d bytes, want %d, and %d at the most", len(want), size, task.MarkBytes)
	}
	if again := base.Fingerprint(); !bytes.Equal(want, again) {
		t.Fatal("the same options have two fingerprints")
	}
	if filled := base.WithDefaults(); !bytes.Equal(want, filled.Fingerprint()) {
		t.Error("spelling the defaults out changes the fingerprint")
	}
	changes := map[string]func(*Settings){
		"Model": func(o *Settings) {
			o.Model = servicetest.NeighbourModel(t, servicetest.Town, 5000, 5)
		},
		"Key":               func(o *Settings) { o.Key = noise.KeyFromSeed(2) },
		"RawEncoding":       func(o *Settings) { o.RawEncoding = schemas.JSON },
		"SanitizedEncoding": func(o *Settings) { o.SanitizedEncoding = schemas.JSON },
		"MaxAhead":          func(o *Settings) { o.MaxAhead = time.Minute },
		"Release.Mechanism": func(o *Settings) { o.Release.Mechanism = law.KNorm },
		"Release.Inference": func(o *Settings) { o.Release.Inference = mechanism.InferencePaper },
		"Release.Isotropy":  func(o *Settings) { o.Release.Isotropy = law.IsotropySampled },
		"Release.Epsilon":   func(o *Settings) { o.Release.Epsilon = 1.000000001 },
		"Release.Delta":     func(o *Settings) { o.Release.Delta = .02 },
		"Release.Prune":     func(o *Settings) { o.Release.Prune = 2e-7 },
		"Release.MaxGap":    func(o *Settings) { o.Release.MaxGap = 61 },

		"Release.Subdivision": func(o *Settings) { o.Release.Subdivision = 128 },
		"Release.MinCells":    func(o *Settings) { o.Release.MinCells = 7 },
		"Release.Estimate": func(o *Settings) {
			o.Release.Estimate = mechanism.EstimateMode
		},
		"Release.ReleaseInterval": func(o *Settings) { o.Release.ReleaseInterval = 5 },
		"Release.Between": func(o *Settings) {
			o.Release.Between = mechanism.BetweenSkip
		},
		"Release.Budget.Epsilon": func(o *Settings) {
			o.Release.Budget.Epsilon, o.Release.Budget.WindowSteps = 5, 60
		},
		"Release.Budget.WindowSteps": func(o *Settings) {
			o.Release.Budget.Epsilon, o.Release.Budget.WindowSteps = 5, 61
		},
		"Release.Hours": func(o *Settings) {
			o.Release.Hours = []hours.Span{{Days: 2, From: 360, To: 1080, Zone: "Europe/London"}}
		},
		"Release.Hours: another zone": func(o *Settings) {
			o.Release.Hours = []hours.Span{{Days: 2, From: 360, To: 1080, Zone: "UTC"}}
		},
		"Release.Budget.Lifetime": func(o *Settings) { o.Release.Budget.Lifetime = 100 },
		"Publish.Timestamp":       func(o *Settings) { o.Publish.Timestamp = TimestampStep },
		"Publish.User":            func(o *Settings) { o.Publish.User = UserPseudonym },
		"Partitioner":             func(o *Settings) { o.Partitioner = CRC32 },
		"Partitioner: any":        func(o *Settings) { o.Partitioner = AnyPartitioner },
		"Publish.OmitRelease":     func(o *Settings) { o.Publish.OmitRelease = true },
		"Input.Outside":           func(o *Settings) { o.Input.Outside = OutsideClamp },
		"Input.Mapping": func(o *Settings) {
			o.Input.Mapping = mappingOf(t, mapping.Options{Preset: mapping.Traccar})
		},
		"Input.Mapping: another": func(o *Settings) {
			o.Input.Mapping = mappingOf(t, mapping.Options{Preset: mapping.OwnTracks})
		},
		"Release.Budget.Spent": func(o *Settings) {
			o.Release.Budget.Spent = mechanism.SpentRepeat
		},
	}
	seen := map[string]string{hex.EncodeToString(want): "nothing"}
	for name, change := range changes {
		o := base
		change(&o)
		if err := o.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := hex.EncodeToString(o.Fingerprint())
		if other, ok := seen[got]; ok {
			t.Errorf("a change of %s has the fingerprint of a change of %s", name, other)
		}
		seen[got] = name
	}
	numbered := base
	numbered.SchemaIDs = schemas.IDs{Sanitized: 1, DeadLetter: 2}
	if !bytes.Equal(numbered.Fingerprint(), want) {
		t.Error("a registry's numbers change the fingerprint")
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		if _, changing := changes[field.Name]; !changing && field.Name != "Release" &&
			field.Name != "Publish" && field.Name != "Input" && field.Name != "Registry" &&
			field.Name != "SchemaIDs" && field.Name != "Later" { // marks have the list
			t.Errorf("does %s change bytes? Name it in this test, and in Settings if it does",
				field.Name)
		}
	}
	named := func(of reflect.Type, prefix string) {
		for _, field := range reflect.VisibleFields(of) {
			if _, ok := changes[prefix+field.Name]; !ok && field.Type.Kind() != reflect.Struct {
				t.Errorf("does %s%s change bytes? Name it in this test, and in Settings if it does",
					prefix, field.Name)
			}
		}
	}
	named(reflect.TypeFor[mechanism.Options](), "Release.")
	named(reflect.TypeFor[mechanism.Budget](), "Release.Budget.")
	named(reflect.TypeFor[Publish](), "Publish.")
	named(reflect.TypeFor[Input](), "Input.")
}

// TestSettingsHideTheKey: no byte of the key, and no plain hash of it, is in the
// fingerprint's text.
func TestSettingsHideTheKey(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	fingerprint := hex.EncodeToString(o.KeyFingerprint())
	secret := o.Key.Reveal()
	for at := 0; at+8 <= len(secret); at += 2 {
		if strings.Contains(fingerprint, secret[at:at+8]) {
			t.Fatal("bytes of the key are in its fingerprint")
		}
	}
	servicetest.RequireNoLeak(t, "the fingerprint", o.KeyFingerprint(),
		servicetest.KeySecrets(o.Key, noise.DayAt(servicetest.StartMS)))
	other := o
	other.Key = noise.KeyFromSeed(2)
	if bytes.Equal(o.KeyFingerprint(), other.KeyFingerprint()) {
		t.Error("two keys have one fingerprint")
	}
	advanced, err := o.Key.From(noise.DayAt(servicetest.StartMS))
	if err != nil {
		t.Fatal(err)
	}
	if other.Key = advanced; !bytes.Equal(o.KeyFingerprint(), other.KeyFingerprint()) {
		t.Error("a key of which days were destroyed has another fingerprint")
	}
}

// TestSettingsOfBadOptions: what cannot run has no fingerprint.
func TestSettingsOfBadOptions(t *testing.T) {
	good := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	for name, change := range map[string]func(*Settings){
		"no model":   func(o *Settings) { o.Model = nil },
		"no key":     func(o *Settings) { o.Key = noise.Key{} },
		"no epsilon": func(o *Settings) { o.Release.Epsilon = 0 },
	} {
		o := good
		change(&o)
		if o.Fingerprint() != nil {
			t.Errorf("%s: there is a fingerprint", name)
		}
	}
}

// TestDifferentSettings: what differs is named by its key in the config, nothing else is,
// and no value is shown.
func TestDifferences(t *testing.T) {
	base := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	if got := base.Differences(base.Fingerprint()); got != "" {
		t.Errorf("equal settings differ in %s", got)
	}
	for want, change := range map[string]func(*Settings){
		"key_file":        func(o *Settings) { o.Key = noise.KeyFromSeed(2) },
		"release.epsilon": func(o *Settings) { o.Release.Epsilon *= 2 },
		"encoding.raw or how input reads records": func(o *Settings) {
			o.RawEncoding = schemas.JSON
		},
		"release.delta, max_ahead": func(o *Settings) {
			o.Release.Delta, o.MaxAhead = .5, time.Second
		},
	} {
		other := base
		change(&other)
		if got := base.Differences(other.Fingerprint()); got != want {
			t.Errorf("different: %s, want %s", got, want)
		}
		if got := other.Differences(base.Fingerprint()); got != want {
			t.Errorf("the other way round: %s, want %s", got, want)
		}
	}
	if got := base.Differences(base.Fingerprint()[:settingsSize]); !strings.HasPrefix(
		got, "another version of geodither wrote them") || strings.Contains(got, "model") {
		t.Errorf("a fingerprint without digests: %s", got)
	}
	same := bytes.Clone(base.Fingerprint())
	same[0]++
	if got := base.Differences(same); !strings.Contains(got, "no single setting") {
		t.Errorf("a fingerprint with the digests of others: %s", got)
	}
}
