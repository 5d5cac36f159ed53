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

// opening is what the first bytes of a refused record look like, and what it means where another
// encoding was expected, and what to do. Which one it was is all that is remembered of the bytes.
type opening struct {
	begins          func(value []byte) bool
	under           schemas.Encoding // what was expected where special is the advice; empty: never
	special, advice string           // empty: they explain nothing
}

func prefix(text string) func([]byte) bool {
	return func(value []byte) bool { return bytes.HasPrefix(value, []byte(text)) }
}

func framed(as ...schemas.Framing) func([]byte) bool {
	return func(value []byte) bool { return slices.Contains(as, schemas.FramingOf(value)) }
}

// openings are those that are recognised. The first one that fits counts.
var openings = [...]opening{
	{
		prefix("{"), schemas.Avro,
		"these begin with '{': set encoding.raw: json", "",
	},
	{
		framed(schemas.FramingID, schemas.FramingGUID), schemas.Auto,
		"these have Confluent's framing: set registry.url to the registry that has " +
			"their schemas; if it is set, their schemas are not of Avro",
		"these begin as Confluent's framing does: set encoding.raw: auto and registry.url",
	},
	{
		framed(schemas.FramingGlue), "", "",
		"these begin with 0x03, the framing of AWS Glue, whose schemas are with AWS " +
			"alone: let the producer use a registry with Confluent's API, or write JSON",
	},
	{
		prefix("\xC3\x01"), schemas.JSON,
		"these begin with 0xC3 0x01, Avro single-object encoding: set encoding.raw: avro",
		"these begin with 0xC3 0x01, Avro single-object encoding, of another schema: " +
			"write them with schemas/raw.avsc",
	},
	{
		prefix("Obj\x01"), "", "",
		"these begin with \"Obj\", Avro files: write each record by itself, in Avro " +
			"single-object encoding",
	},
	{
		prefix("\x1F\x8B"), "", "",
		"these begin with 0x1F 0x8B, gzip: let the producer's Kafka client compress, not " +
			"the values",
	},
}

const (
	anotherEncoding = "is encoding.raw right?"
	otherNames      = "the producer's JSON has other names or types than schemas/raw.avsc"
	binaryKeys      = "are keys or user ids binary, as LongSerializer or a UUID's bytes are? " +
		"Have the producer write them as text, with StringSerializer"
)

// advice says what is likely wrong where a reason is frequent. The others speak for themselves.
var advice = map[schemas.Reason]string{
	schemas.ReasonMalformed:     anotherEncoding,
	schemas.ReasonUnknownSchema: anotherEncoding,
	schemas.ReasonEmpty:         anotherEncoding,
	schemas.ReasonUnknownSchemaID: "registry.url names a registry that does not have the " +
		"records' schemas: is it that of their producers?",
	schemas.ReasonApicurioID: "let Apicurio's serializer write ids as Confluent's does: set " +
		"apicurio.registry.headers.enabled=false, use-id=contentId and the Default4ByteIdHandler",
	schemas.ReasonInvalidUTF8:  binaryKeys,
	schemas.ReasonUserReserved: binaryKeys,
	schemas.ReasonMissingField: otherNames,
	schemas.ReasonWrongType:    otherNames,
	schemas.ReasonKeyMismatch: "the records' key has to be their user_id, as plain text: no " +
		"binary number, no quotes",
	schemas.ReasonTimestampAhead: "fixes lie further ahead of their Kafka records than " +
		"max_ahead: are the devices' clocks right?",
	schemas.ReasonNoRecordTime: "the records have no Kafka timestamp to hold a fix's time " +
		"against: set message.timestamp.type=LogAppendTime on the topic, or max_ahead: off",
	schemas.ReasonBeforeGPS: "times lie before 1980: write milliseconds, or set " +
		"input.timestamp.unit to theirs; leave out devices that never had a fix",
	schemas.ReasonNullIsland: "latitude and longitude are 0: leave out devices that have no fix",
	schemas.ReasonOutsideMap: "train a model whose map holds the fleet, or set " +
		"input.outside: clamp",
	schemas.ReasonWrongPartition: "geodither doctor says which partitioner was used: before a " +
		"first start set topics.partitioner to it, later have every producer use the config's",
	schemas.ReasonKeyDestroyed: "the key file has no noise of these days: was it advanced with " +
		"key export --until, or is it the wrong file?",
	schemas.ReasonSeveralUsers: "records hold fixes of several users, and a user's state is in " +
		"the partition of the user's key: split each record before it, so that it has one user's " +
		"fixes and key, with Redpanda Connect's unarchive or a transform of Kafka Connect",
	schemas.ReasonLatitudeOutOfRange: "are latitude and longitude swapped, or written as whole " +
		"numbers?",
	schemas.ReasonAfterGrace: "fixes come later than counts.grace after their window: history, " +
		"devices that send late, or times of another zone",
	schemas.ReasonProducerTime: "records from before the raw topic got its brokers' times do not " +
		"count",
	schemas.ReasonLate: "a user's fixes have to come in order, step by step: are there two feeds " +
		"of the same users?",
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
	ByReason  [maxReasons]int64    // in the order of schemas.Reasons
	ByOpening [len(openings)]int64 // of those that are recognised
	// Sound is how many fixes were not refused, where no other number of a Tally has them.
	Sound int64
}

