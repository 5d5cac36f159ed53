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

// AppendShort appends d to dst and returns it, if every mass is short; else it returns dst as it
// was and false. d must not be empty.
//
//	n     uvarint  number of cells
//	k     1 byte   1 to 6
//	bits  the first one is a byte's most significant one, and zeros fill up the last byte:
//	  runs    of cells whose numbers follow each other, ascending, until they have n cells:
//	    skip    γ  cells between the run before and this one; for the first run 1 more
//	    length  γ  cells
//	  masses  for each cell its code minus that of the cell before it, for the first that of 1
//
// γ is Elias's code of a number from 1 on: as many zeros as it has bits after its first, then its
// bits. A difference d is 2d if d ≥ 0 and else -2d - 1, and that has the code of Rice: its upper
// part, without the lowest k bits, as so many zeros and a one, then the k bits. k is the one of the
// shortest result, the least of equals.
//
// Neighbouring cells have similar masses, so a cell takes five to six bits.
func (d *Distribution) AppendShort(dst []byte) ([]byte, bool) {
	// The zeros that each parameter takes, in registers: summed in an array they take as long as
	// all the rest.
	var one, two, three, four, five, six uint64
	before := int32(codeOfOne)
	for _, p := range d.P {
		code, ok := shortCode(p)
		if !ok {
			return dst, false
		}
		v := uint64(zigzag(code - before))
		one += v >> 1
		two += v >> 2
		three += v >> 3
		four += v >> 4
		five += v >> 5
		six += v >> 6
		before = code
	}
	zeros := [...]uint64{minRice: one, two, three, four, five, maxRice: six}
	k, n := minRice, uint64(d.Len())
	for next := minRice + 1; next <= maxRice; next++ {
		if zeros[next]+uint64(next)*n < zeros[k]+uint64(k)*n {
			k = next
		}
	}
	dst = append(binary.AppendUvarint(dst, n), byte(k))
	w := bitWriter{dst: dst, at: len(dst)}
	w.runs(d.Cells)
	w.masses(d.P, k, zeros[k]+uint64(k+1)*n)
	return w.end(), true
}

// DecodeShort replaces d by the distribution that AppendShort wrote as all of data. It accepts any
// bytes. If they are not a distribution it returns [ErrDistribution] and leaves d empty. Otherwise
// the cells ascend and the masses are short. Like [Distribution.DecodeBinary] it does not know the
// grid.
//
// It allocates only when d must grow, and at most 72 bytes of memory for each byte of data.
func (d *Distribution) DecodeShort(data []byte) error {
	d.Reset()
	count, read := binary.Uvarint(data)
	if read <= 0 || read == len(data) || count < 1 || count > 8/(minRice+1)*uint64(len(data)) {
		return ErrDistribution
	}
	k := int(data[read])
	if k < minRice || k > maxRice {
		return ErrDistribution
	}
	n := int(count)
	d.resize(n)
	r := bitReader{data: data[read+1:]}
	if !r.runs(d.Cells) || !r.masses(d.P, k) || !r.ends() {
		d.Reset()
		return ErrDistribution
	}
	return nil
}
