package servicetest

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// The derivation of keys once more, from its description in the noise package's FORMAT.md: what is
// to be searched for must not depend on the code that is searched.

var keyLabels = []string{
	"geodither 1: pseudonyms", "geodither 1: fingerprint of the key", "geodither 1: all days",
}

// Subkey derives a secret from a whole key.
func Subkey(tb testing.TB, key noise.Key, label string) []byte {
	tb.Helper()
	master, err := hex.DecodeString(key.Reveal())
	OK(tb, err)
	b, err := hkdf.Key(sha256.New, master, []byte("geodither key 1"), label, noise.KeySize)
	OK(tb, err)
	return b
}

func derived(secret []byte, label string) []byte {
	b, err := hkdf.Expand(sha256.New, secret, label, noise.KeySize)
	if err != nil {
		panic(err)
	}
	return b
}

// chain is every secret from the root of the tree of days to a day's own key, which is the last.
func chain(root []byte, day noise.Day) (all [][]byte) {
	all = append(all, root)
	for bit := 20; bit >= 0; bit-- {
		label := "geodither 1: earlier half of these days"
		if day>>bit&1 == 1 {
			label = "geodither 1: later half of these days"
		}
		all = append(all, derived(all[len(all)-1], label))
	}
	return append(all, derived(all[len(all)-1], "geodither 1: noise of this day"))
}

// DayKey derives the key of one day's noise.
func DayKey(tb testing.TB, key noise.Key, day noise.Day) []byte {
	tb.Helper()
	all := chain(Subkey(tb, key, "geodither 1: all days"), day)
	return all[len(all)-1]
}

// DayOfFix is the day whose key the noise of a fix is drawn with.
func DayOfFix(fix schemas.Raw) noise.Day { return noise.DayAt(fix.Timestamp / 60_000 * 60_000) }

// KeySecrets are the forms of a whole key, of its subkeys, and of every secret on the way to a
// day's noise.
func KeySecrets(key noise.Key, day noise.Day) (all []Secret) {
	add := func(name string, b []byte) {
		text := hex.EncodeToString(b)
		all = append(all,
			Secret{name: name, form: b[:16]},
			Secret{name: name + " in hexadecimal", form: []byte(text[:32])},
			Secret{
				name: name + " in capital hexadecimal", form: []byte(strings.ToUpper(text[:32])),
			},
			Secret{
				name: name + " in base64", form: []byte(base64.StdEncoding.EncodeToString(b)[:21]),
			},
			Secret{
				name: name + " in base64 of URLs",
				form: []byte(base64.RawURLEncoding.EncodeToString(b)[:21]),
			},
		)
	}
	master, err := hex.DecodeString(key.Reveal())
	if err != nil {
		panic(err)
	}
	add("key", master)
	for _, label := range keyLabels {
		b, err := hkdf.Key(sha256.New, master, []byte("geodither key 1"), label, noise.KeySize)
		if err != nil {
			panic(err)
		}
		add("subkey "+label, b)
		if strings.HasSuffix(label, "all days") {
			for level, b := range chain(b, day) {
				add(fmt.Sprintf("secret of days, level %d", level), b)
			}
		}
	}
	return all
}
