package kafkaconn

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
)

// Secret is a password or a token. It prints as [redacted], and as an address where package fmt
// does not ask it: that is why it is a function. Nil is the empty one.
type Secret func() string

// NewSecret keeps a text.
func NewSecret(text string) Secret {
	if text == "" {
		return nil
	}
	return func() string { return text }
}

func (s Secret) reveal() string {
	if s == nil {
		return ""
	}
	return s()
}

const redacted = "[redacted]"

// Format implements fmt.Formatter, for all verbs.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML. The empty one is an empty text.
func (s Secret) MarshalText() ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	return []byte(redacted), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// secretFrom returns a secret that stands in the config, or else in a file, which is read again at
// each call. Spaces and line ends around a file's content are not part of it. key names the setting
// of the file in errors.
func secretFrom(value Secret, key, path string) (string, error) {
	if path == "" {
		return value.reveal(), nil
	}
	data, err := readFile(key, path)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("%s: %s is empty", key, path)
	}
	return text, nil
}

// readFile reads a file that a setting names.
func readFile(key, path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w; name an existing file", key, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: %w; let this user read it", key, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return data, nil
}

// scrub removes secrets from words that somebody else wrote, such as a broker or a token endpoint,
// and keeps them short enough for a log.
func scrub(text string, secrets ...string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, redacted)
		}
	}
	const enough = 300
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + " ..."
	}
	return text
}
