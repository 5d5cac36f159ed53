package pipeline

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
)

// settingsSize is how many bytes of the hash over all settings are kept: enough that
// no two settings of anybody's share them by chance.
const settingsSize = 16

// settingsVersion goes up whenever the glue between records and the mechanism
// makes other bytes of the same facts, and whenever the list of names in settings
// changes otherwise than at its end.
const settingsVersion = 3

// keyLabel is what the key's fingerprint is the keyed hash of.
const keyLabel = "geodither settings: fingerprint of the key 2"

// setting is one of the facts that determine published bytes: its key in the config,
// and its value in a text that two programs write alike.
type setting struct{ name, value string }

func (s setting) hash() [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q", s.name, s.value))
}

// digest is the byte of a fingerprint that stands for the setting.
func (s setting) digest() byte { return s.hash()[0] }

// settings lists everything that determines the bytes of records, dead letters and
// states, given the raw topic. The topics' names, group, transactions and the
// store are not among it, nor are later versions of the model: those are amendments (task.Amender), each
// with the offset from which on it counts. Nil for options that Validate refuses.
//
// The order is that of the digests in a fingerprint: a new setting goes to the end, and
// one that is gone leaves an entry without a value. It costs one pass over a model, which
// remembers its id.
func (o Options) settings() []setting {
	o = o.withDefaults()
	if o.Model == nil || !o.Key.HasNoise() {
		return nil
	}
	engine, err := newEngine(&Material{Model: o.Model}, o.Key, o.Release, o.Publish)
	if err != nil {
		return nil
	}
	personal := ""
	if o.Personals != nil {
		personal = o.Personals.ID()
	}
	r := engine.options // with its defaults filled in
	text := func(format string, values ...any) string { return fmt.Sprintf(format, values...) }
	return []setting{
		{"geodither's version", text("%d %d %d", settingsVersion, mechanism.Version, mechanism.StateVersion)},
		{"model", o.Model.ID()},
		{"personal", personal},
		{"key_file", text("%x", keyFingerprint(o.Key))},
		{"release.mechanism", r.Mechanism},
		{"release.inference", r.Inference},
		{"release.isotropy", r.Isotropy},
		{"release.subdivision", text("%d", r.Subdivision)},
		{"release.epsilon", text("%x", r.Epsilon)},
		{"release.delta", text("%x", r.Delta)},
		{"release.prune", text("%x", max(r.Prune, 0))},
		{"release.max_gap", text("%d", r.MaxGap)},
		{"release.min_cells", text("%d", max(r.MinCells, 0))},
		{"release.min_radius", text("%x", max(r.MinRadiusKM, 0))},
		{"release.estimate", r.Estimate},
		{"release.interval", text("%d", r.ReleaseInterval)},
		{"release.adaptive_radius", text("%x", r.AdaptiveRadiusKM)},
		{"release.between", r.Between},
		{"release.same_step", r.SameStep},
		{"release.budget.epsilon", text("%x", r.Budget.Epsilon)},
		{"release.budget.window", text("%d", r.Budget.WindowSteps)},
		{"release.budget.lifetime", text("%x", r.Budget.Lifetime)},
		{"release.budget.spent", r.Budget.Spent},
		{"publish.timestamp", o.Publish.Timestamp},
		{"publish.user", o.Publish.User},
		{"publish.metric", text("%t", o.Publish.Metric)},
		{"encoding.raw", text("%q", o.RawEncoding)},
		{"encoding.sanitized", text("%q", o.SanitizedEncoding)},
		{"max_ahead", text("%d", o.MaxAhead.Milliseconds())},
		{"topics.partitioner", string(o.Topics.Partitioner)},
		{"input.outside", o.Input.Outside},
		{"input.late", o.Input.Late},
	}
}

// Settings is a fingerprint of everything that determines the bytes of records, dead
// letters and states, given the raw topic: the same in every instance of a service and
// in every run of it. It is a hash over all settings (16 bytes), and behind it a digest of
// one byte for each, so that DifferentSettings can name those that differ. It is kept in
// the changelog and shown to the group, in the clear, and says nothing of the key to
// whoever cannot guess all of it: the key enters through a keyed hash. Nil for options
// that Validate refuses.
func (o Options) Settings() []byte {
	list := o.settings()
	if list == nil {
		return nil
	}
	var digests []byte
	all := sha256.New()
	for _, s := range list {
		one := s.hash()
		all.Write(one[:])
		digests = append(digests, s.digest())
	}
	return append(all.Sum(nil)[:settingsSize], digests...)
}

// DifferentSettings says in words in which settings those of a fingerprint differ from
// o's, by their keys in the config; "" if in none. Two values of one setting share a digest
// with a probability of 1/256, so a name may be missing where others stand. One of
// another length is another version's, and its digests say nothing.
func (o Options) DifferentSettings(other []byte) string {
	own := o.Settings()
	if bytes.Equal(own, other) {
		return ""
	}
	var names []string
	for i, s := range o.settings() {
		if at := settingsSize + i; len(other) == len(own) && other[at] != own[at] {
			names = append(names, s.name)
		}
	}
	switch {
	case len(other) != len(own):
		return "another version of geodither wrote them, so what differs cannot be named"
	case len(names) == 0:
		return "the hash differs and no single setting shows it: compare the two configs, models and keys"
	}
	return strings.Join(names, ", ")
}

// keyFingerprint is a keyed hash of a fixed text under a subkey of its own: the same
// for the same key, however many of its days were destroyed, and no help in finding it.
func keyFingerprint(key noise.Key) []byte {
	mac := key.MAC(noise.Fingerprint)
	mac.Write([]byte(keyLabel))
	return mac.Sum(nil)[:settingsSize]
}
