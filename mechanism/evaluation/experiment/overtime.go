package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/trial"
)

// timeline is what the runs of one trace give, [run][timestamp]. Distances are in kilometres, rounded to a metre.
type timeline struct {
	Set      [][]int
	Drift    [][]bool
	Release  [][]float64
	Estimate [][]float64
	Places   []grid.Point // the releases of the first run
}

// overTimeTrace returns the trace that is followed: of those with the fewest holes the one that visits the most cells, so that there is something
// to follow.
func (d *Data) overTimeTrace() *Trace {
	best := &d.Traces[0]
	for i := range d.Traces {
		t := &d.Traces[i]
		if cmp.Or(-cmp.Compare(len(t.Steps), len(best.Steps)), cmp.Compare(t.Holes(), best.Holes()), -cmp.Compare(t.Distinct(), best.Distinct())) < 0 {
			best = t
		}
	}
	return best
}

// followed are the data sets with traces over time: check-ins have none.
func (s *Study) followed() []*Data {
	return slices.DeleteFunc(slices.Clone(s.Data), func(d *Data) bool { return d.EveryFix })
}

func timePiece(d *Data, what string) string { return fmt.Sprintf("over-time/%s/%s", d.Name, what) }

func planOverTime(s *Study) (pieces []Piece, err error) {
	o := s.Options
	at := Setting{o.Epsilon, o.Delta}
	for _, d := range s.followed() {
		t := d.overTimeTrace()
		pieces = append(pieces, Piece{
			Name: timePiece(d, "blind"), Inputs: fmt.Sprintf("%s δ %g", d.ID, o.Delta), Work: int64(len(t.Steps)),
			Run: func(tick Tick) (any, error) { return d.blindOverTime(t, o.Delta, tick) },
		})
		for _, v := range s.Variants() {
			pieces = append(pieces, Piece{
				Name: timePiece(d, v.at(at)), Inputs: fmt.Sprintf("%s seed %d runs %d", d.ID, o.Seed, o.TimeRuns),
				Work: int64(len(t.Steps) * o.TimeRuns),
				Run:  func(tick Tick) (any, error) { return d.followTrace(t, v, o, tick) },
			})
		}
	}
	return pieces, nil
}

func metre(km float64) float64 { return math.Round(km*1000) / 1000 }

// followTrace measures all runs of a variant.
func (d *Data) followTrace(t *Trace, v Variant, o Options, tick Tick) (*timeline, error) {
	model, err := d.WithoutUser(t.User)
	if err != nil {
		return nil, err
	}
	line := &timeline{}
	for run := range o.TimeRuns {
		s, err := mechanism.NewSanitizer(model, Keyed(o.Seed, run), d.Release(v, o.Epsilon, o.Delta))
		if err != nil {
			return nil, err
		}
		line.begin()
		err = releasing(s, t.track(d.Grid, nil), func(r *trial.Result) error {
			line.add(r, r.Outcome.SetSize, r.Outcome.Drift)
			if run == 0 {
				line.Places = append(line.Places, grid.Point{X: metre(r.Outcome.Release.X), Y: metre(r.Outcome.Release.Y)})
			}
			return nil
		})
		if err == nil {
			err = tick(int64(len(t.Steps)))
		}
		if err != nil {
			return nil, err
		}
	}
	return line, nil
}

// blindOverTime is one run without releases; there is no chance in it.
func (d *Data) blindOverTime(t *Trace, delta float64, tick Tick) (*timeline, error) {
	model, err := d.WithoutUser(t.User)
	if err != nil {
		return nil, err
	}
	line := &timeline{}
	line.begin()
	err = blindly(model, d.Release(PIM, 1, delta), t.track(d.Grid, nil), []float64{delta}, func(r *trial.Result, sets []locationset.Set) error {
		_, in := slices.BinarySearch(sets[0].Cells, r.Cell)
		line.add(r, len(sets[0].Cells), !in)
		return nil
	})
	if err == nil {
		err = tick(int64(len(t.Steps)))
	}
	return line, err
}

func (l *timeline) begin() {
	l.Set, l.Drift = append(l.Set, nil), append(l.Drift, nil)
	l.Release, l.Estimate = append(l.Release, nil), append(l.Estimate, nil)
}

func (l *timeline) add(r *trial.Result, set int, drift bool) {
	run := len(l.Set) - 1
	l.Set[run] = append(l.Set[run], set)
	l.Drift[run] = append(l.Drift[run], drift)
	l.Release[run] = append(l.Release[run], metre(r.Outcome.Release.Distance(r.Place)))
	l.Estimate[run] = append(l.Estimate[run], metre(r.Outcome.Estimate.Distance(r.Place)))
}

// tallies returns a tally for each run of the timestamps from one to another: the runs are the clusters of their bands.
func (l *timeline) tallies(from, to int) []Tally {
	tallies := make([]Tally, len(l.Set))
	for run := range tallies {
		for i := from; i < to; i++ {
			tallies[run].add(l.Set[run][i], l.Drift[run][i], l.Release[run][i], l.Estimate[run][i])
		}
	}
	return tallies
}
