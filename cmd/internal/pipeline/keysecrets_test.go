package pipeline

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
	"geodither 1: pseudonyms", "geodither 1: ids of personal models", "geodither 1: fingerprint of the key", "geodither 1: all days",
}

// subkey derives a secret from a whole key.
func subkey(tb testing.TB, key noise.Key, label string) []byte {
	tb.Helper()
	master, err := hex.DecodeString(key.Reveal())
	ok(tb, err)
	b, err := hkdf.Key(sha256.New, master, []byte("geodither key 1"), label, noise.KeySize)
	ok(tb, err)
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

func dayKey(tb testing.TB, key noise.Key, day noise.Day) []byte {
	tb.Helper()
	all := chain(subkey(tb, key, "geodither 1: all days"), day)
	return all[len(all)-1]
}

func dayOfFix(fix schemas.Raw) noise.Day { return noise.DayAt(fix.Timestamp / 60_000 * 60_000) }

// keySecrets are the forms of a whole key, of its subkeys, and of every secret on the way to a
// day's noise.
func keySecrets(key noise.Key, day noise.Day) (all []secret) {
	add := func(name string, b []byte) {
		text := hex.EncodeToString(b)
		all = append(all,
			secret{name: name, form: b[:16]},
			secret{name: name + " in hexadecimal", form: []byte(text[:32])},
			secret{name: name + " in capital hexadecimal", form: []byte(strings.ToUpper(text[:32]))},
			secret{name: name + " in base64", form: []byte(base64.StdEncoding.EncodeToString(b)[:21])},
			secret{name: name + " in base64 of URLs", form: []byte(base64.RawURLEncoding.EncodeToString(b)[:21])},
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

// TestKeySecretsAreTheKeys: what the canaries look for is what the program derives.
func TestKeySecretsAreTheKeys(t *testing.T) {
	day := noise.DayAt(startMS)
	part, err := testKey.From(day)
	ok(t, err)
	text, found := part.Reveal(), 0
	for _, s := range keySecrets(testKey, day) {
		if s.in([]byte(text)) {
			found++
		}
		planted := append(append([]byte("a line with "), s.form...), " in it"...)
		if len(leaks(planted, []secret{s})) == 0 {
			t.Errorf("%s is not found where it was planted", s.name)
		}
	}
	// Three subkeys and the part of the tree that begins with the day.
	if found != 4 {
		t.Errorf("%d secrets of the key are in the file of its days from %v on, want 4", found, day)
	}
	if strings.Contains(text, testKey.Reveal()) {
		t.Error("the file holds the whole key")
	}
}
