package mapping

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/geodither/geodither/schemas"
)

// MaxFixes is the largest number of fixes in one record. All of them are in one transaction.
const MaxFixes = 1000

// Record is what a mapping looks at of a Kafka record.
type Record struct {
	Key, Value []byte
	Headers    Headers // may be nil
	Timestamp  int64   // Kafka's, milliseconds since 1970; -1: none
}

// Fix is what comes of one fix of a record: the fix, or a refusal, or the rule that skips it.
type Fix struct {
	Raw     schemas.Raw
	Refused *schemas.Rejection // nil: it is not refused
	Skipped int                // the rule by its number in Rules; NoRule: it is not skipped
	// Number is the fix's place in the array of Options.Each, from 1. 0: there is none, or this is
	// said of the record as a whole.
	Number int
}

// Usable reports whether the fix is neither refused nor skipped.
func (f Fix) Usable() bool { return f.Refused == nil && f.Skipped == NoRule }

// Mapping says how to read records, as its Options do. It does not change, so any number of
// goroutines may use it.
type Mapping struct {
	source  source
	preset  Preset
	format  Format
	unwraps []path
	eaches  []path
	rules   []rule

	user, header        string // User.From, and the name in it
	userPath            path
	latitude, longitude path
	timestamp           path
	unit                schemas.TimeUnit
	fromKafka           bool
	key                 Key
	spelling            *spelling // nil: keys are in another encoding
	check               KeyCheck
	text                string
}

// Text is the same for two mappings that read every record in the same way, in every run of a
// program.
func (m *Mapping) Text() string { return m.text }

// Name is the preset, or the format of a mapping without one.
func (m *Mapping) Name() string { return cmp.Or(string(m.preset), string(m.format)) }

// Rules are the names of the rules by their numbers, for counters. Nothing of a record is in them.
func (m *Mapping) Rules() []string {
	names := BuiltIn()
	for _, r := range m.rules {
		names = append(names, r.String())
	}
	return names
}

// OneKey reports whether all accepted records of a user have the same key, byte for byte. New
// refuses KeyCheckOn for keys that spell an id in many ways.
func (m *Mapping) OneKey() bool { return m.check == KeyCheckOn }

// UsersAreKeys reports whether the key of a record has to be its user id, byte for byte.
func (m *Mapping) UsersAreKeys() bool { return m.OneKey() && m.spelling == nil }

// KeyOf returns the one key that a user's records have. ok is false where they may have several, or
// where no key spells this id.
func (m *Mapping) KeyOf(user string) (key string, ok bool) {
	switch {
	case !m.OneKey():
		return "", false
	case m.spelling != nil:
		return m.spelling.key(user)
	}
	return user, true
}

// KeySpelling is what determines the bytes of a user's key: empty where the key is the user id.
func (m *Mapping) KeySpelling() string {
	switch {
	case !m.OneKey():
		return "key_check: off"
	case m.spelling != nil:
		return string(m.key)
	}
	return ""
}

// UserFromKey reports whether a record's user is its key, so that a record without one has no user.
func (m *Mapping) UserFromKey() bool { return m.user == FromKey }

// Several reports whether a record may have more than one fix.
func (m *Mapping) Several() bool { return len(m.eaches) > 0 }

// ForFiles returns the mapping for messages of files, which have no Kafka record around them: JSON,
// without a check of keys. Where the user is the key and the preset knows the part of a message
// that has the same id, it is read from there.
func (m *Mapping) ForFiles() *Mapping {
	of := *m
	of.format, of.key, of.check = JSON, KeyString, KeyCheckOff
	if of.UserFromKey() && of.source.sameAsKey != "" {
		of.user = ""
		of.userPath, _ = parsePath(of.source.sameAsKey) // a constant that tests read
	}
	return &of
}

// Arrays are the members of a file's document whose elements are its messages, for a preset of
// documents about one person, who is the key; nil: there is no such preset.
func (m *Mapping) Arrays() []string { return m.source.arrays }

// NeedsKeys reports whether Decoders.Key is needed.
func (m *Mapping) NeedsKeys() bool { return m.key == KeyAvro }

// Reader reads records by a Mapping. It keeps scratch space, so use one for each goroutine.
type Reader struct {
	*Mapping
	decoders Decoders
	raw      *schemas.Codec
}

// NewReader makes a reader. Without Decoders.Value it refuses values that need a registry.
func (m *Mapping) NewReader(d Decoders) (*Reader, error) {
	if m.NeedsKeys() && d.Key == nil {
		return nil, errors.New("key: avro needs a schema registry")
	}
	raw, err := schemas.NewCodec(schemas.Avro)
	return &Reader{m, d, raw}, err
}

