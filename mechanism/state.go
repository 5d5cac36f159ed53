package mechanism

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/portable"
	"github.com/geodither/geodither/mechanism/ledger"
	"github.com/geodither/geodither/mechanism/mobility"
)

// State is everything that is kept of a user between records. The zero State is a new user. In
// theory it holds no secret, since all of it is a function of past releases and the model, but it
// is kept private all the same.
//
// What is stored is the state: Posterior holds short masses or float32 values only, so that a
// decoded state equals the live one bit for bit. A State keeps its memory when it is used or
// decoded again.
type State struct {
	// Started says whether the user has been seen. In a state that is not started nothing else
	// counts.
	Started bool
	// Step is the last step, counted in model steps since 1970.
	Step int64
	// HasRelease says whether a release may be repeated; then ReleaseStep and Release are its step
	// and its place in map kilometres.
	HasRelease  bool
	ReleaseStep int64
	Release     grid.Point
	// Releases is the number of releases so far.
	Releases uint64
	// EpsilonSpent is the sum of their ε, as Ledger.Spent tells it: exact in billionths.
	EpsilonSpent float64
	// Rho is the sum of their ε²/2: all of them together are ρ-zCDP for this ρ, since a release
	// that is ε-differentially private is ε²/2-zCDP and ρ adds (Bun and Steinke 2016, doi
	// 10.1007/978-3-662-53641-4_24, proposition 1.4 and lemma 1.7). Where single releases are small
	// and many, it says more than Σε. For inspection: no decision depends on it.
	Rho float64
	// Ledger is what the releases cost, and when, for budgets.
	Ledger ledger.Ledger
	// Model and Grid identify the model that Posterior and Release belong to; StepMS is its step in
	// milliseconds.
	Model, Grid ID
	StepMS      int64
	// Estimate and RadiusKM are the place that stands for Posterior and its credible radius, in map
	// kilometres. They are kept so that repeating a release does not need the posterior.
	Estimate grid.Point
	RadiusKM float64
	// Posterior is the distribution of the user's cell at Step, given all releases.
	Posterior mobility.Distribution
	// Short says that the masses of Posterior are short ones (mobility.ShortOf), as they are after
	// a step under law.Codebook. Then Posterior is stored in their format.
	Short bool
}

// StateVersion is the first byte of an encoded state. From the first published version on it goes
// up when the same steps make other states, by another rounding or in other bytes.
const StateVersion = 1

const (
	flagStarted = 1 << iota
	flagRelease
	flagShort // the posterior has short masses
)

// ErrState is what decoding errors wrap.
var ErrState = errors.New("mechanism: a user's stored state cannot be read")

// AppendBinary appends the encoding of s to dst and returns it. Integers are little-endian where
// they have a fixed size, uvarint and (zigzag) varint are those of encoding/binary:
//
//	version     1 byte
//	flags       1 byte    bit 0: started, bit 1: a release follows, bit 2: short masses; others 0
//	            if the user is not started, the encoding ends here
//	model       8 bytes
//	grid        8 bytes
//	step_ms     uvarint   ≥ 1
//	step        varint
//	releases    uvarint
//	rho         8 bytes   float64, Σε²/2
//	estimate    24 bytes  float64 x, y, radius, map kilometres
//	release     only if bit 1 is set:
//	  age       uvarint   step - release step
//	  x, y      16 bytes  float64, map kilometres
//	ledger      as Ledger.AppendBinary
//	posterior   to the end, as mobility.Distribution.AppendBinary, of short masses AppendShort
//
// About 80 bytes and 5 bytes a cell, with short masses some 7 bits a cell, and up to 600 bytes more
// of a user whose releases come at odd times.
func (s *State) AppendBinary(dst []byte) []byte {
	if !s.Started {
		return append(dst, StateVersion, 0)
	}
	start := len(dst)
	flags := byte(flagStarted)
	if s.HasRelease {
		flags |= flagRelease
	}
	dst = append(dst, StateVersion, flags)
	dst = append(dst, s.Model[:]...)
	dst = append(dst, s.Grid[:]...)
	dst = binary.AppendUvarint(dst, uint64(s.StepMS))
	dst = binary.AppendVarint(dst, s.Step)
	dst = binary.AppendUvarint(dst, s.Releases)
	for _, x := range [...]float64{s.Rho, s.Estimate.X, s.Estimate.Y, s.RadiusKM} {
		dst = appendFloat(dst, x)
	}
	if s.HasRelease {
		dst = binary.AppendUvarint(dst, uint64(s.Step)-uint64(s.ReleaseStep))
		dst = appendFloat(dst, s.Release.X)
		dst = appendFloat(dst, s.Release.Y)
	}
	dst = s.Ledger.AppendBinary(dst, s.StepMS)
	if s.Short && s.Posterior.Len() > 0 {
		if whole, ok := s.Posterior.AppendShort(dst); ok {
			whole[start+1] |= flagShort
			return whole
		}
	}
	return s.Posterior.AppendBinary(dst)
}

