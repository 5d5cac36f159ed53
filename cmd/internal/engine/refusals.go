package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/geodither/geodither/schemas"
)

// maxReasons is at least the number of reasons there are.
const maxReasons = 48

// reasons are those of schemas, in their order.
var reasons = schemas.Reasons()

// opening is what the first bytes of a refused record look like. It is all that is
// remembered of them.
type opening uint8

const (
	openingOther     opening = iota
	openingJSON              // "{"
	openingConfluent         // 0x00 or 0x01, and the number or GUID of a schema
	openingAvro              // 0xC3 0x01, Avro single-object encoding
	openingContainer         // "Obj" 0x01, an Avro file
	openingGzip              // 0x1F 0x8B
	openingGlue              // 0x03, and 17 bytes more
	openings                 // how many there are
)

// openingOf recognises the first bytes of a value.
func openingOf(value []byte) opening {
	switch {
	case bytes.HasPrefix(value, []byte("{")):
		return openingJSON
	case schemas.FramingOf(value) == schemas.FramingID,
		schemas.FramingOf(value) == schemas.FramingGUID:
		return openingConfluent
	case schemas.FramingOf(value) == schemas.FramingGlue:
		return openingGlue
	case bytes.HasPrefix(value, []byte{0xC3, 0x01}):
		return openingAvro
	case bytes.HasPrefix(value, []byte("Obj\x01")):
		return openingContainer
	case bytes.HasPrefix(value, []byte{0x1F, 0x8B}):
		return openingGzip
	}
	return openingOther
}

// advice says what such first bytes mean where the other encoding was expected, and what
// to do; "" where they explain nothing.
func (o opening) advice(expected schemas.Encoding) string {
	switch o {
	case openingJSON:
		if expected == schemas.Avro {
			return "these begin with '{': set encoding.raw: json"
		}
	case openingConfluent:
		if expected == schemas.Auto {
			return "these have Confluent's framing: set registry.url to the registry that has " +
				"their schemas; if it is set, their schemas are not of Avro"
		}
		return "these begin as Confluent's framing does: set encoding.raw: auto and registry.url"
	case openingGlue:
		return "these begin with 0x03, the framing of AWS Glue, whose schemas are with AWS " +
			"alone: let the producer use a registry with Confluent's API, or write JSON"
	case openingAvro:
		if expected == schemas.JSON {
			return "these begin with 0xC3 0x01, Avro single-object encoding: set encoding.raw: avro"
		}
		return "these begin with 0xC3 0x01, Avro single-object encoding, of another schema: " +
			"write them with schemas/raw.avsc"
	case openingContainer:
		return "these begin with \"Obj\", Avro files: write each record by itself, in Avro " +
			"single-object encoding"
	case openingGzip:
		return "these begin with 0x1F 0x8B, gzip: let the producer's Kafka client compress, not " +
			"the values"
	case openingOther, openings:
	}
	return ""
}

// adviceFor says what is likely wrong where a reason is frequent.
func adviceFor(reason schemas.Reason) string {
	switch reason.Kind() { //nolint:exhaustive // the others speak for themselves
	case schemas.ReasonMalformed, schemas.ReasonUnknownSchema, schemas.ReasonEmpty:
		return "is encoding.raw right?"
	case schemas.ReasonUnknownSchemaID:
		return "registry.url names a registry that does not have the records' schemas: is it " +
			"that of their producers?"
	case schemas.ReasonMissingField, schemas.ReasonWrongType:
		return "the producer's JSON has other names or types than schemas/raw.avsc"
	case schemas.ReasonKeyMismatch:
		return "the records' key has to be their user_id, as plain text"
	case schemas.ReasonTimestampAhead:
		return "fixes lie further ahead of their Kafka records than max_ahead: are the devices' " +
			"clocks right?"
	case schemas.ReasonBeforeGPS:
		return "times lie before 1980: write milliseconds, not seconds, and leave out devices " +
			"that never had a fix"
	case schemas.ReasonNullIsland:
		return "latitude and longitude are 0: leave out devices that have no fix"
	case schemas.ReasonOutsideMap:
		return "train a model whose map holds the fleet, or set input.outside: clamp"
	case schemas.ReasonWrongPartition:
		return "have every producer use the partitioner of topics.partitioner; geodither doctor " +
			"says which one was used"
	case schemas.ReasonKeyDestroyed:
		return "the key file has no noise of these days: was it advanced with key export " +
			"--until, or is it the wrong file?"
	case schemas.ReasonSeveralUsers:
		return "records hold fixes of several users, and a user's state is in the partition of " +
			"the user's key: split each record before it, so that it has one user's fixes and " +
			"key, with Redpanda Connect's unarchive or a transform of Kafka Connect"
	case schemas.ReasonLate:
		return "a user's fixes have to come in order, step by step: are there two feeds of the " +
			"same users?"
	}
	return ""
}

