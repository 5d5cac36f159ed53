package mobility

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"
	"sync"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/parallel"
)

// entriesPerPart is how many numbers a part of a file holds, about 600 kB before compression: a part of one cell each
// would make a model of a million cells slow to read. A row is never split.
const entriesPerPart = 1 << 16

// Write writes the model as an Avro object container: the header, the rows of each class in blocks, the initial
// distribution. Reading it gives the same model, bit for bit. The model must be valid. Blocks are packed on all cores;
// the bytes depend on the model alone.
func (m *Model) Write(w io.Writer) error {
	if err := m.Validate(); err != nil {
		return err
	}
	for _, matrix := range m.Matrices {
		for c := range grid.Cell(m.Grid.Cells()) {
			if columns, _ := matrix.Row(c); len(columns) > maxRowEntries {
				return fmt.Errorf("mobility: row %d has %d entries, a file takes %d; choose larger cells", c, len(columns), maxRowEntries)
			}
		}
	}
	codec, err := partCodec(fileVersion)
	if err != nil {
		return err
	}
	// Not random: the same model gives the same bytes.
	marker := []byte(m.ID())
	// goavro's own writer packs one block after the other, and writes the pairs of the head in the order of a map.
	head := append([]byte("Obj\x01"), 4) // two pairs
	for _, text := range []string{"avro.codec", "deflate", "avro.schema", codec.Schema()} {
		head = appendBytes(head, []byte(text))
	}
	head = append(append(head, 0), marker...)
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("mobility: writing the model: %w", err)
	}
	return parallel.Ordered(m.blocks(), func(packed *bytes.Buffer) error {
		size := binary.AppendVarint(binary.AppendVarint(nil, 1), int64(packed.Len()))
		for _, data := range [][]byte{size, packed.Bytes(), marker} {
			if _, err := w.Write(data); err != nil {
				return fmt.Errorf("mobility: writing the model: %w", err)
			}
		}
		return nil
	})
}

// blocks yields the packing of the file's parts, in order.
func (m *Model) blocks() iter.Seq2[func() (*bytes.Buffer, error), error] {
	return func(yield func(func() (*bytes.Buffer, error), error) bool) {
		for encode := range m.parts() {
			pack := func() (*bytes.Buffer, error) {
				data, err := encode()
				if err != nil {
					return nil, err
				}
				return deflate(data)
			}
			if !yield(pack, nil) {
				return
			}
		}
	}
}

// deflaters keeps what packing a block needs, a megabyte each.
var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.DefaultCompression)
	if err != nil {
		panic(err) // the level is one
	}
	return w
}}

func deflate(data []byte) (*bytes.Buffer, error) {
	packed := new(bytes.Buffer)
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(packed)
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	return packed, nil
}

// parts yields the encoding of each part, in order.
func (m *Model) parts() iter.Seq[func() ([]byte, error)] {
	return func(yield func(func() ([]byte, error)) bool) {
		if !yield(m.encodeHeader) {
			return
		}
		cells := grid.Cell(m.Grid.Cells())
		for class, matrix := range m.Matrices {
			for first := grid.Cell(0); first < cells; {
				end := first + 1
				for end < cells && matrix.RowStart[end+1]-matrix.RowStart[first] <= entriesPerPart {
					end++
				}
				from := first
				if !yield(func() ([]byte, error) { return matrix.encodeRows(class, from, end), nil }) {
					return
				}
				first = end
			}
		}
		for start := 0; start < m.Initial.Len(); start += entriesPerPart {
			end := min(start+entriesPerPart, m.Initial.Len())
			if !yield(func() ([]byte, error) { return m.Initial.encodePart(start, end), nil }) {
				return
			}
		}
	}
}

func (m *Model) encodeHeader() ([]byte, error) {
	header, err := m.header()
	if err != nil {
		return nil, err
	}
	codec, err := partCodec(fileVersion)
	if err != nil {
		return nil, err
	}
	data, err := codec.BinaryFromNative(nil, header)
	if err != nil {
		return nil, fmt.Errorf("mobility: the header cannot be encoded: %w", err)
	}
	if len(data) > maxHeaderBytes {
		return nil, fmt.Errorf("mobility: the model's header has %d bytes, a file takes %d; shorten its provenance", len(data), maxHeaderBytes)
	}
	return data, nil
}

// encodeRows returns the part of the rows from first up to end, in Avro's binary encoding.
func (m *Matrix) encodeRows(class int, first, end grid.Cell) []byte {
	n := int(m.RowStart[end] - m.RowStart[first])
	lengths, columns, values := make([]byte, 0, 2*(end-first)), make([]byte, 0, 2*n), make([]byte, 0, 8*n)
	for c := first; c < end; c++ {
		rowColumns, rowValues := m.Row(c)
		lengths = binary.AppendUvarint(lengths, uint64(len(rowColumns)))
		columns = appendColumns(columns, c, rowColumns)
		values = appendValues(values, rowValues)
	}
	data := make([]byte, 0, len(lengths)+len(columns)+len(values)+64)
	for _, v := range []int64{rowsKind, int64(class), int64(first)} {
		data = binary.AppendVarint(data, v)
	}
	return appendBytes(appendBytes(appendBytes(data, lengths), columns), values)
}

func (d *Distribution) encodePart(start, end int) []byte {
	data := binary.AppendVarint(nil, initialKind)
	data = appendBytes(data, appendColumns(nil, 0, d.Cells[start:end]))
	return appendBytes(data, appendValues(nil, d.P[start:end]))
}

// appendBytes writes data as Avro does.
func appendBytes(dst, data []byte) []byte {
	return append(binary.AppendVarint(dst, int64(len(data))), data...)
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
