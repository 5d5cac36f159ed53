package mapping

import (
	"reflect"

	"github.com/geodither/geodither/schemas"
)

// Preset names a source whose messages are well known.
type Preset string

// The presets.
const (
	Tesla                 Preset = "tesla"   // fleet-telemetry's vehicle_data
	Traccar               Preset = "traccar" // its Kafka forwarder, {"position": …, "device": …}
	OwnTracks             Preset = "owntracks"
	MDS                   Preset = "mds" // Mobility Data Specification 2.0, telemetry
	Samsara               Preset = "samsara"
	Geotab                Preset = "geotab"  // LogRecord
	GTFSRealtime          Preset = "gtfs_rt" // VehiclePosition
	BackgroundGeolocation Preset = "background_geolocation"
	GoogleTimeline        Preset = "google_timeline" // exports of phones and of Takeout
	Debezium              Preset = "debezium"
)

// Options say where the parts of a record are. What is empty is the preset's, or, without a preset,
// that of records of raw.avsc: user_id, timestamp, latitude, longitude.
type Options struct {
	Preset Preset
	Format Format // default Auto
	// Unwrap leads to the part of the message that the other paths start at. If it leads to null,
	// the record is skipped (RuleDeleted).
	Unwrap string
	// Each leads to an array of fixes of one user, at which the other paths then start. An object
	// counts as an array of one.
	Each string
	// Where are rules that a fix must meet, all of them. If there are any, the preset's do not
	// count.
	Where []Rule

	User                User
	Latitude, Longitude string // paths to degrees, WGS 84
	Timestamp           Time

	Key      Key      // how keys are encoded
	KeyCheck KeyCheck // whether keys have to be their user's
}

// User says where the user id is: one of the two is set.
type User struct {
	From string `yaml:"from"` // FromKey, or FromHeader and the name of a header
	Path string `yaml:"path"`
}

// Words of User.From and Time.From.
const (
	FromKey    = "key"
	FromHeader = "header:"
	FromKafka  = "kafka"
)

// Time says where the time of a fix is: From, or both of the others.
type Time struct {
	From string           `yaml:"from"` // FromKafka: the timestamp of the Kafka record
	Path string           `yaml:"path"`
	Unit schemas.TimeUnit `yaml:"unit"`
}

// Key is how keys are encoded.
type Key string

// Encodings of keys.
const (
	KeyString Key = "string" // the user id as it is; the default
	// KeyJSON is "jane" in quotes, a number, or an object with one member. {"id":7}, {"id": 7}, 7
	// and "7" are one user, whose partitions follow from the bytes: so it needs KeyCheckOff. With
	// KeyCheckOn a key has one spelling: see SpelledJSON.
	KeyJSON Key = "json"
	// KeyAvro is by the Decoder for keys. A key's first bytes change with its schema, so it needs
	// KeyCheckOff. With KeyCheckOn a key has one spelling: see SpelledAvro.
	KeyAvro Key = "avro"
)

// KeyCheck says whether the key of each record has to be its user id, or the one spelling of it
// that Key names, byte for byte.
type KeyCheck string

// Values of KeyCheck.
const (
	KeyCheckOn KeyCheck = "on" // the default
	// KeyCheckOff takes any key. It is only safe if all records of a user are in one partition: in
	// a second one the user has a second state and a second budget.
	KeyCheckOff KeyCheck = "off"
)

// Decoders are how values and keys are read that need a schema registry. Either may be nil.
type Decoders struct{ Value, Key Decoder }

// IsZero reports whether nothing is set: records are those of raw.avsc.
func (o Options) IsZero() bool { return reflect.ValueOf(o).IsZero() }

// Format is how values are encoded.
type Format string

// The formats.
const (
	// Auto goes by the first byte: { and [ are JSON, 0xC3 0x01 Avro single-object encoding, and
	// what a preset with protobuf messages has otherwise is protobuf. Everything else is left to
	// the Decoder: 0x00 and 0x01 are Confluent's framings, 0x03 is AWS Glue's.
	Auto     Format = "auto"
	JSON     Format = "json"
	Avro     Format = "avro"     // of raw.avsc, or whatever the Decoder reads
	Protobuf Format = "protobuf" // of presets alone
)

// Headers are those of a Kafka record.
type Headers interface {
	// Last returns the value of the last header of that name, and false if there is none. The
	// value is valid as long as the record is.
	Last(name string) (value []byte, found bool)
}

// Decoder turns bytes that this package cannot read alone into a tree, by a schema registry. A
// *schemas.Rejection says that the bytes are wrong for good, which makes the record a dead letter.
// Any other error says that the schema cannot be had now, so the record is tried again later. Any
// number of goroutines may call it.
type Decoder func(value []byte, headers Headers) (tree any, err error)
