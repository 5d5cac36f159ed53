package pipeline

import (
	"crypto/sha256"
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
)

// settingsSize is how many bytes of the hash are kept: enough that no two
// settings of anybody's share them by chance.
const settingsSize = 16

// settingsVersion goes up whenever the glue between records and the mechanism
// makes other bytes of the same facts.
const settingsVersion = 3

// keyLabel is what the key's fingerprint is the keyed hash of.
const keyLabel = "geodither settings: fingerprint of the key 2"

// Settings is a fingerprint of everything that determines the bytes of records,
// dead letters and states, given the raw topic: 16 bytes, the same in every
// instance of a service and in every run of it. Topics, group, transactions and
// the store are not in it, nor are later versions of the model: those are amendments
// (task.Amender), each with the offset from which on it counts. It is kept in the changelog, in the clear, and says
// nothing of the key to whoever cannot guess all of it: the key enters through a
// keyed hash. Nil for options that Validate refuses.
//
// It costs one pass over a model, which remembers its id.
func (o Options) Settings() []byte {
	o = o.withDefaults()
	if o.Model == nil || !o.Key.HasNoise() {
		return nil
	}
	engine, err := newEngine(&Material{Model: o.Model}, o.Key, o.Release, o.Publish)
	if err != nil {
		return nil
	}
	r := engine.options // with its defaults filled in
	h := sha256.New()
	// One line for each setting, by name: a setting that is added later can stay
	// out of the text where it has its default.
	fmt.Fprintf(h, "geodither settings %d\n", settingsVersion)
	fmt.Fprintf(h, "mechanisms %d\nstates %d\nmodel %q\nkey %x\n", mechanism.Version, mechanism.StateVersion, o.Model.ID(), keyFingerprint(o.Key))
	fmt.Fprintf(h, "mechanism %q\ninference %q\nisotropy %q\nsubdivision %d\n", r.Mechanism, r.Inference, r.Isotropy, r.Subdivision)
	fmt.Fprintf(h, "epsilon %x\ndelta %x\nprune %x\nmax_gap %d\n", r.Epsilon, r.Delta, max(r.Prune, 0), r.MaxGap)
	fmt.Fprintf(h, "min_cells %d\nmin_radius_km %x\nestimate %q\n", max(r.MinCells, 0), max(r.MinRadiusKM, 0), r.Estimate)
	fmt.Fprintf(h, "interval %d\nadaptive_radius_km %x\nbetween %q\nsame_step %q\n", r.ReleaseInterval, r.AdaptiveRadiusKM, r.Between, r.SameStep)
	fmt.Fprintf(h, "budget %x\nwindow %d\nlifetime %x\nspent %q\n", r.Budget.Epsilon, r.Budget.WindowSteps, r.Budget.Lifetime, r.Budget.Spent)
	fmt.Fprintf(h, "timestamp %q\nuser %q\nmetric %t\n", o.Publish.Timestamp, o.Publish.User, o.Publish.Metric)
	fmt.Fprintf(h, "raw %q\nsanitized %q\nmax_ahead_ms %d\n", o.RawEncoding, o.SanitizedEncoding, o.MaxAhead.Milliseconds())
	if o.Personals != nil {
		fmt.Fprintf(h, "personals %q\n", o.Personals.ID())
	}
	return h.Sum(nil)[:settingsSize]
}

// keyFingerprint is a keyed hash of a fixed text under a subkey of its own: the same
// for the same key, however many of its days were destroyed, and no help in finding it.
func keyFingerprint(key noise.Key) []byte {
	mac := key.MAC(noise.Fingerprint)
	mac.Write([]byte(keyLabel))
	return mac.Sum(nil)[:settingsSize]
}