// Read returns the fixes of a record in their order, at least one. They share no memory with the
// record. All that are neither refused nor skipped are of one user, and have passed
// schemas.Raw.Validate. If the record as a whole is refused or skipped, the only fix tells it. An
// error is a Decoder's, and says that the record cannot be read now.
func (m *Reader) Read(r Record) ([]Fix, error) {
	if len(r.Value) == 0 {
		return []Fix{{Skipped: RuleTombstone}}, nil
	}
	fixes, err := m.read(r)
	if rejection, ok := errors.AsType[*schemas.Rejection](err); ok {
		return []Fix{{Refused: rejection}}, nil
	}
	return fixes, err
}

// UserOf returns the id of the user whose fixes, of one record, they are; empty if nothing comes of
// them.
func UserOf(fixes []Fix) string {
	for i := range fixes {
		if user := fixes[i].Raw.UserID; user != "" {
			return user
		}
	}
	return ""
}

func (m *Reader) read(r Record) ([]Fix, error) {
	whole, err := m.tree(r)
	if err != nil {
		return nil, err
	}
	elements, err := m.elements(whole)
	switch {
	case err != nil:
		return nil, err
	case elements == nil:
		return []Fix{{Skipped: RuleDeleted}}, nil
	case len(elements) == 0:
		return []Fix{{Skipped: RuleEmpty}}, nil
	case len(elements) > MaxFixes:
		return nil, refused(schemas.ReasonTooLarge)
	}
	s := sight{record: r, whole: whole}
	if m.OneKey() || m.UserFromKey() {
		s.key, err = m.keyUser(r)
		if err != nil && !errors.As(err, &s.badKey) {
			return nil, err
		}
	}
	fixes := make([]Fix, len(elements))
	for i, element := range elements {
		s.part = element
		fixes[i] = m.fix(&s)
		if m.Several() {
			fixes[i].Number = i + 1
		}
	}
	return fixes, m.oneUser(&s, fixes)
}

// sight is what a fix is read from.
type sight struct {
	record      Record
	whole, part any                // of the message
	key         string             // the user id in the key
	badKey      *schemas.Rejection // why there is none
}

// fix says what comes of one fix.
func (m *Reader) fix(s *sight) (f Fix) {
	for i, rule := range m.rules {
		if !rule.holds(s.whole, s.part) {
			return Fix{Skipped: firstWhere + i}
		}
	}
	raw, reason := m.rawOf(s)
	if reason != "" {
		return Fix{Refused: &schemas.Rejection{Reason: reason}}
	}
	if errors.As(raw.Validate(), &f.Refused) {
		return f
	}
	f.Raw = raw
	return f
}

// rawOf reads the fields of a fix.
func (m *Reader) rawOf(s *sight) (fix schemas.Raw, reason schemas.Reason) {
	if fix.UserID, reason = m.userID(s); reason != "" {
		return fix, reason
	}
	if fix.Timestamp, reason = m.time(s); reason != "" {
		return fix, reason
	}
	if fix.Latitude, reason = m.degrees(s, m.latitude, "latitude"); reason != "" {
		return fix, reason
	}
	fix.Longitude, reason = m.degrees(s, m.longitude, "longitude")
	return fix, reason
}

func (m *Reader) userID(s *sight) (string, schemas.Reason) {
	switch {
	case s.badKey != nil:
		return "", schemas.ReasonKeyMismatch
	case m.UserFromKey():
		return s.key, ""
	case m.header != "":
		if s.record.Headers != nil {
			if value, ok := s.record.Headers.Last(m.header); ok {
				return string(value), ""
			}
		}
		return "", schemas.ReasonMissingField.At("user_id")
	}
	found, ok := m.userPath.find(s.whole, s.part)
	if !ok || found == nil {
		return "", schemas.ReasonMissingField.At("user_id")
	}
	user, ok := userOf(found)
	if !ok {
		return "", schemas.ReasonWrongType.At("user_id")
	}
	return user, ""
}

func (m *Reader) time(s *sight) (int64, schemas.Reason) {
	if m.fromKafka {
		if s.record.Timestamp < 0 {
			return 0, schemas.ReasonMissingField.At("timestamp")
		}
		return s.record.Timestamp, ""
	}
	found, ok := m.timestamp.find(s.whole, s.part)
	if !ok || found == nil {
		return 0, schemas.ReasonMissingField.At("timestamp")
	}
	ms, reason := millisOf(found, m.unit)
	return ms, at(reason, "timestamp")
}

func (m *Reader) degrees(s *sight, p path, field string) (float64, schemas.Reason) {
	found, ok := p.find(s.whole, s.part)
	if !ok || found == nil {
		return 0, schemas.ReasonMissingField.At(field)
	}
	degrees, reason := degreesAt(found, p, field)
	return degrees, at(reason, field)
}

