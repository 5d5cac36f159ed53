package experiment

import (
	"fmt"
	"math"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/aggregate"
)

// fleetRow is what the estimators score for the fleets of one kind, ε and size.
type fleetRow struct{ naive, blind, posterior, fitted aggregate.Score }

// fleetRows puts scores together, in their order.
func fleetRows(scores []aggregate.Score) (rows []fleetRow) {
	n := len(aggregate.Estimators())
	for ; len(scores) >= n; scores = scores[n:] {
		rows = append(rows, fleetRow{scores[0], scores[1], scores[2], scores[3]})
	}
	return rows
}

// gain is which part of the model's own error a fit to the releases takes away; below 0 it adds to it.
func (r *fleetRow) gain() float64 {
	if r.blind.Variation == 0 {
		return 0
	}
	return 1 - r.fitted.Variation/r.blind.Variation
}

// percent rounds, and has no -0.
func percent(share float64) float64 { return math.Round(100*share) + 0 }

// usefulGain is from which gain on releases are said to be of use.
const usefulGain = .1

// fleetUse is from how many vehicles on the releases of a kind of fleet are of use at an ε.
type fleetUse struct {
	kind    string
	epsilon float64
	// from is the smallest size at which they are, and at all larger ones that were measured; 0 if they are not at the largest.
	from int
	rows []fleetRow // by size
}

// uses judges the rows, kind by kind and ε by ε.
func uses(rows []fleetRow) (list []fleetUse) {
	for _, row := range rows {
		last := len(list) - 1
		if last < 0 || list[last].kind != row.blind.Fleet || list[last].epsilon != row.blind.Epsilon {
			list = append(list, fleetUse{kind: row.blind.Fleet, epsilon: row.blind.Epsilon})
			last++
		}
		u := &list[last]
		u.rows = append(u.rows, row)
		switch {
		case row.gain() < usefulGain:
			u.from = 0
		case u.from == 0:
			u.from = row.blind.Vehicles
		}
	}
	return list
}

// String says it in words.
func (u *fleetUse) String() string {
	if u.from == 0 {
		return "at no size measured"
	}
	return fmt.Sprintf("from %d vehicles on", u.from)
}

// gains are those of all sizes.
func (u *fleetUse) gains() string {
	var parts []string
	for i := range u.rows {
		parts = append(parts, fmt.Sprintf("%d: %.0f %%", u.rows[i].blind.Vehicles, percent(u.rows[i].gain())))
	}
	return strings.Join(parts, ", ")
}

// fleetFindings are what the rows of a data set say, in a paragraph.
func fleetFindings(rows []fleetRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Releases are called of use where the fit errs less than the model alone by %g %% of its error or more, there and at all larger sizes measured. They are:", 100*usefulGain)
	kind := ""
	for _, u := range uses(rows) {
		switch kind {
		case u.kind:
			b.WriteString(",")
		case "":
			fmt.Fprintf(&b, " %s:", u.kind)
		default:
			fmt.Fprintf(&b, "; %s:", u.kind)
		}
		kind = u.kind
		fmt.Fprintf(&b, " at ε = %g %s", u.epsilon, &u)
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
		least, most = min(least, r.gain()), max(most, r.gain())
		own[0], own[1] = min(own[0], r.posterior.Coverage), max(own[1], r.posterior.Coverage)
		fit[0], fit[1] = min(fit[0], r.fitted.Coverage), max(fit[1], r.fitted.Coverage)
	}
	fmt.Fprintf(&b, ". Over all sizes and ε the fit changes the model's error by %+.0f to %+.0f %%; the mean of posteriors is nearer than the fit in %d of %d rows. The histogram of the releases is nearer than the model alone in %d of %d rows. Intervals of 90 %% hold the number of vehicles in %s to %s of the zones around the mean of posteriors, and in %s to %s around the fit.",
		-percent(most)+0, -percent(least)+0, mean, len(rows), better, len(rows), short(own[0]), short(own[1]), short(fit[0]), short(fit[1]))
	return b.String()
}
