package experiment

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/trial"
)

//go:embed overtime.md
var overTimeText string

// overTime is the experiment on one data set: many runs of a single trace.
type overTime struct {
	*study.Study
	prose study.Prose
	data  *study.Data
	trace *study.Trace
}

// overTimes returns the experiment on each data set with traces over time: check-ins have none.
func overTimes(s *study.Study) (list []*overTime) {
	prose := study.NewProse(overTimeText)
	for _, d := range s.Data {
		if !d.EveryFix {
			list = append(list, &overTime{s, prose, d, longestFollowed(d)})
		}
	}
	return list
}

// longestFollowed returns the trace that is followed: of the longest ones with the fewest holes the
// one that visits the most cells, so that there is something to follow.
func longestFollowed(d *study.Data) *study.Trace {
	best := &d.Traces[0]
	for i := range d.Traces {
		t := &d.Traces[i]
		if cmp.Or(-cmp.Compare(len(t.Steps), len(best.Steps)), cmp.Compare(t.Holes(), best.Holes()),
			-cmp.Compare(t.Distinct(), best.Distinct())) < 0 {
			best = t
		}
	}
	return best
}

func overTimeExperiment() study.Experiment {
	return study.Experiment{
		Name: "over-time", Title: "Performance over time",
		Plan: func(s *study.Study) (pieces []study.Piece, err error) {
			for _, x := range overTimes(s) {
				pieces = append(pieces, x.pieces()...)
			}
			return pieces, nil
		},
		Report: reportOverTime,
	}
}

func reportOverTime(s *study.Study, r *study.Results) (report.Section, error) {
	prose := study.NewProse(overTimeText)
	section := report.Section{
		Title: "Performance over time", Parts: []report.Part{report.Text(prose.Say("intro", nil))},
	}
	list := overTimes(s)
	if len(list) == 0 {
		section.Parts = append(section.Parts, report.Text(prose.Say("none", nil)))
	}
	for _, x := range list {
		lines, err := x.timelines(r)
		if err != nil {
			return section, err
		}
		section.Parts = append(section.Parts, x.parts(lines)...)
	}
	return section, nil
}

func (x *overTime) name(what string) string {
	return fmt.Sprintf("over-time/%s/%s", x.data.Name, what)
}

// pieces are the runs of each variant, and the one without releases.
func (x *overTime) pieces() []study.Piece {
	o := x.Options
	at := study.Setting{Epsilon: o.Epsilon, Delta: o.Delta}
	steps := len(x.trace.Steps)
	pieces := []study.Piece{{
		Name: x.name("blind"), Work: int64(steps),
		Inputs: fmt.Sprintf("%s δ %g", x.data.ID, o.Delta),
		Run:    func(tick study.Tick) (any, error) { return x.blind(tick) },
	}}
	for _, v := range x.Variants() {
		pieces = append(pieces, study.Piece{
			Name:   x.name(v.At(at)),
			Inputs: fmt.Sprintf("%s seed %d runs %d", x.data.ID, o.Seed, o.TimeRuns),
			Work:   int64(steps * o.TimeRuns),
			Run:    func(tick study.Tick) (any, error) { return x.follow(v, tick) },
		})
	}
	return pieces
}

// follow measures all runs of a variant.
func (x *overTime) follow(v study.Variant, tick study.Tick) (*timeline, error) {
	d, t, o := x.data, x.trace, x.Options
	model, err := d.WithoutUser(t.User)
	if err != nil {
		return nil, err
	}
	line := &timeline{}
	for run := range o.TimeRuns {
		s, err := mechanism.NewSanitizer(model, study.Keyed(o.Seed, run),
			d.Release(v, o.Epsilon, o.Delta))
		if err != nil {
			return nil, err
		}
		line.begin()
		err = study.Releasing(s, t.Track(d.Grid, nil), func(r *trial.Result) error {
			line.add(r, r.Outcome.SetSize, r.Outcome.Drift)
			if at := r.Outcome.Release; run == 0 {
				line.Places = append(line.Places, grid.Point{X: metre(at.X), Y: metre(at.Y)})
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

// blind is one run without releases; there is no chance in it.
func (x *overTime) blind(tick study.Tick) (*timeline, error) {
	d, t, delta := x.data, x.trace, x.Options.Delta
	model, err := d.WithoutUser(t.User)
	if err != nil {
		return nil, err
	}
	line := &timeline{}
	line.begin()
	visit := func(r *trial.Result, sets []locationset.Set) error {
		_, in := slices.BinarySearch(sets[0].Cells, r.Cell)
		line.add(r, len(sets[0].Cells), !in)
		return nil
	}
	err = study.Blindly(model, d.Release(study.PIM, 1, delta), t.Track(d.Grid, nil),
		[]float64{delta}, visit)
	if err == nil {
		err = tick(int64(len(t.Steps)))
	}
	return line, err
}

// timeline is what the runs of one trace give, [run][timestamp]. Distances are in kilometres,
// rounded to a metre.
type timeline struct {
	Set      [][]int
	Drift    [][]bool
	Release  [][]float64
	Estimate [][]float64
	Places   []grid.Point // the releases of the first run
}

func metre(km float64) float64 { return math.Round(km*1000) / 1000 }

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

// tallies returns a tally for each run of the timestamps from one to another: the runs are the
// clusters of their bands.
func (l *timeline) tallies(from, to int) []study.Tally {
	tallies := make([]study.Tally, len(l.Set))
	for run := range tallies {
		for i := from; i < to; i++ {
			tallies[run].Add(l.Set[run][i], l.Drift[run][i], l.Release[run][i], l.Estimate[run][i])
		}
	}
	return tallies
}

// named is a timeline with its variant; blind has none.
type named struct {
	label, what string
	variant     study.Variant
	look        int
	blind       bool
	line        timeline
}

// timelines reads what was measured, blind last.
func (x *overTime) timelines(r *study.Results) (lines []named, err error) {
	at := study.Setting{Epsilon: x.Options.Epsilon, Delta: x.Options.Delta}
	for _, v := range x.Variants() {
		n := named{label: v.Label(), variant: v, what: v.At(at), look: v.Look()}
		if err := r.Get(x.name(n.what), &n.line); err != nil {
			return nil, err
		}
		lines = append(lines, n)
	}
	blind := named{label: "blind", what: "blind", blind: true}
	if err := r.Get(x.name("blind"), &blind.line); err != nil {
		return nil, err
	}
	return append(lines, blind), nil
}
