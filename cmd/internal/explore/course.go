package explore

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/sanitize"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

const (
	// maxCourse is how many fixes of a user are shown at most: the first ones. An answer with all
	// of them takes 5 MB. On a map of more than 2,500 cells there are fewer, so that no course
	// looks at more than courseCells cells, but at least leastCourse: a step costs up to a second
	// on a map of a million cells.
	maxCourse   = 20_000
	leastCourse = 20
	courseCells = 50_000_000
	// keptCourses and keptStates bound what is remembered: 8 × 16 MiB of states, and 20 MB of
	// steps.
	keptCourses = 8
	keptStates  = 16 << 20
)

// Course is all fixes of a user under some settings: column by column, a number for each fix.
// Places are in map kilometres. Where Kind is "refused" or "late" only TimeMS and the truth count,
// where nothing is published what is published is null.
type Course struct {
	User     string   `json:"user"`
	Settings Settings `json:"settings"`
	StepS    float64  `json:"step_s"` // length of a step, seconds
	CellKM   float64  `json:"cell_km"`
	Cut      bool     `json:"cut"` // the user has more fixes, which are not shown

	TimeMS    []int64  `json:"time_ms"`
	Kind      []string `json:"kind"`
	TruthX    []number `json:"truth_x"`
	TruthY    []number `json:"truth_y"`
	ReleaseX  []number `json:"release_x"`
	ReleaseY  []number `json:"release_y"`
	EstimateX []number `json:"estimate_x"`
	EstimateY []number `json:"estimate_y"`
	RadiusKM  []number `json:"radius_km"`
	BlindX    []number `json:"blind_x"`
	BlindY    []number `json:"blind_y"`
	SpentEps  []number `json:"spent"`      // Σε so far
	SetSize   []int    `json:"set_size"`   // |ΔX| of a release, else 0
	NearShare []number `json:"near_share"` // of a release: law.Metric.NearShare

	Summary Summary `json:"summary"`
}

// Summary sums a course up as "sanitize" does. Distances to the truth are in metres.
type Summary struct {
	Releases    int64         `json:"releases"`
	Repeats     int64         `json:"repeats"`
	Predictions int64         `json:"predictions"`
	Late        int64         `json:"late"`
	Refused     int64         `json:"refused"`
	Spent       float64       `json:"spent"` // Σε
	SetMean     float64       `json:"location_set_mean"`
	Drift       float64       `json:"drift_ratio"`
	NearShare   number        `json:"near_share_mean"` // over the releases
	Release     expect.Errors `json:"release_m"`
	Estimate    expect.Errors `json:"estimate_m"`
	Blind       expect.Errors `json:"blind_m"`
}

// course is a Course, and the states before some of its steps.
type course struct {
	Course
	options mechanism.Options // with every default
	model   *mobility.Model
	states  [][]byte // before fix i·stride
	stride  int
	bytes   int
}

// kindRefused is the kind of a fix that the service would refuse.
const kindRefused = "refused"

// shownFixes is how many fixes of a user are shown, on a map of so many cells.
func shownFixes(fixes, cells int) int {
	return min(fixes, maxCourse, max(leastCourse, courseCells/cells))
}

// shown returns the fixes of a user that are shown, under whatever settings.
func (t *Truth) shown(u *User) []schemas.Raw {
	return u.Fixes[:shownFixes(len(u.Fixes), t.model.Grid.Cells())]
}

// course returns a user's course under settings, a kept one if there is one.
func (t *Truth) course(ctx context.Context, name string, s Settings) (*course, error) {
	if kept := t.kept(name, s); kept != nil {
		return kept, nil
	}
	u, err := t.user(name)
	if err != nil {
		return nil, err
	}
	run, model, err := t.run(s)
	if err != nil {
		return nil, err
	}
	c := &course{options: run.Options(), model: model, stride: 1}
	c.User, c.Settings, c.Cut = name, s, len(u.Fixes) > len(t.shown(u))
	c.StepS, c.CellKM = model.Step.Seconds(), model.Grid.CellKM()
	var sums tally
	for i, fix := range t.shown(u) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.remember(i, run.State())
		step, err := run.Next(fix)
		if err != nil {
			return nil, err
		}
		truth := model.Grid.ToMap(fix.Latitude, fix.Longitude)
		c.add(fix.Timestamp, truth, &step, run.State())
		sums.add(truth, &step)
	}
	c.Summary = sums.summary(run.State())
	t.keep(c)
	return c, nil
}

