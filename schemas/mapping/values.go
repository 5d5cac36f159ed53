package mapping

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/schemas"
)

// ofRaw is the unit of raw.avsc in JSON: milliseconds, or RFC 3339 text. It is the unit of the
// field "timestamp" where the options name no other.
const ofRaw schemas.TimeUnit = ""

// at names the field of a wrong type.
func at(reason schemas.Reason, field string) schemas.Reason {
	if reason == schemas.ReasonWrongType {
		return reason.At(field)
	}
	return reason
}

// scaled returns the number of a decimal that Debezium writes as {"scale": 4, "value": bytes},
// which are base64 in JSON. Anything else stays as it is.
func scaled(v any) any {
	members, ok := v.(map[string]any)
	text, isNumber := scalarText(members["scale"])
	scale, err := strconv.Atoi(text)
	if !ok || len(members) != 2 || !isNumber || err != nil || scale < -maxScale ||
		scale > maxScale {
		return v
	}
	digits, ok := members["value"].([]byte)
	if encoded, isText := members["value"].(string); isText {
		digits, err = base64.StdEncoding.DecodeString(encoded)
		ok = err == nil
	}
	if !ok || len(digits) == 0 || len(digits) > maxScale {
		return v
	}
	whole := new(big.Int).SetBytes(digits)
	if digits[0] >= 0x80 { // two's complement
		whole.Sub(whole, new(big.Int).Lsh(big.NewInt(1), uint(8*len(digits))))
	}
	if scale == 0 {
		return json.Number(whole.String())
	}
	return json.Number(whole.String() + "e" + strconv.Itoa(-scale))
}

// maxScale bounds the scale of such a decimal and its bytes: no column of a database has more.
const maxScale = 1000

// degreesOf reads a coordinate, which may be a number in a text.
func degreesOf(v any) (float64, schemas.Reason) {
	switch v := scaled(v).(type) {
	case float64:
		return v, "" // Raw.Validate looks whether it is finite
	case int64:
		return float64(v), ""
	case json.Number, string:
		text, ok := numberText(v)
		if !ok {
			return 0, schemas.ReasonWrongType
		}
		number, err := strconv.ParseFloat(text, 64)
		if math.IsInf(number, 0) {
			return 0, schemas.ReasonNotFinite
		}
		if err != nil {
			return 0, schemas.ReasonWrongType
		}
		return number, ""
	}
	return 0, schemas.ReasonWrongType
}

// numberText returns the digits of a number, or of a text that holds one and nothing else.
func numberText(v any) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), true
	case string:
		// Digits alone: ParseFloat would take "inf", "0x10" and "1_0" too.
		return v, v != "" && strings.Trim(v, "0123456789+-.eE") == ""
	}
	return "", false
}

// millisOf reads a time, rounded down to a millisecond. One that is too large for the number or
// negative is one that Raw.Validate refuses.
func millisOf(v any, unit schemas.TimeUnit) (int64, schemas.Reason) {
	v = scaled(v)
	text, isText := v.(string)
	if unit == schemas.RFC3339 || unit == ofRaw && isText {
		ms, ok := parseTime(text)
		if !isText || !ok {
			return 0, schemas.ReasonWrongType
		}
		return ms, ""
	}
	switch v := v.(type) {
	case int64:
		text = strconv.FormatInt(v, 10)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, schemas.ReasonNotFinite
		}
		// The shortest text that is this number: its binary digits would round down to the
		// millisecond before.
		text = strconv.FormatFloat(v, 'e', -1, 64)
	default:
		var ok bool
		if text, ok = numberText(v); !ok {
			return 0, schemas.ReasonWrongType
		}
	}
	ms, ok := unit.Millis(text)
	if !ok {
		return 0, schemas.ReasonWrongType
	}
	return ms, ""
}

// parseTime reads RFC 3339, and a zone without its colon, as Java writes it by default (+0000).
func parseTime(text string) (ms int64, ok bool) {
	if ms, ok = schemas.ParseTime([]byte(text)); ok {
		return ms, true
	}
	t, err := time.Parse("2006-01-02T15:04:05Z0700", text)
	return t.UnixMilli(), err == nil
}
