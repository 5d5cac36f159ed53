package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/trial"
)

// parameters is many traces over ε and δ, on each case.
var parameters = Experiment{
	Name: "parameters", Title: "Impact of parameters",
	Plan: func(s *Study) (pieces []Piece) {
		for _, c := range s.Cases() {
			pieces = append(pieces, traceErrors.all(s, s.Ways(c, s.Settings()...))...)
		}
		return pieces
	},
	Show: func(p *Page) {
		all := long("parameters", "data", "model", "mechanism", "epsilon", "delta", "users",
			"timestamps", "metric")
		for _, c := range p.Cases() {
			for _, at := range p.Ways(c, p.Settings()...) {
				sample := errorsAt(p, at)
				label, epsilon, delta := at.Cells()
				for _, m := range errorScores {
					all.Add(c.Data.Name, string(c.Kind), label, epsilon, delta, len(sample),
						int(sample.N()), m.name, m.of(sample))
				}
			}
			t := all.Where("data", c.Data.Name).Where("model", string(c.Kind))
			file := fmt.Sprintf("parameters-%s-%s", c.Data.Name, c.Kind)
			p.Figure(file, sweeps(p, c, t))
			p.Table(file, c.Title()+", with 95 % confidence over users.",
				t.Pivot([]string{"epsilon", "delta", "mechanism"}, "metric", axes(errorScores)))
		}
		p.Add(all)
	},
}

// sweeps draws a row of panels for each metric: over ε and over δ.
func sweeps(p *Page, c Case, t *report.Table) *report.Figure {
	f := &report.Figure{
		Title: c.Title() + ", over ε (left) and δ (right)", Columns: 2, PanelWidth: 4.6,
		PanelHeight: 2.6, Note: p.bands(len(p.Traces(c.Data))),
	}
	o := p.Options
	for _, m := range errorScores {
		rows := t.Where("metric", m.name)
		overEpsilon := swept(rows.Where("delta", Fixed.Delta), m, "epsilon", o.Epsilons)
		overEpsilon.X.Label = fmt.Sprintf("ε of a release (δ = %g)", Fixed.Delta)
		overDelta := swept(rows.Where("epsilon", Fixed.Epsilon, nil), m, "delta", o.Deltas)
		overDelta.X.Label = fmt.Sprintf("δ (ε = %g)", Fixed.Epsilon)
		if m.name == driftScore.name {
			overEpsilon.Series = append(overEpsilon.Series, driftGuide(o.Epsilons, Fixed.Delta))
			overDelta.Series = append(overDelta.Series, driftGuide(o.Deltas, o.Deltas...))
		}
		f.Panels = append(f.Panels, overEpsilon, overDelta)
	}
	return f
}

// swept draws a score over the values of one column.
func swept(t *report.Table, m score, over string, values []float64) *report.Lines {
	at := []any{nil}
	for _, v := range values {
		at = append(at, v)
	}
	return &report.Lines{
		X:      report.Axis{Log: true, At: values},
		Y:      report.Axis{Label: m.axis, Log: m.log, Zero: true},
		Series: styled(t.Where(over, at...).Lines("mechanism", []string{over}, values)),
	}
}

// reached is the least error that was measured at an ε, and by which point.
type reached struct {
	Point
	error report.Band // root mean square, km
}

// fragment is what shows such releases on the page of geodither explore.
func (r reached) fragment() string {
	text := fmt.Sprintf("#mechanism=%s&epsilon=%g", r.Mechanism, r.Epsilon)
	if r.Mechanism != law.Codebook {
		text += fmt.Sprintf("&delta=%g", r.Delta)
	}
	return text
}

// frontier returns the least error of a data set under the popular model at each ε, ascending, of
// what some experiments measure.
func frontier(p *Page, d *Data, chosen []Experiment) (best []reached) {
	var points []Point
	for _, e := range chosen {
		switch e.Name {
		case parameters.Name:
			for _, epsilon := range p.Options.Epsilons {
				points = append(points, p.Ways(Case{d, Popular}, Setting{epsilon, Fixed.Delta})...)
			}
		case mechanisms.Name:
			for _, epsilon := range p.Options.MechanismEpsilons {
				for _, v := range contenders {
					points = append(points, contending(p.Study, d, v, epsilon)...)
				}
			}
		}
	}
	points = slices.DeleteFunc(points, func(at Point) bool { return at.Blind })
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.Epsilon, b.Epsilon) })
	for _, at := range points {
		next, n := reached{at, estimateScore.of(errorsAt(p, at))}, len(best)
		switch {
		case n == 0 || best[n-1].Epsilon != at.Epsilon:
			best = append(best, next)
		case next.error.Value < best[n-1].error.Value:
			best[n-1] = next
		}
	}
	return best
}

