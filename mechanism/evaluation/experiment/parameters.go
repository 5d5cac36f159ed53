package experiment

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/trial"
)

// Case is a data set under a kind of model.
type Case struct {
	Data *Data
	Kind Kind
}

// Title names the case in figures.
func (c Case) Title() string {
	return c.Data.Title + ", " + map[Kind]string{
		Popular: "popular M", Personal: "personal M", PersonalEarlier: "personal M of earlier traces",
	}[c.Kind]
}

// Cases are the paper's: every data set with the popular model, and with the personal one where traces are more than check-ins.
func (s *Study) Cases() (cases []Case) {
	for _, d := range s.Data {
		cases = append(cases, Case{d, Popular})
		if !d.EveryFix {
			cases = append(cases, Case{d, Personal})
		}
	}
	for _, d := range s.Data {
		if s.also(AlsoEarlier) {
			cases = append(cases, Case{d, PersonalEarlier})
		}
	}
	return cases
}

// Traces are those of a case that are measured: up to MaxUsers of them, evenly spread over the users.
func (s *Study) Traces(d *Data) []Trace {
	n := min(len(d.Traces), s.Options.MaxUsers)
	chosen := make([]Trace, 0, n)
	for i := range n {
		chosen = append(chosen, d.Traces[i*len(d.Traces)/n])
	}
	return chosen
}

// Setting is an ε and a δ.
type Setting struct{ Epsilon, Delta float64 }

