package tune

import (
	"iter"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
	"github.com/geodither/geodither/mechanism/trial"
)

// Models by whom they leave out: the users of a fold and those held out, those held out, or nobody.
const (
	withoutHeld = -1
	ofEverybody = -2
)

// group is days that are released under one model, by whom it leaves out.
type group struct {
	without int
	days    []userDay
}

// bins is how many bins a pass over the group's days has.
func (g *group) bins() (bins int64) {
	for i := range g.days {
		bins += g.days[i].bins
	}
	return bins
}

// work is how many bins a pass over the groups' days has.
func work(groups []group) (bins int64) {
	for i := range groups {
		bins += groups[i].bins()
	}
	return bins
}

// terrain is a map with a calendar: what models are made for.
type terrain struct {
	cellM    float64
	calendar bool
}

// terrainOf returns the terrain of a setting.
func terrainOf(s Setting) terrain { return terrain{s.CellM, s.Calendar} }

// lab is where settings are measured. Models wait for later phases, up to a bound.
type lab struct {
	options   Options
	users     []user
	at        terrain        // the one at hand
	trainer   *train.Trainer // of everybody, for it; nil until a model has to be trained
	models    map[terrain]map[int]*mobility.Model
	best      terrain                       // whose models say most without a release; 0: not known
	tell      func(done, total int64) error // of the phase at hand
	looksBack bool                          // measure what records show of the past, too

	done, total int64 // bins of the passes of the measurement at hand, and of its models' training
	training    int64 // as how many bins the training at hand counts
}

// keptEntries bounds the stored probabilities of models of terrains that are not at hand: some
// 12 bytes each.
const keptEntries = 1 << 25

// enter makes a terrain the one at hand. It forgets the models of others if these are too large.
func (l *lab) enter(w terrain) {
	if l.at != w {
		l.at, l.trainer = w, nil
	}
	entries := 0
	for at, models := range l.models {
		for _, m := range models {
			if at != w {
				entries += m.Transitions()
			}
		}
	}
	if l.models == nil || entries > keptEntries {
		l.models = map[terrain]map[int]*mobility.Model{w: l.models[w]}
	}
	if l.models[w] == nil {
		l.models[w] = map[int]*mobility.Model{}
	}
}

// collect gives the fixes to a trainer for the terrain at hand, unless there is one.
func (l *lab) collect() error {
	if l.trainer != nil {
		return nil
	}
	g, err := grid.New(l.options.Box, l.at.cellM)
	if err != nil {
		return err
	}
	t, err := train.New(g, l.options.Step, l.options.training(l.at.calendar))
	if err != nil {
		return err
	}
	for i := range l.users {
		u := &l.users[i]
		for _, d := range u.days {
			for _, at := range d.fixes {
				t.Add(train.Fix{User: u.name, TimeMS: at.timeMS, Lat: at.lat, Lon: at.lon})
			}
		}
	}
	l.trainer = t
	return nil
}

// model returns the model of the terrain at hand that leaves some out. It is trained when it is
// first asked for, by one goroutine.
func (l *lab) model(without int) (*mobility.Model, error) {
	if m := l.models[l.at][without]; m != nil {
		return m, nil
	}
	if err := l.collect(); err != nil {
		return nil, err
	}
	fold := map[string]int{}
	for i := range l.users {
		fold[l.users[i].name] = l.users[i].fold
	}
	m, _, err := l.trainer.Without(func(user string) bool {
		return without != ofEverybody && (fold[user] == withoutHeld || fold[user] == without)
	}).FinishWithProgress(func(done, total int64) error {
		return l.tell(l.done+int64(float64(l.training)*float64(done)/float64(total)), l.total)
	})
	if err == nil {
		l.models[l.at][without] = m
	}
	return m, err
}

// measure returns an outcome for each setting, over all groups and some runs. Its bits do not
// depend on the number of goroutines: each part has a place of its own, and noise that belongs to
// the run, the user, the step and the setting. Blind is the best of the models at hand, that of
// l.best among them: a plan is no better for a model that says less.
func (l *lab) measure(settings []Setting, groups []group, runs ...int) ([]Outcome, error) {
	in := map[terrain][]int{}
	var terrains []terrain
	enlist := func(w terrain) {
		if _, ok := in[w]; !ok {
			in[w], terrains = nil, append(terrains, w)
		}
	}
	for i, s := range settings {
		enlist(terrainOf(s))
		in[terrainOf(s)] = append(in[terrainOf(s)], i)
	}
	if l.best.cellM > 0 {
		enlist(l.best)
	}
	outcomes := make([]Outcome, len(settings))
	once := work(groups)
	// The models of a terrain count as one pass: on a fine map they take long.
	l.done, l.total = 0, once*int64(len(settings)*len(runs)+2*len(terrains))
	if err := l.tell(0, l.total); err != nil {
		return nil, err
	}
	var blind Outcome
	for i, w := range terrains {
		l.enter(w)
		for i := range groups {
			l.training = groups[i].bins()
			if _, err := l.model(groups[i].without); err != nil {
				return nil, err
			}
			l.done, l.training = l.done+l.training, 0
		}
		unseen, err := l.measureHere(outcomes, settings, in[w], groups, runs)
		if err != nil {
			return nil, err
		}
		if i == 0 || unseen.MeanKM < blind.MeanKM {
			blind = unseen
		}
		l.done += once * int64(len(in[w])*len(runs)+1)
	}
	l.best = terrainOf(blind.Setting)
	for i := range outcomes {
		outcomes[i].BlindKM, outcomes[i].BlindMeanKM = blind.MedianKM, blind.MeanKM
	}
	return outcomes, nil
}

