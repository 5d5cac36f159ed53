package mobility

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/portable"
)

// block is a block of a model file and the part in it: rows of a class, or cells of the initial
// distribution. Its memory is reused: see [blocks].
type block struct {
	place
	packed, unpacked bytes.Buffer
	inflater         io.ReadCloser

	kind         int64
	class, first int
	lengths      []int // of the rows
	columns      []grid.Cell
	values       []float64
	spread       []float64 // of the rows, if the model has a kernel
}

// blocks keeps blocks for reuse. A large model has thousands, and a few are held at a time.
var blocks = sync.Pool{New: func() any { return new(block) }}

// Limits on what a file may make us hold at one time beside the model. A part is written in one
// block, and a row of the matrix in one part. A part of many rows has about 650 kB.
const (
	maxBlockBytes  = 16 << 20
	maxRowEntries  = maxBlockBytes / 16 // 8 bytes a value and up to 5 a column
	maxHeaderBytes = 1 << 20
)

// Branches of the union in the schema of a part.
const (
	headerKind  = 0
	rowsKind    = 1
	initialKind = 2
)

// content returns the unpacked content of the block.
func (b *block) content() ([]byte, error) {
	if b.inflater == nil {
		b.inflater = flate.NewReader(&b.packed)
	} else if err := b.inflater.(flate.Resetter).Reset(&b.packed, nil); err != nil {
		return nil, err
	}
	b.unpacked.Reset()
	n, err := io.Copy(&b.unpacked, io.LimitReader(b.inflater, maxBlockBytes+1))
	if err != nil || n > maxBlockBytes {
		return nil, b.damaged("it does not inflate")
	}
	return b.unpacked.Bytes(), nil
}

// decode reads the part in the block. It checks it as far as it can without the others: rows are
// distributions over the cells of the model that the header describes.
func (b *block) decode(of *Model) error {
	content, err := b.content()
	if err != nil {
		return err
	}
	// A number takes at least nine bytes, eight of them for its value.
	b.lengths, b.columns = b.lengths[:0], slices.Grow(b.columns[:0], len(content)/9)
	b.values, b.spread = slices.Grow(b.values[:0], len(content)/9), b.spread[:0]
	c := cursor{portable.Reader{Rest: content}}
	switch b.kind = c.Varint(); {
	case c.Bad:
	case b.kind == initialKind:
		if numbers, values := c.bytes(), c.bytes(); c.done() {
			return b.initial(numbers, values)
		}
	case b.kind == rowsKind:
		b.class, b.first = c.int(), c.int()
		if lengths, columns, values, spread := c.bytes(), c.bytes(), c.bytes(),
			c.bytes(); c.done() && len(spread)%8 == 0 {
			b.spread = appendFloats(b.spread, spread)
			return b.rows(lengths, columns, values, of)
		}
	case b.kind == headerKind:
		return b.damaged("its parts are not in order: there is a second header")
	}
	return b.damaged("its part cannot be decoded")
}

// initial reads a part of the initial distribution.
func (b *block) initial(numbers, values []byte) error {
	n := len(values) / 8
	if len(values) == 0 || len(values)%8 != 0 || len(numbers) < n {
		return b.damaged("a part of the initial distribution has no cells, or other cells " +
			"than values")
	}
	if rest, err := b.appendColumns(numbers, 0, n); err != nil || len(rest) > 0 {
		return b.damaged("a part of the initial distribution has cells that cannot be read")
	}
	b.values = appendFloats(b.values, values)
	return nil
}

// rows reads a part of rows.
func (b *block) rows(lengths, columns, values []byte, of *Model) error {
	if len(lengths) == 0 || b.first < 0 {
		return b.damaged("a part has no rows")
	}
	spreads := b.spread
	row := b.first
	for ; len(lengths) > 0; row++ {
		length, read := binary.Uvarint(lengths)
		if read <= 0 || row >= of.Grid.Cells() || length > uint64(len(columns)) ||
			length > uint64(len(values)/8) {
			return b.damaged("row %d does not have the entries it states", row)
		}
		lengths = lengths[read:]
		n, start := int(length), len(b.columns)
		var err error
		if columns, err = b.appendColumns(columns, grid.Cell(row), n); err != nil {
			return err
		}
		b.values = appendFloats(b.values, values[:8*n])
		values = values[8*n:]
		b.lengths = append(b.lengths, n)
		spread := 0.0
		if of.Kernel.Radius() >= 0 {
			if len(spreads) == 0 {
				return b.damaged("row %d lacks the weight of its kernel", row)
			}
			spread, spreads = spreads[0], spreads[1:]
		}
		if err := validRow(b.columns[start:], b.values[start:], spread,
			of.Jumps.From(of.Grid, grid.Cell(row)), of.Grid.Cells()); err != nil {
			return b.damaged("row %d: %v", row, err)
		}
	}
	if len(columns) > 0 || len(values) > 0 || len(spreads) > 0 {
		return b.damaged("there are entries without a row after row %d", row-1)
	}
	return nil
}

// appendColumns reads n differences and returns the bytes after them.
func (b *block) appendColumns(data []byte, before grid.Cell, n int) ([]byte, error) {
	at := int64(before)
	for range n {
		difference, read := int64(0), 1
		if len(data) > 0 && data[0] < 0x80 { // nearly always
			difference = int64(data[0]>>1) ^ -int64(data[0]&1)
		} else if difference, read = binary.Varint(data); read <= 0 || difference > math.MaxInt32 ||
			difference < math.MinInt32 {
			return nil, b.damaged("a column cannot be read")
		}
		data = data[read:]
		if at += difference; at < 0 || at >= grid.MaxCells {
			return nil, b.damaged("a column is out of range")
		}
		b.columns = append(b.columns, grid.Cell(at))
	}
	return data, nil
}

func appendFloats(dst []float64, data []byte) []float64 {
	dst = slices.Grow(dst, len(data)/8)
	for ; len(data) >= 8; data = data[8:] {
		dst = append(dst, math.Float64frombits(binary.LittleEndian.Uint64(data)))
	}
	return dst
}

// cursor reads Avro's binary encoding. Bad is set once something could not be read.
type cursor struct{ portable.Reader }

func (c *cursor) int() int {
	v := c.Varint()
	if v != int64(int32(v)) {
		c.Bad = true
	}
	return int(int32(v))
}

// done says whether all could be read and nothing is left.
func (c *cursor) done() bool { return !c.Bad && len(c.Rest) == 0 }

// bytes reads a length and so many bytes. It returns these bytes without copying them.
func (c *cursor) bytes() []byte {
	n := c.Varint()
	if c.Bad || n < 0 || n > int64(len(c.Rest)) {
		c.Bad = true
		return nil
	}
	b := c.Rest[:n]
	c.Rest = c.Rest[n:]
	return b
}

var errDamaged = errors.New("mobility: the model file is damaged (model-file)")

// place is where in a file a block lies.
type place struct {
	number   int // from 1
	from, to int64
}

// damaged returns an error that says that the file is damaged, where, and how.
func (p place) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: block %d, bytes %d to %d: %s", errDamaged, p.number, p.from, p.to,
		fmt.Sprintf(format, args...))
}
