package traces

import (
	"bytes"
	"strconv"

	"github.com/geodither/geodither/schemas"
)

// maxNames bounds the number of user ids that are shared: 16 MiB of the longest ones.
const maxNames = 1 << 16

// names returns one string for equal user ids, so that a fix costs no allocation. A nil names
// shares nothing.
type names map[string]string

func (n *names) share(id []byte) string {
	if n == nil || len(id) > schemas.MaxUserIDBytes {
		return string(id)
	}
	if shared, ok := (*n)[string(id)]; ok {
		return shared
	}
	if *n == nil || len(*n) >= maxNames {
		*n = names{}
	}
	text := string(id)
	(*n)[text] = text
	return text
}

// parseNumber reads a decimal number. It returns NaN and infinity for Validate to refuse.
func parseNumber(text []byte) (float64, bool) {
	// ParseFloat would also read hexadecimal numbers, which no trace has.
	if bytes.ContainsAny(text, "xX_") {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil && x == 0 {
		return 0, false
	}
	return x, true
}

// secondsReason refuses a time that can only be in seconds since 1970.
func secondsReason(ms int64) string {
	if ms >= 1e9 && ms < 1e10 {
		return reasonSeconds
	}
	return ""
}

// parseTime reads a time in RFC 3339 into milliseconds since 1970 and cuts off finer parts. A
// space may replace the T, and a time without a zone is in UTC.
func parseTime(text []byte) (ms int64, ok bool) {
	const zone = len("2006-01-02T15:04:05")
	var memory [48]byte
	if len(text) < zone || len(text) >= len(memory) {
		return 0, false
	}
	full := append(memory[:0], text...)
	if full[10] == ' ' || full[10] == 't' {
		full[10] = 'T'
	}
	if !bytes.ContainsAny(full[zone:], "Zz+-") {
		full = append(full, 'Z')
	} else if last := len(full) - 1; full[last] == 'z' {
		full[last] = 'Z'
	}
	return schemas.ParseTime(full)
}

// parsePlace reads a latitude and a longitude into a fix.
func parsePlace(fix *schemas.Raw, latitude, longitude []byte) (reason string) {
	var north, east bool
	fix.Latitude, north = parseNumber(latitude)
	fix.Longitude, east = parseNumber(longitude)
	if !north || !east {
		return reasonNumber
	}
	return ""
}