// measureHere fills in the outcomes of the settings of the terrain at hand, by their numbers, and
// returns that of the same filters without any release.
func (l *lab) measureHere(
	outcomes []Outcome, settings []Setting, numbers []int, groups []group, runs []int,
) (unseen Outcome, err error) {
	per := len(groups) * len(runs)
	parts := make([]part, len(numbers)*per)
	blind := make([]part, len(groups))
	of := func(i int) *group {
		if i >= len(parts) {
			return &groups[i-len(parts)]
		}
		return &groups[i%len(groups)]
	}
	// Any release will do for a filter that has none.
	silent := Setting{
		Mechanism: law.Codebook, CellM: l.at.cellM, Step: l.options.Step, Calendar: l.at.calendar,
		DayEpsilon: 1, Interval: l.options.Step, Epsilon: 1,
	}
	pool := parallel.Pool{
		Workers:  l.options.Workers,
		Size:     func(i int) int64 { return of(i).bins() },
		Progress: func(part int64) error { return l.tell(l.done+part, l.total) },
	}
	err = pool.Each(len(parts)+len(blind), func(i int) error {
		if i >= len(parts) {
			return l.pass(&blind[i-len(parts)], silent, of(i), 0, false)
		}
		return l.pass(&parts[i], settings[numbers[i/per]], of(i), runs[i%per/len(groups)], true)
	})
	if err != nil {
		return unseen, err
	}
	err = parallel.Pool{Workers: l.options.Workers}.Each(len(numbers), func(i int) error {
		o := summarize(settings[numbers[i]], parts[i*per:(i+1)*per])
		o.Runs, o.Fixes, o.Days = len(runs), o.Fixes/int64(len(runs)), o.Days/len(runs)
		outcomes[numbers[i]] = o
		return nil
	})
	return summarize(silent, blind), err
}

// pass takes a group's days through the filter of a setting, as the service would: a release where
// the setting has one, an estimate at each fix. Without release it is the blind baseline.
func (l *lab) pass(p *part, s Setting, g *group, run int, release bool) error {
	model, options := l.models[l.at][g.without], s.options()
	if !release { // the place of least mean distance: another one would flatter all plans
		options.Estimate = mechanism.EstimateMedian
	}
	sanitizer, err := mechanism.NewSanitizer(model, l.streams(run), options)
	if err != nil {
		return err
	}
	runner := trial.Runner{Sanitizer: sanitizer, Release: release, Near: true}
	var past *trial.Past
	if release && l.looksBack {
		if past, err = trial.NewPast(model, options, s.lags()...); err != nil {
			return err
		}
		p.past = make([][]float64, len(s.lags()))
	}
	for i := range g.days {
		d := &g.days[i]
		track := trial.Track{User: l.users[d.user].name, Reports: d.reports(model.Grid, s.Step)}
		err := runner.Run(track, func(r *trial.Result) error {
			if r.Outcome.Kind == mechanism.Released {
				p.release(r.Outcome)
			}
			p.km = append(p.km, r.Outcome.Estimate.Distance(r.Place))
			p.weights = append(p.weights, d.fixes[r.Number].weight)
			p.users = append(p.users, int32(d.user))
			if past == nil {
				return nil
			}
			return past.Add(r)
		})
		if err != nil {
			return err
		}
		p.days++
		if past == nil {
			continue
		}
		for lag, km := range past.End() {
			p.past[lag] = append(p.past[lag], km...)
		}
	}
	return nil
}

// reports yields the day's fixes as a sanitizer is given them.
func (d *userDay) reports(g *grid.Grid, step time.Duration) iter.Seq[trial.Report] {
	return func(yield func(trial.Report) bool) {
		for _, at := range d.fixes {
			if !yield(trial.Report{
				Step: mobility.StepOf(at.timeMS, step.Milliseconds()),
				Cell: g.Locate(at.lat, at.lon), Place: g.ToMap(at.lat, at.lon),
			}) {
				return
			}
		}
	}
}

func (p *part) release(out mechanism.Outcome) {
	p.releases++
	p.cells += int64(out.SetSize)
	if out.Drift {
		p.drifts++
	}
	p.spent += out.Epsilon
	p.beside += out.Metric.NearShare
}

// streams is the noise of a run.
func (l *lab) streams(run int) noise.Streams {
	return noise.NewKeyed(noise.KeyFromSeed(l.options.Seed + uint64(run)*0x9e3779b97f4a7c15))
}
