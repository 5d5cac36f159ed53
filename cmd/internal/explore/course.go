package explore

import (
	"context"
	"errors"
	"math"
	"time"

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
	// maxRows is how many fixes an answer has at most: 5 MB.
	maxRows     = 20_000
	keptCourses = 8
	// keptStates bounds the states that are kept of one course, 0.5 to 50 kB each.
	keptStates = 256
)

// Course is a user's fixes under some settings, from one of them on, as far as they are computed:
// column by column, a number for each fix.
// Places are in map kilometres. Where Kind is "refused" or "late" only TimeMS and the truth count,
// where nothing is published what is published is null.
type Course struct {
	User     string   `json:"user"`
	Settings Settings `json:"settings"`
	Total    int      `json:"total"` // fixes of the user
	From     int      `json:"from"`  // number of the first fix here
	Done     int      `json:"done"`  // fixes that are computed so far, from the first one on

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
	SpentEps  []number `json:"spent"` // Σε so far
	// SpentDay is the part of it that counts against a budget of 24 hours.
	SpentDay []number `json:"spent_24h"`

	Summary Summary `json:"summary"`
}

// Summary sums up the fixes of a course that are computed, as "sanitize" does. Distances to the
// truth are in metres.
type Summary struct {
	Releases uint64        `json:"releases"`
	Spent    float64       `json:"spent"` // Σε
	Estimate expect.Errors `json:"estimate_m"`
	Blind    expect.Errors `json:"blind_m"`
}

// course computes a Course fix by fix, as far as somebody asked for. It keeps the states before
// some of its steps. The holder of its turn may use it.
type course struct {
	Course
	growing
	options mechanism.Options // with every default
	model   *mobility.Model
	Fixes   []schemas.Raw // exported: fmt redacts them so

	run    *sanitize.Course // nil when all fixes are computed
	score  trial.Score
	states [][]byte // before fix i·stride
	stride int
}

// courseOf is what a question about a course names.
type courseOf struct {
	user     string
	settings Settings
}

// kindRefused is the kind of a fix that the service would refuse.
const kindRefused = "refused"

// course returns a user's course under settings, a kept one if there is one.
func (t *Truth) course(name string, s Settings) (*course, error) {
	return t.courses.get(courseOf{name, s}, func() (*course, int, error) {
		u, err := t.user(name)
		if err != nil {
			return nil, 0, err
		}
		run, err := t.run(s)
		if err != nil {
			return nil, 0, err
		}
		c := &course{
			options: run.Options(), model: t.model, run: run, Fixes: u.Fixes,
			growing: newGrowing(), stride: 1 + len(u.Fixes)/keptStates,
		}
		c.User, c.Settings, c.Total = name, s, len(u.Fixes)
		return c, t.model.Grid.Cells(), nil
	})
}

// user returns the fixes of a user.
func (t *Truth) user(name string) (*User, error) {
	i, ok := t.byName[name]
	if !ok {
		return nil, errOther("there is no such user in the traces")
	}
	return &t.users[i], nil
}

// part returns so many fixes from one on. It computes what is missing: all of it, or with a time
// within which there should be an answer as many fixes as that allows, at least one.
func (c *course) part(
	ctx context.Context, from, number int, within time.Duration,
) (part *Course, err error) {
	most := min(from+number, c.Total)
	err = c.grow(ctx, &c.Done, most, within, c.next, func() {
		part = new(c.rowsOf(from, min(most, c.Done)))
	})
	return part, err
}

// next computes one fix.
func (c *course) next(context.Context) error {
	fix := c.Fixes[c.Done]
	// A fix that failed once is remembered already.
	if c.Done%c.stride == 0 && c.Done/c.stride == len(c.states) {
		c.states = append(c.states, c.run.State().AppendBinary(nil))
	}
	step, err := c.run.Next(fix)
	if err != nil {
		return err
	}
	truth := c.model.Grid.ToMap(fix.Latitude, fix.Longitude)
	c.add(fix.Timestamp, truth, &step, c.run.State())
	if step.Refused == "" && step.Outcome.Kind.Published() {
		c.score.Estimate.Add(step.Outcome.Estimate.Distance(truth))
		c.score.Blind.Add(step.Blind.Distances(truth))
	}
	if c.Done+1 == c.Total {
		c.Summary = c.summary()
		c.run = nil // its filters take much on a large map
	}
	return nil
}

// rowsOf returns some of the fixes that are computed. They do not change any more.
func (c *course) rowsOf(from, to int) Course {
	if c.run != nil {
		c.Summary = c.summary()
	}
	part := c.Course
	from = min(from, to)
	part.From = from
	part.TimeMS, part.Kind = part.TimeMS[from:to], part.Kind[from:to]
	for _, column := range part.columns() {
		*column = (*column)[from:to]
	}
	return part
}

// columns are those of numbers that may be missing, in the order of add.
func (c *Course) columns() []*[]number {
	return []*[]number{
		&c.TruthX, &c.TruthY, &c.ReleaseX, &c.ReleaseY, &c.EstimateX, &c.EstimateY, &c.RadiusKM,
		&c.BlindX, &c.BlindY, &c.SpentEps, &c.SpentDay,
	}
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
	c.TimeMS, c.Kind = append(c.TimeMS, timeMS), append(c.Kind, kind)
	columns := c.columns()
	for i, x := range []number{
		number(truth.X), number(truth.Y),
		or(published && out.Kind != mechanism.Predicted, out.Release.X),
		or(published && out.Kind != mechanism.Predicted, out.Release.Y),
		or(published, out.Estimate.X), or(published, out.Estimate.Y), or(published, out.RadiusKM),
		or(known, s.Blind.Median.X), or(known, s.Blind.Median.Y),
		number(after.EpsilonSpent), number(spentDay(after)),
	} {
		*columns[i] = append(*columns[i], x)
	}
}

// spentDay is what counts against a budget of 24 hours in a state's last step.
func spentDay(s *mechanism.State) float64 {
	if !s.Started {
		return 0
	}
	budget := mechanism.Budget{WindowSteps: dayIn(time.Duration(s.StepMS) * time.Millisecond)}
	return s.Ledger.SpentSince(budget.Since(s.Step, s.StepMS)).Epsilon()
}

// before returns the state before a fix, from the nearest one that was kept.
func (t *Truth) before(ctx context.Context, c *course, i int) (*mechanism.State, error) {
	var kept []byte
	err := c.grow(ctx, &c.Done, i+1, 0, c.next, func() { kept = c.states[i/c.stride] })
	if err != nil {
		return nil, err
	}
	state, at := new(mechanism.State), i/c.stride*c.stride
	err = state.DecodeBinary(kept)
	if err != nil || at == i {
		return state, err
	}
	e, err := engine.New(t.settings(c.Settings))
	if err != nil {
		return nil, err
	}
	for _, fix := range c.Fixes[at:i] {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if engine.Plausible(fix) != nil {
			continue
		}
		_, err := e.Sanitize(fix, state)
		if _, refused := errors.AsType[*schemas.Rejection](err); err != nil && !refused {
			return nil, err
		}
	}
	return state, nil
}

// summary adds up what is computed, as a run of "sanitize" does.
func (c *course) summary() Summary {
	last := c.run.State()
	return Summary{
		Releases: last.Releases, Spent: last.EpsilonSpent,
		Estimate: expect.ErrorsOf(&c.score.Estimate), Blind: expect.ErrorsOf(&c.score.Blind),
	}
}
