package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/records"
	"github.com/geodither/geodither/mechanism/aggregate"
)

// aggregateReport gathers what the summary tells.
type aggregateReport struct {
	windows, empty int
	lost           int
	vehicles       int // over all windows
	smallest       int
	moved          float64 // share of the fleet that the releases move, over windows
	taught         int     // windows whose fleet has changed the prior
	most           aggregate.Density
	mostAt         int64
	flowing        int
}

func (r *aggregateReport) add(w *aggregate.Window, d aggregate.Density) {
	r.windows++
	r.lost += w.Lost
	r.vehicles += d.Vehicles
	r.flowing += w.Flowing
	if r.smallest == 0 || d.Vehicles < r.smallest {
		r.smallest = d.Vehicles
	}
	r.moved += aggregate.Variation(d.Fitted, d.Blind)
	if !math.IsInf(d.Kappa, 1) {
		r.taught++
	}
	if d.Vehicles > r.most.Vehicles {
		r.most, r.mostAt = d, w.StartMS
	}
}

// enough is how many vehicles make an estimate one of a fleet.
const enough = 100

// summarize says in words what was found, and how far to trust it.
func (r *aggregateRun) summarize(out io.Writer) error {
	c, zones := r.collector.Counts(), r.collector.Zones()
	length := time.Duration(r.collect.WindowSteps) * r.settings.models.public[0].Step
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s; windows of %v", cli.Quantity(c.Records, "record"), cli.Quantity(int64(c.Users), "user"), length)
	if zones != nil {
		fmt.Fprintf(&b, ", %d zones of %.2f km", zones.Count(), zones.SideKM())
	}
	fmt.Fprintln(&b)
	if r.seeded > 0 {
		fmt.Fprintf(&b, "seeded      %s\n", records.SeededWords(r.seeded))
	}
	r.followed(&b, c)
	r.outsiders(&b, c)
	if c.Late > 0 {
		fmt.Fprintf(&b, "late        %d records of windows that were closed have no part in them: raise --open\n", c.Late)
	}
	p := &r.report
	if p.windows == 0 {
		fmt.Fprintln(&b, "no window has a vehicle that could be followed: nothing is estimated")
		_, err := io.WriteString(out, b.String())
		return err
	}
	fmt.Fprintf(&b, "windows     %d with %.0f vehicles on average, the smallest with %d", p.windows, float64(p.vehicles)/float64(p.windows), p.smallest)
	if p.lost > 0 {
		fmt.Fprintf(&b, "; %.1f more that are left out", float64(p.lost)/float64(p.windows))
	}
	if p.empty > 0 {
		fmt.Fprintf(&b, "; %d more windows have nobody who could be followed", p.empty)
	}
	fmt.Fprintln(&b)
	fmt.Fprintf(&b, "releases    move %.0f %% of the fleet against the model alone, on average; in %d of %d windows they contradict it so far that the fleet's own prior replaces it in part\n",
		100*p.moved/float64(p.windows), p.taught, p.windows)
	if r.collect.Flows {
		fmt.Fprintf(&b, "flows       of %d vehicles from one window to the next, over all windows\n", p.flowing)
	}
	r.fullest(&b)
	if p.smallest < enough {
		fmt.Fprintf(&b, "beware      windows of fewer than %d vehicles are about few people, and what a zone has there is mostly the model's: look at low and high, and at larger zones or windows\n", enough)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// followed says whose records were followed, and why those of others were not. Only
// records of windows that are wanted count.
func (r *aggregateRun) followed(b *strings.Builder, c aggregate.Counts) {
	w, gap := r.wanted, r.collector.MaxGap()
	if c.Own > 0 && w.followed < w.records {
		who := "1 user who moves by a model of their own"
		if c.Own > 1 {
			who = fmt.Sprintf("%d users who move by models of their own", c.Own)
		}
		what := cli.Quantity(w.foreign, "record") + ", and what follows"
		if w.foreign == 0 {
			what = "what follows such records before --from"
		}
		fmt.Fprintf(b, "left out    %s, or under a public model that is not given (records do not tell which): %s up to a gap of more than %s\n",
			who, what, cli.Quantity(int64(gap), "step"))
	}
	switch {
	case w.records == 0:
	case w.followed == w.records:
		fmt.Fprintln(b, "followed    all: every record's estimate follows from the model, the settings and the releases")
	case c.Lost > 0:
		have, are := "have", "They are"
		if c.Lost == 1 {
			have, are = "has", "The user is"
		}
		fmt.Fprintf(b, "followed    %.1f %% of the records: %s %s records missing, or came under other settings (a change of settings, a model that is not given, "+
			"a topic whose beginning retention has removed). %s left out until a gap of more than %s\n",
			100*float64(w.followed)/float64(w.records), cli.Quantity(int64(c.Lost), "user"), have, are, cli.Quantity(int64(gap), "step"))
	case w.followed == 0:
		fmt.Fprintln(b, "followed    none of the records")
	default:
		fmt.Fprintf(b, "followed    all others, %d of %d records: every one's estimate follows from the model, the settings and the releases\n", w.followed, w.records)
	}
	if cause := r.split.cause(); cause != "" {
		fmt.Fprintf(b, "beware      %s\n", cause)
	}
	switch {
	case c.Personal == 1:
		fmt.Fprintln(b, "own models  1 user is followed under a model of their own; flows leave this one out")
	case c.Personal > 1:
		fmt.Fprintf(b, "own models  %d users are followed under models of their own; flows leave them out\n", c.Personal)
	}
	if c.Models > 1 {
		fmt.Fprintf(b, "models      %d versions; users are followed from one to the next\n", c.Models)
	}
}

// outsiders says what became of records outside of --from and --to.
func (r *aggregateRun) outsiders(b *strings.Builder, c aggregate.Counts) {
	if c.Unwanted > 0 {
		fmt.Fprintf(b, "outside     %s of windows before --from count in no window; %d could be followed\n",
			cli.Quantity(c.Unwanted, "record"), c.Followed-r.wanted.followed)
	}
	if r.wanted.after > 0 {
		fmt.Fprintf(b, "outside     %s of windows that end after --to, not looked at\n", cli.Quantity(r.wanted.after, "more record"))
	}
}

// fullest names the zones with most vehicles in the fullest window.
func (r *aggregateRun) fullest(b *strings.Builder) {
	d := r.report.most
	order := make([]int, len(d.Fitted))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case d.Fitted[i] > d.Fitted[j]:
			return -1
		case d.Fitted[i] < d.Fitted[j]:
			return 1
		}
		return 0
	})
	const shown = 5
	fmt.Fprintf(b, "fullest     from %s, %s:\n", utc(r.report.mostAt), cli.Quantity(int64(d.Vehicles), "vehicle"))
	for _, z := range order[:min(shown, len(order))] {
		lat, lon := r.out.middle(int32(z))
		fmt.Fprintf(b, "            %.5f, %.5f   %5.1f vehicles (%g to %g), by the model alone %.1f\n", lat, lon, d.Fitted[z], d.Low[z], d.High[z], d.Blind[z])
	}
}
