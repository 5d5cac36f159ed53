package experiment

import (
	"fmt"
	"math"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/density"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

// fleetRow is what the estimators score for the fleets of one kind, ε and size.
type fleetRow struct{ naive, blind, posterior, fitted density.Score }

// fleetRows puts scores together, in their order.
func fleetRows(scores []density.Score) (rows []fleetRow) {
	n := len(density.Estimators())
	for ; len(scores) >= n; scores = scores[n:] {
		rows = append(rows, fleetRow{scores[0], scores[1], scores[2], scores[3]})
	}
	return rows
}

// gain is which part of the model's own error a fit to the releases takes away, below 0 what it
// adds to it: over all fleets of the size, with an interval that takes fleets for independent where
// there are enough of them.
func (r *fleetRow) gain() report.Band {
	if r.blind.Variation == 0 {
		return report.Exact(0)
	}
	of := report.Exact(1 - r.fitted.Variation/r.blind.Variation)
	by := r.blind.Variations
	if len(by) < leastFleets {
		return of
	}
	over := make([]float64, len(by))
	for i, alone := range by {
		over[i] = alone - r.fitted.Variations[i]
	}
	interval := study.Signed(over, by, study.Level)
	of.Low, of.High = interval.Low, interval.High
	return of
}

// percent rounds, and has no -0.
func percent(share float64) float64 { return math.Round(100*share) + 0 }

const (
	// usefulGain is from which gain on releases are said to be of use.
	usefulGain = .1
	// leastFleets is of how many fleets a size takes to be judged: fewer differ too much from each
	// other by chance.
	leastFleets = 5
)

// fleetUse is what the releases of a kind of fleet gain at an ε.
type fleetUse struct {
	Kind    string
	Epsilon float64
	rows    []fleetRow // by size
}

// uses puts the rows together, kind by kind and ε by ε.
func uses(rows []fleetRow) (list []*fleetUse) {
	for _, row := range rows {
		last := len(list) - 1
		if last < 0 || list[last].Kind != row.blind.Fleet ||
			list[last].Epsilon != row.blind.Epsilon {
			list = append(list, &fleetUse{Kind: row.blind.Fleet, Epsilon: row.blind.Epsilon})
			last++
		}
		list[last].rows = append(list[last].rows, row)
	}
	return list
}

// String says at which sizes releases are of use, at which they are not, and at which the fleets do
// not tell: size by size, since one that is of use says nothing of a larger one.
func (u *fleetUse) String() string {
	var yes, no, open []string
	for i := range u.rows {
		gain, size := u.rows[i].gain(), fmt.Sprint(u.rows[i].blind.Vehicles)
		switch {
		case gain.Low > usefulGain:
			yes = append(yes, size)
		case gain.High < usefulGain:
			no = append(no, size)
		default:
			open = append(open, size)
		}
	}
	var parts []string
	for _, part := range []struct {
		verdict string
		sizes   []string
	}{{"at", yes}, {"not at", no}, {"undecided at", open}} {
		if len(part.sizes) > 0 {
			parts = append(parts, part.verdict+" "+strings.Join(part.sizes, " and "))
		}
	}
	return strings.Join(parts, ", ")
}

// gains are those of all sizes.
func (u *fleetUse) gains() string {
	var parts []string
	for i := range u.rows {
		gain := u.rows[i].gain()
		part := fmt.Sprintf("%d: %.0f %%", u.rows[i].blind.Vehicles, percent(gain.Value))
		if !math.IsNaN(gain.Low) {
			part += fmt.Sprintf(" (%.0f to %.0f)", percent(gain.Low), percent(gain.High))
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// useTable says at which sizes releases are of use.
func useTable(rows []fleetRow) *report.Table {
	t := &report.Table{Columns: []string{"fleet", "ε", "of use, by vehicles", "gain by vehicles"}}
	for _, u := range uses(rows) {
		t.Add(u.Kind, u.Epsilon, u.String(), u.gains())
	}
	return t
}

// findings are what the rows of a data set say.
func findings(d *study.Data, rows []fleetRow) study.Figures {
	naive, mean, least, most := 0, 0, math.Inf(1), math.Inf(-1)
	own, fit := []float64{1, 0}, []float64{1, 0}
	for _, r := range rows {
		if r.naive.Variation < r.blind.Variation {
			naive++
		}
		if r.posterior.Variation < r.fitted.Variation {
			mean++
		}
		least, most = min(least, r.gain().Value), max(most, r.gain().Value)
		if r.fitted.Judged == 0 {
			continue
		}
		own[0], own[1] = min(own[0], r.posterior.Coverage), max(own[1], r.posterior.Coverage)
		fit[0], fit[1] = min(fit[0], r.fitted.Coverage), max(fit[1], r.fitted.Coverage)
	}
	return study.Figures{
		"data": d.Title, "useful": 100 * usefulGain, "confidence": 100 * study.Level,
		"leastFleets": leastFleets,
		"uses":        uses(rows), "best": -percent(most) + 0, "worst": -percent(least) + 0,
		"fleets": len(rows), "meanNearer": mean, "naiveNearer": naive, "own": own, "fit": fit,
	}
}
