package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/aggregate"
)

// enough is how many vehicles make an estimate one of a fleet.
const enoughVehicles = 100

// lines is a text of lines with a word in front of each.
type summaryLines struct{ strings.Builder }

func (l *summaryLines) add(word, format string, args ...any) {
	fmt.Fprintf(l, "%-12s"+format+"\n", append([]any{word}, args...)...)
}

// words say what was found, and how far to trust it.
func (r *aggregation) words(s aggregate.Summary) string {
	c, zones, collect := s.Counts, r.reader.Zones(), &r.options.Read.Collect
	length := time.Duration(collect.WindowSteps) * r.options.Read.Models[0].Step
	l := new(summaryLines)
	fmt.Fprintf(l, "%s of %s; windows of %v",
		cli.Quantity(c.Records, "record"), cli.Quantity(int64(c.Users), "user"), length)
	if zones != nil {
		if zones.Named() {
			fmt.Fprintf(l, ", %d zones with names", zones.Count())
		} else {
			fmt.Fprintf(l, ", %d zones of %.2f km", zones.Count(), zones.SideKM())
		}
	}
	fmt.Fprintln(l)
	if r.seeded > 0 {
		l.add("seeded", "%s", files.SeededWords(r.seeded))
	}
	if n := r.options.Output.OffMap; n > 0 {
		l.add("WARNING", "%s of --zone off the map left out", cli.Quantity(int64(n), "polygon"))
	}
	l.followed(s)
	if cause := r.input.split.cause(); cause != "" {
		l.add("beware", "%s", cause)
	}
	if c.Models > 1 {
		l.add("models", "%d versions; users are followed from one to the next", c.Models)
	}
	l.outside(s)
	if c.Late > 0 {
		l.add("late", "%d records came when their window was closed, and have no part in it: "+
			"of a topic, %d windows are open at a time", c.Late, collect.Open)
	}
	if s.Windows == 0 {
		fmt.Fprintln(l, "no window has a vehicle that could be followed: nothing is estimated")
		return l.String()
	}
	l.windows(s)
	l.fullest(zones, s)
	if s.Smallest < enoughVehicles {
		l.add("beware", "windows of fewer than %d vehicles are about few people, and what a zone "+
			"has there is mostly the model's: look at low and high, and at larger zones or windows",
			enoughVehicles)
	}
	return l.String()
}

// followed says whose records were followed, and why those of others were not. Only records of
// windows that are wanted count.
func (l *summaryLines) followed(s aggregate.Summary) {
	const why = "estimate follows from the model, the settings and the releases"
	c, w := s.Counts, s.Counts.Wanted
	switch {
	case w.Records == 0:
	case w.Followed == w.Records:
		l.add("followed", "all: every record's "+why)
	case c.Lost > 0:
		have, are := "have", "They are"
		if c.Lost == 1 {
			have, are = "has", "The user is"
		}
		l.add("followed", "%.1f %% of the records: %s %s records missing, or came under other "+
			"settings (a change of settings, a model that is not given, a topic whose beginning "+
			"retention has removed). %s left out until a gap of more than %s",
			100*float64(w.Followed)/float64(w.Records), cli.Quantity(int64(c.Lost), "user"), have,
			are, cli.Quantity(int64(s.MaxGap), "step"))
	case w.Followed == 0:
		l.add("followed", "none of the records")
	default:
		l.add("followed", "all others, %d of %d records: every one's "+why, w.Followed, w.Records)
	}
}

// outside says what became of records outside of --from and --to.
func (l *summaryLines) outside(s aggregate.Summary) {
	if c := s.Counts; c.Unwanted > 0 {
		l.add("outside", "%s of windows outside --from and --to count in no window; %d could be "+
			"followed", cli.Quantity(c.Unwanted, "record"), c.Followed-c.Wanted.Followed)
	}
	if s.After > 0 {
		l.add("outside", "%s of windows that end after --to, not looked at",
			cli.Quantity(s.After, "more record"))
	}
}

// windows says what the windows have on average.
func (l *summaryLines) windows(s aggregate.Summary) {
	n := float64(s.Windows)
	text := fmt.Sprintf("%d with %.0f vehicles on average, the smallest with %d",
		s.Windows, float64(s.Vehicles)/n, s.Smallest)
	if s.Lost > 0 {
		text += fmt.Sprintf("; %.1f more that are left out", float64(s.Lost)/n)
	}
	if s.Empty > 0 {
		text += fmt.Sprintf("; %d more windows have nobody who could be followed", s.Empty)
	}
	l.add("windows", "%s", text)
	l.add("releases", "change the zone of %.0f %% of the vehicles on average, compared with the "+
		"model alone; in %d of %d windows they disagree with the model so much that the fleet's "+
		"own distribution replaces part of it",
		100*s.Moved, s.Taught, s.Windows)
}

// fullest names the zones with most vehicles in the window with most vehicles.
func (l *summaryLines) fullest(zones *aggregate.Zones, s aggregate.Summary) {
	d := s.Most
	order := make([]int, len(d.Fitted))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(d.Fitted[j], d.Fitted[i])
	})
	const shown = 5
	l.add("fullest", "from %s, %s:", inUTC(s.MostMS), cli.Quantity(int64(d.Vehicles), "vehicle"))
	for _, z := range order[:min(shown, len(order))] {
		lat, lon := middleOfZone(zones, int32(z))
		name := zones.Name(int32(z))
		if name != "" {
			name += "   "
		}
		l.add("", "%s%.5f, %.5f   %5.1f vehicles (%g to %g), by the model alone %.1f",
			name, lat, lon, d.Fitted[z], d.Low[z], d.High[z], d.Blind[z])
	}
}
