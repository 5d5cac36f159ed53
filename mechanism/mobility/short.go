package mobility

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// A short mass is a power of two times a number with ShortBits fraction bits: from ShortLeast to 1,
// eight in each octave. Next to a short mass is one that is larger by an eighth of it at most.
const (
	ShortBits  = 3
	ShortLeast = 0x1p-63
)

// A short mass's code is its place in the row of all of them: 0 for ShortLeast. The codes of two
// masses differ by eight times the difference of their logarithms to base 2, or nearly so.
const (
	shortShift = 52 - ShortBits
	leastCode  = (1023 - 63) << ShortBits
	codeOfOne  = 63 << ShortBits
)

// ShortOf sets dst to short masses of cells: each weight times a scale, rounded to one of the two
// short masses next to it. Below least, which must be short, those two are 0 and least, and cells
// that become 0 are left out. dst keeps its own memory and must not be the weights' distribution.
// Cost: one pass.
//
// Which of the two it is looks like chance, with probabilities under which the rounded mass is the
// weight's on average. So rounding step after step moves no mass, neither within the distribution
// nor out of its tails. Rounding to the nearest would: where less than half a unit flows into a
// cell in each step, nothing would ever arrive (Croci et al. 2022, doi 10.1098/rsos.211631).
//
// Masses below least are sampled together, as particle filters resample (stratified resampling,
// Kitagawa 1996, doi 10.1080/10618600.1996.10474692): laid end to end in the order of the cells,
// they are cut into strata of least each. Every stratum has a mark, at a place that is chance, and
// the cell there has least, or twice as much if it has two marks. So any run of such cells keeps
// its mass to within twice least, where cells that are chosen independently would keep it to within
// the root of least times it. Marks at one distance from each other would be in one column of a map
// whose rows hold a whole number of them.
//
// Every chance is a hash of the step, masses and cells, and no secret: anybody with the weights has
// the result, with the same bits on every architecture. The step gives each of many roundings of
// nearly the same masses another chance.
func ShortOf(
	dst *Distribution, cells []grid.Cell, weights []float64, scale, least float64, step int64,
) {
	dst.resize(len(weights))
	to, p := dst.Cells, dst.P[:len(dst.Cells)]
	cells = cells[:len(weights)]
	seed := scramble(uint64(step) * 0x9e3779b97f4a7c15)
	marks := marks{seed: scramble(seed + math.Float64bits(scale))}
	if len(weights) > 0 {
		marks.seed += chanceOf(seed, math.Float64bits(weights[0]), cells[0])
	}
	// Both count from where the stratum begins.
	kept, reached, mark := 0, 0.0, marks.next(least)
	for i, w := range weights {
		c, mass := cells[i], float64(w*scale)
		if mass >= least {
			// The bits of a positive number grow with it, evenly between two short masses.
			word := math.Float64bits(mass)
			word += chanceOf(seed, word, c) >> (64 - shortShift)
			to[kept], p[kept] = c, math.Float64frombits(word>>shortShift<<shortShift)
			kept++
			continue
		}
		if reached += mass; reached <= mark {
			continue
		}
		to[kept], p[kept] = c, least
		reached, mark = reached-least, marks.next(least)
		if reached > mark {
			p[kept] += least
			reached, mark = reached-least, marks.next(least)
		}
		kept++
	}
	dst.Cells, dst.P = to[:kept], p[:kept]
}

// marks are the places of the marks in strata, one after the other.
type marks struct{ seed uint64 }

// next returns a place from 0 on and below least.
func (m *marks) next(least float64) float64 {
	m.seed += 0x9e3779b97f4a7c15
	return float64(float64(scramble(m.seed)>>11) * 0x1p-53 * least)
}

// chanceOf is the chance of a mass, given by its bits, in a cell: a hash of both and of a seed.
func chanceOf(seed, word uint64, c grid.Cell) uint64 {
	return scramble((seed ^ word) + uint64(uint32(c))*0x9e3779b97f4a7c15)
}

