package audit

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
)

const nearFactor = 2

// nearAudit audits the codebook with a near factor.
func nearAudit(t *testing.T, subject Subject) *Report {
	t.Helper()
	m := roads(t, 24, 24)
	o := mechanism.Options{
		Mechanism: law.Codebook, Epsilon: 4,
		Near: law.Near{DistanceKM: m.Grid.CellKM(), Factor: nearFactor},
	}
	scout, err := NewScout(m, o, 3)
	if err != nil {
		t.Fatal(err)
	}
	src := rand.NewPCG(6, 1)
	cell := m.SampleInitial(src)
	for step := range int64(40) {
		if _, err := scout.Visit("u", step, cell); err != nil {
			t.Fatal(err)
		}
		cell = m.SampleNext(src, cell, step)
	}
	r, err := Run(subject, m, o, scout.Situations(), Options{
		Draws: testDraws, Seed: 5, Ratio: true, Workers: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAuditPassesNear: nothing is found, and the attack on near places comes near the logarithm of
// the factor, not beyond.
func TestAuditPassesNear(t *testing.T) {
	t.Parallel()
	r := nearAudit(t, Sanitizers{})
	if !r.Passed || len(r.Findings) > 0 {
		t.Errorf("findings: %q", r.Findings)
	}
	near := r.Attack.Near
	if near == nil || math.Abs(r.Attack.NearLimit-math.Log(nearFactor)) > 1e-12 {
		t.Fatalf("no attack on near places: %+v", r.Attack)
	}
	if near.Bound < .6*r.Attack.NearLimit || near.Bound > r.Attack.NearLimit ||
		near.Reach > r.Attack.NearLimit {
		t.Errorf("the bound for near places is %.4f of %.4f, reach %.4f", near.Bound,
			r.Attack.NearLimit, near.Reach)
	}
	if r.Law == nil || r.Law.Trials < 8 || r.Separation.Trials < 6 || r.Ratio.Comparisons == 0 {
		t.Errorf("a test has not run: %+v", r)
	}
}

// TestAuditNoticesNearFaults plants faults that leave e^ε between any two places.
func TestAuditNoticesNearFaults(t *testing.T) {
	t.Parallel()
	with := func(near law.Near) func(*Situation, mechanism.Options, Sampler) Sampler {
		return func(at *Situation, o mechanism.Options, _ Sampler) Sampler {
			q, err := law.NewNearQuantizer(at.grid, o.Epsilon, near)
			if err != nil {
				t.Fatal(err)
			}
			q.Prepare(at.prior.Cells, at.prior.P)
			return func(src noise.Source, cell grid.Cell) grid.Point {
				return q.Place(q.Draw(src, q.Part(cell)))
			}
		}
	}
	for name, near := range map[string]law.Near{
		"no displacement":         {},
		"noise of another factor": {DistanceKM: 1e-3, Factor: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := nearAudit(t, broken{sampler: with(near)})
			found := strings.Join(r.Findings, "\n")
			for _, want := range []string{"more than the near factor", "stated law"} {
				if !strings.Contains(found, want) {
					t.Errorf("findings %q do not say %q", r.Findings, want)
				}
			}
		})
	}
}
