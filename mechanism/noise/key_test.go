package noise

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// must returns what a call gives that is not meant to fail here.
func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// firstWords are the beginning of a release's stream.
func firstWords(t *testing.T, k *Keyed, day Day, transcript string) (words [4]uint64) {
	t.Helper()
	source, err := k.On(day, []byte(transcript))
	must(t, source, err)
	for i := range words {
		words[i] = source.Uint64()
	}
	return words
}

// TestDerivation follows the definition of FORMAT.md for one day, bit by bit, in code of its own.
func TestDerivation(t *testing.T) {
	t.Parallel()
	key := KeyFromSeed(6)
	secret, err := hex.DecodeString(key.Reveal())
	must(t, secret, err)
	derive := func(label string) []byte {
		b, err := hkdf.Key(sha256.New, secret, []byte("geodither key 1"), label, 32)
		return must(t, b, err)
	}
	for use, label := range map[Use]string{
		Pseudonyms:  "geodither 1: pseudonyms",
		Fingerprint: "geodither 1: fingerprint of the key",
	} {
		want, got := hmac.New(sha256.New, derive(label)), key.MAC(use)
		want.Write([]byte("text"))
		got.Write([]byte("text"))
		if !bytes.Equal(want.Sum(nil), got.Sum(nil)) {
			t.Errorf("the subkey of %q is another", label)
		}
	}
	const day = Day(20_778) // 2026-11-21
	node := derive("geodither 1: all days")
	for bit := 20; bit >= 0; bit-- {
		label := "geodither 1: earlier half of these days"
		if day>>bit&1 == 1 {
			label = "geodither 1: later half of these days"
		}
		child, err := hkdf.Expand(sha256.New, node, label, 32)
		node = must(t, child, err)
	}
	own, err := hkdf.Expand(sha256.New, node, "geodither 1: noise of this day", 32)
	mac := hmac.New(sha256.New, must(t, own, err))
	mac.Write([]byte("a release"))
	if want := rand.NewChaCha8([32]byte(mac.Sum(nil))).Uint64(); firstWords(t, NewKeyed(key), day,
		"a release")[0] != want {
		t.Error("the noise of a day is another")
	}
}

func TestDay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ms   int64
		want Day
	}{
		{0, 0},
		{dayMS - 1, 0},
		{dayMS, 1},
		{-1, 0},
		{math.MinInt64, 0},
		{math.MaxInt64, LastDay},
		{int64(LastDay) * dayMS, LastDay},
		{int64(LastDay)*dayMS - 1, LastDay - 1},
		{time.Date(2026, 11, 21, 23, 59, 59, 0, time.UTC).UnixMilli(), 20_778},
	} {
		if got := DayAt(c.ms); got != c.want {
			t.Errorf("%d ms is day %d, want %d", c.ms, got, c.want)
		}
	}
	for text, want := range map[string]Day{
		"1970-01-01": 0, "2026-11-21": 20_778, "7711-10-22": LastDay,
	} {
		if got, err := ParseDay(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s is day %d (%v), %v; want %d", text, got, got, err, want)
		}
	}
	for _, text := range []string{
		"", "yesterday", "1969-12-31", "7711-10-23", "2026-11-21T00:00:00Z", "2026-02-30",
	} {
		if day, err := ParseDay(text); err == nil {
			t.Errorf("%q is day %v", text, day)
		}
	}
}

