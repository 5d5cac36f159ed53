package law

// The number of random words that a draw takes grows with the noise. Without padding it would tell
// somebody who can count words, by the clock or by the position of a generator, more about the true
// cell than ε allows. [lattice.Sample] therefore takes a whole block of words for the proposal
// that it keeps. The words of the proposals before that one are independent of it, and tell
// nothing.
//
// A proposal that needs more words than a block holds takes further blocks, and their number does
// depend on the noise. The blocks are so large that this happens to a kept proposal with a
// probability below 2⁻⁶⁴. PROOFS.md (theorem 8) derives the sizes from the public parameters
// of the law, and TestBlocksHoldProposals computes the bounds.
const (
	// usualBlock is for scales of 16 steps or more with numerators up to 2⁵⁶. Under the default
	// subdivision these are all sets with ε ≤ 16, for all but extreme numbers of decimals. A
	// proposal takes about 18 words on average.
	usualBlock = 288
	// largestBlock is for all other scales. There a discrete Laplace draw may come to zero, and
	// then starts over, in half of all cases; and a word below a numerator near 2⁶³ may have to
	// be drawn twice.
	largestBlock = 1280

	usualSteps     = 16      // least scale, in steps, of usualBlock
	usualNumerator = 1 << 56 // greatest numerator of usualBlock
)

// wordBlock returns the words of a block for proposals of the given scales. It depends on public
// things only: the hull, ε and the subdivision.
func wordBlock(scales ...[2]uint64) uint64 {
	for _, s := range scales {
		if s[0] > usualNumerator || s[0]/usualSteps < s[1] {
			return largestBlock
		}
	}
	return usualBlock
}
