package mapping

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/geodither/geodither/schemas"
)

// The two messages below become the trees that protobuf's JSON mapping makes of them, as far as the
// presets look at them, so that one set of paths is right for both. Fields that are not named here
// are passed over. Of a field that comes twice the last one counts, as protobuf has it.

// field is one field of a message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	bits   uint64 // of a varint or a fixed number
	bytes  []byte // of a string or a message
}

// errProtobuf says that bytes are no message of the expected sort.
var errProtobuf = &schemas.Rejection{Reason: schemas.ReasonMalformed}

// eachField visits the fields of a message in order. Groups, which neither message has, end it with
// an error.
func eachField(message []byte, visit func(field) error) error {
	for len(message) > 0 {
		f := field{}
		var n int
		if f.number, f.kind, n = protowire.ConsumeTag(message); n < 0 {
			return errProtobuf
		}
		message = message[n:]
		switch f.kind {
		case protowire.VarintType:
			f.bits, n = protowire.ConsumeVarint(message)
		case protowire.Fixed64Type:
			f.bits, n = protowire.ConsumeFixed64(message)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(message)
			f.bits = uint64(bits)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		default:
			return errProtobuf
		}
		if n < 0 {
			return errProtobuf
		}
		message = message[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// is reports whether the field has the number and the type; another type under a number that is
// known means another message.
func (f field) is(number protowire.Number, kind protowire.Type) (bool, error) {
	if f.number != number {
		return false, nil
	}
	if f.kind != kind {
		return false, errProtobuf
	}
	return true, nil
}

// member says how a field of a message becomes a member of an object.
type member struct {
	number protowire.Number
	kind   protowire.Type
	name   string
	value  func(field) (any, error)
}

// objectOf makes an object of a message.
func objectOf(message []byte, members []member) (map[string]any, error) {
	object := map[string]any{}
	err := eachField(message, func(f field) error {
		for _, m := range members {
			is, err := f.is(m.number, m.kind)
			if err != nil {
				return err
			}
			if !is {
				continue
			}
			if object[m.name], err = m.value(f); err != nil {
				return err
			}
		}
		return nil
	})
	return object, err
}

func asDouble(f field) (any, error) { return math.Float64frombits(f.bits), nil }

// asFloat reads 32 bits as the shortest decimal number that they stand for, as JSON has it.
func asFloat(f field) (any, error) {
	text := strconv.FormatFloat(float64(math.Float32frombits(uint32(f.bits))), 'g', -1, 32)
	return strconv.ParseFloat(text, 64)
}

func asBool(f field) (any, error) { return f.bits != 0, nil }

func asText(f field) (any, error) {
	if !utf8.Valid(f.bytes) {
		return nil, refused(schemas.ReasonInvalidUTF8)
	}
	return string(f.bytes), nil
}

// asWhole reads a whole number without a sign, as the text that JSON has of 64 bits.
func asWhole(f field) (any, error) { return strconv.FormatUint(f.bits, 10), nil }

// asMessage reads a message with these members.
func asMessage(members ...member) func(field) (any, error) {
	return func(f field) (any, error) { return objectOf(f.bytes, members) }
}

// asTime reads a google.protobuf.Timestamp as RFC 3339.
func asTime(f field) (any, error) {
	var seconds, nanos int64
	err := eachField(f.bytes, func(f field) error {
		for number, into := range map[protowire.Number]*int64{1: &seconds, 2: &nanos} {
			is, err := f.is(number, protowire.VarintType)
			if err != nil {
				return err
			}
			if is {
				*into = int64(f.bits)
			}
		}
		return nil
	})
	// The range of a Timestamp, years 1 to 9999.
	if err != nil || seconds < -62135596800 || seconds > 253402300799 || nanos < 0 ||
		nanos > 1e9-1 {
		return nil, errProtobuf
	}
	return time.Unix(seconds, nanos).UTC().Format(time.RFC3339Nano), nil
}

// teslaLocation is the number of Location in fleet-telemetry's enum Field.
const teslaLocation = 21

// teslaDatum are the members of a Datum that say a place.
var teslaDatum = []member{
	{1, protowire.VarintType, "key", func(f field) (any, error) {
		if f.bits == teslaLocation {
			return "Location", nil
		}
		return "", nil
	}},
	{2, protowire.BytesType, "value", asMessage(
		member{1, protowire.BytesType, "stringValue", asText},
		member{7, protowire.BytesType, "locationValue", func(f field) (any, error) {
			// protobuf leaves out what is 0.
			place, err := objectOf(f.bytes, []member{
				{1, protowire.Fixed64Type, "latitude", asDouble},
				{2, protowire.Fixed64Type, "longitude", asDouble},
			})
			for _, name := range []string{"latitude", "longitude"} {
				if _, ok := place[name]; !ok {
					place[name] = 0.0
				}
			}
			return place, err
		}},
		member{10, protowire.VarintType, "invalid", asBool},
	)},
}

// teslaPayload decodes telemetry.vehicle_data.Payload (vehicle_data.proto of fleet-telemetry). Of
// the data it keeps the Location alone.
func teslaPayload(value []byte) (any, error) {
	data := []any{}
	payload, err := objectOf(value, []member{
		{1, protowire.BytesType, "data", func(f field) (any, error) {
			datum, err := objectOf(f.bytes, teslaDatum)
			if datum["key"] == "Location" {
				data = append(data, datum)
			}
			return nil, err
		}},
		{2, protowire.BytesType, "createdAt", asTime},
		{3, protowire.BytesType, "vin", asText},
		{4, protowire.VarintType, "isResend", asBool},
	})
	if err != nil {
		return nil, err
	}
	payload["data"] = data
	return locationsOfText(payload), nil
}

// gtfsEntity are the members of a FeedEntity that say where a vehicle is.
var gtfsEntity = []member{
	{1, protowire.BytesType, "id", asText},
	{2, protowire.VarintType, "isDeleted", asBool},
	{4, protowire.BytesType, "vehicle", asMessage(
		member{2, protowire.BytesType, "position", asMessage(
			member{1, protowire.Fixed32Type, "latitude", asFloat},
			member{2, protowire.Fixed32Type, "longitude", asFloat},
		)},
		member{5, protowire.VarintType, "timestamp", asWhole},
		member{8, protowire.BytesType, "vehicle", asMessage(
			member{1, protowire.BytesType, "id", asText},
		)},
	)},
}

// gtfsFeed decodes transit_realtime.FeedMessage (gtfs-realtime.proto). A message without a header
// is none.
func gtfsFeed(value []byte) (any, error) {
	entities, header := []any{}, false
	err := eachField(value, func(f field) error {
		if is, err := f.is(1, protowire.BytesType); is || err != nil {
			header = true
			return err
		}
		is, err := f.is(2, protowire.BytesType)
		if !is || err != nil {
			return err
		}
		entity, err := objectOf(f.bytes, gtfsEntity)
		entities = append(entities, entity)
		return err
	})
	if err == nil && !header {
		err = errProtobuf
	}
	return map[string]any{"entity": entities}, err
}

// locationText is a place as fleet-telemetry servers wrote it until 2022.
var locationText = regexp.MustCompile(
	`^\((\d{1,3}(?:\.\d{1,17})?) ([NS]), (\d{1,3}(?:\.\d{1,17})?) ([EW])\)$`)

// locationsOfText puts a locationValue in the place of each Location that is a text, such as
// "(37.412374 N, 122.145867 W)". A text that says nothing of the sort stays what it is.
func locationsOfText(tree any) any {
	members, _ := tree.(map[string]any)
	data, _ := members["data"].([]any)
	for _, datum := range data {
		datum, _ := datum.(map[string]any)
		value, _ := datum["value"].(map[string]any)
		text, ok := value["stringValue"].(string)
		if datum["key"] != "Location" || !ok {
			continue
		}
		parts := locationText.FindStringSubmatch(text)
		if parts == nil {
			continue
		}
		value["locationValue"] = map[string]any{
			"latitude":  signed(parts[1], parts[2] == "S"),
			"longitude": signed(parts[3], parts[4] == "W"),
		}
	}
	return tree
}

// signed returns the number of these digits.
func signed(digits string, negative bool) json.Number {
	if negative {
		digits = "-" + digits
	}
	return json.Number(digits)
}
