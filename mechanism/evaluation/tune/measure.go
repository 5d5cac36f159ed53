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

// bins is how many bins a pass over the groups' days has.
func binsOf(groups ...group) (bins int64) {
	for i := range groups {
		for j := range groups[i].days {
			bins += groups[i].days[j].bins
		}
	}
	return bins
}

// terrain is a map with a calendar: what models are made for.
type terrain struct {
	cellM    float64
	calendar bool
}

// lab is where settings are measured. Models wait for later phases.
type lab struct {
	options Options
	users   []user
	at      terrain        // of the trainer
	trainer *train.Trainer // of everybody; nil until a model has to be trained
	models  map[terrain]map[int]*mobility.Model
	tell    func(done, total int64) error // of the phase at hand
}

// collect gives the fixes to a trainer for a terrain, unless the last one is for it.
func (l *lab) collect(w terrain) error {
	if l.trainer != nil && l.at == w {
		return nil
	}
	g, err := grid.New(l.options.Box, w.cellM)
	if err != nil {
		return err
	}
	t, err := train.New(g, l.options.Step, l.options.training(w.calendar))
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
	l.at, l.trainer = w, t
	return nil
}

// model returns the model of a terrain that leaves some out. It is trained when it is first asked
// for, by one goroutine.
func (l *lab) model(w terrain, without int) (*mobility.Model, error) {
	if m := l.models[w][without]; m != nil {
		return m, nil
	}
	if err := l.collect(w); err != nil {
		return nil, err
	}
	fold := map[string]int{}
	for i := range l.users {
		fold[l.users[i].name] = l.users[i].fold
	}
	m, _, err := l.trainer.Without(func(user string) bool {
		return without != ofEverybody && (fold[user] == withoutHeld || fold[user] == without)
	}).Finish()
	if err == nil {
		if l.models[w] == nil {
			l.models[w] = map[int]*mobility.Model{}
		}
		l.models[w][without] = m
	}
	return m, err
}

// measure returns an outcome for each setting, over all groups and some runs. Its bits do not
// depend on the number of goroutines: each part has a place of its own, and noise that belongs to
// the run, the user, the step and the setting. Blind is the best of the models of all terrains: a
// plan is no better for a model that says less.
func (l *lab) measure(settings []Setting, groups []group, runs ...int) ([]Outcome, error) {
	var terrains []terrain
	for _, cell := range l.options.CellsM {
		terrains = append(terrains, terrain{cell, false}, terrain{cell, true})
	}
	total := binsOf(groups...) * int64(len(settings)*len(runs)+len(terrains))
	done := int64(0)
	if err := l.tell(done, total); err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(settings))
	var blind Outcome
	for i, w := range terrains {
		var passes []pass
		var numbers []int // of the settings that have passes
		for number, s := range settings {
			if (terrain{s.CellM, s.Calendar}) == w {
				numbers = append(numbers, number)
				passes = append(passes, passesOf(s, groups, runs)...)
			}
		}
		// Any release will do for a filter that has none.
		silent := Setting{
			Mechanism: law.Codebook, CellM: w.cellM, Step: l.options.Step, Calendar: w.calendar,
			DayEpsilon: 1, Interval: l.options.Step, Epsilon: 1,
		}
		passes = append(passes, passesOf(silent, groups, []int{blindRun})...)
		parts, err := l.parts(w, passes, func(part int64) error { return l.tell(done+part, total) })
		if err != nil {
			return nil, err
		}
		per := len(groups) * len(runs)
		for j, number := range numbers {
			outcomes[number] = summarize(settings[number], parts[j*per:(j+1)*per])
			outcomes[number].Days /= len(runs)
		}
		unseen := summarize(silent, parts[len(numbers)*per:])
		if i == 0 || unseen.MeanKM < blind.MeanKM {
			blind = unseen
		}
		for j := range passes {
			done += binsOf(*passes[j].group)
		}
	}
	for i := range outcomes {
		outcomes[i].BlindKM, outcomes[i].BlindMeanKM = blind.MedianKM, blind.MeanKM
	}
	return outcomes, nil
}

// pass is a way through a group's days, with the noise of a run.
type pass struct {
	Setting
	*group
	run int
}

// blindRun is the run without any release: what the model alone says.
const blindRun = -1

func passesOf(s Setting, groups []group, runs []int) (passes []pass) {
	for _, run := range runs {
		for i := range groups {
			passes = append(passes, pass{s, &groups[i], run})
		}
	}
	return passes
}

// parts takes the passes of a terrain, on all cores.
func (l *lab) parts(w terrain, passes []pass, progress func(int64) error) ([]part, error) {
	for _, p := range passes {
		if _, err := l.model(w, p.without); err != nil {
			return nil, err
		}
	}
	parts := make([]part, len(passes))
	pool := parallel.Pool{
		Workers: l.options.Workers, Progress: progress,
		Size: func(i int) int64 { return binsOf(*passes[i].group) },
	}
	return parts, pool.Each(len(passes), func(i int) error {
		return l.runPass(&parts[i], l.models[w][passes[i].without], &passes[i])
	})
}

// runPass takes a group's days through the filter of a setting, as the service would: a release
// where the setting has one, an estimate at each fix.
func (l *lab) runPass(to *part, model *mobility.Model, p *pass) error {
	options := p.options()
	if p.run == blindRun { // the place of least mean distance: another one would flatter all plans
		options.Estimate = mechanism.EstimateMedian
	}
	sanitizer, err := mechanism.NewSanitizer(model, l.streams(p.run), options)
	if err != nil {
		return err
	}
	runner := trial.Runner{Sanitizer: sanitizer, Release: p.run != blindRun, Near: true}
	for i := range p.days {
		d := &p.days[i]
		track := trial.Track{User: l.users[d.user].name, Reports: d.reports(model.Grid, p.Step)}
		err := runner.Run(track, func(r *trial.Result) error {
			if out := &r.Outcome; out.Kind == mechanism.Released {
				to.releases++
				to.spent += out.Epsilon
				to.beside += out.Metric.NearShare
			}
			to.km = append(to.km, r.Outcome.Estimate.Distance(r.Place))
			to.users = append(to.users, int32(d.user))
			return nil
		})
		if err != nil {
			return err
		}
		to.days++
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

// streams is the noise of a run.
func (l *lab) streams(run int) noise.Streams {
	return noise.NewKeyed(noise.KeyFromSeed(l.options.Seed + uint64(run)*0x9e3779b97f4a7c15))
}