// scramble is the last stage of SplitMix64 (Steele, Lea and Flood 2014, doi
// 10.1145/2660193.2660195).
func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// shortCode returns the code of a mass, and whether it is short.
func shortCode(p float64) (code int32, ok bool) {
	word := math.Float64bits(p)
	top := word >> shortShift
	return int32(top) - leastCode, word == top<<shortShift && top >= leastCode &&
		top <= leastCode+codeOfOne
}

// Bounds of the parameter of the codes for masses. One bit at least keeps a decoded distribution's
// memory within a bound; beyond six a code would be longer than the mass.
const (
	minRice = 1
	maxRice = 6
)

func zigzag(x int32) uint32 { return uint32(x<<1) ^ uint32(x>>31) }

func unzigzag(x uint32) int32 { return int32(x>>1) ^ -int32(x&1) }

// bitWriter writes bits behind bytes. Its methods that write bits find room for them in dst.
type bitWriter struct {
	dst  []byte
	at   int    // the bytes of dst that are whole
	word uint64 // the bits behind them, from its most significant one on
	n    int    // how many, less than 8 between two calls
}

// grow makes room for a number of bits, at least.
func (w *bitWriter) grow(size uint64) {
	if room := int(size/8) + 16; len(w.dst)-w.at < room {
		w.dst = slices.Grow(w.dst[:w.at], room)
		w.dst = w.dst[:cap(w.dst)]
	}
}

// put writes the lowest n bits of v, which has no others: at most 56.
func (w *bitWriter) put(v uint64, n int) {
	w.word |= v << ((64 - w.n - n) & 63)
	binary.BigEndian.PutUint64(w.dst[w.at:], w.word)
	w.n += n
	w.at += w.n >> 3
	w.word <<= w.n & 56
	w.n &= 7
}

// gamma writes the code of v ≥ 1.
func (w *bitWriter) gamma(v uint32) {
	w.put(0, bits.Len32(v)-1)
	w.put(uint64(v), bits.Len32(v))
}

func (w *bitWriter) runs(cells []grid.Cell) {
	before := grid.Cell(-2)
	for i := 0; i < len(cells); {
		first := i
		for i++; i < len(cells) && cells[i] == cells[i-1]+1; i++ {
		}
		skip, length := uint32(cells[first]-before-1), uint32(i-first)
		before = cells[i-1]
		w.grow(2 * 64)
		m, n := 2*bits.Len32(skip)-1, 2*bits.Len32(length)-1
		if m+n <= 56 {
			w.put(uint64(skip)<<n|uint64(length), m+n)
			continue
		}
		w.gamma(skip)
		w.gamma(length)
	}
}

// masses writes the codes of short masses, size bits in all.
func (w *bitWriter) masses(p []float64, k int, size uint64) {
	w.grow(size)
	dst, at, word, have := w.dst, w.at, w.word, w.n // in registers
	before, one, shift := int32(codeOfOne), uint64(1)<<k, k&63
	for _, mass := range p {
		code, _ := shortCode(mass)
		v := zigzag(code - before)
		before = code
		zeros := int(uint64(v) >> shift)
		for ; zeros+1+k > 56; zeros -= min(zeros, 56) { // as in put
			have += min(zeros, 56)
			binary.BigEndian.PutUint64(dst[at:], word)
			at, word, have = at+have>>3, word<<(have&56), have&7
		}
		n := zeros + 1 + k
		word |= (one | uint64(v)&(one-1)) << ((64 - have - n) & 63)
		have += n
		binary.BigEndian.PutUint64(dst[at:], word)
		at, word, have = at+have>>3, word<<(have&56), have&7
	}
	w.at, w.word, w.n = at, word, have
}

// end fills up the last byte and returns all.
func (w *bitWriter) end() []byte { return w.dst[:w.at+(w.n+7)>>3] }

// bitReader reads what bitWriter wrote. Behind the end there are zeros. Of a word that it peeks at
// it takes as many codes as are whole in it: to look again for each would take twice the time.
type bitReader struct {
	data []byte
	at   int // the next bit
}

// wholeBits are the least that peek returns.
const wholeBits = 57

// peek returns the next bits in a word, from its most significant one on: at least wholeBits.
func (r *bitReader) peek() uint64 {
	at := r.at >> 3
	if at+8 <= len(r.data) {
		return binary.BigEndian.Uint64(r.data[at:]) << (r.at & 7)
	}
	var last [8]byte
	copy(last[:], r.data[min(at, len(r.data)):])
	return binary.BigEndian.Uint64(last[:]) << (r.at & 7)
}

