package experiment

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// Definition says how a data set is cut into traces.
type Definition struct {
	Name  string // short: part of the names of files
	Title string // in figures
	// Timestamps is the length of a trace, 500 in the paper. Least is what a user must have to take
	// part: below Timestamps it lets shorter traces in.
	Timestamps, Least int
	// MaxGap is the longest time without a fix within a trace. The filter predicts across it, and
	// its steps are no timestamps. Of check-ins (TrainOptions.EveryFix) there is no limit: each is
	// a timestamp.
	MaxGap time.Duration
	// Folds is into how many parts the users are divided: each is measured under a model trained on
	// the other parts.
	Folds int
	// Open says that the traces may be shown to anybody.
	Open bool
}

// Trace is one user's stretch of timestamps. Steps ascend; Cells are the true cells.
type Trace struct {
	User  string
	Fold  int
	Steps []int64
	Cells []grid.Cell
}

// Distinct returns the number of cells that the trace visits.
func (t *Trace) Distinct() int {
	return len(slices.Compact(slices.Sorted(slices.Values(t.Cells))))
}

// Holes returns the number of steps between the first and the last that have no fix.
func (t *Trace) Holes() int64 {
	return t.Steps[len(t.Steps)-1] - t.Steps[0] + 1 - int64(len(t.Steps))
}

// Data is a data set ready for experiments. It may be used by many goroutines.
type Data struct {
	Definition
	Grid     *grid.Grid
	Step     time.Duration
	EveryFix bool
	Options  train.Options
	// Traces has one trace for each user that takes part, in ascending order of users.
	Traces []Trace
	// Users is how many users the data have, also those that do not take part.
	Users int
	// ID is a hash of all that the results can depend on, except for Places.
	ID string
	// Places are the points of interest whose neighbours are looked for, set before the data are
	// used; nil: synthetic ones.
	Places *Places

	trainer *train.Trainer
	mu      sync.Mutex
	models  map[string]*lazyModel
}

// ErrNoTrace says that nobody has a trace that is long enough.
var ErrNoTrace = errors.New("experiment: no user has a trace that is long enough")

// NewData cuts what a trainer has been given into traces. It keeps the trainer, which takes no more
// fixes.
func NewData(d Definition, trainer *train.Trainer) (*Data, error) {
	g, step, o := trainer.Grid(), trainer.Step(), trainer.Options()
	if d.Timestamps < 2 || d.Least < 2 || d.Least > d.Timestamps || d.Folds < 2 {
		return nil, fmt.Errorf("experiment: %s: traces need at least 2 timestamps and 2 folds",
			d.Name)
	}
	data := &Data{
		Definition: d, Grid: g, Step: step, EveryFix: o.EveryFix, Options: o,
		trainer: trainer, models: map[string]*lazyModel{},
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%+v %s %s %s\n", d, g.ID(), step, o)
	var user []mobility.Track
	finish := func() {
		if len(user) == 0 {
			return
		}
		data.Users++
		if t := data.cut(user); t != nil {
			data.Traces = append(data.Traces, *t)
		}
		user = nil
	}
	for track := range trainer.Tracks(nil) {
		if len(user) > 0 && user[0].User != track.User {
			finish()
		}
		user = append(user, track)
		hashTrack(hash, track)
	}
	finish()
	if len(data.Traces) == 0 {
		return nil, fmt.Errorf("%w: %s: %d timestamps at steps of %s, without a gap over %s: "+
			"choose other steps, or shorter traces", ErrNoTrace, d.Name, d.Least, step, d.MaxGap)
	}
	for i := range data.Traces {
		data.Traces[i].Fold = i % d.Folds
	}
	data.ID = hex.EncodeToString(hash.Sum(nil)[:12])
	return data, nil
}

func hashTrack(w interface{ Write([]byte) (int, error) }, t mobility.Track) {
	buf := append([]byte(t.User), 0)
	for i, step := range t.Steps {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(step))
		buf = binary.LittleEndian.AppendUint32(buf, uint32(t.Cells[i]))
	}
	_, _ = w.Write(buf) // a hash takes everything
}