// add appends a row.
func (c *course) add(timeMS int64, truth grid.Point, s *sanitize.Step, after *mechanism.State) {
	out, missing := &s.Outcome, number(math.NaN())
	kind, known, published := kindRefused, s.Refused == "", false
	if known {
		kind, published = out.Kind.String(), out.Kind.Published()
	}
	or := func(is bool, x float64) number {
		if is {
			return number(x)
		}
		return missing
	}
	known = known && out.Kind != mechanism.Late
	released := known && out.Kind == mechanism.Released
	c.TimeMS, c.Kind = append(c.TimeMS, timeMS), append(c.Kind, kind)
	for _, column := range []struct {
		to    *[]number
		is    bool
		value float64
	}{
		{&c.TruthX, true, truth.X},
		{&c.TruthY, true, truth.Y},
		{&c.ReleaseX, published && out.Kind != mechanism.Predicted, out.Release.X},
		{&c.ReleaseY, published && out.Kind != mechanism.Predicted, out.Release.Y},
		{&c.EstimateX, published, out.Estimate.X},
		{&c.EstimateY, published, out.Estimate.Y},
		{&c.RadiusKM, published, out.RadiusKM},
		{&c.BlindX, known, s.Blind.X},
		{&c.BlindY, known, s.Blind.Y},
		{&c.SpentEps, true, after.EpsilonSpent},
		{&c.NearShare, released, out.Metric.NearShare},
	} {
		*column.to = append(*column.to, or(column.is, column.value))
	}
	c.SetSize = append(c.SetSize, out.SetSize)
}

// remember keeps the state before a fix, and every second one less when all take too much.
func (c *course) remember(i int, before *mechanism.State) {
	if i%c.stride != 0 {
		return
	}
	state := before.AppendBinary(nil)
	c.states, c.bytes = append(c.states, state), c.bytes+len(state)
	for c.bytes > keptStates && len(c.states) > 1 {
		kept := c.states[:0]
		c.bytes = 0
		for j, s := range c.states {
			if j%2 == 0 {
				kept, c.bytes = append(kept, s), c.bytes+len(s)
			}
		}
		clear(c.states[len(kept):])
		c.states = kept
		c.stride *= 2
	}
}

// before returns the state before a fix, from the nearest one that was kept.
func (t *Truth) before(ctx context.Context, c *course, i int) (*mechanism.State, error) {
	state := new(mechanism.State)
	at := i / c.stride
	if err := state.DecodeBinary(c.states[at]); err != nil {
		return nil, err
	}
	if at*c.stride == i {
		return state, nil
	}
	u, err := t.user(c.User)
	if err != nil {
		return nil, err
	}
	e, err := engine.New(t.settings(c.model, c.Settings))
	if err != nil {
		return nil, err
	}
	for _, fix := range u.Fixes[at*c.stride : i] {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if engine.Plausible(fix) != nil {
			continue
		}
		_, _, err := e.Sanitize(fix, state)
		if _, refused := errors.AsType[*schemas.Rejection](err); err != nil && !refused {
			return nil, err
		}
	}
	return state, nil
}

// kept returns a course that was computed before, nil if it is not there any more.
func (t *Truth) kept(name string, s Settings) *course {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, c := range t.courses {
		if c.User == name && c.Settings == s {
			t.courses = append(slices.Delete(t.courses, i, i+1), c)
			return c
		}
	}
	return nil
}

// keep keeps a course, in the place of the one that was not used for longest.
func (t *Truth) keep(c *course) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.courses) == keptCourses {
		t.courses = slices.Delete(t.courses, 0, 1)
	}
	t.courses = append(t.courses, c)
}

// tally adds up a course as a run of "sanitize" does.
type tally struct {
	score   trial.Score
	kinds   map[mechanism.Kind]int64
	refused int64
	near    float64
}

func (a *tally) add(truth grid.Point, s *sanitize.Step) {
	if s.Refused != "" {
		a.refused++
		return
	}
	if a.kinds == nil {
		a.kinds = map[mechanism.Kind]int64{}
	}
	out := &s.Outcome
	a.kinds[out.Kind]++
	if out.Kind == mechanism.Released {
		a.score.AddRelease(out.SetSize, out.Drift)
		a.near += out.Metric.NearShare
	}
	if !out.Kind.Published() {
		return
	}
	if out.Kind != mechanism.Predicted {
		a.score.Release.Add(out.Release.Distance(truth))
	}
	a.score.Estimate.Add(out.Estimate.Distance(truth))
	a.score.Blind.Add(s.Blind.Distance(truth))
}

func (a *tally) summary(last *mechanism.State) Summary {
	return Summary{
		Releases: a.kinds[mechanism.Released], Repeats: a.kinds[mechanism.Repeated],
		Predictions: a.kinds[mechanism.Predicted], Late: a.kinds[mechanism.Late],
		Refused: a.refused, Spent: last.EpsilonSpent,
		SetMean: a.score.LocationSetMean(), Drift: a.score.DriftRatio(),
		NearShare: number(a.near / float64(a.kinds[mechanism.Released])),
		Release:   expect.ErrorsOf(&a.score.Release),
		Estimate:  expect.ErrorsOf(&a.score.Estimate), Blind: expect.ErrorsOf(&a.score.Blind),
	}
}
