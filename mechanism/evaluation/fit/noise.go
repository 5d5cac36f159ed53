package fit

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"github.com/geodither/geodither/mechanism/noise"
)

// pairedNoise returns the same bits for a user and step whatever the model and the location set
// are. Two models that are measured with it meet nearly the same noise, so the difference of their
// results comes from the models (common random numbers). It protects nothing: releases for two
// location sets share their noise. Use it on simulated releases only.
type pairedNoise struct {
	source *rand.PCG
	run    uint64
	user   uint64
	step   int64
}

func newPairedNoise(run uint64) *pairedNoise {
	return &pairedNoise{source: rand.NewPCG(0, 0), run: run}
}

// at names the release that is drawn next.
func (n *pairedNoise) at(user string, step int64) {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(user), n.run))
	n.user, n.step = binary.BigEndian.Uint64(sum[:]), step
}

// On implements noise.Streams.
func (n *pairedNoise) On(noise.Day, []byte) (noise.Source, error) {
	n.source.Seed(n.user, uint64(n.step))
	return n.source, nil
}
