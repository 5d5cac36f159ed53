package mobility

import (
	"encoding/binary"
	"iter"
	"math"

	"github.com/geodither/geodither/mechanism/grid"
)

// entriesPerPart is how many entries and rows a part of a file holds: about 600 kB before
// compression. Parts of one cell each would make a model of a million cells slow to read. A row is
// never split.
const entriesPerPart = 1 << 16

// parts yields the encoding of each part, in order.
func parts(m *Model) iter.Seq[func() ([]byte, error)] {
	return func(yield func(func() ([]byte, error)) bool) {
		if !yield(func() ([]byte, error) { return encodeHeader(m) }) {
			return
		}
		cells := grid.Cell(m.Grid.Cells())
		for class, matrix := range m.Matrices {
			for first := grid.Cell(0); first < cells; {
				from, end := first, endOfPart(matrix, first, cells)
				if !yield(func() ([]byte, error) {
					return encodeRows(matrix, class, from, end), nil
				}) {
					return
				}
				first = end
			}
		}
		for start := 0; start < m.Initial.Len(); start += entriesPerPart {
			end := min(start+entriesPerPart, m.Initial.Len())
			if !yield(func() ([]byte, error) { return encodePart(&m.Initial, start, end), nil }) {
				return
			}
		}
	}
}

// endOfPart returns the row behind the last one of a part that starts with row first.
func endOfPart(m *Matrix, first, cells grid.Cell) grid.Cell {
	end := first + 1
	for end < cells && m.RowStart[end+1]-m.RowStart[first]+int64(end+1-first) <= entriesPerPart {
		end++
	}
	return end
}

// encodeRows returns the part with the rows from first up to end, in Avro's binary encoding.
func encodeRows(m *Matrix, class int, first, end grid.Cell) []byte {
	n := int(m.RowStart[end] - m.RowStart[first])
	lengths, columns, values := make([]byte, 0, 2*(end-first)), make([]byte, 0, 2*n),
		make([]byte, 0, 8*n)
	for c := first; c < end; c++ {
		rowColumns, rowValues := m.Entries(c)
		lengths = binary.AppendUvarint(lengths, uint64(len(rowColumns)))
		columns = appendColumns(columns, c, rowColumns)
		values = appendValues(values, rowValues)
	}
	data := make([]byte, 0, len(lengths)+len(columns)+len(values)+64)
	for _, v := range []int64{rowsKind, int64(class), int64(first)} {
		data = binary.AppendVarint(data, v)
	}
	data = appendBytes(appendBytes(appendBytes(data, lengths), columns), values)
	if m.Spread == nil {
		return appendBytes(data, nil)
	}
	return appendBytes(data, appendValues(nil, m.Spread[first:end]))
}

func encodePart(d *Distribution, start, end int) []byte {
	data := binary.AppendVarint(nil, initialKind)
	data = appendBytes(data, appendColumns(nil, 0, d.Cells[start:end]))
	return appendBytes(data, appendValues(nil, d.P[start:end]))
}

// appendColumns appends cells as differences, the first one from before. Rows of equal moves then
// look the same, which deflate makes use of.
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