// means says in three sentences what the least errors of a data set mean. Its traces have n
// timestamps on average, and blind is off by alone.
func means(d *Data, best []reached, alone float64, n int) string {
	km := func(x float64) string { return report.Short(x) + " km" }
	of := func(r reached) string { return r.Label() + ", " + km(r.error.Value) }
	text := fmt.Sprintf("%s: without any release the model's guess is off by %s. ",
		strings.TrimSuffix(d.Title, "."), km(alone))
	worth := slices.IndexFunc(best, func(r reached) bool {
		return r.error.Value <= (1-trial.LeastGain)*alone
	})
	if worth < 0 {
		text += fmt.Sprintf("No ε that was measured takes %.0f %% of that away, so these releases "+
			"tell about the fleet and not about one user. ", 100*trial.LeastGain)
	} else {
		text += fmt.Sprintf("The smallest ε at every timestamp that takes at least %.0f %% of "+
			"that away is %s (%s). ", 100*trial.LeastGain, report.Short(best[worth].Epsilon),
			of(best[worth]))
	}
	last := best[len(best)-1]
	text += fmt.Sprintf("The largest, ε = %s (%s), costs Σε = %s over a trace of %d timestamps",
		report.Short(last.Epsilon), of(last), report.Short(last.Epsilon*float64(n)), n)
	if last.Epsilon*float64(n) > mechanism.HighEpsilonDay {
		text += ", which is hardly a limit on what all of them tell together"
	}
	return text + "."
}

// meaning adds what a report opens with: the least error at each Σε of a trace, a panel for each
// data set, and what it means. It adds nothing where no experiment has measured that.
func meaning(p *Page, chosen []Experiment) {
	const least = "least error of all mechanisms"
	f := &report.Figure{
		Name: "frontier", Title: "What each Σε of a trace leaves of the error", PanelWidth: 5,
		Note: "Every timestamp has a release; of the mechanisms and δ that were measured, the " +
			"best at each ε, under the popular model. Bands: 95 % confidence over users. blind: " +
			"no release.",
	}
	var seen []string // what the page shows of each data set
	for _, d := range p.Data {
		best, n := frontier(p, d, chosen), 0
		if len(best) == 0 {
			return
		}
		seen = append(seen, best[len(best)-1].fragment()+" ("+strings.TrimSuffix(d.Title, ".")+")")
		for _, trace := range p.Traces(d) {
			n += len(trace.Steps)
		}
		n /= len(p.Traces(d))
		alone := estimateScore.of(errorsAt(p, blindAt(d)))
		t := &report.Table{Columns: []string{"of", "Σε", "km"}}
		var sums, target []float64
		for _, at := range best {
			sums = append(sums, at.Epsilon*float64(n))
			target = append(target, (1-trial.LeastGain)*alone.Value)
			t.Add(least, at.Epsilon*float64(n), at.error)
		}
		t.Add(blind, nil, alone)
		f.Panels = append(f.Panels, &report.Lines{
			Title: d.Title, Y: report.Axis{Label: estimateScore.axis, Zero: true},
			X: report.Axis{Label: "Σε of a trace (the sum over its timestamps)", Log: true},
			Series: append(styled(t.Lines("of", []string{"Σε"}, sums)), report.Series{
				Name: fmt.Sprintf("%.0f %% better than blind", 100*trial.LeastGain), Guide: true,
				X: sums, Y: target,
			}),
		})
		p.Add(report.Text(means(d, best, alone.Value, n)))
	}
	p.Add(f)
	p.Add(report.Text("To see such releases on a map, run \"geodither explore\" (with --model " +
		"FILE and the traces, if they are yours), and append this to the address that it prints: " +
		strings.Join(seen, "; ") + "."))
}
