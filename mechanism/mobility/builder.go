package mobility

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/geodither/geodither/mechanism/parallel"
)

// ReadModel reads a model and checks everything: the format, that rows and initial distribution are
// distributions, that the content has the id that the header states, and the seal of the header. r
// may yield any bytes. The error says where they are wrong and what to do.
//
// Blocks are unpacked and checked on all cores while the id is computed. Time and memory grow with
// the model that the file really holds up to its first fault, and not with the sizes that it claims
// or inflates to. A small file can hold a large model, though: equal rows become a hundred times
// smaller, or more.
func ReadModel(r io.Reader) (*Model, error) {
	in, err := newContainer(r)
	if err != nil {
		return nil, err
	}
	first := new(block)
	if err := in.next(first); errors.Is(err, io.EOF) {
		return nil, in.cutShort(err)
	} else if err != nil {
		return nil, err
	}
	head, err := decodeHeader(first)
	if err != nil {
		return nil, err
	}
	b := newBuilder(head)
	if err := parallel.Ordered(b.tasks(in), b.addBlock); err != nil {
		return nil, err
	}
	return b.finish(in)
}

// builder puts a model together from parts. Deflate can make a thousand bytes of one, so every part
// is checked when it comes. It must bring rows that are distributions, with no more entries than
// the header declares, or cells of the initial distribution, with no more than the grid has. So the
// cost of reading is bounded by the model that the file really holds up to its first fault.
type builder struct {
	*head
	hash hashWriter
	rows int // of the matrix that is being read, the last of model.Matrices
}

func newBuilder(h *head) *builder {
	b := &builder{head: h, hash: newHash()}
	h.model.hashHead(&b.hash, len(h.entries))
	b.nextMatrix()
	return b
}

func (b *builder) nextMatrix() {
	b.model.Matrices = append(b.model.Matrices, &Matrix{RowStart: []int64{0}})
	b.rows = 0
}

// tasks yields the decoding of each block behind the header's.
func (b *builder) tasks(in *container) iter.Seq2[func() (*block, error), error] {
	of := b.model.Copy() // while b.model grows
	return func(yield func(func() (*block, error), error) bool) {
		for {
			next := blocks.Get().(*block)
			if err := in.next(next); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				yield(nil, err)
				return
			}
			if !yield(func() (*block, error) { return next, next.decode(of) }, nil) {
				return
			}
		}
	}
}

// addBlock adds the part of a block, which it returns to the pool.
func (b *builder) addBlock(from *block) error {
	add := b.addInitial
	if from.kind == rowsKind {
		add = b.addRows
	}
	if err := add(from); err != nil {
		return err
	}
	blocks.Put(from)
	return nil
}

func (b *builder) addRows(p *block) error {
	class := len(b.model.Matrices) - 1
	if b.rows == b.model.Grid.Cells() && class+1 < len(b.entries) && p.first == 0 &&
		p.class == class+1 {
		if err := b.complete(p); err != nil {
			return err
		}
		b.nextMatrix()
		class++
	}
	if p.class != class || p.first != b.rows || b.model.Initial.Len() > 0 {
		return p.damaged("its parts are not in order: "+
			"rows from %d of class %d come where row %d of class %d should", p.first, p.class,
			b.rows, class)
	}
	m, stated := b.model.Matrices[class], b.entries[class]
	if int64(len(p.columns)) > stated-int64(len(m.Columns)) {
		return p.damaged("it has more than the %d entries of class %d that the header states",
			stated, class)
	}
	m.Columns = append(growTo(m.Columns, len(p.columns), stated), p.columns...)
	m.Values = append(growTo(m.Values, len(p.values), stated), p.values...)
	columns, values, spread := p.columns, p.values, p.spread
	m.Spread = append(growTo(m.Spread, len(spread), int64(b.model.Grid.Cells())), spread...)
	m.RowStart = growTo(m.RowStart, len(p.lengths), int64(b.model.Grid.Cells())+1)
	end := m.RowStart[b.rows]
	for _, n := range p.lengths {
		end += int64(n)
		m.RowStart = append(m.RowStart, end)
		b.hash.row(columns[:n], values[:n])
		columns, values = columns[n:], values[n:]
		if len(spread) > 0 {
			b.hash.number(math.Float64bits(spread[0]))
			spread = spread[1:]
		}
	}
	b.rows += len(p.lengths)
	return nil
}

// complete checks that the last matrix has as many entries as the header states.
func (b *builder) complete(p *block) error {
	class := len(b.model.Matrices) - 1
	if got, stated := b.model.Matrices[class].Transitions(),
		b.entries[class]; int64(got) != stated {
		return p.damaged("class %d has %d entries and not the %d that the header states", class,
			got, stated)
	}
	return nil
}

func (b *builder) addInitial(p *block) error {
	d, cells := &b.model.Initial, b.model.Grid.Cells()
	if len(b.model.Matrices) < len(b.entries) || b.rows < cells {
		return p.damaged("its parts are not in order: "+
			"the initial distribution comes where row %d of class %d should", b.rows,
			len(b.model.Matrices)-1)
	}
	if len(p.columns) > cells-d.Len() {
		return p.damaged("the initial distribution has more cells than the grid")
	}
	d.Cells = append(growTo(d.Cells, len(p.columns), int64(cells)), p.columns...)
	d.P = append(growTo(d.P, len(p.values), int64(cells)), p.values...)
	return nil
}

// growTo makes room for n more elements; total is how many there will be if the file is right. It
// reserves sixteen times what has come so far. So a file cannot make us reserve much memory by a
// mere claim, and only a fifteenth of a large matrix is copied. Reserved memory costs nothing until
// it is used: the system provides pages as they are written.
func growTo[T any](s []T, n int, total int64) []T {
	if len(s)+n <= cap(s) {
		return s
	}
	room := max(len(s)+n, int(min(int64(16*(len(s)+n)), total)))
	return append(make([]T, 0, room), s...) // not slices.Grow, which writes zeros
}

// finish checks the model as a whole and returns it.
func (b *builder) finish(in *container) (*Model, error) {
	m := b.model
	if len(m.Matrices) < len(b.entries) || b.rows < m.Grid.Cells() || m.Initial.Len() == 0 {
		return nil, fmt.Errorf("mobility: the model file is cut short at byte %d, %d of %d "+
			"rows into class %d of %d (model-file)", in.at(), b.rows, m.Grid.Cells(),
			len(m.Matrices)-1, len(b.entries))
	}
	end := &block{place: place{number: in.blocks, from: in.at(), to: in.at()}}
	if err := b.complete(end); err != nil {
		return nil, err
	}
	if err := validRow(m.Initial.Cells, m.Initial.P, 0, 0, m.Grid.Cells()); err != nil {
		return nil, end.damaged("the initial distribution: %v", err)
	}
	b.hash.row(m.Initial.Cells, m.Initial.P)
	m.Gaps.hash(&b.hash)
	m.idOnce.Do(func() { m.id = b.hash.id() })
	if m.ID() != b.id {
		return nil, end.damaged("its content is not what its id %.16q says", b.id)
	}
	return m, nil
}