// addTimes adds other refusals so many times.
func (r *Refusals) addTimes(more *Refusals, times int64) {
	addNumbers(r.ByReason[:], more.ByReason[:], times)
	addNumbers(r.ByOpening[:], more.ByOpening[:], times)
	r.Sound += times * more.Sound
}

// Add counts a refused record of that value.
func (r *Refusals) Add(reason schemas.Reason, value []byte) {
	if i := slices.Index(reasons, reason); i >= 0 {
		r.ByReason[i]++
	}
	switch reason { //nolint:exhaustive // a record that can be decoded is of the encoding expected
	case schemas.ReasonMalformed, schemas.ReasonUnknownSchema, schemas.ReasonInvalidUTF8,
		schemas.ReasonTooLarge, schemas.ReasonWrongType:
		begins := func(o opening) bool { return o.begins(value) }
		if i := slices.IndexFunc(openings[:], begins); i >= 0 {
			r.ByOpening[i]++
		}
	}
}

// All gives each reason there is, with how many records were refused for it.
func (r *Refusals) All() iter.Seq2[schemas.Reason, int64] {
	return func(yield func(schemas.Reason, int64) bool) {
		for i, reason := range reasons {
			if !yield(reason, r.ByReason[i]) {
				return
			}
		}
	}
}

// Of returns how many were refused for one reason.
func (r *Refusals) Of(reason schemas.Reason) int64 {
	if i := slices.Index(reasons, reason); i >= 0 {
		return r.ByReason[i]
	}
	return 0
}

// Total returns how many records were refused.
func (r *Refusals) Total() (n int64) {
	for _, of := range r.ByReason {
		n += of
	}
	return n
}

// descending returns the reasons that occurred, the most frequent one first.
func (r *Refusals) descending() (order []int) {
	for i := range reasons {
		if r.ByReason[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(r.ByReason[b], r.ByReason[a])
	})
	return order
}

// String lists the reasons, the most frequent one first, as in "malformed 3, late 1".
func (r *Refusals) String() string {
	var parts []string
	for _, i := range r.descending() {
		parts = append(parts, fmt.Sprintf("%s %d", reasons[i], r.ByReason[i]))
	}
	return strings.Join(parts, ", ")
}

// Advice is the best guess at what is wrong: by what most of the records that could not
// be decoded begin with, else by the most frequent reason. swapped is how many of the fixes
// outside the map would lie on it with latitude and longitude swapped.
func (r *Refusals) Advice(expected schemas.Encoding, swapped int64) string {
	total := r.Total()
	for i, n := range r.ByOpening {
		text := openings[i].advice
		if under := openings[i].under; under != "" && under == expected {
			text = openings[i].special
		}
		if text != "" && 2*n > total {
			return text
		}
	}
	most := r.descending()
	switch {
	case len(most) == 0:
		return ""
	case reasons[most[0]] == schemas.ReasonOutsideMap && 2*swapped > r.ByReason[most[0]]:
		return SwappedAdvice
	}
	return advice[reasons[most[0]].Kind()]
}

// Advice is Refusals.Advice for records that are read as s says.
func (s Source) Advice(r Refusals, swapped int64) string {
	if s.Mapping == nil {
		return r.Advice(s.Encoding, swapped)
	}
	// What the first bytes tell is about records of raw.avsc.
	r.ByOpening = [len(openings)]int64{}
	text := r.Advice(s.Encoding, swapped)
	switch text {
	case advice[schemas.ReasonMalformed]:
		return "are input.format and input.preset right, and is there a registry for what " +
			"needs one?"
	case advice[schemas.ReasonMissingField]:
		return "the paths and units under input lead to something else: compare them with a record"
	case advice[schemas.ReasonKeyMismatch]:
		return "the records' key has to be the user id that input.user names: is input.key " +
			"right? A key in JSON or Avro has one spelling there"
	}
	return text
}
