package noise

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

const redacted = "[redacted]"

// Key is the secret from which all noise is expanded. It is as secret as the raw locations: whoever has it can take the noise off
// every release. It prints [redacted] under every verb, in JSON, text and logs. Inside another struct's unexported field, where
// fmt cannot ask it, it prints an address: the bytes are behind a function because fmt follows a pointer under a wrong verb. The
// zero Key is no key and is refused.
type Key struct{ secret func() *[KeySize]byte }

func hold(secret *[KeySize]byte) Key { return Key{func() *[KeySize]byte { return secret }} }

// NewKey returns a fresh key from the operating system's generator.
func NewKey() Key {
	secret := new([KeySize]byte)
	// crypto/rand.Read never fails since Go 1.24: the program ends instead.
	_, _ = rand.Read(secret[:])
	return hold(secret)
}

// ParseKey reads a key from 64 hexadecimal digits. The error does not repeat them.
func ParseKey(digits string) (Key, error) {
	if len(digits) != 2*KeySize {
		return Key{}, fmt.Errorf("noise key: want %d hexadecimal digits, got %d characters; make one with geodither key new FILE",
			2*KeySize, len(digits))
	}
	secret := new([KeySize]byte)
	if _, err := hex.Decode(secret[:], []byte(digits)); err != nil {
		return Key{}, errors.New("noise key: a character is not a hexadecimal digit (0-9, a-f); make a key with geodither key new FILE")
	}
	return hold(secret), nil
}

// KeyFromSeed derives a key from a number, so that an experiment can be repeated. Such a key protects nothing: there are few seeds.
func KeyFromSeed(seed uint64) Key {
	message := binary.BigEndian.AppendUint64([]byte("geodither experiment key "), seed)
	sum := sha256.Sum256(message)
	return hold(&sum)
}

// IsZero reports whether k holds no key.
func (k Key) IsZero() bool { return k.secret == nil }

// Equal reports whether two keys are the same, in time that does not depend on where they differ.
func (k Key) Equal(other Key) bool {
	if k.IsZero() || other.IsZero() {
		return k.IsZero() && other.IsZero()
	}
	return subtle.ConstantTimeCompare(k.secret()[:], other.secret()[:]) == 1
}

// Reveal returns the key as 64 hexadecimal digits, to be written to a key file and nowhere else.
func (k Key) Reveal() string {
	if k.IsZero() {
		return ""
	}
	return hex.EncodeToString(k.secret()[:])
}

// String returns [redacted].
func (Key) String() string { return redacted }

// GoString returns [redacted].
func (Key) GoString() string { return redacted }

// Format writes [redacted] whatever the verb.
func (Key) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, redacted) }

// MarshalText returns [redacted]; JSON, XML and YAML encoders use it.
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns [redacted].
func (Key) LogValue() slog.Value { return slog.StringValue(redacted) }
