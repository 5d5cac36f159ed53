package train

import (
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/parallel"
)

// ErrNoFixes says that no fix was added that lies inside the box.
var ErrNoFixes = errors.New("train: no fix lies inside the box (box-empty)")

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

// popular returns the popularity of the cells, moved on by the kernel alone.
func popular(g *grid.Grid, popularity []Pair, k mobility.Kernel) *mobility.Distribution {
	spread := &mobility.Matrix{
		RowStart: make([]int64, g.Cells()+1), Spread: slices.Repeat([]float64{1}, g.Cells()),
	}
	d := new(mobility.Distribution)
	for _, seen := range popularity {
		d.Cells, d.P = append(d.Cells, seen.From), append(d.P, seen.Weight)
	}
	p := mobility.NewPredictor(
		&mobility.Model{Grid: g, Kernel: k, Matrices: []*mobility.Matrix{spread}})
	p.Predict(d, d, 0, 1)
	return d
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

// learnKernel returns the kernel of the displacements that the transitions show within the radius
// in both directions: a product of a law of the columns and one of the rows, which are averaged
// over both directions. On Geolife (cells of 340 m, a minute, users held out) such a product
// predicts better than one law of the distance does: -1.517 against -1.521 nats a transition.
//
// Two rules smooth each law. The weight may not grow with the distance: one that was seen less
// often than the next one further out is pooled with it. And each law gets one extra transition
// that is spread evenly, so that no weight is zero.
func learnKernel(g *grid.Grid, transitions []Pair, radius int) mobility.Kernel {
	columns, rows := distances(radius), distances(radius)
	for _, w := range transitions {
		x, y := Displacement(g, w.From, w.To)
		if x, y = max(x, -x), max(y, -y); max(x, y) <= radius {
			columns[x].Mass += w.Weight
			rows[y].Mass += w.Weight
		}
	}
	return mobility.Kernel{Columns: lawOf(columns), Rows: lawOf(rows)}
}

// distances returns the distances along one axis up to the radius, with one transition spread
// evenly.
func distances(radius int) []Ring {
	all := make([]Ring, radius+1)
	for i := range all {
		all[i].Cells = min(1+i, 2) // one way to stay, and two directions
		all[i].Mass = float64(all[i].Cells) / float64(2*radius+1)
	}
	return all
}

func lawOf(distances []Ring) []float64 {
	total := 0.0
	for _, d := range distances {
		total += d.Mass
	}
	weights := Monotone(distances)
	for i := range weights {
		weights[i] /= total
	}
	return weights
}

// Displacement returns how many columns and rows lie between two cells.
func Displacement(g *grid.Grid, from, to grid.Cell) (columns, rows int) {
	return g.Column(to) - g.Column(from), g.Row(to) - g.Row(from)
}

// Ring is the set of displacements of one length.
type Ring struct {
	Cells int     // number of displacements
	Mass  float64 // of transitions by one of them
}

// Monotone returns the weight per cell of each ring. Pooling adjacent violators makes it
// non-increasing with distance and keeps the total (Ayer et al. 1955, doi:10.1214/aoms/1177728423).
func Monotone(classes []Ring) []float64 {
	type pool struct {
		mass    float64
		cells   int
		classes int
	}
	height := func(p pool) float64 { return p.mass / float64(p.cells) }
	var pools []pool
	for _, c := range classes {
		pools = append(pools, pool{c.Mass, c.Cells, 1})
		for n := len(pools); n > 1 && height(pools[n-1]) > height(pools[n-2]); n = len(pools) {
			pools[n-2].mass += pools[n-1].mass
			pools[n-2].cells += pools[n-1].cells
			pools[n-2].classes += pools[n-1].classes
			pools = pools[:n-1]
		}
	}
	var heights []float64
	for _, p := range pools {
		for range p.classes {
			heights = append(heights, height(p))
		}
	}
	return heights
}

// smoother turns counts into the rows of matrices. With n transitions counted out of cell c, its
// row is the posterior mean under a Dirichlet prior of weight κ (Mackay and Peto 1995,
// doi:10.1017/S1351324900000218):
//
//	(counts of c + κ·kernel about c) / (n + κ)
//
// With a calendar, the row of a class backs off to that row, with the same weight κ. So a class
// with few transitions out of a cell moves as all classes together do. The counts become the row's
// entries, and κ the weight of its kernel.
//
// The same share of every row jumps to far cells, however many transitions were counted in it.
// Where many users stay, one who leaves must be found again as soon as elsewhere. If jumps were
// part of the kernel, a row with 10,000 counts would have 1/500 of the jumps, and the drift at δ =
// 0.01 would grow by half. There is no uniform teleport: [mobility.Jumps] reach every cell in a few
// steps, and cost next to nothing.
type smoother struct {
	grid    *grid.Grid
	jumps   mobility.Jumps
	backoff float64
	// all are the transitions out of each cell. classes are those of each class of the calendar, if
	// it has several; each of them is one of all.
	all     rows
	classes []rows
	row     []float64 // scratch: the entries of a row of all, then the weight of its kernel
	class   []float64 // scratch: the same of a class
}

// rows finds the transitions out of a cell.
type rows struct {
	list  []Pair
	start []int64
}

func rowsOf(list []Pair, cells int) rows {
	r := rows{list, make([]int64, cells+1)}
	for _, w := range list {
		r.start[w.From+1]++
	}
	for c := range cells {
		r.start[c+1] += r.start[c]
	}
	return r
}

func (r rows) rowOf(c grid.Cell) []Pair { return r.list[r.start[c]:r.start[c+1]] }

// matrices makes the matrices, one for each class, from merged lists of transitions: all of them
// and, with a calendar of several classes, those of each class. The matrices share their columns.
func (s *smoother) matrices(all []Pair, classes [][]Pair) []*mobility.Matrix {
	cells := s.grid.Cells()
	s.all = rowsOf(all, cells)
	for _, list := range classes {
		s.classes = append(s.classes, rowsOf(list, cells))
	}
	columns := make([]grid.Cell, len(all))
	for i, w := range all {
		columns[i] = w.To
	}
	matrices := make([]*mobility.Matrix, max(1, len(classes)))
	for i := range matrices {
		matrices[i] = &mobility.Matrix{
			RowStart: s.all.start, Columns: columns,
			Values: make([]float64, len(all)), Spread: make([]float64, cells),
		}
	}
	for c := range grid.Cell(cells) {
		s.fill(matrices, c)
	}
	return matrices
}

// fill sets row c of every matrix.
func (s *smoother) fill(matrices []*mobility.Matrix, c grid.Cell) {
	counted := s.all.rowOf(c)
	s.row = s.row[:0]
	for range counted {
		s.row = append(s.row, 0)
	}
	s.row = append(s.row, 1)
	s.addPrior(s.row, counted, counted)
	rest := 1 - s.jumps.From(s.grid, c)
	for i, m := range matrices {
		s.class = append(s.class[:0], s.row...)
		if len(s.classes) > 0 {
			s.addPrior(s.class, counted, s.classes[i].rowOf(c))
		}
		for j := range s.class {
			s.class[j] = float64(s.class[j] * rest)
		}
		quantize(s.class, rowQuantum, rest)
		m.Spread[c] = s.class[len(counted)]
		copy(m.Values[s.all.start[c]:], s.class[:len(counted)])
	}
}

// addPrior makes a row the posterior mean of a prior row and transitions that were seen. columns
// are those of the row's entries; the transitions have no others.
func (s *smoother) addPrior(row []float64, columns, seen []Pair) {
	total := s.backoff
	for _, w := range seen {
		total += w.Weight
	}
	for i := range row {
		weight := float64(s.backoff * row[i])
		if len(seen) > 0 && i < len(columns) && seen[0].To == columns[i].To {
			weight += seen[0].Weight
			seen = seen[1:]
		}
		row[i] = weight / total
	}
}
