// Package noise turns a secret key and a public transcript into the random numbers of one release.
//
// Noise is a function of its inputs, not of the clock or of a generator's state: HMAC-SHA-256 of the transcript under the key seeds
// ChaCha8, whose output is the stream. The same transcript gives the same release again, so a retry, a replay or a second
// instance publishes the same bytes and spends no privacy; another transcript gives a stream that nobody without the key can
// tell from independent uniform bits. The claim is computational: it rests on HMAC-SHA-256 as a pseudorandom function and
// ChaCha8 as a generator, and it holds against whoever lacks the key.
//
// What the transcript must hold is the caller's duty: everything that a release is a function of but the key, secrets included. Releases
// that share a stream must be one release. If they differed in anything else, be it the true place, the law or the way from
// the true place to the one that is given noise, comparing them would tell about that free of noise.
package noise

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"math/rand/v2"
)

// Source yields uniform 64-bit words. *rand.ChaCha8 and *rand.PCG of math/rand/v2 are Sources.
type Source interface{ Uint64() uint64 }

// Streams hands out the stream that belongs to a transcript of everything that determines a release.
type Streams interface {
	// Stream returns the source for the transcript. It is valid until the next call. The transcript is not kept.
	Stream(transcript []byte) Source
}

// Keyed is the keyed family of streams. One goroutine at a time may use it; it does not allocate after NewKeyed.
type Keyed struct {
	mac    hash.Hash
	seed   [sha256.Size]byte
	stream *rand.ChaCha8
}

// NewKeyed returns the streams of a key. It panics on the zero Key: noise without a secret protects nothing, and no caller can
// mean it.
func NewKeyed(key Key) *Keyed {
	if key.IsZero() {
		panic("noise: NewKeyed needs a key; use NewKey, ParseKey or, for experiments only, KeyFromSeed")
	}
	return &Keyed{mac: hmac.New(sha256.New, key.secret()[:]), stream: rand.NewChaCha8([32]byte{})}
}

// Stream returns ChaCha8 seeded with HMAC-SHA-256(key, transcript).
func (k *Keyed) Stream(transcript []byte) Source {
	k.mac.Reset()
	k.mac.Write(transcript)
	k.mac.Sum(k.seed[:0])
	k.stream.Seed(k.seed)
	return k.stream
}