// TestNoiseOfDays: the day decides the noise, and a key from a day on gives the same noise as the
// whole key on every day that it has.
func TestNoiseOfDays(t *testing.T) {
	t.Parallel()
	key := KeyFromSeed(7)
	whole, again := NewKeyed(key), NewKeyed(key)
	seen := map[[4]uint64]Day{}
	for _, day := range []Day{0, 1, 2, 3, 20_777, 20_778, 20_779, LastDay - 1, LastDay} {
		words := firstWords(t, whole, day, "the same transcript")
		if other, ok := seen[words]; ok {
			t.Errorf("days %v and %v share their noise", day, other)
		}
		seen[words] = day
		if firstWords(t, again, day, "the same transcript") != words ||
			firstWords(t, whole, day, "the same transcript") != words {
			t.Errorf("day %v has two streams", day)
		}
		if firstWords(t, whole, day, "another transcript") == words {
			t.Errorf("day %v has one stream for two transcripts", day)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		first := Day(rng.IntN(int(LastDay) + 1))
		part, err := key.From(first)
		streams := NewKeyed(must(t, part, err))
		for _, day := range []Day{
			first, min(first+1, LastDay), first + Day(rng.IntN(int(LastDay-first)+1)), LastDay,
		} {
			if firstWords(t, streams, day, "x") != firstWords(t, whole, day, "x") {
				t.Fatalf("the key from %v has other noise on %v", first, day)
			}
		}
		if first == 0 {
			continue
		}
		_, err = streams.On(first-1, nil)
		var destroyed *DestroyedError
		if !errors.As(err, &destroyed) || !errors.Is(err, ErrDestroyed) ||
			destroyed.First != first || destroyed.Day != first-1 {
			t.Fatalf("the key from %v has noise on the day before: %v", first, err)
		}
	}
}

// TestRecentDays: however the days alternate, each keeps its stream.
func TestRecentDays(t *testing.T) {
	t.Parallel()
	streams := NewKeyed(KeyFromSeed(8))
	want := map[Day][4]uint64{}
	for day := range Day(3 * recentDays) {
		want[day] = firstWords(t, NewKeyed(KeyFromSeed(8)), day, "x")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		if day := Day(rng.IntN(3 * recentDays)); firstWords(t, streams, day, "x") != want[day] {
			t.Fatalf("day %v has another stream", day)
		}
	}
}

// pathSecrets are the secrets of the tree that lead to a day: those of every subtree that holds it,
// and its own.
func pathSecrets(key Key, day Day) (all [][KeySize]byte) {
	root := key.secret().days[0]
	for height := dayBits; height >= 0; height-- {
		all = append(all, root.descend(day, height).secret)
	}
	leaf := root.descend(day, 0)
	return append(all, expand(leaf.secret[:], labelNoise))
}

// TestDestroyedDays is the property that makes destroying a file worth anything: no secret of a
// restricted key, and nothing that can be derived from one by any label, is on the way to a day
// that it does not have.
func TestDestroyedDays(t *testing.T) {
	t.Parallel()
	key := KeyFromSeed(9)
	labels := []string{
		labelDays, labelEarlier, labelLater, labelNoise, useLabels[0], useLabels[1],
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		first := 1 + Day(rng.IntN(int(LastDay)))
		if rng.IntN(2) == 0 {
			first = 20_000 + Day(rng.IntN(2000)) // this century's
		}
		part, err := key.From(first)
		must(t, part, err)
		held := map[[KeySize]byte]string{}
		hold := func(name string, secret [KeySize]byte) {
			held[secret] = name
			for _, label := range labels {
				held[expand(secret[:], label)] = name + ", expanded"
				held[extract(&secret, label)] = name + ", extracted"
			}
		}
		for use, subkey := range part.secret().uses {
			hold(useLabels[use], *subkey)
		}
		for _, s := range part.secret().days {
			if s.first < first {
				t.Fatalf("the key from %v has the days from %v", first, s.first)
			}
			hold(fmt.Sprint("days from ", s.first), s.secret)
		}
		for _, destroyed := range []Day{first - 1, Day(rng.IntN(int(first))), 0} {
			for height, secret := range pathSecrets(key, destroyed) {
				if name, ok := held[secret]; ok {
					t.Fatalf("the key from %v has a secret on the way to %v (level %d) in %s",
						first, destroyed, height, name)
				}
			}
		}
		if part.secret().master != nil {
			t.Fatal("a restricted key holds the whole key")
		}
		// The test sees what it looks for: the way to a day that the key has is there.
		found := false
		for _, secret := range pathSecrets(key, first) {
			_, ok := held[secret]
			found = found || ok
		}
		if !found {
			t.Fatalf("the test does not find the first day of the key from %v", first)
		}
	}
}

// TestAdvance: a key that is advanced in two steps is the one that is advanced in one, and there is
// no way back.
func TestAdvance(t *testing.T) {
	t.Parallel()
	key := NewKey()
	a, err := key.From(20_000)
	b, err2 := must(t, a, err).From(20_778)
	c, err3 := key.From(20_778)
	if !must(t, b, err2).Equal(must(t, c, err3)) || b.FirstDay() != 20_778 ||
		a.FirstDay() != 20_000 || key.FirstDay() != 0 {
		t.Error("the same days are two keys")
	}
	if _, err := b.From(20_777); !errors.Is(err, ErrDestroyed) {
		t.Errorf("a destroyed day is back: %v", err)
	}
	for _, day := range []Day{-1, LastDay + 1} {
		if _, err := key.From(day); err == nil {
			t.Errorf("there is a key from day %d on", day)
		}
	}
	sum := func(k Key) string { return string(k.MAC(Fingerprint).Sum(nil)) }
	if sum(b) != sum(key) || sum(NewKey()) == sum(key) {
		t.Error("the fingerprint does not follow the key")
	}
	if key.Equal(c) || !key.Whole() || c.Whole() || !c.HasNoise() {
		t.Error("a restricted key passes for the whole one")
	}
}

func TestPseudonymsOnly(t *testing.T) {
	t.Parallel()
	key := NewKey()
	only := key.PseudonymsOnly()
	if only.HasNoise() || only.Whole() || only.IsZero() {
		t.Error("the key of pseudonyms has noise")
	}
	if !bytes.Equal(only.MAC(Pseudonyms).Sum(nil), key.MAC(Pseudonyms).Sum(nil)) {
		t.Error("the pseudonyms are others")
	}
	if strings.Count(only.Reveal(), "\n") != 2 {
		t.Errorf("the file has %d lines more than the pseudonyms'",
			strings.Count(only.Reveal(), "\n")-2)
	}
	if _, err := only.From(20_000); err == nil {
		t.Error("the key of pseudonyms is one of days")
	}
	for name, call := range map[string]func(){
		"noise":       func() { NewKeyed(only) },
		"fingerprint": func() { only.MAC(Fingerprint) },
		"a law's stream under a key of days": func() {
			part, err := key.From(20_000)
			NewKeyed(must(t, part, err)).Stream(nil)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: did not panic", name)
				}
			}()
			call()
		}()
	}
}

