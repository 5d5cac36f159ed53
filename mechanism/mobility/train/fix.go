package train

import (
	"fmt"
	"io"
	"log/slog"
)

// Fix is where a user was at a time: milliseconds since 1970 and WGS 84 degrees. It prints
// [redacted] under every verb, in JSON and in slog, so that no log or error can hold a raw location
// by accident.
type Fix struct {
	User     string
	TimeMS   int64
	Lat, Lon float64
}

const redacted = "[redacted]"

// String returns [redacted].
func (Fix) String() string { return redacted }

// GoString returns [redacted].
func (Fix) GoString() string { return redacted }

// Format writes [redacted] whatever the verb.
func (Fix) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// MarshalText returns [redacted]; encoding/json uses it too.
func (Fix) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns [redacted].
func (Fix) LogValue() slog.Value { return slog.StringValue(redacted) }
