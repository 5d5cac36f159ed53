package noise

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// fileTag begins every restricted key file. What follows it on its line is the version.
const fileTag = "geodither restricted key "

const fileVersion = "1"

// Names of the lines of a restricted key file, in their order; FORMAT.md describes each.
const (
	lineDays  = "days"
	lineCheck = "check"
)

var lineUses = [uses]string{
	Pseudonyms:     "pseudonyms",
	PersonalModels: "personal_models",
	Fingerprint:    "fingerprint",
}

// checkBytes is how much of the hash ends a file: a slip of the pen would make other noise, in
// silence.
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

var errFile = errors.New("noise key: the restricted key file is damaged: it was cut short or edited; " +
	"export it again with geodither key export, or restore it from a backup")

// parseFile reads what file writes, and nothing else. Lines may end in CR LF.
func parseFile(text string) (Key, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	lines := strings.Split(text, "\n")
	if version := strings.TrimPrefix(lines[0], fileTag); version != fileVersion {
		return Key{}, errors.New("noise key: this restricted key file is of another version than this program knows: use the program that wrote it")
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
	if n, err := hex.Decode(secret[:], []byte(fields[len(fields)-1][:min(2*KeySize, len(fields[len(fields)-1]))])); err != nil || n != KeySize {
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
		s.days = append(s.days, subtree{first: first, height: log2(last - first + 1), secret: *secret})
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
