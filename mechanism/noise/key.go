package noise

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"strings"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

const redacted = "[redacted]"

// Use is one of the things that a key is for, beside noise. Each has a subkey of its own, so that
// whoever may do one thing need not be able to do another.
type Use int

// Uses of a key.
const (
	Pseudonyms     Use = iota // published names of users
	PersonalModels            // published ids of users' own models
	Fingerprint               // what a changelog tells two keys apart by
	uses           = iota
)

// useLabels derive the subkeys.
var useLabels = [uses]string{
	Pseudonyms:     "geodither 1: pseudonyms",
	PersonalModels: "geodither 1: ids of personal models",
	Fingerprint:    "geodither 1: fingerprint of the key",
}

// Key is the secret from which all noise is expanded, with the subkeys of other uses. It is as
// secret as the raw locations: whoever has it can take the noise off every release. A restricted
// key (From, PseudonymsOnly) holds only a part of what follows from a whole one, and the rest
// cannot be computed from it.
//
// A Key prints [redacted] under every verb, in JSON, text and logs. Inside another struct's
// unexported field, where fmt cannot ask it, it prints an address: the bytes are behind a function
// because fmt follows a pointer under a wrong verb. The zero Key is no key and is refused.
type Key struct{ secret func() *secrets }

// secrets is what a key holds.
type secrets struct {
	master *[KeySize]byte       // nil in a restricted key
	uses   [uses]*[KeySize]byte // nil for a use that a restricted key is not for
	days   []subtree            // a cover of the days that there is noise for; none: no noise
	seeded bool                 // from KeyFromSeed
}

func holdSecrets(s *secrets) Key { return Key{func() *secrets { return s }} }

// hold makes a whole key.
func hold(master *[KeySize]byte) Key {
	s := &secrets{master: master, days: allDays(master)}
	for use, label := range useLabels {
		subkey := extract(master, label)
		s.uses[use] = &subkey
	}
	return holdSecrets(s)
}

// NewKey returns a fresh key from the operating system's generator.
func NewKey() Key {
	secret := new([KeySize]byte)
	// crypto/rand.Read never fails since Go 1.24: the program ends instead.
	_, _ = rand.Read(secret[:])
	return hold(secret)
}

// ParseKey reads what Reveal returns: a whole key from 64 hexadecimal digits, or a restricted key
// from the text of its file. The error does not repeat any of it.
func ParseKey(text string) (Key, error) {
	if strings.HasPrefix(text, fileTag) {
		return parseFile(text)
	}
	if len(text) != 2*KeySize {
		return Key{}, fmt.Errorf("noise key: want %d hexadecimal digits, got %d characters; make one with geodither key new FILE",
			2*KeySize, len(text))
	}
	secret := new([KeySize]byte)
	if _, err := hex.Decode(secret[:], []byte(text)); err != nil {
		return Key{}, errors.New("noise key: a character is not a hexadecimal digit (0-9, a-f); make a key with geodither key new FILE")
	}
	return hold(secret), nil
}

// KeyFromSeed derives a key from a number, so that an experiment can be repeated. Such a key protects nothing: there are few seeds.
func KeyFromSeed(seed uint64) Key {
	key := hold(seededMaster(seed))
	key.secret().seeded = true
	return key
}

func seededMaster(seed uint64) *[KeySize]byte {
	message := binary.BigEndian.AppendUint64([]byte("geodither experiment key "), seed)
	sum := sha256.Sum256(message)
	return &sum
}

// Seeded reports whether k was made by KeyFromSeed, here and now. What is published under such a
// key is marked as not private.
func (k Key) Seeded() bool { return !k.IsZero() && k.secret().seeded }

// SeedBelow looks for a seed below limit whose key k is, however k was made: such a key was written
// to a file where a secret one belongs. It computes a hash or two for each seed.
func (k Key) SeedBelow(limit uint64) (seed uint64, found bool) {
	if k.IsZero() {
		return 0, false
	}
	s := k.secret()
	for seed = range limit {
		master := seededMaster(seed)
		if s.master != nil {
			found = *s.master == *master
		} else {
			for use, subkey := range s.uses {
				if subkey != nil {
					found = extract(master, useLabels[use]) == *subkey
					break
				}
			}
		}
		if found {
			return seed, true
		}
	}
	return 0, false
}

// IsZero reports whether k holds no key.
func (k Key) IsZero() bool { return k.secret == nil }

// Whole reports whether k is a key from which everything follows, and no restricted one.
func (k Key) Whole() bool { return !k.IsZero() && k.secret().master != nil }

// HasNoise reports whether noise can be drawn under k, of any day at all. Such a key is for every
// use.
func (k Key) HasNoise() bool { return !k.IsZero() && len(k.secret().days) > 0 }

// FirstDay returns the first day that k has noise for. It is 0 for a whole key, and for one that
// has no noise.
func (k Key) FirstDay() Day {
	if !k.HasNoise() {
		return 0
	}
	return k.secret().days[0].first
}

// From returns the key without the noise of the days before first, which cannot be computed from
// it. All other uses stay, the fingerprint among them. It refuses a day that k itself does not
// have.
func (k Key) From(first Day) (Key, error) {
	if !k.HasNoise() {
		return Key{}, errors.New("noise key: this key has no noise, of any day: use the service's key")
	}
	if first < 0 || first > LastDay {
		return Key{}, fmt.Errorf("noise key: choose a day from %v to %v", Day(0), LastDay)
	}
	old := k.secret()
	days, err := daysFrom(old.days, first)
	if err != nil {
		return Key{}, err
	}
	return holdSecrets(&secrets{uses: old.uses, days: days, seeded: old.seeded}), nil
}

// PseudonymsOnly returns the key with the subkey of pseudonyms and nothing else.
func (k Key) PseudonymsOnly() Key {
	s := &secrets{seeded: k.secret().seeded}
	s.uses[Pseudonyms] = k.secret().uses[Pseudonyms]
	return holdSecrets(s)
}

// MAC returns HMAC-SHA-256 under the subkey of a use. It panics where k is not for that use: only a
// key of pseudonyms, which has no noise, lacks one, and HasNoise tells.
func (k Key) MAC(use Use) hash.Hash {
	if k.IsZero() || k.secret().uses[use] == nil {
		panic("noise: the key is not for this use")
	}
	return hmac.New(sha256.New, k.secret().uses[use][:])
}

// Equal reports whether two keys are the same and hold the same parts, in time that does not depend
// on where they differ.
func (k Key) Equal(other Key) bool {
	if k.IsZero() || other.IsZero() {
		return k.IsZero() && other.IsZero()
	}
	return subtle.ConstantTimeCompare([]byte(k.Reveal()), []byte(other.Reveal())) == 1
}

// Reveal returns the text of the key's file, to be written there and nowhere else: 64 hexadecimal
// digits, or for a restricted key the lines that FORMAT.md describes. It is "" for the zero Key.
func (k Key) Reveal() string {
	switch {
	case k.IsZero():
		return ""
	case k.Whole():
		return hex.EncodeToString(k.secret().master[:])
	}
	return k.secret().file()
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
