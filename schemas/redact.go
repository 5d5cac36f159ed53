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
// Two ways past it cannot be closed from here, and are closed elsewhere. fmt
// calls no method of a value in an unexported field: a test of the repository
// allows no such field. Nor does it under %p of what is no pointer, which go
// vet refuses.
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