// Settings are those that are swept, each once: the ε at the fixed δ, and the δ at the fixed ε.
func (s *Study) Settings() []Setting {
	var list []Setting
	for _, epsilon := range s.Options.Epsilons {
		list = append(list, Setting{epsilon, s.Options.Delta})
	}
	for _, delta := range s.Options.Deltas {
		if at := (Setting{s.Options.Epsilon, delta}); !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// folded returns the traces of a fold with their places among all.
func folded(traces []Trace, fold int) (of []Trace, at []int) {
	for i, t := range traces {
		if t.Fold == fold {
			of, at = append(of, t), append(at, i)
		}
	}
	return of, at
}

func (c Case) piece(what string, fold int) string {
	return fmt.Sprintf("parameters/%s/%s/%s/fold %d", c.Data.Name, c.Kind, what, fold)
}

func (v Variant) at(at Setting) string {
	return fmt.Sprintf("%s/%s/ε %g/δ %g", v.Mechanism, v.Inference, at.Epsilon, at.Delta)
}

// planParameters plans a piece for each fold of each case, variant and setting, and one for the fold's blind baseline.
func planParameters(s *Study) (pieces []Piece, err error) {
	for _, c := range s.Cases() {
		deltas := s.deltas()
		s.eachFold(c, func(of []Trace, inputs string) {
			pieces = append(pieces, Piece{
				Name: c.piece("blind", of[0].Fold), Inputs: fmt.Sprintf("%s deltas %v", inputs, deltas), Work: timestampsOf(of),
				Run: func(tick Tick) (any, error) { return c.blind(of, deltas, tick) },
			})
		})
		for _, v := range s.Variants() {
			for _, at := range s.Settings() {
				pieces = append(pieces, s.variantPieces(c, v, at)...)
			}
		}
	}
	return pieces, nil
}

// eachFold calls do with the traces of each fold that has some, and what results on them depend on.
func (s *Study) eachFold(c Case, do func(of []Trace, inputs string)) {
	traces := s.Traces(c.Data)
	for fold := range c.Data.Folds {
		if of, _ := folded(traces, fold); len(of) > 0 {
			do(of, fmt.Sprintf("%s users %d", c.Data.ID, len(traces)))
		}
	}
}

// variantPieces are a variant's at a setting.
func (s *Study) variantPieces(c Case, v Variant, at Setting) (pieces []Piece) {
	s.eachFold(c, func(of []Trace, inputs string) {
		pieces = append(pieces, Piece{
			Name: c.piece(v.at(at), of[0].Fold), Inputs: fmt.Sprintf("%s seed %d runs %d", inputs, s.Options.Seed, s.Options.Runs),
			Work: timestampsOf(of) * int64(s.Options.Runs),
			Run:  func(tick Tick) (any, error) { return c.measure(of, v, at, s.Options, tick) },
		})
	})
	return pieces
}

// deltas are all that occur, ascending.
func (s *Study) deltas() []float64 {
	list := append(slices.Clone(s.Options.Deltas), s.Options.Delta)
	slices.Sort(list)
	return slices.Compact(list)
}

// tickEvery is after how many timestamps progress is told.
const tickEvery = 250

// strides returns what is to be called with each of a number of timestamps, in order: it tells of them by the stride and at the end.
func strides(steps int, tick Tick) func(k int) error {
	told := 0
	return func(k int) error {
		n := k + 1
		if n-told < tickEvery && n < steps {
			return nil
		}
		work := int64(n - told)
		told = n
		return tick(work)
	}
}

// measure returns a tally for each trace of a fold.
func (c Case) measure(traces []Trace, v Variant, at Setting, o Options, tick Tick) ([]Tally, error) {
	model, err := c.Data.WithoutFold(traces[0].Fold)
	if err != nil {
		return nil, err
	}
	tallies := make([]Tally, len(traces))
	for run := range o.Runs {
		s, err := mechanism.NewSanitizer(model, Keyed(o.Seed, run), c.Data.Release(v, at.Epsilon, at.Delta))
		if err != nil {
			return nil, err
		}
		for i := range traces {
			t := &traces[i]
			personal, err := c.Data.Personal(c.Kind, model, t)
			if err != nil {
				return nil, err
			}
			tell := strides(len(t.Steps), tick)
			err = releasing(s, t.track(c.Data.Grid, personal), func(r *trial.Result) error {
				tallies[i].addResult(r)
				return tell(r.Number)
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return tallies, nil
}

// blind returns for each δ a tally for each trace: of sets and drift at that δ, and of the distance of the model's own estimate, which stands for both
// release and estimate.
func (c Case) blind(traces []Trace, deltas []float64, tick Tick) ([][]Tally, error) {
	model, err := c.Data.WithoutFold(traces[0].Fold)
	if err != nil {
		return nil, err
	}
	tallies := make([][]Tally, len(deltas))
	for k := range tallies {
		tallies[k] = make([]Tally, len(traces))
	}
	for i := range traces {
		t := &traces[i]
		personal, err := c.Data.Personal(c.Kind, model, t)
		if err != nil {
			return nil, err
		}
		err = blindly(model, c.Data.Release(PIM, 1, .01), t.track(c.Data.Grid, personal), deltas, func(r *trial.Result, sets []locationset.Set) error {
			distance := r.Outcome.Estimate.Distance(r.Place)
			for k := range sets {
				_, in := slices.BinarySearch(sets[k].Cells, r.Cell)
				tallies[k][i].add(len(sets[k].Cells), !in, distance, distance)
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
	return tallies, nil
}

// Tallies returns the users' tallies of a case, variant and setting, in the order of Traces. A study that has planned the parameters has them.
func (s *Study) Tallies(r *Results, c Case, v Variant, at Setting) ([]Tally, error) {
	return gather(s, c, func(fold int) ([]Tally, error) {
		var got []Tally
		err := r.Get(c.piece(v.at(at), fold), &got)
		return got, err
	})
}

// BlindTallies returns those of the blind baseline at a δ.
func (s *Study) BlindTallies(r *Results, c Case, delta float64) ([]Tally, error) {
	k, ok := slices.BinarySearch(s.deltas(), delta)
	if !ok {
		return nil, fmt.Errorf("experiment: δ = %g is not one of the study", delta)
	}
	return gather(s, c, func(fold int) ([]Tally, error) {
		var got [][]Tally
		if err := r.Get(c.piece("blind", fold), &got); err != nil {
			return nil, err
		}
		return got[k], nil
	})
}

func gather(s *Study, c Case, get func(fold int) ([]Tally, error)) ([]Tally, error) {
	return gatherOf(s, c.Data, get)
}

// gatherOf puts the folds' results, one for each of their traces, in the order of Traces.
func gatherOf[T any](s *Study, d *Data, get func(fold int) ([]T, error)) ([]T, error) {
	traces := s.Traces(d)
	all := make([]T, len(traces))
	for fold := range d.Folds {
		of, at := folded(traces, fold)
		if len(of) == 0 {
			continue
		}
		got, err := get(fold)
		if err != nil {
			return nil, err
		}
		if len(got) != len(of) {
			return nil, fmt.Errorf("experiment: %d results of %d traces", len(got), len(of))
		}
		for i, tally := range got {
			all[at[i]] = tally
		}
	}
	return all, nil
}
