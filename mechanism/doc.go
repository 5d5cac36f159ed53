// Package mechanism releases a moving user's location with differential privacy under a public
// model of how people move.
//
// It implements Xiao and Xiong, "Protecting Locations with Differential Privacy under Temporal
// Correlations", CCS 2015 (doi 10.1145/2810103.2813640; "the paper"). One step, Sanitizer.Step, is
// the paper's Algorithm 1: predict the prior of the user's cell by the mobility model; take the
// δ-location set, the fewest cells that hold 1-δ of it; replace a true cell outside the set by the
// nearest one inside, its surrogate; add noise shaped by the sensitivity hull, the convex hull of
// all differences of two places of the set; and infer the posterior from the release.
//
//	state ──► mobility.Predict ──► LocationSet ──► SensitivityHull ──► Mechanism.Sample ──► Inference ──► state
//	                                   │                                  ▲       ▲               ▲
//	                                   └──► Surrogates ── true cell ──────┘       │               │
//	                                            │                           noise.Streams         │
//	                                            └──── emission of every cell ─────────────────────┘
//
// # Guarantee
//
// Let σ map every cell of the map to its surrogate in the location set, and let A be one of the
// mechanisms here with parameter ε. For all cells s1, s2 and all measurable sets of releases Z,
// Pr[A(σ(s1)) ∈ Z] ≤ e^ε Pr[A(σ(s2)) ∈ Z]: σ(s1) - σ(s2) lies in K, so the gauge of the noise, or
// the ℓ1 norm over its sensitivity, changes by at most 1. Hence for every prior and every cell the
// posterior that a knowing observer computes differs from the prior by a factor between e^-ε and
// e^ε. K, the set and σ are functions of earlier releases and the model alone. What each release
// adds is bounded by ε; budgets of several releases add. The claim covers the location's value,
// given the public model; it does not cover timing, presence or identity, and it is not about
// trajectories as a whole. For Lattice it holds of the published numbers themselves: it draws whole
// numbers exactly. For the others it is stated for real numbers: they compute in float64, whose
// lowest bits can tell more. PROOFS.md has the proofs.
//
// # Determinism
//
// The package has no clock, no global randomness and no map iteration. Randomness comes from
// noise.Streams, keyed by everything that determines a release: its law, which is that of A∘σ and
// so depends on the whole location set, whose it is, and the surrogate. Two runs under one key
// share noise only where they publish the same value; DESIGN.md says why no fact may be missing.
//
// Sums have a fixed order, products that are added are rounded first, logarithms and exponentials
// are computed here, so the same input gives the same bits on every architecture.
package mechanism
