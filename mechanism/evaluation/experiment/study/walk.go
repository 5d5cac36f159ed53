package study

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
)

// Keyed returns the noise of one run. Runs, and studies of other seeds, are independent.
func Keyed(seed uint64, run int) noise.Streams {
	message := binary.BigEndian.AppendUint64([]byte("geodither experiment run "), seed)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(message, uint64(run)))
	return noise.NewKeyed(noise.KeyFromSeed(binary.BigEndian.Uint64(sum[:])))
}

// Track returns the trace for a runner; personal may be nil.
func (t *Trace) Track(g *grid.Grid, personal *mobility.Personal) trial.Track {
	return trial.Track{
		User: t.User, Personal: personal, Reports: trial.Centres(g, t.Steps, t.Cells),
	}
}

// Releasing runs a trace with a release at each timestamp.
func Releasing(s *mechanism.Sanitizer, t trial.Track, visit func(*trial.Result) error) error {
	return (&trial.Runner{Sanitizer: s, Release: true}).Run(t, visit)
}

// Blindly runs a trace without releases. sets are, for each δ, the location set of the prior: what
// ΔX would be if nothing were known but the model.
func Blindly(
	m *mobility.Model, o mechanism.Options, t trial.Track, deltas []float64,
	visit func(r *trial.Result, sets []locationset.Set) error,
) error {
	s, err := mechanism.NewSanitizer(m, Keyed(0, 0), o)
	if err != nil {
		return err
	}
	sets := make([]locationset.Set, len(deltas))
	var prior mobility.Distribution
	return (&trial.Runner{Sanitizer: s}).Run(t, func(r *trial.Result) error {
		prior.CopyFrom(&r.State.Posterior)
		prior.Normalize()
		for k, delta := range deltas {
			sets[k].Choose(&prior, delta)
		}
		return visit(r, sets)
	})
}

// Tally adds up what one user's timestamps give. Distances are in kilometres.
type Tally struct {
	N                   int64   // timestamps, of all runs
	Set                 float64 // Σ|ΔX|
	Drift               float64 // how often the true cell lay outside ΔX
	Release, Release2   float64 // Σ distance, Σ distance²
	Estimate, Estimate2 float64
}

// Add adds a timestamp: |ΔX|, whether the true cell lay outside ΔX, and the two distances.
func (t *Tally) Add(set int, drift bool, releaseKM, estimateKM float64) {
	t.N++
	t.Set += float64(set)
	if drift {
		t.Drift++
	}
	t.Release += releaseKM
	t.Release2 += float64(releaseKM * releaseKM)
	t.Estimate += estimateKM
	t.Estimate2 += float64(estimateKM * estimateKM)
}

// AddResult adds a release at a timestamp.
func (t *Tally) AddResult(r *trial.Result) {
	out := &r.Outcome
	t.Add(out.SetSize, out.Drift, out.Release.Distance(r.Place), out.Estimate.Distance(r.Place))
}
