package experiment

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/trial"
)

//go:embed parameters.md
var parametersText string

// parameters is the experiment on one case: many traces over ε and δ.
type parameters struct {
	*Study
	prose Prose
	on    Case
}

// eachCase returns the experiment on each case.
func eachCase(s *Study) (list []*parameters) {
	prose := NewProse(parametersText)
	for _, c := range s.Cases() {
		list = append(list, &parameters{s, prose, c})
	}
	return list
}

// parametersOf returns the experiment on one case.
func parametersOf(s *Study, c Case) *parameters {
	return &parameters{Study: s, on: c}
}

func parametersExperiment() Experiment {
	return Experiment{
		Name: "parameters", Title: "Impact of parameters",
		Plan: func(s *Study) (pieces []Piece, err error) {
			for _, x := range eachCase(s) {
				pieces = append(pieces, x.pieces()...)
			}
			return pieces, nil
		},
		Report: reportParameters,
	}
}

func reportParameters(s *Study, r *Results) (report.Section, error) {
	intro := NewProse(parametersText).Say("intro", Figures{"epsilon": s.Options.Epsilon, "delta": s.Options.Delta})
	section := report.Section{Title: "Impact of parameters", Parts: []report.Part{report.Text(intro)}}
	long := &report.Table{
		Name: "parameters", Long: true, Caption: "Every number of the section.",
		Columns: []string{
			"data", "model", "mechanism", "inference", "epsilon", "delta", "users", "timestamps",
			"metric", "value", "low", "high",
		},
	}
	for _, x := range eachCase(s) {
		parts, err := x.parts(r)
		if err != nil {
			return section, err
		}
		rows, err := x.rows(r)
		if err != nil {
			return section, err
		}
		section.Parts = append(section.Parts, parts...)
		long.Rows = append(long.Rows, rows...)
	}
	section.Parts = append(section.Parts, long)
	return section, nil
}

func (x *parameters) name(what string, fold int) string {
	return fmt.Sprintf("parameters/%s/%s/%s/fold %d", x.on.Data.Name, x.on.Kind, what, fold)
}

// pieces are, for each fold, one for each variant and setting, and one for the blind baseline.
func (x *parameters) pieces() (pieces []Piece) {
	deltas := x.Deltas()
	x.EachFold(x.on.Data, func(of []Trace) {
		pieces = append(pieces, Piece{
			Name: x.name("blind", of[0].Fold), Inputs: fmt.Sprintf("%s deltas %v", x.inputs(), deltas),
			Work: Timestamps(of),
			Run:  func(tick Tick) (any, error) { return x.blind(of, deltas, tick) },
		})
	})
	for _, v := range x.Variants() {
		for _, at := range x.Settings() {
			pieces = append(pieces, x.variantPieces(v, at)...)
		}
	}
	return pieces
}

// inputs are what results on every fold depend on.
func (x *parameters) inputs() string {
	return fmt.Sprintf("%s users %d", x.on.Data.ID, len(x.Traces(x.on.Data)))
}

// variantPieces are a variant's at a setting, one for each fold.
func (x *parameters) variantPieces(v Variant, at Setting) (pieces []Piece) {
	o := x.Options
	x.EachFold(x.on.Data, func(of []Trace) {
		pieces = append(pieces, Piece{
			Name:   x.name(v.At(at), of[0].Fold),
			Inputs: fmt.Sprintf("%s seed %d runs %d", x.inputs(), o.Seed, o.Runs),
			Work:   Timestamps(of) * int64(o.Runs),
			Run:    func(tick Tick) (any, error) { return x.measure(of, v, at, tick) },
		})
	})
	return pieces
}

// measure returns a tally for each trace of a fold.
func (x *parameters) measure(traces []Trace, v Variant, at Setting, tick Tick) ([]Tally, error) {
	d, o := x.on.Data, x.Options
	model, err := d.WithoutFold(traces[0].Fold)
	if err != nil {
		return nil, err
	}
	tallies := make([]Tally, len(traces))
	for run := range o.Runs {
		s, err := mechanism.NewSanitizer(model, Keyed(o.Seed, run), d.Release(v, at.Epsilon, at.Delta))
		if err != nil {
			return nil, err
		}
		for i := range traces {
			t := &traces[i]
			personal, err := d.Personal(x.on.Kind, model, t)
			if err != nil {
				return nil, err
			}
			tell := Strides(len(t.Steps), tick)
			err = Releasing(s, t.Track(d.Grid, personal), func(r *trial.Result) error {
				tallies[i].AddResult(r)
				return tell(r.Number)
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return tallies, nil
}

// blind returns for each δ a tally for each trace: of sets and drift at that δ, and of the distance
// of the model's own estimate, which stands for both release and estimate.
func (x *parameters) blind(traces []Trace, deltas []float64, tick Tick) ([][]Tally, error) {
	d := x.on.Data
	model, err := d.WithoutFold(traces[0].Fold)
	if err != nil {
		return nil, err
	}
	tallies := make([][]Tally, len(deltas))
	for k := range tallies {
		tallies[k] = make([]Tally, len(traces))
	}
	for i := range traces {
		t := &traces[i]
		personal, err := d.Personal(x.on.Kind, model, t)
		if err != nil {
			return nil, err
		}
		visit := func(r *trial.Result, sets []locationset.Set) error {
			distance := r.Outcome.Estimate.Distance(r.Place)
			for k := range sets {
				_, in := slices.BinarySearch(sets[k].Cells, r.Cell)
				tallies[k][i].Add(len(sets[k].Cells), !in, distance, distance)
			}
			return nil
		}
		err = Blindly(model, d.Release(PIM, 1, .01), t.Track(d.Grid, personal), deltas, visit)
		if err == nil {
			err = tick(int64(len(t.Steps)))
		}
		if err != nil {
			return nil, err
		}
	}
	return tallies, nil
}

// tallies returns the users' tallies of a variant at a setting, in the order of [Study.Traces].
func (x *parameters) tallies(r *Results, v Variant, at Setting) ([]Tally, error) {
	return Gathered(x.Study, x.on.Data, func(fold int) ([]Tally, error) {
		var got []Tally
		err := r.Get(x.name(v.At(at), fold), &got)
		return got, err
	})
}

// blindTallies returns those of the blind baseline at a δ.
func (x *parameters) blindTallies(r *Results, delta float64) ([]Tally, error) {
	k, ok := slices.BinarySearch(x.Deltas(), delta)
	if !ok {
		return nil, fmt.Errorf("experiment: δ = %g is not one of the study", delta)
	}
	return Gathered(x.Study, x.on.Data, func(fold int) ([]Tally, error) {
		var got [][]Tally
		if err := r.Get(x.name("blind", fold), &got); err != nil {
			return nil, err
		}
		return got[k], nil
	})
}
