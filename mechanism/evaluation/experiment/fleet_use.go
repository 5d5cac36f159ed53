package experiment

import (
	"fmt"
	"math"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/density"
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

// gain is which part of the model's own error a fit to the releases takes away, below 0 what it adds to it: over all fleets of the size, with an
// interval that takes fleets for independent where there are enough of them.
func (r *fleetRow) gain() Band {
	if r.blind.Variation == 0 {
		return Band{Low: math.NaN(), High: math.NaN()}
	}
	of := Band{1 - r.fitted.Variation/r.blind.Variation, math.NaN(), math.NaN()}
	by := r.blind.Variations
	if len(by) < leastFleets {
		return of
	}
	over := make([]float64, len(by))
	for i, alone := range by {
		over[i] = alone - r.fitted.Variations[i]
	}
	interval := signed(over, by, level)
	of.Low, of.High = interval.Low, interval.High
	return of
}

// percent rounds, and has no -0.
func percent(share float64) float64 { return math.Round(100*share) + 0 }

const (
	// usefulGain is from which gain on releases are said to be of use.
	usefulGain = .1
	// leastFleets is of how many fleets a size takes to be judged: fewer differ too much from each other by chance.
	leastFleets = 5
)

// fleetUse is what the releases of a kind of fleet gain at an ε.
type fleetUse struct {
	kind    string
	epsilon float64
	rows    []fleetRow // by size
}

// uses puts the rows together, kind by kind and ε by ε.
func uses(rows []fleetRow) (list []fleetUse) {
	for _, row := range rows {
		last := len(list) - 1
		if last < 0 || list[last].kind != row.blind.Fleet || list[last].epsilon != row.blind.Epsilon {
			list = append(list, fleetUse{kind: row.blind.Fleet, epsilon: row.blind.Epsilon})
			last++
		}
		list[last].rows = append(list[last].rows, row)
	}
	return list
}

// String says at which sizes releases are of use, at which they are not, and at which the fleets do not tell: size by size, since one that is of
// use says nothing of a larger one.
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

// fleetFindings are what the rows of a data set say, in a paragraph.
func fleetFindings(rows []fleetRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Releases are called of use at a size where the fit errs less than the model alone by more than %g %% of its error, and not of use where by less, with %g %% confidence over the fleets of the size; else it is undecided, and so is a size of which there are fewer than %d fleets, such as the largest one. The intervals take fleets for independent, though gathered ones share their place and those of traces their users, and each of them is wrong now and then: what decides is whether neighbouring sizes and ε agree. By vehicles they are of use:",
		100*usefulGain, 100*level, leastFleets)
	for i, u := range uses(rows) {
		if i > 0 {
			b.WriteString(";")
		}
		fmt.Fprintf(&b, " %s, ε = %g: %s", u.kind, u.epsilon, &u)
	}
	better, mean, least, most := 0, 0, math.Inf(1), math.Inf(-1)
	var own, fit [2]float64
	own[0], fit[0] = 1, 1
	for _, r := range rows {
		if r.naive.Variation < r.blind.Variation {
			better++
		}
		if r.posterior.Variation < r.fitted.Variation {
			mean++
		}
		least, most = min(least, r.gain().Value), max(most, r.gain().Value)
		own[0], own[1] = min(own[0], r.posterior.Coverage), max(own[1], r.posterior.Coverage)
		fit[0], fit[1] = min(fit[0], r.fitted.Coverage), max(fit[1], r.fitted.Coverage)
	}
	fmt.Fprintf(&b, ". Over all sizes and ε the fit changes the model's error by %+.0f to %+.0f %%; the mean of posteriors is nearer than the fit in %d of %d rows. The histogram of the releases is nearer than the model alone in %d of %d rows. Intervals of 90 %% hold the number of vehicles in %s to %s of the zones around the mean of posteriors, and in %s to %s around the fit.",
		-percent(most)+0, -percent(least)+0, mean, len(rows), better, len(rows), short(own[0]), short(own[1]), short(fit[0]), short(fit[1]))
	return b.String()
}
