package engine

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/registry"
)

// Settings determine the bytes of records, dead letters and states, given the raw topic:
// all that Fingerprint covers, and the numbers of schemas. Required: Model, Key and
// Release.Epsilon.
type Settings struct {
	// Model is the first version of the mobility model, and Later are those that follow it, starts
	// ascending, all of its step. Later is no part of the fingerprint: marks of the changelog have
	// the list, since versions may be added to it (task.Options.Versions).
	Model *mobility.Model
	Later []*Version

	Key     noise.Key // secret of the noise
	Release mechanism.Options
	Publish Publish // what records tell beside the place
	Input   Input   // what becomes of fixes that are late or outside the map

	RawEncoding       schemas.Encoding // default Avro; without a meaning where Input has a Mapping
	SanitizedEncoding schemas.Encoding // of the sanitized and dead-letter topics; default Avro

	// SchemaIDs are a registry's numbers of the schemas, for schemas.AvroRegistry. They alone are
	// no part of the fingerprint: another registry gives others to the same records.
	SchemaIDs schemas.IDs

	// MaxAhead is how far a fix's time may lie ahead of its Kafka record's timestamp;
	// default DefaultMaxAhead; AnyAhead is no bound. No clock is asked, so that a topic gives the
	// same result whenever it is read.
	MaxAhead time.Duration

	// Registry has the schemas of raw records in the framings of registries; nil: there is none. It
	// is no setting: what a schema's number means is the records' own.
	Registry *registry.Client

	// Partitioner says how the producers of the raw topic choose a record's partition;
	// default Murmur2. A record that lies elsewhere is refused.
	Partitioner Partitioner
}

// WithDefaults returns the settings with every empty one filled in, except those of the
// releases: mechanism.NewSanitizer fills them in.
func (s Settings) WithDefaults() Settings {
	s.Publish = s.Publish.withDefaults()
	s.Input = s.Input.withDefaults()
	s.RawEncoding = cmp.Or(s.RawEncoding, schemas.Avro)
	s.SanitizedEncoding = cmp.Or(s.SanitizedEncoding, schemas.Avro)
	s.MaxAhead = cmp.Or(s.MaxAhead, DefaultMaxAhead)
	s.Partitioner = cmp.Or(s.Partitioner, Murmur2)
	return s
}

// Source returns how raw records are read.
func (s Settings) Source() Source {
	s = s.WithDefaults()
	return Source{s.RawEncoding, s.Input.Mapping, s.Registry, s.MaxAhead}
}

// RecordsVersion is the version of the sanitized records that an engine writes.
const RecordsVersion = 1

// SameReleases reports whether a fingerprint is that of settings under which the same fixes give
// the same releases in the same order: it differs from s in nothing, or in whether records have the
// release.
func (s Settings) SameReleases(fingerprint []byte) bool {
	for _, omit := range []bool{false, true} {
		s.Publish.OmitRelease = omit
		if own := s.Fingerprint(); len(own) > 0 && bytes.Equal(own, fingerprint) {
			return true
		}
	}
	return false
}