// restricted are keys of every kind of restricted file.
func restricted(t *testing.T, key Key) map[string]Key {
	t.Helper()
	all := map[string]Key{"pseudonyms": key.PseudonymsOnly()}
	for _, first := range []Day{0, 1, 20_778, LastDay} {
		part, err := key.From(first)
		all[first.String()] = must(t, part, err)
	}
	return all
}

func TestRestrictedFile(t *testing.T) {
	t.Parallel()
	key := KeyFromSeed(10)
	for name, part := range restricted(t, key) {
		text := part.Reveal()
		back, err := ParseKey(text)
		if err != nil || !back.Equal(part) || back.FirstDay() != part.FirstDay() ||
			back.HasNoise() != part.HasNoise() {
			t.Fatalf("%s: does not parse back: %v", name, err)
		}
		if back, err = ParseKey(strings.ReplaceAll(text, "\n", "\r\n")); err != nil ||
			!back.Equal(part) {
			t.Errorf("%s: does not parse with other ends of lines: %v", name, err)
		}
		if strings.Contains(text, key.Reveal()) {
			t.Errorf("%s: the file holds the whole key", name)
		}
		refuse := func(what, text string) {
			key, err := ParseKey(text)
			switch {
			case err == nil:
				t.Errorf("%s, %s: parsed", name, what)
			case !key.IsZero():
				t.Errorf("%s, %s: a key beside the error", name, what)
			default:
				for _, line := range strings.Split(part.Reveal(), "\n")[1:] {
					fields := strings.Fields(line)
					if secret := fields[len(fields)-1]; strings.Contains(err.Error(),
						secret[:min(len(secret), 12)]) {
						t.Errorf("%s, %s: the error repeats the file", name, what)
					}
				}
			}
		}
		lines := strings.Split(text, "\n")
		for i := range lines {
			without := append(append([]string{}, lines[:i]...), lines[i+1:]...)
			refuse(fmt.Sprintf("without line %d", i), strings.Join(without, "\n"))
			twice := append(append([]string{}, lines[:i+1]...), lines[i:]...)
			refuse(fmt.Sprintf("line %d twice", i), strings.Join(twice, "\n"))
			if i > 0 && i < len(lines)-1 {
				// with a check that fits: an editor's work, or an attacker's
				sealed := append(append([]string{}, lines[:i]...), lines[i+1:len(lines)-1]...)
				body := strings.Join(sealed, "\n") + "\n"
				// Without its first line of days a file is that of a later day, of which there is
				// none after the last line.
				if i != 3 || len(lines) == 5 {
					refuse(fmt.Sprintf("sealed without line %d", i), body+"check "+checkOf(body))
				}
			}
		}
		for i := range text {
			changed := []byte(text)
			changed[i] ^= 1
			refuse(fmt.Sprintf("byte %d changed", i), string(changed))
		}
		refuse("cut", text[:len(text)-1])
		refuse("followed by more", text+"\n"+"x")
		refuse("a newer version", strings.Replace(text, "key 1", "key 2", 1))
	}
}

