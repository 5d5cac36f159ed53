package verify

import (
	"context"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// A key that was advanced (noise.Key.From) is the same key by its fingerprint, so that a service
// goes on under it without a question. What it answers is the same too, except for fixes whose
// noise is of days that it no longer has: those are refused. A caller that computes the answers
// again, perhaps under an older copy of the key, has to refuse the same ones. The dead letters name
// them. Where these are gone, the users' states in the changelog tell: each release counts in them,
// so they are the same only if the same fixes were released.

// ReadRefused reads from a partition's dead letters which raw records [from, to) were refused for a
// reason, and counts all letters of that range.
func ReadRefused(
	ctx context.Context, letters *topics.Cursor, encoding schemas.Encoding, raw engine.Partition,
	from, to int64, reason schemas.Reason,
) (refused *engine.Offsets, count int64, err error) {
	codec, err := schemas.NewCodec(encoding)
	if err != nil {
		return nil, 0, err
	}
	refused = new(engine.Offsets)
	for {
		r, more, err := letters.Next(ctx)
		if err != nil || !more {
			refused.Sort()
			return refused, count, err
		}
		letter, err := codec.DecodeDeadLetter(r.Value)
		if err != nil || letter.Topic != raw.Topic || letter.Partition != raw.Number ||
			letter.Offset < from || letter.Offset >= to {
			continue // of no concern here
		}
		count++
		if letter.Reason == reason {
			refused.Add(letter.Offset)
		}
	}
}

// LackingNoise says that the noise of fixes cannot be computed, and what would help.
func LackingNoise(key noise.Key, fixes int64) string {
	return fmt.Sprintf("the noise of up to %d fixes is of days whose key was destroyed: this key "+
		"begins at %v. Only a copy of an older key file can repeat their releases", fixes,
		key.FirstDay())
}
