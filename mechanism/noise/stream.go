// Package noise turns a secret key and a public transcript into the random numbers of one release.
//
// Noise is a function of its inputs, not of the clock or of a generator's state: HMAC-SHA-256 of
// the transcript under the key of the release's day seeds ChaCha8, whose output is the stream. The
// day is that on which the release's step begins, so it is an input too. The same transcript gives
// the same release again, so a retry, a replay or a second instance publishes the same bytes and
// spends no privacy; another transcript gives a stream that nobody without the key can distinguish
// from independent uniform bits. The claim is computational: it rests on HMAC-SHA-256 as a
// pseudorandom function and ChaCha8 as a generator, and it holds against those who lack the key.
//
// The caller must put into the transcript everything that determines a release except the key,
// secrets included. Releases that share a stream must be one release. If they differed in anything
// else, such as the true place, the law, or the way from the true place to the place that gets the
// noise, their comparison would reveal that difference without noise.
package noise

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"math/rand/v2"
)

// Source yields uniform 64-bit words. *rand.ChaCha8 and *rand.PCG of math/rand/v2 are Sources.
type Source interface{ Uint64() uint64 }

// Streams hands out the stream that belongs to a transcript of everything that determines a
// release.
type Streams interface {
	// On returns the source for the transcript of a release of a day. It is valid until the next
	// call. The transcript is not kept. The error is a *DestroyedError where the key has no noise
	// for the day.
	On(day Day, transcript []byte) (Source, error)
}

// recentDays is how many days' keys a Keyed keeps. Users' fixes alternate between two days around
// midnight, and a few more come late; another day costs some 25 µs.
const recentDays = 8

// Keyed is the keyed family of streams. One goroutine at a time may use it; it allocates for a day
// that it has not met lately and for nothing else.
type Keyed struct {
	secrets *secrets
	recent  [recentDays]dayMAC // the last one that was used is first
	whole   hash.Hash          // nil under a restricted key
	seed    [sha256.Size]byte
	stream  *rand.ChaCha8
}

// dayMAC is the keyed hash of one day; nil: none.
type dayMAC struct {
	day Day
	mac hash.Hash
}

// NewKeyed returns the streams of a key. It panics on a key without noise, the zero Key among them:
// noise without a secret protects nothing, and no caller can mean it.
func NewKeyed(key Key) *Keyed {
	if !key.HasNoise() {
		panic("noise: NewKeyed needs a key with noise; use NewKey, ParseKey or, for experiments " +
			"only, KeyFromSeed")
	}
	k := &Keyed{secrets: key.secret(), stream: rand.NewChaCha8([32]byte{})}
	if key.Whole() {
		k.whole = hmac.New(sha256.New, key.secret().master[:])
	}
	return k
}

// On implements Streams: ChaCha8 seeded with HMAC-SHA-256(the day's key, transcript).
func (k *Keyed) On(day Day, transcript []byte) (Source, error) {
	mac, err := k.ofDay(day)
	if err != nil {
		return nil, err
	}
	return k.expand(mac, transcript), nil
}

// Stream returns ChaCha8 seeded with HMAC-SHA-256(key, transcript), for what is no release and has
// no day: experiments on a law, and the training of a model under a key of its own. It panics under
// a restricted key.
func (k *Keyed) Stream(transcript []byte) Source {
	if k.whole == nil {
		panic("noise: a restricted key has noise for releases of its days only")
	}
	return k.expand(k.whole, transcript)
}

func (k *Keyed) expand(mac hash.Hash, transcript []byte) Source {
	mac.Reset()
	mac.Write(transcript)
	mac.Sum(k.seed[:0])
	k.stream.Seed(k.seed)
	return k.stream
}

// ofDay returns the keyed hash of a day and moves it to the front.
func (k *Keyed) ofDay(day Day) (hash.Hash, error) {
	at := 0
	for at < recentDays-1 && k.recent[at].mac != nil && k.recent[at].day != day {
		at++
	}
	found := k.recent[at]
	if found.mac == nil || found.day != day {
		s, err := within(k.secrets.days, day)
		if err != nil {
			return nil, err
		}
		leaf := s.descend(day, 0)
		secret := expand(leaf.secret[:], labelNoise)
		found = dayMAC{day, hmac.New(sha256.New, secret[:])}
	}
	copy(k.recent[1:at+1], k.recent[:at])
	k.recent[0] = found
	return found.mac, nil
}
