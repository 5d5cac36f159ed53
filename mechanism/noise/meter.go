package noise

import "math/rand/v2"

// Meter passes the words of a source on to the attempts at one draw and counts them, so that the
// number of words that the draw takes says nothing about its result.
//
// The exact draws of this package take more words for results further from 0. A Meter therefore
// takes further words at the end, until the attempt that was kept has a whole block of words. The
// words of the attempts that were not kept need no block, since these attempts are independent of
// the one that was. The total is a multiple of WordUnit.
//
// As long as the kept attempt fits into one block the total is independent of the result, exactly.
// An attempt that does not fit takes two blocks or more: the caller chooses a block that is large
// enough, and proves it (mechanism/PROOFS.md, theorem 8).
//
// The further words come after all words of the draw, so a Meter never changes what is drawn.
type Meter struct {
	src    Source
	block  uint64
	taken  uint64 // words taken since Start
	before uint64 // words taken before the present attempt
}

// WordUnit is what the number of words of every draw under a Meter is a multiple of.
const WordUnit = 32

// Start begins the first attempt at a draw from src. It panics on a block that is not a positive
// multiple of WordUnit. It does not allocate.
func (m *Meter) Start(src Source, block uint64) {
	if block == 0 || block%WordUnit != 0 {
		panic("noise: the block of a Meter must be a positive multiple of WordUnit")
	}
	*m = Meter{src: src, block: block}
}

// Uint64 returns the next word of the source, so that a Meter is a Source.
func (m *Meter) Uint64() uint64 {
	m.taken++
	return m.src.Uint64()
}

// Reject ends an attempt that is not kept and begins the next one.
func (m *Meter) Reject() { m.before = m.taken }

// Keep ends the draw with the present attempt: it takes the words that are missing and lets go of
// the source.
func (m *Meter) Keep() {
	rejected := roundUp(m.before, WordUnit)
	kept := max(roundUp(m.taken-m.before, m.block), m.block)
	skip(m.src, rejected+kept-m.taken)
	m.src = nil
}

// skip takes n words. On Keyed's own source the calls are direct, which takes half the time.
func skip(src Source, n uint64) {
	if stream, ok := src.(*rand.ChaCha8); ok {
		for ; n > 0; n-- {
			stream.Uint64()
		}
		return
	}
	for ; n > 0; n-- {
		src.Uint64()
	}
}

// roundUp returns the least multiple of unit that is not below n.
func roundUp(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }
