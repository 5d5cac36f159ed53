package audit

import (
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// public is an outcome without its secret.
func public(o mechanism.Outcome) mechanism.Outcome {
	o.Drift = false
	return o
}

// repeat tests that the same facts give the same bytes, in processes that know nothing of each
// other, and that another report of the same step gives the same release: else an observer gets two
// releases for the price of one.
func repeat(a *auditor, report *Report) error {
	rng, r := a.rng("repeat"), &report.Repeat
	for _, s := range a.situations {
		for i := range repeatTrials {
			f := a.facts(s, fmt.Sprintf("audit-%d", i), s.cells[rng.IntN(len(s.cells))])
			first, again, err := a.subject.Publish(f)
			if err != nil {
				return err
			}
			second, secondAgain, err := a.subject.Publish(f)
			if err != nil {
				return err
			}
			r.Trials += 2
			if first.Release != second.Release {
				r.fail("another run of the same facts gives another release")
			} else if public(first) != public(second) || public(again) != public(secondAgain) {
				r.fail("another run of the same facts has something else beside the same release")
			}
			if first.Release != again.Release {
				r.fail("another report of the same step gives another release")
			} else if first.Estimate != again.Estimate || first.RadiusKM != again.RadiusKM {
				r.fail("another report of the same step has another estimate or radius beside " +
					"the same release")
			}
		}
	}
	return nil
}

// surrogates tests that a cell outside the set is published as its surrogate is, bit for bit, with
// all that goes with the release. The surrogate is found by its definition here. A release that
// looks at the true cell, or at drift, any further gives the places outside the set, which K does
// not cover, away. Under the codebook mechanism a cell must be published as any other that votes
// in the same way.
func surrogates(a *auditor, report *Report) error {
	rng, r := a.rng("surrogates"), &report.Surrogates
	what := "surrogate"
	if a.release.Mechanism == law.Codebook {
		what = "vote"
	}
	for _, s := range a.situations {
		for i := range placeTrials {
			cell, twin, ok := s.twins(rng)
			if !ok {
				break
			}
			f := a.facts(s, fmt.Sprintf("audit-%d", i), cell)
			released, again, err := a.subject.Publish(f)
			if err != nil {
				return err
			}
			f.Cell = twin
			member, memberAgain, err := a.subject.Publish(f)
			if err != nil {
				return err
			}
			r.Trials++
			if released.Release != member.Release || again.Release != memberAgain.Release {
				r.fail("the release depends on more than the %s", what)
			} else if public(released) != public(member) || public(again) != public(memberAgain) {
				r.fail("what is published beside the release depends on more than the %s", what)
			}
		}
	}
	return nil
}

// estimates tests that what is published beside a release follows from the release: two members of
// the set that come to the same place, from any user, must have the same estimate, radius and
// kind. Else the estimate tells the member, at no ε. Equal releases are rare on a fine lattice and
// never seen in floats, so this test, whatever the law of the others, draws from a lattice of one
// point to a cell at an ε of 1. It keeps a codebook, of an ε at which cells with other votes
// often have the same release.
func estimates(a *auditor, report *Report) error {
	rng, r := a.rng("estimates"), &report.Estimates
	type twice struct{ first, again mechanism.Outcome }
	for _, s := range a.situations {
		epsilon, err := s.mildEpsilon(a.release.Epsilon)
		if err != nil {
			return err
		}
		known := map[grid.Point]twice{}
		for i := range equalTrials {
			f := a.facts(s, fmt.Sprintf("audit-%d", i), s.cells[rng.IntN(len(s.cells))])
			f.Options.Epsilon, f.Options.Budget = epsilon, mechanism.Budget{}
			if s.code != nil {
				f.Cell = grid.Cell(rng.IntN(s.grid.Cells()))
			} else {
				f.Options.Mechanism, f.Options.Subdivision = law.Lattice, 1
			}
			first, again, err := a.subject.Publish(f)
			if err != nil {
				return err
			}
			earlier, met := known[first.Release]
			if !met {
				known[first.Release] = twice{first, again}
				continue
			}
			r.Trials++
			if public(first) != public(earlier.first) || again.Release == earlier.again.Release &&
				public(again) != public(earlier.again) {
				r.fail("what is published beside equal releases differs")
			}
		}
	}
	return nil
}