func TestRestrictedKeysNeverPrint(t *testing.T) {
	t.Parallel()
	for name, key := range restricted(t, KeyFromSeed(11)) {
		var out bytes.Buffer
		nested := struct{ Public Key }{key}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b"} {
			fmt.Fprintf(&out, verb+" "+verb+"\n", key, nested)
		}
		ok := json.NewEncoder(&out).Encode(nested)
		must(t, 0, ok)
		slog.New(slog.NewTextHandler(&out, nil)).Info("start", "key", key, "config", nested)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("start", "key", key, "config", nested)
		for _, line := range strings.Split(key.Reveal(), "\n")[1:] {
			fields := strings.Fields(line)
			if strings.Contains(strings.ToLower(out.String()), fields[len(fields)-1][:12]) {
				t.Errorf("%s: a printed key shows its bytes", name)
			}
		}
	}
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	seeded := KeyFromSeed(300)
	parsed, err := ParseKey(seeded.Reveal())
	must(t, parsed, err)
	part, err := seeded.From(20_778)
	must(t, part, err)
	reread, err := ParseKey(part.Reveal())
	must(t, reread, err)
	for name, c := range map[string]struct {
		key    Key
		marked bool
	}{
		"made here":     {seeded, true},
		"part of it":    {part, true},
		"pseudonyms":    {seeded.PseudonymsOnly(), true},
		"from a file":   {parsed, false},
		"part, a file":  {reread, false},
		"a file's part": {parsed.PseudonymsOnly(), false},
	} {
		if seed, found := c.key.SeedBelow(301); !found || seed != 300 {
			t.Errorf("%s: the seed is %d, found %t", name, seed, found)
		}
		if _, found := c.key.SeedBelow(300); found || c.key.Seeded() != c.marked {
			t.Errorf("%s: found below 300 %t, marked %t", name, found, c.key.Seeded())
		}
	}
	if _, found := NewKey().SeedBelow(1000); found || NewKey().Seeded() || (Key{}).Seeded() {
		t.Error("a random key has a seed")
	}
}

func TestDaysDoNotAllocate(t *testing.T) {
	k := NewKeyed(KeyFromSeed(1))
	transcript, sum, day := make([]byte, 150), 0.0, Day(20_778)
	run := func() {
		day ^= 1 // users around midnight
		s, err := k.On(day, transcript)
		if err != nil {
			t.Fatal(err)
		}
		sum += Uniform(s)
	}
	run()
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%g allocations a stream", n)
	}
}

func BenchmarkNewDay(b *testing.B) {
	k := NewKeyed(KeyFromSeed(1))
	day := Day(0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.On(day, nil); err != nil {
			b.Fatal(err)
		}
		day = (day + 1) % LastDay
	}
}
