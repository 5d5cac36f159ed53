// Package tune searches for how to release: on traces it measures which errors plans of a day's
// releases lead to, on users that the model was not trained on, at each of some Σε a day.
//
//	options.go  what is tried, on which traces, and what for; what is chosen
//	split.go    who a choice is made on and who it is checked on; their days, and samples of them
//	measure.go  settings measured on a sample, on all cores
//	summary.go  what a measurement comes to: errors, their interval, and what they gain
//	search.go   scout, measure the best, look for a target, promise, check
//	report.go   what to choose, in words, tables and a figure
//
// Everything that it returns are figures over all users. They come from the truth and are for
// the owner of the traces.
package tune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// Axis is the Σε a day that plans are looked for at, whatever the target is.
var Axis = []float64{5, 10, 20, 40, 80}

// Options say what is tried, and what for.
type Options struct {
	Box       grid.Box
	Mechanism string        // law.Codebook or law.Lattice
	CellsM    []float64     // sides of cells, metres; empty: two that suit the map and the target
	Step      time.Duration // of the model; 0: by how often fixes come
	// TargetKM is a median error in kilometres: the search looks for the least Σε a day, between
	// the first and the last of Axis, that reaches it. TargetEpsilonDay is a Σε a day: the search
	// looks for the least error that it buys. Without either nothing is chosen.
	TargetKM, TargetEpsilonDay float64
	// Quick measures on few time steps: a first look.
	Quick   bool
	Tool    string // that trains the model, for its provenance
	Seed    uint64
	Workers int // goroutines, default one; no figure depends on it
	// Progress, if set, is told how much of a phase is done, one call at a time. Its error ends the
	// search.
	Progress func(phase string, done, total int64) error
}

// scoutBins and bins bound the samples of the first look at all candidates and of what is measured
// after it, in bins of a step with a fix. Both are whole days, and at least a few.
func (o *Options) scoutBins() int64 {
	if o.Quick {
		return 200
	}
	return 1000
}

func (o *Options) bins() int64 {
	if o.Quick {
		return 600
	}
	return 8000
}

// Validate reports what cannot be used. What was left open is not wrong.
func (o *Options) Validate() error {
	var errs []error
	wrong := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(o.Mechanism != law.Codebook && o.Mechanism != law.Lattice, "mechanism %q: tune takes %s "+
		"or %s, whose guarantee is proved", o.Mechanism, law.Codebook, law.Lattice)
	wrong(o.TargetKM > 0 && o.TargetEpsilonDay > 0, "a target is an error or an ε a day, not both")
	wrong(!(o.TargetKM >= 0 && o.TargetEpsilonDay >= 0), "a target must be positive")
	wrong(o.TargetEpsilonDay > mechanism.MaxBudget, "the target of %g ε a day is above %g, the "+
		"largest budget", o.TargetEpsilonDay, float64(mechanism.MaxBudget))
	for _, cell := range o.CellsM {
		_, err := grid.New(o.Box, cell)
		errs = append(errs, err)
	}
	if wrong(o.Step < 0, "a step of %v is none", o.Step); o.Step > 0 {
		errs = append(errs, o.training(false).Validate(o.Step))
	}
	plan := Setting{DayEpsilon: o.TargetEpsilonDay, Step: max(o.Step, time.Minute)}
	wrong(o.TargetEpsilonDay > 0 && len(plan.plans([]time.Duration{day})) == 0,
		"no release has an ε so small that a day of them costs %g", o.TargetEpsilonDay)
	return errors.Join(errs...)
}

// fill gives the options what was left open. The step depends on how often fixes come, and is a
// minute at least: a plan of a day's releases needs no finer one.
func (o *Options) fill(f *Fixes) {
	if len(o.CellsM) == 0 {
		o.CellsM = usualCells(o.Box, o.TargetKM)
	}
	if o.Step == 0 {
		gap := max(time.Minute, f.medianGap())
		i := slices.IndexFunc(usualSteps, func(usual time.Duration) bool { return usual >= gap })
		if i < 0 {
			i = len(usualSteps) - 1
		}
		o.Step = usualSteps[i]
	}
}

