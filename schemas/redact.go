package schemas

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// String returns [redacted].
func (Raw) String() string { return redacted }

// GoString returns [redacted].
func (Raw) GoString() string { return redacted }

// Format writes [redacted] under every verb and flag, %#v and %d included.
//
// fmt finds no method of a value in an unexported field and prints its parts:
// never print a struct that holds a Raw in one.
func (Raw) Format(s fmt.State, _ rune) {
	// A fmt.State never fails: it writes into fmt's own buffer.
	_, _ = io.WriteString(s, redacted)
}

// MarshalJSON returns the JSON string "[redacted]".
func (Raw) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText returns [redacted]: what XML, YAML and map keys use.
func (Raw) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns [redacted].
func (Raw) LogValue() slog.Value { return slog.StringValue(redacted) }
