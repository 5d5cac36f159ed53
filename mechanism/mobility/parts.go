package mobility

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// entriesPerPart is how many numbers a part of a file holds, about 600 kB before compression: a part of one cell each
// would make a model of a million cells slow to read. A row is never split.
const entriesPerPart = 1 << 16

// parts yields the file's content in order.
func (m *Model) parts() iter.Seq[fields] {
	return func(yield func(fields) bool) {
		if !yield(m.header()) {
			return
		}
		cells := grid.Cell(m.Grid.Cells())
		for first := grid.Cell(0); first < cells; {
			end := first + 1
			for end < cells && m.Matrices[0].RowStart[end+1]-m.Matrices[0].RowStart[first] <= entriesPerPart {
				end++
			}
			if !yield(m.rows(first, end)) {
				return
			}
			first = end
		}
		for start := 0; start < m.Initial.Len(); start += entriesPerPart {
			end := min(start+entriesPerPart, m.Initial.Len())
			content := fields{
				"cells":  appendColumns(nil, 0, m.Initial.Cells[start:end]),
				"values": appendValues(nil, m.Initial.P[start:end]),
			}
			if !yield(part(initialPart, content)) {
				return
			}
		}
	}
}

func (m *Model) rows(first, end grid.Cell) fields {
	var lengths, columns, values []byte
	for c := first; c < end; c++ {
		rowColumns, rowValues := m.Matrices[0].Row(c)
		lengths = binary.AppendUvarint(lengths, uint64(len(rowColumns)))
		columns = appendColumns(columns, c, rowColumns)
		values = appendValues(values, rowValues)
	}
	return part(rowsPart, fields{"first": first, "lengths": lengths, "columns": columns, "values": values})
}

// appendColumns writes cells as differences, the first from before. Rows of the same kernel then look the same, which
// is what deflate needs.
func appendColumns(dst []byte, before grid.Cell, cells []grid.Cell) []byte {
	for _, c := range cells {
		dst = binary.AppendVarint(dst, int64(c)-int64(before))
		before = c
	}
	return dst
}

func appendValues(dst []byte, values []float64) []byte {
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst
}

var errDamaged = errors.New("mobility: the model file is damaged; copy it again or train again")

// builder puts a model together from parts. Deflate can make a thousand bytes of one, so every part is checked as it
// comes: it brings rows that are distributions, as many entries as the header declares, or cells of the initial
// distribution, as many as the grid has. What reading costs is thus bounded by the model that the file really holds up to
// its first fault.
type builder struct {
	model   *Model
	id      string
	entries int64
	parts   int
}

// Decoding a part costs as much as a few hundred entries, however few it has. [Model.Write] makes parts of tens of
// thousands, but for the last ones.
const (
	spareParts     = 1 << 10
	numbersPerPart = 1 << 8
)

func (b *builder) add(content fields) error {
	for name, value := range content["part"].(fields) { // a union has one entry
		inner := value.(fields)
		switch {
		case name == headerPart && b.model == nil:
			var err error
			b.model, b.id, b.entries, err = modelOf(inner)
			return err
		case name == rowsPart && b.model != nil:
			return b.counted(b.addRows(inner))
		case name == initialPart && b.model != nil:
			return b.counted(b.addInitial(inner))
		}
	}
	return fmt.Errorf("%w: its parts are not in order", errDamaged)
}

// counted counts a part that was added, and refuses it if there are too many short ones.
func (b *builder) counted(err error) error {
	b.parts++
	if numbers := b.model.Matrices[0].Transitions() + b.model.Initial.Len(); err == nil && b.parts > spareParts+numbers/numbersPerPart {
		return fmt.Errorf("%w: it is cut into %d parts for %d numbers", errDamaged, b.parts, numbers)
	}
	return err
}

