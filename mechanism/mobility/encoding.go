package mobility

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// AppendBinary appends d to dst and returns it: the number of cells; for each cell its distance
// from the cell before it (for the first one, from -1) minus one; then the masses as little-endian
// float32. Numbers and distances are unsigned varints. A cell takes about 5 bytes. The encoding is
// exact after [Distribution.Round]. Otherwise masses are rounded, and those that round to 0 are
// left out, as in Round.
func (d *Distribution) AppendBinary(dst []byte) []byte {
	n := 0
	for _, p := range d.P {
		if float32(p) > 0 {
			n++
		}
	}
	dst = binary.AppendUvarint(slices.Grow(dst, 5*n+binary.MaxVarintLen64), uint64(n))
	before := grid.Cell(-1)
	for i, c := range d.Cells {
		if float32(d.P[i]) > 0 {
			dst = binary.AppendUvarint(dst, uint64(c-before-1))
			before = c
		}
	}
	for _, p := range d.P {
		if q := float32(p); q > 0 {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(q))
		}
	}
	return dst
}

// ErrDistribution says that bytes are not an encoded distribution.
var ErrDistribution = errors.New("mobility: the stored distribution is damaged")

// DecodeBinary replaces d by the distribution that data starts with and returns the bytes after it.
// It accepts any bytes. If they are not a distribution it returns [ErrDistribution] and leaves d
// empty. Otherwise the cells ascend and the masses are positive and finite. DecodeBinary does not
// know the grid: compare the last cell with the size of the grid.
//
// It allocates only when d must grow, and at most 4 bytes of memory for each byte of data.
func (d *Distribution) DecodeBinary(data []byte) (rest []byte, err error) {
	d.Reset()
	count, read := binary.Uvarint(data)
	if read <= 0 || count > uint64(len(data)-read)/5 {
		return nil, ErrDistribution
	}
	data = data[read:]
	n := int(count)
	d.resize(n)
	before := int64(-1)
	for i := range n {
		gap, read := binary.Uvarint(data)
		if read <= 0 || gap >= math.MaxInt32 {
			d.Reset()
			return nil, ErrDistribution
		}
		data = data[read:]
		before += 1 + int64(gap)
		if before >= grid.MaxCells {
			d.Reset()
			return nil, ErrDistribution
		}
		d.Cells[i] = grid.Cell(before)
	}
	if len(data) < 4*n {
		d.Reset()
		return nil, ErrDistribution
	}
	for i := range n {
		p := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		if !(p > 0) || p > math.MaxFloat32 {
			d.Reset()
			return nil, ErrDistribution
		}
		d.P[i] = float64(p)
	}
	return data[4*n:], nil
}
