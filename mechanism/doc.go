// Package mechanism releases a moving user's location with differential privacy under a public
// model of how people move.
//
// It implements Xiao and Xiong, "Protecting Locations with Differential Privacy under Temporal
// Correlations", CCS 2015 (doi 10.1145/2810103.2813640; "the paper"). One step, Sanitizer.Step, is
// the paper's Algorithm 1:
//
//  1. Predict the prior of the user's cell by the mobility model.
//  2. Take the δ-location set: the fewest cells that hold 1-δ of the prior.
//  3. Replace a true cell outside the set by the nearest cell inside, its surrogate.
//  4. Add noise shaped by the sensitivity hull, the convex hull of all differences of two places of
//     the set.
//  5. Infer the posterior from the release.
//
// The same as a picture:
//
//	state ─► prediction ─► location set ─► sensitivity hull ─► draw ─► inference ─► state
//	                            │                              ▲  ▲        ▲
//	                            └─► surrogates ── true cell ───┘  │        │
//	                                    │                  noise.Streams   │
//	                                    └──── emission of every cell ──────┘
//
// Under the codebook mechanism (law.Quantizer) steps 2 to 4 are others: the prior alone determines
// code points on the map, the true cell votes for the nearest one, and the release is a code point
// that randomized response draws. No cell is released as another one.
//
// # Where to read what
//
// Algorithm 1 is in four files. step.go has the step from the prediction to the charge, in the
// order in which things happen; rules.go decides whether there is a release at all; emission.go has
// the law of the release, by which Step draws and everybody infers; inference.go turns the release
// into the posterior that is kept. What the step calls is in packages of its own:
//
//   - mobility predicts.
//   - law chooses the set, finds surrogates, and has the mechanisms and the sensitivity hull.
//   - noise has the random words and their key.
//   - ledger keeps what a user has spent.
//
// Around the step: options.go and policy.go have the options, state.go what is kept of a user and
// its bytes, migrate.go the change of a model, estimate.go and ellipse.go the place, radius and
// ellipse that are published beside a release, observe.go the step for somebody who sees only what
// is published, smoother.go what later records say about an earlier step, transcript.go what the
// noise of a release is a function of. GLOSSARY.md translates the paper's symbols.
//
// # For programs outside
//
// A program that publishes needs this package, grid for its map, mobility/train for the model and
// noise for the key; one that reads records needs follow; counts is for counts. The
// examples are whole programs: copy that of Sanitizer, of Smoother, or of train, which has the way
// from traces to releases. Packages evaluation, trial and parallel serve geodither's own commands.
// Before version 1 any of these packages may change; what they release and store does not, except
// as the changelog says.
//
// # Guarantee
//
// Let σ map every cell of the map to its surrogate in the location set, and let A be one of the
// mechanisms of package law with parameter ε. For all cells s1, s2 and all measurable sets of
// releases Z,
//
//	Pr[A(σ(s1)) ∈ Z] ≤ e^ε Pr[A(σ(s2)) ∈ Z].
//
// For σ(s1) - σ(s2) lies in K, so the gauge of the noise, or the ℓ1 norm over its sensitivity,
// changes by at most 1. Hence for every prior and every cell the posterior that a knowing observer
// computes differs from the prior by a factor between e^-ε and e^ε. K, the set and σ are
// functions of earlier releases and the model alone. What each release adds is bounded by ε;
// budgets of several releases add.
//
// The same holds under Codebook with σ the identity: the probabilities of a release under two
// cells differ by a factor of e^ε at most.
//
// The claim covers the location's value, given the public model. It does not cover timing, presence
// or identity, and it is not about trajectories as a whole. For Lattice and Codebook it holds of
// the published numbers themselves, because they draw whole numbers exactly. For the other
// mechanisms it is stated for real numbers: they compute in float64, whose lowest bits can tell
// more. PROOFS.md has the proofs.
//
// # Determinism
//
// The package has no clock, no global randomness and no map iteration. Randomness comes from
// noise.Streams, keyed by everything that determines a release: its law, whose release it is, and
// the surrogate. The law is that of A∘σ, so it depends on the whole location set. Two runs under
// one key share noise only where they publish the same value; DESIGN.md says why no fact may be
// missing.
//
// Sums have a fixed order, products that are added are rounded first, and logarithms and
// exponentials are computed here. So the same input gives the same bits on every architecture.
package mechanism
