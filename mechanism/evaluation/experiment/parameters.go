package experiment

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/trial"
)

//go:embed parameters.md
var parametersText string

// parameters is the experiment on one case: many traces over ε and δ.
type parameters struct {
	*study.Study
	prose study.Prose
	on    study.Case
}

// eachCase returns the experiment on each case.
func eachCase(s *study.Study) (list []*parameters) {
	prose := study.NewProse(parametersText)
	for _, c := range s.Cases() {
		list = append(list, &parameters{s, prose, c})
	}
	return list
}

// parametersOf returns the experiment on one case.
func parametersOf(s *study.Study, c study.Case) *parameters {
	return &parameters{Study: s, on: c}
}

func parametersExperiment() study.Experiment {
	return study.Experiment{
		Name: "parameters", Title: "Impact of parameters",
		Plan: func(s *study.Study) (pieces []study.Piece, err error) {
			for _, x := range eachCase(s) {
				pieces = append(pieces, x.pieces()...)
			}
			return pieces, nil
		},
		Report: reportParameters,
	}
}

func reportParameters(s *study.Study, r *study.Results) (report.Section, error) {
	intro := study.NewProse(parametersText).Say("intro",
		study.Figures{"epsilon": s.Options.Epsilon, "delta": s.Options.Delta})
	section := report.Section{
		Title: "Impact of parameters", Parts: []report.Part{report.Text(intro)},
	}
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
func (x *parameters) pieces() (pieces []study.Piece) {
	x.EachFold(x.on.Data, func(of []study.Trace) { pieces = append(pieces, x.blindPiece(of)) })
	for _, v := range x.Variants() {
		for _, at := range x.Settings() {
			pieces = append(pieces, x.variantPieces(v, at)...)
		}
	}
	return pieces
}

// blindPiece is that of the blind baseline on a fold.
func (x *parameters) blindPiece(of []study.Trace) study.Piece {
	deltas := x.Deltas()
	return study.Piece{
		Name:   x.name("blind", of[0].Fold),
		Inputs: fmt.Sprintf("%s deltas %v", x.inputs(), deltas), Work: study.Timestamps(of),
		Run: func(tick study.Tick) (any, error) { return x.blind(of, deltas, tick) },
	}
}

// inputs are what results on every fold depend on.
func (x *parameters) inputs() string {
	return fmt.Sprintf("%s users %d", x.on.Data.ID, len(x.Traces(x.on.Data)))
}

// variantPieces are a variant's at a setting, one for each fold.
func (x *parameters) variantPieces(v study.Variant, at study.Setting) (pieces []study.Piece) {
	o := x.Options
	x.EachFold(x.on.Data, func(of []study.Trace) {
		pieces = append(pieces, study.Piece{
			Name:   x.name(v.At(at), of[0].Fold),
			Inputs: fmt.Sprintf("%s seed %d runs %d", x.inputs(), o.Seed, o.Runs),
			Work:   study.Timestamps(of) * int64(o.Runs),
			Run:    func(tick study.Tick) (any, error) { return x.measure(of, v, at, tick) },
		})
	})
	return pieces
}

// measure returns a tally for each trace of a fold.
func (x *parameters) measure(
	traces []study.Trace, v study.Variant, at study.Setting, tick study.Tick,
) ([]study.Tally, error) {
	d, o := x.on.Data, x.Options
	model, err := d.WithoutFold(traces[0].Fold)
	if err != nil {
		return nil, err
	}
	tallies := make([]study.Tally, len(traces))
	for run := range o.Runs {
		s, err := mechanism.NewSanitizer(model, study.Keyed(o.Seed, run),
			d.Release(v, at.Epsilon, at.Delta))
		if err != nil {
			return nil, err
		}
		for i := range traces {
			t := &traces[i]
			personal, err := d.Personal(x.on.Kind, model, t)
			if err != nil {
				return nil, err
			}
			tell := study.Strides(len(t.Steps), tick)
			err = study.Releasing(s, t.Track(d.Grid, personal), func(r *trial.Result) error {
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

// blind returns for each δ a tally for each trace: of sets and drift at that δ, and of the
// distance of the model's own estimate, which stands for both release and estimate.
func (x *parameters) blind(
	traces []study.Trace, deltas []float64, tick study.Tick,
) ([][]study.Tally, error) {
	d := x.on.Data
	model, err := d.WithoutFold(traces[0].Fold)
	if err != nil {
		return nil, err
	}
	tallies := make([][]study.Tally, len(deltas))
	for k := range tallies {
		tallies[k] = make([]study.Tally, len(traces))
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
		err = study.Blindly(model, d.Release(study.PIM, 1, .01),
			t.Track(d.Grid, personal), deltas, visit)
		if err == nil {
			err = tick(int64(len(t.Steps)))
		}
		if err != nil {
			return nil, err
		}
	}
	return tallies, nil
}

// tallies returns the users' tallies of a variant at a setting, in the order of
// [study.Study.Traces].
func (x *parameters) tallies(
	r *study.Results, v study.Variant, at study.Setting,
) ([]study.Tally, error) {
	return study.Gathered(x.Study, x.on.Data, func(fold int) ([]study.Tally, error) {
		var got []study.Tally
		err := r.Get(x.name(v.At(at), fold), &got)
		return got, err
	})
}

// blindTallies returns those of the blind baseline at a δ.
func (x *parameters) blindTallies(r *study.Results, delta float64) ([]study.Tally, error) {
	k, ok := slices.BinarySearch(x.Deltas(), delta)
	if !ok {
		return nil, fmt.Errorf("experiment: δ = %g is not one of the study", delta)
	}
	return study.Gathered(x.Study, x.on.Data, func(fold int) ([]study.Tally, error) {
		var got [][]study.Tally
		if err := r.Get(x.name("blind", fold), &got); err != nil {
			return nil, err
		}
		return got[k], nil
	})
}
