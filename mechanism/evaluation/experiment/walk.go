package experiment

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
)

// Keyed returns the noise of one run. Runs, and studies of other seeds, are independent.
func Keyed(seed uint64, run int) noise.Streams {
	message := binary.BigEndian.AppendUint64([]byte("geodither experiment run "), seed)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(message, uint64(run)))
	return noise.NewKeyed(noise.KeyFromSeed(binary.BigEndian.Uint64(sum[:])))
}

// Track returns the trace for a runner.
func (t *Trace) Track(g *grid.Grid) trial.Track {
	return trial.Track{User: t.User, Reports: trial.Centres(g, t.Steps, t.Cells)}
}

// Walks is a measurement: traces are walked at a point, with a release at each timestamp, or at a
// blind point without any, and a probe adds up what it sees. All experiments that follow traces are
// values of this type, and [Walks.walk] is the only loop.
type Walks struct {
	Name string // the first part of its pieces' names
	// Probe returns what looks at the timestamps of one walk of a trace.
	Probe func(*Study, *Walk) (Probe, error)
	// Inputs are what results depend on besides data, users, seed and runs; nil: nothing.
	Inputs func(*Study, Point) string
	// Traces are those that are walked; nil: those of [Study.Traces].
	Traces func(*Study, *Data) []Trace
	// Runs is how often each trace is walked, with other noise; nil: once.
	Runs func(*Study) int
	// Window is the window of time in which a timestamp counts; nil: there is one for all.
	Window func(d *Data, timestamp int) int
	// Single is for experiments on one trace: each run is a cluster, and the model has seen
	// everybody but this user. Otherwise each user is one, and the model has not seen the fold.
	Single bool
	// Work is about how much a timestamp costs, in steps of a filter; 0: one.
	Work int64
}

// Walk is a trace at a point, and under what it is walked.
type Walk struct {
	Point
	Trace   *Trace
	Model   *mobility.Model
	Options mechanism.Options
	// Last, if a probe sets it, is called when the walk has ended, with the sums in which a
	// timestamp counts.
	Last func(sums func(timestamp int) *Sums)
}

// what names how the point releases, in the names of pieces. One filter without releases serves
// every δ.
func (p Point) what() string {
	if p.Blind {
		return blind
	}
	return fmt.Sprintf("%s/%s/ε %g/δ %g", p.Mechanism, p.Inference, p.Epsilon, p.Delta)
}

// release returns the options of the releases. Those of a blind point are not used for any.
func (p Point) release() mechanism.Options {
	if p.Blind {
		return p.Data.Release(PIM, 1, .01)
	}
	return p.Data.Release(p.Variant, p.Epsilon, p.Delta)
}

// Probe adds up what it sees at a timestamp.
type Probe func(to *Sums, r *trial.Result) error

// Chosen returns the traces that are walked.
func (w *Walks) Chosen(s *Study, d *Data) []Trace {
	if w.Traces != nil {
		return w.Traces(s, d)
	}
	return s.Traces(d)
}

func (w *Walks) runs(s *Study, at Point) int {
	if w.Runs == nil || at.Blind {
		return 1
	}
	return w.Runs(s)
}

func (w *Walks) piece(at Point, number int) string {
	return fmt.Sprintf("%s/%s/%s/%s/trace %d", w.Name, at.Data.Name, at.Kind, at.what(), number)
}

// Pieces returns the work at a point: a piece for each trace.
func (w *Walks) Pieces(s *Study, at Point) (pieces []Piece) {
	traces := w.Chosen(s, at.Data)
	inputs := fmt.Sprintf("%s users %d", at.Data.ID, len(traces))
	if !at.Blind { // without a release there is no chance
		inputs += fmt.Sprintf(" seed %d runs %d", s.Options.Seed, w.runs(s, at))
	}
	if w.Inputs != nil {
		inputs += " " + w.Inputs(s, at)
	}
	for i := range traces {
		steps := int64(len(traces[i].Steps))
		pieces = append(pieces, Piece{
			Name: w.piece(at, i), Inputs: inputs,
			Work: steps * int64(w.runs(s, at)) * max(1, w.Work),
			Run:  func(tick Tick) (any, error) { return w.walk(s, at, &traces[i], tick) },
		})
	}
	return pieces
}

// all is the work at many points.
func (w *Walks) all(s *Study, points []Point) (pieces []Piece) {
	for _, at := range points {
		pieces = append(pieces, w.Pieces(s, at)...)
	}
	return pieces
}

// Read returns what was measured at a point, the clusters in the order of the traces.
func (w *Walks) Read(s *Study, r Results, at Point) (all Windows, err error) {
	for i := range w.Chosen(s, at.Data) {
		var clusters Windows
		if err := r.Get(w.piece(at, i), &clusters); err != nil {
			return nil, err
		}
		all = append(all, clusters...)
	}
	return all, nil
}

// walk walks a trace, and returns a cluster for all runs or one for each of them.
func (w *Walks) walk(s *Study, at Point, t *Trace, tick Tick) (clusters Windows, err error) {
	walk := &Walk{Point: at, Trace: t, Options: at.release()}
	if walk.Model, err = w.model(at.Case, t); err != nil {
		return nil, err
	}
	for run := range w.runs(s, at) {
		if run == 0 || w.Single {
			clusters = append(clusters, nil)
		}
		visit, err := w.visitor(s, walk, &clusters[len(clusters)-1], tick)
		if err != nil {
			return nil, err
		}
		sanitizer, err := mechanism.NewSanitizer(
			walk.Model, Keyed(s.Options.Seed, run), walk.Options)
		if err != nil {
			return nil, err
		}
		runner := trial.Runner{Sanitizer: sanitizer, Release: !at.Blind}
		if err := runner.Run(t.Track(at.Data.Grid), visit); err != nil {
			return nil, err
		}
		if walk.Last != nil {
			walk.Last(func(timestamp int) *Sums {
				return w.sums(at.Data, &clusters[len(clusters)-1], timestamp)
			})
		}
	}
	return clusters, nil
}

// model returns the one under which a trace is walked.
func (w *Walks) model(c Case, t *Trace) (*mobility.Model, error) {
	switch {
	case c.Kind == Personal:
		return c.Data.Own(t.User)
	case w.Single:
		return c.Data.WithoutUser(t.User)
	}
	return c.Data.WithoutFold(t.Fold)
}

// tickEvery is after how many timestamps progress is told.
const tickEvery = 250

// visitor returns what gives a run's timestamps to a probe, each with the sums of its window.
func (w *Walks) visitor(
	s *Study, walk *Walk, cluster *[]Sums, tick Tick,
) (func(*trial.Result) error, error) {
	probe, err := w.Probe(s, walk)
	return func(r *trial.Result) error {
		if err := probe(w.sums(walk.Data, cluster, r.Number), r); err != nil {
			return err
		}
		if (r.Number+1)%tickEvery == 0 {
			return tick(tickEvery * max(1, w.Work))
		}
		return nil
	}, err
}

// sums returns the sums of the window of time in which a timestamp counts.
func (w *Walks) sums(d *Data, cluster *[]Sums, timestamp int) *Sums {
	window := 0
	if w.Window != nil {
		window = w.Window(d, timestamp)
	}
	for len(*cluster) <= window {
		*cluster = append(*cluster, Sums{})
	}
	return &(*cluster)[window]
}