// cut returns a user's trace: of all stretches of Timestamps fixes the one with the fewest steps
// between them, the latest of equals, so that the most is known from before it. A user with less
// has the longest stretch, if it has at least Least.
func (d *Data) cut(tracks []mobility.Track) *Trace {
	var best *Trace
	for _, s := range d.stretches(tracks) {
		n := min(len(s.Steps), d.Timestamps)
		for from := 0; from+n <= len(s.Steps); from++ {
			t := &Trace{User: s.User, Steps: s.Steps[from : from+n], Cells: s.Cells[from : from+n]}
			if best == nil ||
				cmp.Or(cmp.Compare(len(best.Steps), n), cmp.Compare(t.Holes(), best.Holes())) <= 0 {
				best = t
			}
		}
	}
	if best == nil || len(best.Steps) < d.Least {
		return nil
	}
	return best
}

// stretches joins tracks across gaps of at most MaxGap. Check-ins are counted one by one: their
// steps are numbers.
func (d *Data) stretches(tracks []mobility.Track) (joined []mobility.Track) {
	limit := max(1, int64(d.MaxGap/d.Step))
	for _, t := range tracks {
		last := len(joined) - 1
		switch {
		case d.EveryFix && last >= 0:
			joined[last].Cells = append(joined[last].Cells, t.Cells...)
		case last >= 0 && t.Steps[0]-joined[last].Steps[len(joined[last].Steps)-1] <= limit:
			joined[last].Steps = append(joined[last].Steps, t.Steps...)
			joined[last].Cells = append(joined[last].Cells, t.Cells...)
		default:
			joined = append(joined, mobility.Track{
				User: t.User, Steps: slices.Clone(t.Steps), Cells: slices.Clone(t.Cells),
			})
		}
	}
	if d.EveryFix {
		for i := range joined {
			joined[i].Steps = joined[i].Steps[:0]
			for step := range joined[i].Cells {
				joined[i].Steps = append(joined[i].Steps, int64(step))
			}
		}
	}
	return joined
}

// lazyModel is trained when it is first asked for.
type lazyModel struct {
	once  sync.Once
	model *mobility.Model
	err   error
}

// WithoutFold returns the model trained on everybody but a fold's users, so that it has not seen
// the users that are measured under it.
func (d *Data) WithoutFold(fold int) (*mobility.Model, error) {
	held := map[string]bool{}
	for _, t := range d.Traces {
		held[t.User] = t.Fold == fold
	}
	return d.without(fmt.Sprintf("fold %d", fold), func(user string) bool { return held[user] })
}

// WithoutUser returns the model trained on everybody but one user.
func (d *Data) WithoutUser(user string) (*mobility.Model, error) {
	return d.without("user "+user, func(other string) bool { return other == user })
}

// Own returns the model trained on one user's traces alone. Like the paper's, it is what the user
// did where there is anything: the kernel weighs a tenth of a transition, nothing is capped, and
// hardly anything is spread.
func (d *Data) Own(user string) (*mobility.Model, error) {
	return d.trained("own "+user, func() *train.Trainer {
		trainer := d.trainer.Without(func(other string) bool { return other != user })
		trainer.Smooth(train.Options{Backoff: .1, UserCap: 1e6, Uniform: 1e-3, Jumps: -1})
		return trainer
	})
}

func (d *Data) without(key string, held func(string) bool) (*mobility.Model, error) {
	return d.trained(key, func() *train.Trainer { return d.trainer.Without(held) })
}

// trained trains the model of a key, unless that was done before.
func (d *Data) trained(key string, trainer func() *train.Trainer) (*mobility.Model, error) {
	d.mu.Lock()
	lazy := d.models[key]
	if lazy == nil {
		lazy = &lazyModel{}
		d.models[key] = lazy
	}
	d.mu.Unlock()
	lazy.once.Do(func() {
		d.mu.Lock() // a trainer belongs to one goroutine
		derived := trainer()
		d.mu.Unlock()
		lazy.model, _, lazy.err = derived.Finish()
	})
	return lazy.model, lazy.err
}

// Kind is whose traces a mobility model is learned from.
type Kind string

// The kinds.
const (
	// Popular is other users' traces: the model has not seen the user who is measured.
	Popular Kind = "popular"
	// Personal is all of the user's own traces and nobody else's, the measured one among them: as
	// the paper has it. The model has seen what it is measured on, so its figures are better than
	// anybody would get.
	Personal Kind = "personal"
)