// elements returns the parts of a message that are fixes: nil for a row that is gone.
func (m *Reader) elements(whole any) ([]any, error) {
	part, found := first(m.unwraps, whole, whole)
	switch {
	case !found:
		return nil, refused(schemas.ReasonMissingField.At("unwrap"))
	case part == nil:
		return nil, nil
	case !m.Several():
		return []any{part}, nil
	}
	part, found = first(m.eaches, whole, part)
	switch part := part.(type) {
	case []any:
		return part, nil // never nil: see DecodeTree
	case map[string]any:
		if found {
			return []any{part}, nil
		}
	}
	return nil, refused(schemas.ReasonMissingField.At("each"))
}

// first returns what the first path that leads to something leads to; without paths the part.
func first(paths []path, whole, part any) (any, bool) {
	for _, p := range paths {
		if found, ok := p.find(whole, part); ok {
			return found, true
		}
	}
	return part, len(paths) == 0
}

// oneUser refuses a record whose fixes are of several users: each has a state of its own, perhaps
// in another partition. It also refuses a record whose key is another one than the user's.
func (m *Reader) oneUser(s *sight, fixes []Fix) error {
	user := ""
	for i := range fixes {
		switch id := fixes[i].Raw.UserID; {
		case id == "": // skipped or refused
		case user == "":
			user = id
		case id != user:
			return refused(schemas.ReasonSeveralUsers)
		}
	}
	if user != "" && m.OneKey() && user != s.key {
		return refused(schemas.ReasonKeyMismatch)
	}
	return nil
}

// singleObject begins a value in Avro's single-object encoding.
var singleObject = []byte{0xC3, 0x01}

// tree decodes a value.
func (m *Reader) tree(r Record) (any, error) {
	format := m.format
	if format == Auto {
		switch first := r.Value[0]; {
		case first == '{' || first == '[':
			format = JSON
		case m.source.protobuf != nil && !bytes.HasPrefix(r.Value, singleObject):
			format = Protobuf
		default:
			format = Avro
		}
	}
	switch format {
	case JSON:
		tree, err := schemas.DecodeTree(r.Value)
		if err == nil && m.source.prepare != nil {
			tree = m.source.prepare(tree)
		}
		return tree, err
	case Protobuf:
		if len(r.Value) > schemas.MaxTreeBytes {
			return nil, refused(schemas.ReasonTooLarge)
		}
		return m.source.protobuf(r.Value)
	default:
		return m.avro(r)
	}
}

// avro reads a value of raw.avsc without a registry, and any other with the Decoder.
func (m *Reader) avro(r Record) (any, error) {
	if bytes.HasPrefix(r.Value, singleObject) {
		fix, err := m.raw.DecodeRaw(r.Value)
		if err == nil {
			return map[string]any{
				"user_id": fix.UserID, "timestamp": fix.Timestamp,
				"latitude": fix.Latitude, "longitude": fix.Longitude,
			}, nil
		}
		var rejection *schemas.Rejection
		if m.decoders.Value == nil || !errors.As(err, &rejection) ||
			rejection.Reason != schemas.ReasonUnknownSchema {
			return nil, err
		}
	}
	if m.decoders.Value == nil {
		return nil, refused(schemas.ReasonUnknownSchema)
	}
	return m.decoders.Value(r.Value, r.Headers)
}

// keyUser decodes a key into the user id that it holds, in the one spelling or in any. A key in
// JSON or Avro is a text, a whole number, or an object with one such member, as Connect writes the
// key of a table.
func (m *Reader) keyUser(r Record) (string, error) {
	if m.spelling != nil {
		user, ok := m.spelling.user(string(r.Key))
		if !ok {
			return "", refused(schemas.ReasonKeyMismatch)
		}
		return user, nil
	}
	var tree any
	var err error
	switch m.key {
	case KeyJSON:
		tree, err = schemas.DecodeTree(r.Key)
	case KeyAvro:
		tree, err = m.decoders.Key(r.Key, r.Headers)
	default:
		return string(r.Key), nil
	}
	if err != nil {
		return "", err
	}
	tree = unwrapEnvelope(tree)
	if members, ok := tree.(map[string]any); ok && len(members) == 1 {
		for _, member := range members {
			tree = member
		}
	}
	user, ok := userOf(tree)
	if !ok {
		return "", refused(schemas.ReasonKeyMismatch)
	}
	return user, nil
}

// unwrapEnvelope takes the payload out of {"schema": ..., "payload": ...}, which Connect's JSON
// converter writes around keys and values by default.
func unwrapEnvelope(tree any) any {
	members, ok := tree.(map[string]any)
	if !ok || len(members) != 2 {
		return tree
	}
	payload, ok := members["payload"]
	if _, schema := members["schema"]; ok && schema {
		return payload
	}
	return tree
}

func refused(reason schemas.Reason) error { return &schemas.Rejection{Reason: reason} }

// userOf reads a user id: a text, or a whole number as it is written.
func userOf(v any) (string, bool) {
	switch v := scaled(v).(type) {
	case string:
		return v, true
	case json.Number:
		text := v.String()
		return text, !strings.ContainsAny(text, ".eE")
	case int64:
		return strconv.FormatInt(v, 10), true
	}
	return "", false
}