func (b *builder) addRows(content fields) error {
	m := b.model.Matrices[0]
	lengths, columns, values := content["lengths"].([]byte), content["columns"].([]byte), content["values"].([]byte)
	row := len(m.RowStart) - 1
	if int(content["first"].(int32)) != row || len(lengths) == 0 {
		return fmt.Errorf("%w: rows are missing or double", errDamaged)
	}
	for len(lengths) > 0 {
		length, read := binary.Uvarint(lengths)
		if read <= 0 || length == 0 || row >= b.model.Grid.Cells() || length > uint64(len(columns)) || length > uint64(len(values)/8) {
			return fmt.Errorf("%w: row %d does not have the entries it states", errDamaged, row)
		}
		if int64(length) > b.entries-int64(len(m.Columns)) {
			return fmt.Errorf("%w: it has more than the %d entries it states", errDamaged, b.entries)
		}
		lengths = lengths[read:]
		var err error
		if m.Columns, columns, err = decodeColumns(m.Columns, columns, grid.Cell(row), int(length)); err != nil {
			return err
		}
		m.Values, values = decodeValues(m.Values, values, int(length))
		m.RowStart = append(m.RowStart, int64(len(m.Columns)))
		rowColumns, rowValues := m.Row(grid.Cell(row))
		if err := validRow(rowColumns, rowValues, b.model.Grid.Cells()); err != nil {
			return fmt.Errorf("mobility: row %d of the model file's matrix: %w; train again", row, err)
		}
		row++
	}
	if len(columns) > 0 || len(values) > 0 {
		return fmt.Errorf("%w: there are entries without a row", errDamaged)
	}
	return nil
}

func (b *builder) addInitial(content fields) (err error) {
	d := &b.model.Initial
	cells, values := content["cells"].([]byte), content["values"].([]byte)
	n := len(values) / 8
	if n == 0 || n > b.model.Grid.Cells()-d.Len() {
		return fmt.Errorf("%w: the initial distribution has a part without cells, or more cells than the grid", errDamaged)
	}
	if d.Cells, cells, err = decodeColumns(d.Cells, cells, 0, n); err != nil {
		return err
	}
	d.P, values = decodeValues(d.P, values, n)
	if len(cells) > 0 || len(values) > 0 {
		return fmt.Errorf("%w: the initial distribution has numbers left over", errDamaged)
	}
	return nil
}

func decodeColumns(dst []grid.Cell, data []byte, before grid.Cell, n int) ([]grid.Cell, []byte, error) {
	dst = grow(dst, n)
	at := int64(before)
	for range n {
		difference, read := binary.Varint(data)
		if read <= 0 || difference > math.MaxInt32 || difference < math.MinInt32 {
			return nil, nil, fmt.Errorf("%w: a column cannot be read", errDamaged)
		}
		data = data[read:]
		at += difference
		if at < 0 || at >= grid.MaxCells {
			return nil, nil, fmt.Errorf("%w: a column is out of range", errDamaged)
		}
		dst = append(dst, grid.Cell(at))
	}
	return dst, data, nil
}

func decodeValues(dst []float64, data []byte, n int) ([]float64, []byte) {
	dst = grow(dst, n)
	for range n {
		dst = append(dst, math.Float64frombits(binary.LittleEndian.Uint64(data)))
		data = data[8:]
	}
	return dst, data
}

// grow doubles, where append would add a quarter to a long slice: a large model is copied twice rather than five times.
func grow[T any](s []T, n int) []T {
	if len(s)+n <= cap(s) {
		return s
	}
	return slices.Grow(s, max(n, len(s)))
}

// finish checks the whole and returns it.
func (b *builder) finish() (*Model, error) {
	if b.model == nil {
		return nil, fmt.Errorf("%w: it has no header", errDamaged)
	}
	m := b.model
	if rows := len(m.Matrices[0].RowStart) - 1; rows != m.Grid.Cells() || int64(len(m.Matrices[0].Columns)) != b.entries || m.Initial.Len() == 0 {
		return nil, fmt.Errorf("mobility: the model file is cut short: it has %d of %d rows; copy it again or train again", rows, m.Grid.Cells())
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("%w; train again", err)
	}
	if m.ID() != b.id {
		return nil, fmt.Errorf("%w: its content is not what its id %.16q says", errDamaged, b.id)
	}
	return m, nil
}