// OutsideShare is the share of fixes outside the map above which there is a warning: a map that
// fits a fleet holds nearly all of its fixes.
const OutsideShare = .05

// SwappedAdvice is what to say where most fixes outside the map lie on it with latitude
// and longitude swapped.
const SwappedAdvice = "latitude and longitude look swapped: the other way round most of these " +
	"lie on the map"

// Refusals count refused records by reason, and what the values of those that could not
// be decoded begin with. They hold nothing else of the records.
type Refusals struct {
	reasons  [maxReasons]int64
	openings [openings]int64
}

// Add counts a refused record of that value.
func (r *Refusals) Add(reason schemas.Reason, value []byte) {
	if i := slices.Index(reasons, reason); i >= 0 {
		r.reasons[i]++
	}
	switch reason { //nolint:exhaustive // a record that can be decoded is of the encoding expected
	case schemas.ReasonMalformed, schemas.ReasonUnknownSchema, schemas.ReasonInvalidUTF8,
		schemas.ReasonTooLarge, schemas.ReasonWrongType:
		r.openings[openingOf(value)]++
	}
}

// Minus returns what r has more than another.
func (r Refusals) Minus(other Refusals) Refusals {
	for i := range r.reasons {
		r.reasons[i] -= other.reasons[i]
	}
	for i := range r.openings {
		r.openings[i] -= other.openings[i]
	}
	return r
}

// All gives each reason there is, with how many records were refused for it.
func (r *Refusals) All() iter.Seq2[schemas.Reason, int64] {
	return func(yield func(schemas.Reason, int64) bool) {
		for i, reason := range reasons {
			if !yield(reason, r.reasons[i]) {
				return
			}
		}
	}
}

// Of returns how many were refused for one reason.
func (r *Refusals) Of(reason schemas.Reason) int64 {
	if i := slices.Index(reasons, reason); i >= 0 {
		return r.reasons[i]
	}
	return 0
}

// Total returns how many records were refused.
func (r *Refusals) Total() (n int64) {
	for _, of := range r.reasons {
		n += of
	}
	return n
}

// String lists the reasons, the most frequent one first, as in "malformed 3, late 1".
func (r *Refusals) String() string {
	var order []int
	for i := range reasons {
		if r.reasons[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(r.reasons[b], r.reasons[a])
	})
	parts := make([]string, len(order))
	for n, i := range order {
		parts[n] = fmt.Sprintf("%s %d", reasons[i], r.reasons[i])
	}
	return strings.Join(parts, ", ")
}

// Advice is the best guess at what is wrong: by what most of the records that could not
// be decoded begin with, else by the most frequent reason. swapped is how many of the fixes
// outside the map would lie on it with latitude and longitude swapped.
func (r *Refusals) Advice(expected schemas.Encoding, swapped int64) string {
	total := r.Total()
	for o, n := range r.openings {
		if text := opening(o).advice(expected); text != "" && 2*n > total {
			return text
		}
	}
	most := 0
	for i := range reasons {
		if r.reasons[i] > r.reasons[most] {
			most = i
		}
	}
	if reasons[most] == schemas.ReasonOutsideMap && 2*swapped > r.reasons[most] {
		return SwappedAdvice
	}
	return adviceFor(reasons[most])
}

// Advice is Refusals.Advice for records that are read as s says.
func (s Source) Advice(r Refusals, swapped int64) string {
	if s.Mapping == nil {
		return r.Advice(s.Encoding, swapped)
	}
	// What the first bytes tell is about records of raw.avsc.
	r.openings = [openings]int64{}
	text := r.Advice(s.Encoding, swapped)
	switch text {
	case adviceFor(schemas.ReasonMalformed):
		return "are input.format and input.preset right, and is there a registry for what " +
			"needs one?"
	case adviceFor(schemas.ReasonMissingField):
		return "the paths and units under input lead to something else: compare them with a record"
	case adviceFor(schemas.ReasonKeyMismatch):
		return "the records' key has to be the user id that input.user names: is input.key " +
			"right? Or set input.key_check: off, if each user's records are in one partition"
	}
	return text
}

// merge adds the refusals of another tally.
func (r *Refusals) merge(more *Refusals) {
	for i, n := range more.reasons {
		r.reasons[i] += n
	}
	for i, n := range more.openings {
		r.openings[i] += n
	}
}