// usualSteps are times in which people think, multiples of the shortest.
var usualSteps = []time.Duration{
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
	10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// usualCells returns a twentieth and a fortieth of the map's longer side, or smaller cells if a
// target needs them: within a cell nobody is found.
func usualCells(box grid.Box, targetKM float64) []float64 {
	const (
		plenty = 40_000 // cells: more take long
		// Places in a cell of this share of the target are a quarter of the target away from its
		// centre.
		ofTarget = .7
	)
	probe, err := grid.New(box, 100)
	if err != nil {
		return []float64{1000} // the search says what is wrong with the box
	}
	corner := probe.ToMap(box.North, box.East)
	fine := 1000 * max(corner.X, corner.Y) / 40
	if targetKM > 0 {
		fine = min(fine, max(1000*ofTarget*targetKM, 1000*math.Sqrt(corner.X*corner.Y/plenty)))
	}
	// to two significant digits, and to a metre
	round := func(m float64) float64 { return max(1, math.Round(decimals(m, math.Round))) }
	return []float64{round(fine), round(2 * fine)}
}

// training says how models are trained: moves that take longer than a step give transitions along
// the way. A calendar has four parts of the day: night, morning, day and evening.
func (o *Options) training(calendar bool) train.Options {
	t := train.Options{
		Interpolate: true, MaxGap: max(5*time.Minute, 2*o.Step), Source: "traces", Tool: o.Tool,
	}
	if calendar {
		t.Calendar = mobility.Calendar{UTCOffset: o.local(), Hours: []int{6, 10, 16, 20}}
	}
	return t
}

// candidates are all settings that are tried at a Σε a day, for days that last so long.
func (o *Options) candidates(dayEpsilon float64, lengths []time.Duration) (all []Setting) {
	for _, cell := range o.CellsM {
		s := Setting{Mechanism: o.Mechanism, CellM: cell, Step: o.Step, DayEpsilon: dayEpsilon}
		for _, plan := range s.plans(lengths) {
			for _, plan.Calendar = range []bool{false, true} {
				for _, plan.Delta = range plan.deltas() {
					all = append(all, plan)
				}
			}
		}
	}
	slices.SortFunc(all, cheaper)
	return slices.Compact(all)
}

// local is the map's time minus UTC by the sun, in whole hours.
func (o *Options) local() time.Duration {
	const degrees = 15 // the earth turns by so many in an hour
	return time.Duration(math.Round((o.Box.West+o.Box.East)/2/degrees)) * time.Hour
}

// NewFixes returns an empty gathering for a search. Its bins are as long as the step, or as the
// shortest that the search may choose.
func NewFixes(o Options) *Fixes {
	bin := usualSteps[0]
	if o.Step > 0 {
		bin = o.Step
	}
	return &Fixes{box: o.Box, binMS: max(1, bin.Milliseconds()), users: map[string]*thread{}}
}

// fix is where a user was: milliseconds since 1970 and degrees. It stands for so many fixes, itself
// and those of its bin that were not kept.
type fix struct {
	timeMS   int64
	lat, lon float64
	weight   int64
}

// Fixes gathers fixes in the map's box, in any order. Of each user and interval of the length of a
// bin it keeps the first fix, the last one and one in between, chosen by a hash: for steps of one
// or more bins, training and releases are then the same as with all of them, and errors are
// measured all along the bin, that one standing for all in between. Memory: up to 96 bytes for each
// user and bin with a fix, up to three times as much while more come. It belongs to one goroutine.
type Fixes struct {
	// All is the number of fixes. Only those Inside the box are kept; Swapped would lie in it if
	// latitude and longitude changed places.
	All, Inside, Swapped int64

	box   grid.Box
	binMS int64
	users map[string]*thread
}

// Add takes a fix.
func (f *Fixes) Add(at train.Fix) {
	f.All++
	if !f.box.Contains(at.Lat, at.Lon) {
		if f.box.Contains(at.Lon, at.Lat) {
			f.Swapped++
		}
		return
	}
	f.Inside++
	t := f.users[at.User]
	if t == nil {
		t = &thread{}
		f.users[at.User] = t
	}
	t.add(fix{at.TimeMS, at.Lat, at.Lon, 1}, f.binMS)
}

// Merge takes all of other's fixes, whose box and bins must be the same.
func (f *Fixes) Merge(other *Fixes) {
	f.All, f.Inside, f.Swapped = f.All+other.All, f.Inside+other.Inside, f.Swapped+other.Swapped
	for user, theirs := range other.users {
		mine := f.users[user]
		if mine == nil {
			f.users[user] = theirs
			continue
		}
		mine.fixes = append(mine.fixes, theirs.fixes...)
		mine.thin(f.binMS)
	}
}

// Days are the first and the last day (UTC, since 1970) that are not of a few wrong clocks alone:
// they have a hundredth of the fixes that the fullest day has. There must be a fix inside the box.
func (f *Fixes) Days() (first, last int64) {
	const few = 100
	days, most := map[int64]int64{}, int64(0)
	for _, t := range f.users {
		for _, at := range t.fixes {
			day := mobility.StepOf(at.timeMS, (24 * time.Hour).Milliseconds())
			days[day] += at.weight
			most = max(most, days[day])
		}
	}
	first, last = math.MaxInt64, math.MinInt64
	for day, n := range days {
		if n*few >= most {
			first, last = min(first, day), max(last, day)
		}
	}
	return first, last
}

// thinned returns a user's fixes in the order of time.
func (f *Fixes) thinned(user string) []fix {
	t := f.users[user]
	t.thin(f.binMS)
	return t.fixes
}

// thread is one user's fixes.
type thread struct {
	fixes []fix
	next  int // number of fixes at which to thin
}

func (t *thread) add(at fix, binMS int64) {
	const least = 256
	t.fixes = append(t.fixes, at)
	if len(t.fixes) > max(t.next, least) {
		t.thin(binMS)
		t.next = 2 * len(t.fixes)
	}
}

// thin sorts the fixes and keeps three a bin. What it keeps of parts and then of all is what it
// keeps of all at once: first and last are extremes, and the one in between is that of the smallest
// hash, or has become an extreme.
func (t *thread) thin(binMS int64) {
	slices.SortFunc(t.fixes, func(a, b fix) int {
		return cmp.Or(cmp.Compare(a.timeMS, b.timeMS), cmp.Compare(a.lat, b.lat),
			cmp.Compare(a.lon, b.lon))
	})
	all := t.fixes[:0]
	for _, at := range t.fixes {
		if last := len(all) - 1; last >= 0 && at.timeMS == all[last].timeMS &&
			at.lat == all[last].lat && at.lon == all[last].lon {
			all[last].weight += at.weight
			continue
		}
		all = append(all, at)
	}
	kept := all[:0]
	for start := 0; start < len(all); {
		end, bin := start+1, mobility.StepOf(all[start].timeMS, binMS)
		for end < len(all) && mobility.StepOf(all[end].timeMS, binMS) == bin {
			end++
		}
		first, last := all[start], all[end-1]
		middle, least, weight := first, uint64(math.MaxUint64), int64(0)
		for _, at := range all[start+1 : max(start+1, end-1)] {
			weight += at.weight
			if h := at.hash(); h <= least {
				middle, least = at, h
			}
		}
		// Who is first or last now may have stood for others.
		if end-start > 2 {
			middle.weight = weight + first.weight + last.weight - 2
			first.weight, last.weight = 1, 1
		}
		kept = append(kept, first)
		if end-start > 2 {
			kept = append(kept, middle)
		}
		if end-start > 1 {
			kept = append(kept, last)
		}
		start = end
	}
	t.fixes = kept
}

// hash mixes a fix's bits (the finalizer of splitmix64, Steele, Lea and Flood 2014,
// doi:10.1145/2660193.2660195, over each number in turn).
func (f fix) hash() uint64 {
	h := uint64(0)
	for _, word := range [...]uint64{
		uint64(f.timeMS), math.Float64bits(f.lat), math.Float64bits(f.lon),
	} {
		h += word + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// medianGap returns the median time between two successive fixes of a user at most an hour apart,
// as far as they were kept; 0 if there are none.
func (f *Fixes) medianGap() time.Duration {
	var gaps []int64
	for user := range f.users {
		fixes := f.thinned(user)
		for i := 1; i < len(fixes); i++ {
			if gap := fixes[i].timeMS - fixes[i-1].timeMS; gap > 0 &&
				gap <= time.Hour.Milliseconds() {
				gaps = append(gaps, gap)
			}
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return time.Duration(gaps[len(gaps)/2]) * time.Millisecond
}

// bins returns the number of bins of a length that fixes in the order of time fall into.
func bins(fixes []fix, binMS int64) (n int64) {
	for i, at := range fixes {
		if i == 0 ||
			mobility.StepOf(at.timeMS, binMS) != mobility.StepOf(fixes[i-1].timeMS, binMS) {
			n++
		}
	}
	return n
}

// day is the window of a plan's budget.
const day = 24 * time.Hour

// Setting is a plan of a day's releases, and the model that they are drawn under.
type Setting struct {
	Mechanism string        // of law.Names
	CellM     float64       // side of a cell, metres
	Step      time.Duration // of the model
	Calendar  bool          // the model has a matrix for each part of the day
	// DayEpsilon is Σε a day: what a user's releases of any 24 hours may add up to.
	DayEpsilon     float64
	Interval       time.Duration // least time between two releases of a user, a multiple of Step
	Epsilon, Delta float64       // of each release; without a location set Delta is 0
}

// ReleasesDay is the largest number of releases of one user in any 24 hours: as many as the budget
// pays for and the interval leaves room for.
func (s Setting) ReleasesDay() int64 {
	const rounding = 1e-9 // a quotient may be a little less than its whole number
	return min(s.options().MostReleases(s.Step, day), int64(s.DayEpsilon/s.Epsilon+rounding))
}

// lags are how long a reader of the records may wait: one interval between releases, two, four, and
// for all records of the day. The last one is mechanism.SmoothAll.
func (s Setting) lags() (steps []int64) {
	for _, intervals := range []int64{1, 2, 4} {
		if lag := time.Duration(intervals) * s.Interval; lag < day {
			steps = append(steps, int64(lag/s.Step))
		}
	}
	return append(steps, mechanism.SmoothAll)
}

// options are the mechanism's. A spent budget leaves predictions, which cost nothing.
func (s Setting) options() mechanism.Options {
	return mechanism.Options{
		Mechanism: s.Mechanism, Epsilon: s.Epsilon, Delta: s.Delta,
		ReleaseInterval: int(s.Interval / s.Step),
		Budget: mechanism.Budget{
			Epsilon: s.DayEpsilon, WindowSteps: int((day + s.Step - 1) / s.Step),
			Spent: mechanism.SpentPredict,
		},
	}
}

// cheaper orders settings by their cost, and those of equal cost by everything else, so that any
// order of candidates comes to the same choice.
func cheaper(a, b Setting) int {
	calendar := func(s Setting) int {
		if s.Calendar {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.DayEpsilon, b.DayEpsilon),
		cmp.Compare(a.Mechanism, b.Mechanism), cmp.Compare(a.CellM, b.CellM),
		cmp.Compare(a.Step, b.Step), cmp.Compare(calendar(a), calendar(b)),
		cmp.Compare(a.Interval, b.Interval), cmp.Compare(a.Delta, b.Delta),
		cmp.Compare(a.Epsilon, b.Epsilon))
}

// plans returns the ways to spend a setting's DayEpsilon that are worth a try: releases of about 4,
// 6 or 9 of ε, as small ones waste a budget (RESULTS.md, "When to release"), spread over each of
// the times that a day may last. A shorter day has shorter intervals, and its budget ends with it.
func (s Setting) plans(lengths []time.Duration) (all []Setting) {
	for _, length := range lengths {
		for _, about := range []float64{4, 6, 9} {
			most := max(1, math.Floor(float64(length)/float64(s.Step)))
			releases := min(max(1, math.Round(s.DayEpsilon/about)), most)
			s.Epsilon = decimals(s.DayEpsilon/releases, math.Floor)
			s.Interval = spread(length, int64(releases), s.Step)
			if law.ValidateEpsilon(s.Epsilon) == nil && !slices.ContainsFunc(all, s.resembles) {
				all = append(all, s)
			}
		}
	}
	return all
}

// deltas returns the δ that are tried: none for a codebook, which has no location set; else the one
// that tells near places apart least, and the one whose error was about the least of six on the
// traces of RESULTS.md: the smaller ε is, the larger the noise, and the more a smaller set is
// worth.
func (s Setting) deltas() []float64 {
	const small, forSmallEpsilon, forLargeEpsilon = .01, .6, .3
	switch {
	case s.Mechanism == law.Codebook:
		return []float64{0}
	case s.Epsilon <= 2:
		return []float64{small, forSmallEpsilon}
	}
	return []float64{small, forLargeEpsilon}
}

// resembles says whether another plan has the same ε, at an interval within a fifth.
func (s Setting) resembles(other Setting) bool {
	const fifth = 1.2
	short, long := min(s.Interval, other.Interval), max(s.Interval, other.Interval)
	return s.Epsilon == other.Epsilon && float64(long) <= fifth*float64(short)
}

// spread returns the interval at which so many releases last for a time: whole steps, or tens of
// steps where that makes little difference.
func spread(length time.Duration, releases int64, step time.Duration) time.Duration {
	const many = 50
	interval := length / time.Duration(releases)
	unit := step
	if interval > many*step {
		unit = 10 * step
	}
	return max(step, (interval+unit-1)/unit*unit)
}

// decimals returns x with two significant digits, up or down; an ε is a decimal number that people
// read.
func decimals(x float64, round func(float64) float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return x
	}
	digits := 1 - int(math.Floor(math.Log10(x)))
	var rounded float64
	if digits >= 0 {
		scale := math.Pow10(digits)
		rounded = round(x*scale) / scale
	} else { // a whole number times a power of ten is exact, its division by one is not
		scale := math.Pow10(-digits)
		rounded = round(x/scale) * scale
	}
	return rounded
}