// Validate reports everything that is missing or out of range, in one error, by the keys of
// the config.
func (s Settings) Validate() error {
	var errs []error
	add := func(key string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	d := s.WithDefaults()
	if s.Model == nil {
		add("model", errors.New("a mobility model is required (geodither train)"))
	}
	switch {
	case s.Key.IsZero():
		add("key_file", errors.New("the noise needs a key (geodither key new)"))
	case !s.Key.HasNoise():
		add("key_file", errNoNoise)
	}
	add("topics.partitioner", d.Partitioner.Validate())
	if s.MaxAhead < 0 {
		add("max_ahead", errors.New("must not be negative"))
	}
	add("encoding.raw", d.RawEncoding.ValidateRaw())
	add("encoding.sanitized", d.SanitizedEncoding.ValidatePublished())
	add("release", s.Release.Validate())
	add("publish", s.Publish.Validate())
	add("input", s.Input.Validate())
	if m := s.Input.Mapping; m != nil && m.NeedsKeys() && s.Registry == nil {
		add("input", errors.New("key: avro needs a schema registry"))
	}
	return errors.Join(errs...)
}

var errNoNoise = errors.New("this key of pseudonyms has no noise (key-file)")

// Day is the day on which the step of a fix begins: all versions of a model have one step.
// The noise of a fix's release is drawn with the key of that day.
func (s Settings) Day(ms int64) noise.Day {
	step := s.Model.Step.Milliseconds()
	return noise.DayAt(ms / step * step)
}

// settingsSize is how many bytes of the hash over all settings are kept: enough that
// no two settings of anybody's share them by chance.
const settingsSize = 16

// settingsVersion goes up whenever the glue between records and the mechanism
// makes other bytes of the same facts, and whenever the list of names in settings
// changes otherwise than at its end.
const settingsVersion = 1

// keyLabel is what the key's fingerprint is the keyed hash of.
const keyLabel = "geodither settings: fingerprint of the key 1"

// setting is one of the facts that determine published bytes: its key in the config,
// and its value in a text that is the same in every program.
type setting struct{ name, value string }

// words is the name, and the keys that share its digest.
func (s setting) words() string {
	switch s.name {
	case codebookSetting:
		return "release.mechanism or the version of the codebook or of its states"
	case encodingSetting:
		return encodingSetting + " or how input reads records"
	case estimateSetting:
		return "publish.estimate"
	case hoursKey:
		return hoursKey + " or the rules of its time zones"
	}
	return s.name
}

func (s setting) hash() [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q", s.name, s.value))
}

// digest is the byte of a fingerprint that stands for the setting.
func (s setting) digest() byte { return s.hash()[0] }

// settings lists all of them: everything that determines the bytes of records, dead letters and
// states, given the raw topic. The topics' names, group, transactions and the store are not among
// it, nor are later versions of the model. Nil for options that Validate refuses.
//
// The order is that of the digests in a fingerprint: a new setting goes to the end, and
// one that is gone leaves an entry without a value. It costs one pass over a model, which
// remembers its id.
func (s Settings) settings() []setting {
	s = s.WithDefaults()
	if s.Model == nil || !s.Key.HasNoise() {
		return nil
	}
	s.Later = nil
	engine, err := New(s)
	if err != nil {
		return nil
	}
	r := engine.options // with its defaults filled in
	return []setting{
		{"geodither's version", text("%d %d %d", settingsVersion, mechanism.Version,
			mechanism.StateVersion)}, // the codebook's own is in its setting
		{"model", s.Model.ID()},
		{keySetting, text("%x", s.KeyFingerprint())},
		mechanismSetting(r),
		{"release.inference", r.Inference},
		{"release.isotropy", r.Isotropy},
		{"release.subdivision", text("%d", r.Subdivision)},
		{"release.epsilon", text("%x", r.Epsilon)},
		{"release.delta", text("%x", r.Delta)},
		{"release.max_gap", text("%d", r.MaxGap)},
		{"release.min_cells", text("%d", max(r.MinCells, 0))},
		{estimateSetting, r.Estimate},
		{"release.interval", text("%d", r.ReleaseInterval)},
		{"release.between", r.Between},
		{"release.budget.epsilon", text("%x", r.Budget.Epsilon)},
		{"release.budget.window", text("%d", r.Budget.WindowSteps)},
		{"release.budget.lifetime", text("%x", r.Budget.Lifetime)},
		{"release.between (budget spent)", r.Budget.Spent},
		{"publish.timestamp", s.Publish.Timestamp},
		{"publish.user", s.Publish.User},
		{encodingSetting, text("%q", s.RawEncoding) + s.Input.reading()},
		{"encoding.sanitized", text("%q", s.SanitizedEncoding)},
		{"max_ahead", text("%d", s.MaxAhead.Milliseconds())},
		{"topics.partitioner", string(s.Partitioner)},
		{"input.outside", s.Input.Outside},
		{"publish.release", text("%t", !s.Publish.OmitRelease)},
		{hoursKey, hoursSetting(r.Hours)},
	}
}

// text is fmt.Sprintf.
func text(format string, values ...any) string { return fmt.Sprintf(format, values...) }

// estimateSetting is the name of publish.estimate among the settings. It is part of the
// fingerprint, so it stays as it was before the config had the key.
const estimateSetting = "release.estimate"

// hoursKey is the hours' name among the settings.
const hoursKey = "release.hours"

// hoursSetting is the hours among the settings, with the version of the zones' rules: under other
// rules other steps may lie within the same hours.
func hoursSetting(spans []hours.Span) string {
	if len(spans) == 0 {
		return ""
	}
	return fmt.Sprintf("zones %s %v", hours.ZoneVersion, spans)
}

// mechanismSetting is the mechanism among the settings, which under law.Codebook has its version
// and that of its states. One byte of a fingerprint stands for all of it.
func mechanismSetting(r mechanism.Options) setting {
	value := fmt.Sprintf("%s prune %x", r.Mechanism, max(r.Prune, 0)) // its default depends on it
	if r.Mechanism != law.Codebook {
		return setting{"release.mechanism", value}
	}
	return setting{codebookSetting, fmt.Sprintf("%s %d", value, law.CodebookVersion)}
}

// codebookSetting is the name of the mechanism among the settings under law.Codebook.
const codebookSetting = "release.mechanism or the version of its codebook"

// Fingerprint is the same in every instance of a service and in every run of it, and
// another one under other settings. It is a hash over all settings (16 bytes), and behind
// it a digest of one byte for each, so that Differences can name those that differ. It is
// kept in the changelog and shown to the group, in the clear, and says nothing of the key
// to those who cannot guess all of it: the key enters through a keyed hash. Nil for settings
// that Validate refuses.
func (s Settings) Fingerprint() []byte {
	return fingerprint(s.settings())
}

// fingerprint is that of a list of settings, nil of none.
func fingerprint(list []setting) []byte {
	if list == nil {
		return nil
	}
	var digests []byte
	all := sha256.New()
	for _, one := range list {
		hash := one.hash()
		all.Write(hash[:])
		digests = append(digests, one.digest())
	}
	return append(all.Sum(nil)[:settingsSize], digests...)
}

// Differences says in words in which settings those of a fingerprint differ from s, by
// their keys in the config; "" if in none. Two values of one setting share a digest with a
// probability of 1/256, so a name may be missing where others stand. One of another length
// is another version's, and its digests say nothing.
func (s Settings) Differences(other []byte) string {
	list := s.settings()
	own := fingerprint(list)
	if bytes.Equal(own, other) {
		return ""
	}
	var names []string
	for i, one := range list {
		if at := settingsSize + i; len(other) == len(own) && other[at] != own[at] {
			names = append(names, one.words())
		}
	}
	switch {
	case len(other) != len(own):
		return "another version of geodither wrote them, so what differs cannot be named"
	case len(names) == 0:
		return "the hash differs and no single setting shows it: compare the two configs, " +
			"models and keys"
	}
	return strings.Join(names, ", ")
}

// GroupFingerprint is what an instance tells its group: the fingerprint, and behind it the
// first day of the key and a hash of the list of models. An advanced key and a longer list are no
// other settings to a service that goes on under them, but side by side with the older ones what
// becomes of a fix would depend on which instance has the partition.
func (s Settings) GroupFingerprint() []byte {
	settings := s.Fingerprint()
	if settings == nil {
		return nil
	}
	list := sha256.Sum256(fmt.Append(nil, s.Versions()))
	b := binary.BigEndian.AppendUint32(settings, uint32(s.Key.FirstDay()))
	return append(b, list[:listBytes]...)
}

// dayBytes and listBytes are the lengths of a day and of a list's hash behind the fingerprint.
const dayBytes, listBytes = 4, 8

// DifferencesInGroup is Differences for what an instance has told the group. It has no
// digests to compare where the other instance is of another version.
func (s Settings) DifferencesInGroup(other []byte) string {
	own := s.GroupFingerprint()
	if len(other) != len(own) || bytes.Equal(other, own) {
		return s.Differences(other)
	}
	n := len(own) - dayBytes - listBytes
	var names []string
	if text := s.Differences(other[:n]); text != "" {
		names = append(names, text)
	}
	if !bytes.Equal(own[n:n+dayBytes], other[n:n+dayBytes]) {
		names = append(names, "key_file: it has noise from another day on")
	}
	if !bytes.Equal(own[n+dayBytes:], other[n+dayBytes:]) {
		names = append(names, "models: it has another list")
	}
	return strings.Join(names, ", ")
}

// encodingSetting is the encoding's name among the settings. Its value has how Input reads records
// too, which is nothing where a config says nothing of it.
const encodingSetting = "encoding.raw"

// keySetting is the noise key's name among the settings.
const keySetting = "key_file"

// KeyFingerprint is a keyed hash of a fixed text under a subkey of its own, 16 bytes: the same
// for the same key, however many of its days were destroyed, and no help in finding it. Marks have
// it in the clear (task.Mark.Names), because the names of erased users follow from the key.
func (s Settings) KeyFingerprint() []byte {
	mac := s.Key.MAC(noise.Fingerprint)
	mac.Write([]byte(keyLabel))
	return mac.Sum(nil)[:settingsSize]
}

// PartitionerName names what puts a user's records into a partition of that many: the partitioner,
// the number, and how keys spell user ids. Under another one users move away from their states, so
// it is what marks hold (task.Options.Partitioner). In a topic of one partition nobody can move.
func (s Settings) PartitionerName(partitions int) string {
	if partitions == 1 {
		return "one partition"
	}
	s = s.WithDefaults()
	text := fmt.Sprintf("%s, %d partitions", s.Partitioner, partitions)
	if m := s.Input.Mapping; m != nil && m.KeySpelling() != "" {
		text += ", " + m.KeySpelling()
	}
	if len(text) <= task.MarkBytes {
		return text
	}
	sum := sha256.Sum256([]byte(text)) // a spelling with the envelope of Connect is long
	return fmt.Sprintf("%s… %x", strings.ToValidUTF8(text[:task.MarkBytes-12], ""), sum[:4])
}

// OneAccount is the function OneAccount where releases have a budget, which an account is for.
func (s Settings) OneAccount(partitions int) error {
	if s = s.WithDefaults(); !s.Release.Budget.Limited() {
		return nil
	}
	return OneAccount(s.Partitioner, s.Source(), partitions)
}
