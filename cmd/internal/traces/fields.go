package traces

import (
	"bytes"
	"strconv"
	"time"

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
// space may replace the T, and a time without a zone is in UTC. It refuses leap seconds, as
// package time does.
func parseTime(text []byte) (ms int64, ok bool) {
	if len(text) < len("2006-01-02T15:04:05") {
		return 0, false
	}
	if c := text[10]; c != 'T' && c != ' ' && c != 't' {
		return 0, false
	}
	day, ok := parseDate(text[:10])
	if !ok {
		return 0, false
	}
	clock, ok := parseClock(text[11:19])
	if !ok {
		return 0, false
	}
	millis, rest, ok := parseFraction(text[19:])
	if !ok {
		return 0, false
	}
	offset, ok := parseZone(rest)
	return day + clock + millis - offset, ok
}

// parseDate reads 2006-01-02 into milliseconds since 1970.
func parseDate(text []byte) (ms int64, ok bool) {
	if len(text) != 10 || text[4] != '-' || text[7] != '-' {
		return 0, false
	}
	year, month, day := digits(text[:4]), digits(text[5:7]), digits(text[8:])
	if year < 0 || month < 1 || month > 12 || day < 1 || day > 31 {
		return 0, false
	}
	// Date carries a 31st of April over into May.
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return t.UnixMilli(), t.Day() == day
}

// parseClock reads 15:04:05 into milliseconds of the day.
func parseClock(text []byte) (ms int64, ok bool) {
	if len(text) != 8 || text[2] != ':' || text[5] != ':' {
		return 0, false
	}
	h, m, s := digits(text[:2]), digits(text[3:5]), digits(text[6:])
	if h < 0 || h > 23 || m < 0 || m > 59 || s < 0 || s > 59 {
		return 0, false
	}
	return int64((h*60+m)*60+s) * 1000, true
}

// parseFraction reads a fraction of a second, if text starts with one.
func parseFraction(text []byte) (ms int64, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '.' {
		return 0, text, true
	}
	i := 1
	for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
		if i <= 3 {
			ms = ms*10 + int64(text[i]-'0')
		}
	}
	for j := i; j <= 3; j++ {
		ms *= 10
	}
	return ms, text[i:], i > 1
}

// parseZone reads Z, +01:00 or an empty text into milliseconds east of UTC.
func parseZone(text []byte) (ms int64, ok bool) {
	if len(text) == 0 || len(text) == 1 && (text[0] == 'Z' || text[0] == 'z') {
		return 0, true
	}
	if len(text) != 6 || text[3] != ':' || text[0] != '+' && text[0] != '-' {
		return 0, false
	}
	h, m := digits(text[1:3]), digits(text[4:])
	if h < 0 || h > 23 || m < 0 || m > 59 {
		return 0, false
	}
	ms = int64(h*60+m) * 60_000
	if text[0] == '-' {
		ms = -ms
	}
	return ms, true
}

// digits reads a number that has only digits. It returns -1 for any other text.
func digits(text []byte) int {
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}
