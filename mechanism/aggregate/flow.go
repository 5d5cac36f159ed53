package aggregate

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// maxFlowZones bounds the zones between which flows are counted: pairs grow with the square.
const maxFlowZones = 4096

// ancestors is how many samples each cell keeps of where its mass came from. Two are enough for the
// error not to grow with time (Olsson and Westerborn 2017, doi 10.3150/16-BEJ801); the more, the
// smaller it is, and it is averaged over all cells and vehicles.
const ancestors = 4

// A tracer keeps where the mass of a posterior came from, by forward-only smoothing. Filtering
// alone forgets it, and the exact joint distribution of two moments costs a filter for each zone.
//
// Each cell of a posterior keeps samples: zones in which a vehicle that is there now was at the
// last mark. When the filter takes a step, a cell draws new samples from the cells before it. A
// cell before it is drawn with the probability of its posterior times the matrix's transition from
// there. The mean of the samples is the probability given all releases until now, those after the
// mark included.
//
// The posteriors are those of exactFilter, for the same reason: a cell that gained its mass by the
// rounding of the stored ones would pass the gain on to its ancestors, for all vehicles that share
// the rounding.
//
// The draws look at nothing but posteriors and are a function of the user's name and the step, so
// results repeat.
type tracer struct {
	model     *mobility.Model
	zones     *Zones
	back      []backwards // one for each matrix
	predictor *mobility.Predictor
	steps     [2]mobility.Distribution
	position  []int32 // of each cell in the support before, plus one
	weights   []float64
	buffers   [2][]uint16
	taken     []uint16 // of bridge, as the next two
	totals    []float64
	sums      []float64
}

// moment is where a user is, by a filter, in a step.
type moment struct {
	step  int64
	where *mobility.Distribution
}

// backwards is a matrix by columns.
type backwards struct {
	start  []int64
	rows   []grid.Cell
	values []float64
}

func newTracer(model *mobility.Model, zones *Zones) (*tracer, error) {
	if zones.Count() > maxFlowZones {
		return nil, errors.New("aggregate: flows are counted between at most 4096 zones: " +
			"choose larger ones")
	}
	t := &tracer{
		model: model, zones: zones, predictor: mobility.NewPredictor(model),
		position: make([]int32, model.Grid.Cells()),
	}
	for _, m := range model.Matrices {
		t.back = append(t.back, transposed(m))
	}
	return t, nil
}

func transposed(m *mobility.Matrix) backwards {
	cells := len(m.RowStart) - 1
	b := backwards{
		start: make([]int64, cells+1), rows: make([]grid.Cell, len(m.Columns)),
		values: make([]float64, len(m.Values)),
	}
	for _, c := range m.Columns {
		b.start[c+1]++
	}
	for c := range cells {
		b.start[c+1] += b.start[c]
	}
	next := slices.Clone(b.start[:cells])
	for row := range grid.Cell(cells) {
		columns, values := m.Row(row)
		for i, c := range columns {
			b.rows[next[c]], b.values[next[c]] = row, values[i]
			next[c]++
		}
	}
	return b
}

// mark makes each cell its own ancestor.
func (t *tracer) mark(dst []uint16, posterior *mobility.Distribution) []uint16 {
	dst = dst[:0]
	for _, c := range posterior.Cells {
		zone := uint16(t.zones.Of(c))
		for range ancestors {
			dst = append(dst, zone)
		}
	}
	return dst
}

// advance carries the ancestors of one moment on to a later one of the same filter.
func (t *tracer) advance(from []uint16, user string, before, after moment) []uint16 {
	if after.step == before.step {
		return t.keep(from, before.where, after.where)
	}
	random := rand.NewPCG(hashOf(user), uint64(after.step))
	current, known := before.where, append(t.buffers[0][:0], from...)
	next := t.buffers[1]
	for step := before.step; step < after.step; step++ {
		target := after.where
		if step+1 < after.step {
			target = &t.steps[step&1]
			t.predictor.Predict(target, current, step, 1)
		}
		next = t.step(next[:0], known, current, target.Cells, t.class(step), random)
		current, known, next = target, next, known
	}
	from = append(from[:0], known...)
	t.buffers[0], t.buffers[1] = known, next
	return from
}

