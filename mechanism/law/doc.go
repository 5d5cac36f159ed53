// Package law has the mechanisms: each draws one place with ε-differential privacy on a location
// set, and knows the density of what it draws. What the mechanisms need to know of a set is its
// sensitivity hull K, the convex hull of all differences of two of its places.
//
//	set ─► SensitivityHull ─► Mechanism.Prepare ─┬─► Sample(true cell or its surrogate) ─► release
//	                                             └─► Exponents(release, places) ─► inference
//
// KNorm, PIM and Lattice have K-norm noise, whose density falls with ε‖z-x‖_K. Laplace and
// LaplaceTight are the paper's baseline. The guarantee stands at each type; mechanism/PROOFS.md has
// the proofs.
//
// Quantizer, the codebook mechanism, needs no location set: it places code points by the prior and
// answers by randomized response over them. It is the mechanism of least error, and the lattice is
// the one that tells near places apart least.
//
//	locationset*.go         the cells that a release tells apart
//	surrogate.go            for every other cell the member that is released in its place
//	new.go, mechanism.go    names and options of the mechanisms, and what all of them do
//	hull.go, metric.go      the sensitivity hull, and what ε means at a distance
//	knorm.go                K-norm noise in floating point, and how PIM makes K round
//	lattice*.go             K-norm noise in whole numbers
//	laplace.go              the paper's baseline
//	near.go                 neighbours of a prior's cells, and how many a release tells apart
//	epsilon.go              ε as a fraction, and e^ε from below
//	codebook.go             the codebook; sketch chooses how many code points it has
//	the other codebook_*    candidates for the code points, their gain, the prior in few patches
//
// Everything but the last argument of Mechanism.Sample, Quantizer.Vote and Quantizer.Sample is
// public. No sum depends on the order of a map, and products that are added are rounded first, so
// the same words give the same release on every architecture.
//
// # The lattice next to the others
//
// Lattice is the same law as KNorm on whole steps. It asks three things of its surroundings that
// the others do not:
//
//   - Mechanism.Sample is given the cell, not its centre. A sum in kilometres would round
//     differently for each cell, and which of its low bits can occur would tell the cells apart.
//     The lattice adds whole numbers and converts the sum. The others look the centre up
//     themselves.
//   - ε has to be a fraction. The configuration keeps a float64, and the shortest decimal of that
//     float64 is what somebody wrote. ln 2 or 1/3 in full are refused: to round them in silence
//     would make the promise another one than the one that is charged.
//   - Options.CheckGrid checks the bounds once against the grid. Within them words of 64 bits
//     suffice. A rare draw beyond them is finished in big integers from the same words, so no tail
//     is cut off that the proof would have to pay for with a δ.
//
// The proposal is the product of two discrete Laplace laws, in coordinates in which K is not thin.
// Scaled for a box around K it would keep 1/2 of a square and 1/4 of a diamond. Scaled for K itself
// (M instead of 2·w1·w2) it costs nothing more and keeps all of a diamond. To draw a direction
// and a gauge instead, as KNorm does, has no exact form on a lattice: the number of points of one
// gauge is not proportional to areas.
//
// An exact draw takes more random words for more noise, so the number of words is padded to a whole
// block (noise.Meter; theorem 8 of PROOFS.md). Three decisions are behind it:
//
//   - The words are thrown away after the draw, not between its parts. So releases are the same
//     bytes as without padding.
//   - Only the proposal that is kept gets a block. The rejected ones are independent of it, and a
//     block for each would cost twice as much and protect nothing more.
//   - The block is not a parameter. It is large enough for 2⁻⁶⁴, which stays small when it is
//     multiplied by e^ε and by a lifetime's releases. It costs about 1 µs of a step's 12 to 70
//     µs.
//
// The subdivision costs neither ε nor time, only room in the words: 256 steps make the grid of
// releases finer than a fix (1.3 m in a cell of 340 m).
package law
