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

const redacted = "[redacted]"

// Use is a use of a key other than noise. Each use has a subkey of its own, so that permission for
// one use does not give another.
type Use int

// Uses of a key.
const (
	Pseudonyms  Use = iota // published names of users
	Fingerprint            // by which a changelog distinguishes two keys
	uses        = iota
)

// useLabels derive the subkeys.
var useLabels = [uses]string{
	Pseudonyms:  "geodither 1: pseudonyms",
	Fingerprint: "geodither 1: fingerprint of the key",
}

// Key is the secret from which all noise is expanded, with the subkeys of other uses. It is as
// secret as the raw locations: anybody with it can take the noise off every release. A restricted
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
	// The root of the tree holds all days.
	s := &secrets{
		master: master, days: []subtree{{height: dayBits, secret: extract(master, labelDays)}},
	}
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
		return Key{}, fmt.Errorf("noise key: want %d hexadecimal digits, got %d characters "+
			"(key-file)", 2*KeySize, len(text))
	}
	secret := new([KeySize]byte)
	if _, err := hex.Decode(secret[:], []byte(text)); err != nil {
		return Key{}, errors.New("noise key: a character is no hexadecimal digit (key-file)")
	}
	return hold(secret), nil
}

// KeyFromSeed derives a key from a number, so that an experiment can be repeated. Such a key
// protects nothing: there are few seeds.
func KeyFromSeed(seed uint64) Key {
	master := seededMaster(seed)
	key := hold(&master)
	key.secret().seeded = true
	return key
}

// seedLabel stands before the seed in what a seeded key is the hash of.
const seedLabel = "geodither experiment key "

// seededMaster does not allocate, because SeedBelow tries hundreds of thousands of seeds at each
// start of a service.
func seededMaster(seed uint64) [KeySize]byte {
	var message [len(seedLabel) + 8]byte
	copy(message[:], seedLabel)
	binary.BigEndian.PutUint64(message[len(seedLabel):], seed)
	return sha256.Sum256(message[:])
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
		if s.master != nil {
			found = *s.master == seededMaster(seed)
		} else {
			master := seededMaster(seed)
			for use, subkey := range s.uses {
				if subkey != nil {
					found = extract(&master, useLabels[use]) == *subkey
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
		return Key{}, errors.New("noise key: this key has no noise (key-file)")
	}
	if first < 0 || first > LastDay {
		return Key{}, fmt.Errorf("noise key: choose %v to %v", Day(0), LastDay)
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

// fileTag begins every restricted key file. What follows it on its line is the version.
const fileTag = "geodither restricted key "

const fileVersion = "1"

// Names of the lines of a restricted key file, in their order; FORMAT.md describes each.
const (
	lineDays  = "days"
	lineCheck = "check"
)

var lineUses = [uses]string{
	Pseudonyms:  "pseudonyms",
	Fingerprint: "fingerprint",
}

// checkBytes is how much of the hash ends a file: without it a mistyped digit would silently give
// other noise.
const checkBytes = 8

// file returns the text of a restricted key's file, without a newline at its end.
func (s *secrets) file() string {
	var b strings.Builder
	b.WriteString(fileTag + fileVersion + "\n")
	for use, name := range lineUses {
		if s.uses[use] != nil {
			fmt.Fprintf(&b, "%s %x\n", name, s.uses[use][:])
		}
	}
	for i := range s.days {
		d := &s.days[i]
		fmt.Fprintf(&b, "%s %v %v %x\n", lineDays, d.first, d.last(), d.secret[:])
	}
	return b.String() + lineCheck + " " + checkOf(b.String())
}

func checkOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:checkBytes])
}

var errFile = errors.New("noise key: the restricted key file is damaged (key-file)")

// parseFile reads what file writes, and nothing else. Lines may end in CR LF.
func parseFile(text string) (Key, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	lines := strings.Split(text, "\n")
	if version := strings.TrimPrefix(lines[0], fileTag); version != fileVersion {
		return Key{}, errors.New("noise key: this restricted key has another version (key-file)")
	}
	body := strings.Join(lines[:len(lines)-1], "\n") + "\n"
	if lines[len(lines)-1] != lineCheck+" "+checkOf(body) {
		return Key{}, errFile
	}
	s := new(secrets)
	for _, line := range lines[1 : len(lines)-1] {
		if !s.readLine(line) {
			return Key{}, errFile
		}
	}
	// Days have to reach to the last one and lie in a row, and only a service's key has them.
	// Writing the parts again shows all of it, since file writes them in one way only.
	complete := true
	for use, subkey := range s.uses {
		complete = complete && (subkey != nil) == (Use(use) == Pseudonyms || len(s.days) > 0)
	}
	if !complete || !s.covers() || s.file() != text {
		return Key{}, errFile
	}
	return holdSecrets(s), nil
}

// readLine reads one line but the first and the last.
func (s *secrets) readLine(line string) bool {
	fields := strings.Split(line, " ")
	secret := new([KeySize]byte)
	if n, err := hex.Decode(secret[:],
		[]byte(fields[len(fields)-1][:min(2*KeySize, len(fields[len(fields)-1]))])); err != nil ||
		n != KeySize {
		return false
	}
	if fields[0] == lineDays && len(fields) == 4 {
		first, err := ParseDay(fields[1])
		if err != nil {
			return false
		}
		last, err := ParseDay(fields[2])
		if err != nil || last < first {
			return false
		}
		s.days = append(s.days, subtree{
			first: first, height: log2(last - first + 1), secret: *secret,
		})
		return true
	}
	for use, name := range lineUses {
		if fields[0] == name && len(fields) == 2 {
			s.uses[use] = secret
			return true
		}
	}
	return false
}

func log2(n Day) (height int) {
	for n > 1 {
		n >>= 1
		height++
	}
	return height
}

// covers reports whether the days are the cover that coverFrom gives.
func (s *secrets) covers() bool {
	if len(s.days) == 0 {
		return true
	}
	n := 0
	same := true
	coverFrom(s.days[0].first, func(first Day, height int) {
		same = same && n < len(s.days) && s.days[n].first == first && s.days[n].height == height
		n++
	})
	return same && n == len(s.days)
}