// bridge is advance over a gap by the model's law of gaps. An ancestor of a cell is one that the
// cell has after a number of moves, drawn with the probability that so many moves led to the cell.
// A vehicle that started over may come from anywhere. The draw among the parts of the law is Chao's
// (1982, doi 10.1093/biomet/69.3.653) for a sample of one: each part replaces what was drawn with
// the share that it has of all parts so far.
func (t *tracer) bridge(from []uint16, user string, before, after moment) []uint16 {
	random := rand.NewPCG(hashOf(user), uint64(after.step))
	gap := after.step - before.step
	w := &t.model.Gaps[mobility.GapIndex(uint64(gap))]
	targets := after.where.Cells
	t.taken = append(t.taken[:0], make([]uint16, len(targets)*ancestors)...)
	t.totals = append(t.totals[:0], make([]float64, len(targets))...)
	current, known := before.where, append(t.buffers[0][:0], from...)
	next := t.buffers[1]
	done := 0
	add := func(moves int, weight float64) {
		if weight == 0 {
			return
		}
		for ; done < moves; done++ {
			step, target := before.step+int64(done), &t.steps[done&1]
			t.predictor.Predict(target, current, step, 1)
			next = t.step(next[:0], known, current, target.Cells, t.class(step), random)
			current, known, next = target, next, known
		}
		t.take(current, weight, random, func(i int) uint16 {
			return known[i*ancestors+int(random.Uint64()%ancestors)]
		}, targets)
	}
	for i, moves := range mobility.GapMoves {
		add(moves, w.Moves[i])
	}
	add(int(gap), w.Chain)
	if w.Anew > 0 {
		t.sums = t.sums[:0]
		total := 0.0
		for _, p := range before.where.P {
			total += p
			t.sums = append(t.sums, total)
		}
		t.take(&t.model.Initial, w.Anew, random, func(int) uint16 {
			u := float64(random.Uint64()>>11) / (1 << 53) * total
			at := sort.Search(len(t.sums)-1, func(j int) bool { return t.sums[j] > u })
			return from[at*ancestors+int(random.Uint64()%ancestors)]
		}, targets)
	}
	t.buffers[0], t.buffers[1] = known, next
	return append(from[:0], t.taken...)
}

// take lets a part of a law replace the ancestors drawn so far: in cells that it has, and with its
// share of the cell's mass. draw gives an ancestor of the i-th cell of the part.
func (t *tracer) take(
	part *mobility.Distribution, weight float64, random *rand.PCG, draw func(i int) uint16,
	targets []grid.Cell,
) {
	i := 0
	for at, c := range targets {
		for i < len(part.Cells) && part.Cells[i] < c {
			i++
		}
		if i == len(part.Cells) || part.Cells[i] != c {
			continue
		}
		mass := float64(weight * part.P[i])
		t.totals[at] += mass
		for slot := range ancestors {
			if u := float64(random.Uint64()>>11) / (1 << 53); u*t.totals[at] < mass {
				t.taken[at*ancestors+slot] = draw(i)
			}
		}
	}
}

func (t *tracer) class(step int64) int {
	if len(t.back) == 1 {
		return 0
	}
	return t.model.Calendar.ClassAt(step * t.model.Step.Milliseconds())
}

func (t *tracer) step(dst, known []uint16, from *mobility.Distribution, targets []grid.Cell,
	class int, random *rand.PCG,
) []uint16 {
	for i, c := range from.Cells {
		t.position[c] = int32(i) + 1
	}
	b := &t.back[class]
	for _, c := range targets {
		rows := b.rows[b.start[c]:b.start[c+1]]
		t.weights = slices.Grow(t.weights[:0], len(rows))[:len(rows)]
		total := 0.0
		for j, row := range rows {
			if at := t.position[row]; at > 0 {
				total += float64(from.P[at-1] * b.values[b.start[c]+int64(j)])
			}
			t.weights[j] = total
		}
		for range ancestors {
			u := float64(random.Uint64()>>11) / (1 << 53) * total
			j := sort.Search(len(rows)-1, func(j int) bool { return t.weights[j] > u })
			at := max(t.position[rows[j]]-1, 0) // below 0 only where rounding cut the cell off
			dst = append(dst, known[int(at)*ancestors+int(random.Uint64()%ancestors)])
		}
	}
	for _, c := range from.Cells {
		t.position[c] = 0
	}
	return dst
}

// keep drops the ancestors of cells that a second release of a step has ruled out.
func (t *tracer) keep(from []uint16, before, after *mobility.Distribution) []uint16 {
	kept, i := from[:0], 0
	for _, c := range after.Cells {
		for before.Cells[i] != c {
			i++
		}
		kept = append(kept, from[i*ancestors:(i+1)*ancestors]...)
	}
	return kept
}

// flow is the expected number of vehicles that went from one zone to another, and its variance's
// missing part.
type flow struct{ sum, squares sum }

// pair is a flow's zones, the first one in the upper half.
type pair uint32

func pairOf(from, to int32) pair { return pair(from)<<16 | pair(to) }

// add books the flows of one vehicle since the mark.
func (t *tracer) add(flows map[pair]*flow, known []uint16, posterior *mobility.Distribution) {
	own, total := map[pair]float64{}, posterior.Total()
	for i, c := range posterior.Cells {
		to, each := t.zones.Of(c), posterior.P[i]/total/ancestors
		for _, from := range known[i*ancestors : (i+1)*ancestors] {
			own[pairOf(int32(from), to)] += each
		}
	}
	for k, p := range own { // one addition for each key: the order does not matter
		f := flows[k]
		if f == nil {
			f = new(flow)
			flows[k] = f
		}
		f.sum.add(p)
		f.squares.add(float64(p * p))
	}
}

func hashOf(user string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(user))
	return h.Sum64()
}