func appendFloat(dst []byte, x float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
}

// DecodeBinary replaces s by the state encoded in data, which must hold nothing else; empty data is
// a new user. It accepts any bytes: an error wraps ErrState, says what is wrong without a value,
// and leaves s in no particular state. Its memory is bounded by the length of data. It does not
// allocate once s has grown.
func (s *State) DecodeBinary(data []byte) error {
	posterior, costs := s.Posterior, s.Ledger
	posterior.Reset()
	costs.Reset()
	*s = State{Posterior: posterior, Ledger: costs}
	if len(data) == 0 {
		return nil
	}
	if data[0] != StateVersion {
		return fmt.Errorf("%w: version %d is not known (newer-program)", ErrState, data[0])
	}
	d := decoder{portable.Reader{Rest: data[1:]}}
	flags := d.byte()
	if !d.Bad && flags == 0 && len(d.Rest) == 0 {
		return nil
	}
	s.decodeHead(&d, flags)
	if d.Bad {
		return fmt.Errorf("%w: its head is cut short", ErrState)
	}
	if s.Short {
		if err := s.Posterior.DecodeShort(d.Rest); err != nil {
			return fmt.Errorf("%w: %w", ErrState, err)
		}
		return nil
	}
	rest, err := s.Posterior.DecodeBinary(d.Rest)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrState, err)
	case len(rest) > 0:
		return fmt.Errorf("%w: %d bytes follow its end", ErrState, len(rest))
	case s.Posterior.Len() == 0:
		return fmt.Errorf("%w: its posterior is empty", ErrState)
	}
	return nil
}

func (s *State) decodeHead(d *decoder, flags byte) {
	s.Started = flags&flagStarted != 0
	s.HasRelease = flags&flagRelease != 0
	s.Short = flags&flagShort != 0
	copy(s.Model[:], d.take(len(s.Model)))
	copy(s.Grid[:], d.take(len(s.Grid)))
	stepMS := d.Uvarint()
	s.StepMS = int64(stepMS)
	s.Step = d.Varint()
	s.Releases = d.Uvarint()
	s.Rho = d.float()
	s.Estimate.X, s.Estimate.Y, s.RadiusKM = d.float(), d.float(), d.float()
	if s.HasRelease {
		s.ReleaseStep = int64(uint64(s.Step) - d.Uvarint())
		s.Release.X, s.Release.Y = d.float(), d.float()
	}
	if !s.Started || flags&^(flagStarted|flagRelease|flagShort) != 0 || s.StepMS < 1 ||
		s.ReleaseStep > s.Step && s.HasRelease || !(s.Rho >= 0) || !(s.RadiusKM >= 0) ||
		s.HasRelease && s.Releases == 0 {
		d.Bad = true
	}
	if d.Bad {
		return
	}
	rest, err := s.Ledger.DecodeBinary(d.Rest, s.StepMS)
	d.Rest, d.Bad = rest, err != nil
	s.EpsilonSpent = s.Ledger.Spent().Epsilon()
}

// CopyFrom makes s equal to from, in memory of its own.
func (s *State) CopyFrom(from *State) {
	posterior, costs := s.Posterior, s.Ledger
	posterior.CopyFrom(&from.Posterior)
	costs.CopyFrom(&from.Ledger)
	*s = *from
	s.Posterior, s.Ledger = posterior, costs
}

// Erase removes everything that says where the user was: posterior, estimate, last release, and
// the model, which may be the user's own. It keeps what budgets and the order of time need: the
// last step, the number of releases, their costs and their times.
//
// What is left is a state of no grid, so the next Step after Migrate starts at a model's initial
// distribution, as for a new user, with the account of this one. Fixes before the last step stay
// late, and no release number comes twice, so no noise does. Its one cell is the same for
// everybody.
func (s *State) Erase() {
	if !s.Started {
		return
	}
	s.HasRelease, s.ReleaseStep, s.Release = false, 0, grid.Point{}
	s.Estimate, s.RadiusKM = grid.Point{}, 0
	s.Model, s.Grid, s.Short = ID{}, ID{}, false
	s.Posterior.Reset()
	s.Posterior.Cells = append(s.Posterior.Cells, 0)
	s.Posterior.P = append(s.Posterior.P, 1)
}

// decoder also reads bytes and floating-point numbers. After the first read beyond the end, or of a
// number that is not finite, Bad is true and every result 0.
type decoder struct{ portable.Reader }

var zeros [8]byte

func (d *decoder) take(n int) []byte {
	if len(d.Rest) < n {
		d.Rest, d.Bad = nil, true
		return zeros[:n]
	}
	taken := d.Rest[:n]
	d.Rest = d.Rest[n:]
	return taken
}

func (d *decoder) byte() byte { return d.take(1)[0] }

func (d *decoder) float() float64 {
	x := math.Float64frombits(binary.LittleEndian.Uint64(d.take(8)))
	if math.IsNaN(x) || math.IsInf(x, 0) {
		d.Bad = true
		return 0
	}
	return x
}