// zeros skips zeros up to the next one, and returns how many; false if there is no one.
func (r *bitReader) zeros() (n int, ok bool) {
	for r.at < 8*len(r.data) {
		if word := r.peek(); word != 0 {
			more := bits.LeadingZeros64(word)
			r.at += more
			return n + more, true
		}
		r.at += wholeBits
		n += wholeBits
	}
	return n, false
}

// take returns the next n bits, at most 57.
func (r *bitReader) take(n int) uint64 {
	word := r.peek() >> (64 - n)
	r.at += n
	return word
}

// gamma returns a number of up to 31 bits.
func (r *bitReader) gamma() (v int64, ok bool) {
	zeros, ok := r.zeros()
	if !ok || zeros > 30 {
		return 0, false
	}
	return int64(r.take(zeros + 1)), true
}

func (r *bitReader) runs(cells []grid.Cell) bool {
	before, i := int64(-2), 0
	for i < len(cells) {
		word, used := r.peek(), 0
		for i < len(cells) {
			m := 2*bits.LeadingZeros64(word) + 1
			n := 2*bits.LeadingZeros64(word<<(m&63)) + 1
			if used+m+n > wholeBits {
				break
			}
			skip, length := int64(word>>((64-m)&63)), int64(word<<(m&63)>>((64-n)&63))
			word <<= (m + n) & 63
			used += m + n
			if !run(cells, &i, &before, skip, length) {
				return false
			}
		}
		if r.at += used; used > 0 {
			continue
		}
		skip, ok := r.gamma()
		length, more := r.gamma()
		if !ok || !more || !run(cells, &i, &before, skip, length) {
			return false
		}
	}
	return true
}

// run sets the cells of a run from the i-th cell on, and moves i and the last cell before it.
func run(cells []grid.Cell, i *int, before *int64, skip, length int64) bool {
	first := *before + 1 + skip
	if length > int64(len(cells)-*i) || first+length > grid.MaxCells {
		return false
	}
	to := cells[*i:]
	*i += int(length)
	*before = first + length - 1
	done := int64(0)
	if len(to) >= 4 { // most runs are short, and the next one overwrites what is too much
		c, of := grid.Cell(first), (*[4]grid.Cell)(to)
		of[0], of[1], of[2], of[3] = c, c+1, c+2, c+3
		done = 4
	}
	for ; done < length; done++ {
		to[done] = grid.Cell(first + done)
	}
	return true
}

// rice returns a number of which the code has at most 2·codeOfOne zeros.
func (r *bitReader) rice(k int) (v uint32, ok bool) {
	zeros, ok := r.zeros()
	if !ok || zeros > 2*codeOfOne {
		return 0, false
	}
	return uint32(zeros)<<k | uint32(r.take(k+1))&(1<<k-1), true
}

func (r *bitReader) masses(p []float64, k int) bool {
	code, i, shift, rest := int32(codeOfOne), 0, k&63, (64-k)&63
	for i < len(p) {
		word, used := r.peek(), 0
		for i < len(p) {
			zeros := bits.LeadingZeros64(word)
			n := zeros + 1 + k
			if used+n > wholeBits {
				break
			}
			code += unzigzag(uint32(zeros)<<shift | uint32(word<<((zeros+1)&63)>>rest))
			if uint32(code) > codeOfOne {
				return false
			}
			p[i] = math.Float64frombits(uint64(code+leastCode) << shortShift)
			i++
			word <<= n & 63
			used += n
		}
		if r.at += used; used > 0 {
			continue
		}
		v, ok := r.rice(k)
		code += unzigzag(v)
		if !ok || uint32(code) > codeOfOne {
			return false
		}
		p[i] = math.Float64frombits(uint64(code+leastCode) << shortShift)
		i++
	}
	return r.at <= 8*len(r.data)
}

// ends says whether nothing but the zeros that fill up a byte is left.
func (r *bitReader) ends() bool {
	left := 8*len(r.data) - r.at
	return left >= 0 && left < 8 && r.peek() == 0
}
