package tune

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Models by whom they leave out: the users of a fold and those held out, those held out, or nobody.
const (
	withoutHeld = -1
	ofEverybody = -2
)

// group is trips that are released under one model, by whom it leaves out.
type group struct {
	without int
	trips   []trip
}

// work is how many bins a pass over the groups' trips has.
func work(groups []group) (bins int64) {
	for i := range groups {
		for _, t := range groups[i].trips {
			bins += t.bins
		}
	}
	return bins
}

// world is a map with a step: what models are made for.
type world struct {
	cellM float64
	step  time.Duration
}

func (s Setting) world() world { return world{s.CellM, s.Step} }

// lab is where settings are measured.
type lab struct {
	options  Options
	fixes    *Fixes
	users    []user
	trainers map[world]*mobility.Trainer
	models   map[world]map[int]*mobility.Model
	tell     func(done, total int64) error // of the phase at hand
}

// trainer returns one that has got everybody's fixes.
func (l *lab) trainer(w world) (*mobility.Trainer, error) {
	if t := l.trainers[w]; t != nil {
		return t, nil
	}
	g, err := grid.New(l.options.Box, w.cellM)
	if err != nil {
		return nil, err
	}
	t, err := mobility.NewTrainer(g, w.step, l.options.Train)
	if err != nil {
		return nil, err
	}
	for i := range l.users {
		u := &l.users[i]
		for _, trip := range u.trips {
			for _, at := range trip.fixes {
				t.Add(mobility.Fix{User: u.name, TimeMS: at.timeMS, Lat: at.lat, Lon: at.lon})
			}
		}
	}
	l.trainers[w] = t
	return t, nil
}

// model returns the model of a world that leaves some out. It is trained when it is first asked for, by one goroutine at a time.
func (l *lab) model(w world, without int) (*mobility.Model, error) {
	if m := l.models[w][without]; m != nil {
		return m, nil
	}
	trainer, err := l.trainer(w)
	if err != nil {
		return nil, err
	}
	fold := map[string]int{}
	for i := range l.users {
		fold[l.users[i].name] = l.users[i].fold
	}
	m, _, err := trainer.Without(func(user string) bool {
		return without != ofEverybody && (fold[user] == withoutHeld || fold[user] == without)
	}).FinishWhile(func(int64, int64) error { return l.tell(0, 1) })
	if err != nil {
		return nil, err
	}
	if l.models[w] == nil {
		l.models[w] = map[int]*mobility.Model{}
	}
	l.models[w][without] = m
	return m, nil
}

// train makes sure of the models for settings and groups, before goroutines ask for them.
func (l *lab) train(settings []Setting, groups []group) error {
	for _, s := range settings {
		for i := range groups {
			if _, err := l.model(s.world(), groups[i].without); err != nil {
				return err
			}
		}
	}
	return nil
}

// part is what one pass over a group's trips adds up to.
type part struct {
	km               []float64 // from each fix to its estimate
	weights          []int64   // how many fixes it stands for
	users            []int32   // whose
	releases, drifts int64
	cells            int64 // Σ|ΔX|
	near, far        []float64
}

// measure returns an outcome for each setting, over all groups and some runs. Its bits do not depend on the number of goroutines: each part has a place
// of its own, and noise that belongs to the run, the user, the step and the setting.
func (l *lab) measure(settings []Setting, groups []group, runs ...int) ([]Outcome, error) {
	if err := l.train(settings, groups); err != nil {
		return nil, err
	}
	perSetting := len(groups) * len(runs)
	parts := make([]part, len(settings)*perSetting)
	err := l.pool(len(parts), work(groups)*int64(len(settings)*len(runs)), func(i int) (int64, error) {
		group := &groups[i%len(groups)]
		return l.pass(&parts[i], settings[i/perSetting], group, runs[i%perSetting/len(groups)], true)
	})
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(settings))
	err = l.pool(len(settings), int64(len(settings)), func(i int) (int64, error) {
		outcomes[i] = summarize(settings[i], parts[i*perSetting:(i+1)*perSetting])
		return 1, nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, l.addBlind(outcomes, groups)
}

// addBlind fills in the median error of the same filters without any release, one for each world.
func (l *lab) addBlind(outcomes []Outcome, groups []group) error {
	at := map[world]int{}
	var settings []Setting
	for i := range outcomes {
		if w := outcomes[i].world(); at[w] == 0 {
			settings = append(settings, outcomes[i].Setting)
			at[w] = len(settings)
		}
	}
	parts := make([]part, len(settings)*len(groups))
	err := l.pool(len(parts), work(groups)*int64(len(settings)), func(i int) (int64, error) {
		return l.pass(&parts[i], settings[i/len(groups)], &groups[i%len(groups)], 0, false)
	})
	if err != nil {
		return err
	}
	for i := range outcomes {
		k := at[outcomes[i].world()] - 1
		outcomes[i].BlindKM = summarize(settings[k], parts[k*len(groups):(k+1)*len(groups)]).MedianKM
	}
	return nil
}

// pass takes a group's trips through the filter of a setting, as the service would: a release where the setting has one, an estimate at each fix.
// Without release it is the blind baseline. It returns how many bins it has done.
func (l *lab) pass(p *part, s Setting, g *group, run int, release bool) (bins int64, err error) {
	model := l.models[s.world()][g.without]
	sanitizer, err := mechanism.NewSanitizer(model, l.streams(run), s.options(l.options.Release))
	if err != nil {
		return 0, err
	}
	stepMS := s.Step.Milliseconds()
	var state mechanism.State
	for _, t := range g.trips {
		posterior := state.Posterior
		posterior.Reset()
		state = mechanism.State{Posterior: posterior}
		for _, at := range t.fixes {
			out, err := sanitizer.Step(&state, mechanism.Input{
				User: t.name, Step: mobility.StepOf(at.timeMS, stepMS), Cell: model.Grid.Locate(at.lat, at.lon), Release: release,
			})
			if err != nil {
				return 0, err
			}
			if out.Kind == mechanism.Released {
				p.release(out, sanitizer)
			}
			p.km = append(p.km, out.Estimate.Distance(model.Grid.ToMap(at.lat, at.lon)))
			p.weights, p.users = append(p.weights, at.weight), append(p.users, int32(t.user))
		}
		bins += t.bins
	}
	return bins, nil
}

func (p *part) release(out mechanism.Outcome, s *mechanism.Sanitizer) {
	p.releases++
	p.cells += int64(out.SetSize)
	if out.Drift {
		p.drifts++
	}
	if m, ok := s.Metric(); ok {
		p.near, p.far = append(p.near, m.Within200M), append(p.far, m.Within1KM)
	}
}

// streams is the noise of a run.
func (l *lab) streams(run int) noise.Streams {
	return noise.NewKeyed(noise.KeyFromSeed(l.options.Seed + uint64(run)*0x9e3779b97f4a7c15))
}

// pool does tasks on all workers, and tells how much of the work is done.
func (l *lab) pool(tasks int, total int64, do func(task int) (int64, error)) error {
	var (
		next  atomic.Int64
		mu    sync.Mutex
		done  int64
		first error
		group sync.WaitGroup
	)
	for range max(l.options.Workers, 1) {
		group.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				if i >= tasks {
					return
				}
				n, err := do(i)
				mu.Lock()
				done += n
				if err == nil && first == nil {
					err = l.tell(done, total)
				}
				if first == nil {
					first = err
				}
				stop := first != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	group.Wait()
	return first
}
