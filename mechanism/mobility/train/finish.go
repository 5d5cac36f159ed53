package train

import (
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/parallel"
)

// ErrNoFixes says that no fix was added that lies inside the box.
var ErrNoFixes = errors.New("train: no fix lies inside the box; " +
	"check the box's order (south, west, north, east) and the input's columns")

// Finish returns the model of all fixes added, and what was counted. The same set of fixes gives
// the same model, whatever their order. The trainer may take more fixes afterwards.
func (t *Trainer) Finish() (*mobility.Model, mobility.Report, error) {
	return t.FinishWithProgress(nil)
}

// FinishWithProgress is [Trainer.Finish] that also reports its progress, in units of its own, and
// ends with the first error that report returns; nil reports nothing. It calls report from the
// caller's goroutine: once for each user, once for all cells, and in the course of the law of gaps.
// Counting and that law use all cores; the model does not depend on how many there are.
//
// Cost: a pass over the users' records, and some seconds of processor time at most for the law of
// gaps. The model takes 28 bytes for each cell and 12 for each different pair of cells that was
// counted; each further class of a calendar adds 8 for each of both.
func (t *Trainer) FinishWithProgress(report func(done, total int64) error) (
	*mobility.Model, mobility.Report, error,
) {
	counted := t.Seen()
	if counted.Fixes == 0 {
		return nil, counted, ErrNoFixes
	}
	work := parallel.Progress{Report: report, Total: int64(len(t.users) + t.grid.Cells())}
	counts, err := count(t.users, t.tracer(), &work)
	if err != nil {
		return nil, counted, err
	}
	kernel := learnKernel(t.grid, counts.transitions, t.options.KernelRadius)
	if err := t.CheckSize(int64(len(counts.transitions))); err != nil {
		return nil, counted, err
	}
	smoother := smoother{
		grid: t.grid, backoff: t.options.Backoff,
		jumps: JumpsOf(t.options.KernelRadius, t.options.Jumps),
	}
	model := &mobility.Model{
		Grid:     t.grid,
		Step:     t.Step(),
		Calendar: t.options.Calendar,
		Kernel:   kernel,
		Jumps:    smoother.jumps,
		Matrices: smoother.matrices(counts.transitions, counts.classes),
		Initial: Initial(t.grid, popular(t.grid, counts.popularity, kernel),
			t.options.Uniform),
	}
	if err := work.Add(t.grid.Cells()); err != nil {
		return nil, counted, err
	}
	if model.Gaps, err = learnGaps(model, t.Tracks(nil), t.options, &work); err != nil {
		return nil, counted, err
	}
	counted.SharedFixes = counts.dropped
	counted.Transitions = counts.raw
	counted.CellsSeen = int64(len(counts.popularity))
	counted.RowsSeen = rowsSeen(counts.transitions)
	counted.MatrixEntries = int64(model.Transitions())
	model.Provenance = mobility.Provenance{
		Source: t.options.Source, Tool: t.options.Tool,
		Options: t.options.String(), Report: counted,
	}
	return model, counted, nil
}

func rowsSeen(transitions []Pair) (rows int64) {
	for i, w := range transitions {
		if i == 0 || transitions[i-1].From != w.From {
			rows++
		}
	}
	return rows
}

// tracer returns what cuts the users' records, which are settled then, into tracks.
func (t *Trainer) tracer() tracer {
	t.settle()
	return tracer{t.settings, t.shared}
}

// Tracks returns what training counts, user by user in ascending order of their names, and each
// user's tracks in order of time. Each pair of successive cells of a track is a transition. keep
// chooses the users; nil chooses all.
func (t *Trainer) Tracks(keep func(user string) bool) iter.Seq[mobility.Track] {
	tracer := t.tracer()
	return func(yield func(mobility.Track) bool) {
		for _, name := range slices.Sorted(maps.Keys(t.users)) {
			if keep != nil && !keep(name) {
				continue
			}
			for track := range tracer.tracks(name, t.users[name]) {
				if !yield(track) {
					return
				}
			}
		}
	}
}

// Personals returns each user's own counts, which [mobility.NewPersonal] lays over the popular
// model, in ascending order of the users' names. weight is κ; 0 means
// [mobility.DefaultPersonalWeight]. Users without a fix in the box are left out.
//
// Counts are whole and have no cap. In the popular model a cap keeps one user from speaking for the
// others; here a user speaks for nobody else. A Markov chain takes the transitions out of a cell
// for independent draws, however long a user stayed. On Geolife a cap of 300 a cell changed
// nothing, and a cap of 30 predicted worse.
func (t *Trainer) Personals(weight float64) iter.Seq2[string, mobility.PersonalCounts] {
	tracer := t.tracer()
	return func(yield func(string, mobility.PersonalCounts) bool) {
		for name := range t.Users() {
			moves := tracer.moves(name, t.users[name])
			c := mobility.PersonalCounts{
				Weight: weight, Transitions: countsOf(mergePairs(moves.transitions)),
				Visits: countsOf(mergePairs(moves.stays)),
			}
			if len(c.Visits) > 0 && !yield(name, c) {
				return
			}
		}
	}
}

func countsOf(list []Pair) []mobility.Count {
	counts := make([]mobility.Count, len(list))
	for i, w := range list {
		counts[i] = mobility.Count{From: w.From, To: w.To, N: w.Weight}
	}
	return counts
}
