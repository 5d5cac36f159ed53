package counts

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/geodither/geodither/mechanism/internal/portable"
	"github.com/geodither/geodither/mechanism/noise"
)

// Settings are what the law of published counts depends on, beside windows and zones.
type Settings struct {
	// Source names the raw data: the id of a topic, or a label of files. Two sources under one key
	// need two names.
	Source string
	// Edition is 1, and goes up by one where other counts of windows that were published already
	// are to be published again. Each edition is fresh noise and costs a further ε.
	Edition uint32
	// Epsilon bounds what all counts of a day tell about one user's day. It has at most nine
	// decimals.
	Epsilon float64
	// PerDay is in how many windows of a day a user counts at most.
	PerDay int
}

// Bounds of settings.
const (
	MinEpsilon = .001
	MaxEpsilon = 100.0
	maxSource  = 255 // bytes
)

// Validate reports what cannot be used.
func (s Settings) Validate() error {
	switch {
	case s.Source == "" || len(s.Source) > maxSource:
		return fmt.Errorf("the source has %d bytes, not 1 to %d", len(s.Source), maxSource)
	case s.Edition == 0:
		return errors.New("there is no edition 0: the first is 1")
	case s.PerDay < 1 || s.PerDay > MaxPerDay:
		return fmt.Errorf("a user cannot count in %d windows: choose 1 to %d", s.PerDay, MaxPerDay)
	case !(s.Epsilon >= MinEpsilon && s.Epsilon <= MaxEpsilon):
		return fmt.Errorf("epsilon %g is not between %g and %g", s.Epsilon, MinEpsilon, MaxEpsilon)
	}
	_, err := s.billionths()
	return err
}

// Digest stands for all true counts of a window. It is a keyed function of them and of everything
// that determines the noise, so without the key it says nothing, not even whether two windows have
// the same counts.
type Digest [32]byte

// String returns the digest in hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ErrChanged says that other counts of a window were published before under the same settings. A
// second publication would share its noise, and the difference of the two would be exactly the
// difference of the true counts.
var ErrChanged = errors.New("other counts of this window were published under this edition " +
	"(counts-published)")

// Published is what may be published of a window.
type Published struct {
	Window
	// Windows is how many windows a sum is of: 1, but in a typical day those of the slot.
	Windows int
	// Vehicles is the count plus noise of each zone, or the sum of the slot's counts plus noise. It
	// may be negative.
	Vehicles []int64
	// Estimates are Vehicles for shares and maps, an average where Windows is above 1: the nearest
	// numbers that are not negative and have the same sum, or what Estimate finds.
	Estimates []float64
	// Digest belongs to the trusted side. Keep it, and give it to the next Publish of this window.
	Digest Digest
}

// Publisher adds the noise. One goroutine may use it.
type Publisher struct {
	streams  noise.Streams
	zones    *Zones
	settings Settings
	typical  *Typical // nil: each window for itself
	epsilon  uint64   // billionths
	half     int64    // see HalfWidth
	buf      []byte
}

// NewPublisher returns a publisher under a key's streams. All publishers of a source and edition
// must have the same key.
func NewPublisher(streams noise.Streams, zones *Zones, s Settings) (*Publisher, error) {
	return NewTypical(streams, zones, s, nil)
}

// NewTypical returns a publisher of a typical day, by PublishSlot. Without one, nil, each window is
// for itself.
func NewTypical(
	streams noise.Streams, zones *Zones, s Settings, t *Typical,
) (*Publisher, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	p := &Publisher{streams: streams, zones: zones, settings: s, typical: t}
	p.epsilon, _ = s.billionths()
	p.half = halfWidth(p.rate())
	return p, nil
}

// days is how many days one publication is about.
func (p *Publisher) days() int {
	if p.typical == nil {
		return 1
	}
	return len(p.typical.Days)
}

// rate is ε for each count that a user may change: the inverse of the scale of the noise.
func (p *Publisher) rate() float64 {
	return p.settings.Epsilon / float64(p.days()*p.settings.PerDay)
}

// Publish returns what to publish of a window with these true counts, one for each zone. before is
// the digest of the window's last publication under the same settings, nil if there was none. With
// equal counts the result is the same, bit for bit; with others the error is ErrChanged. Where the
// key has no noise of the window's day the error is a *noise.DestroyedError. About 2 µs a zone.
func (p *Publisher) Publish(w Window, counts []int64, before *Digest) (Published, error) {
	if len(counts) != p.zones.Count() {
		panic("counts: a window needs a count for each zone")
	}
	digest, err := p.Digest(w, counts)
	if err != nil {
		return Published{}, err
	}
	if before != nil && *before != digest {
		return Published{}, ErrChanged
	}
	out := Published{Window: w, Windows: 1, Vehicles: make([]int64, len(counts)), Digest: digest}
	for zone, count := range counts {
		src, err := p.streams.On(p.keyOf(w), p.transcript(noiseOf, w, uint32(zone)))
		if err != nil {
			return Published{}, err
		}
		out.Vehicles[zone] = clamp(count + p.draw(src))
	}
	out.Estimates = estimates(out.Vehicles)
	return out, nil
}

// estimates are the nearest numbers to those of one window.
func estimates(vehicles []int64) []float64 {
	numbers, sum := make([]float64, len(vehicles)), 0.0
	for zone, n := range vehicles {
		numbers[zone] = float64(n)
		sum += float64(n)
	}
	return nearest(numbers, sum)
}

// nearest returns the nearest numbers, by the sum of squares, that are not negative and have a sum,
// or 0 if that is negative. True counts are not negative, and the noise of a sum is small beside
// that of all its zones. The same number is taken from all zones, and what would be negative then
// is 0 (Held, Wolfe and Crowder 1974, doi:10.1007/BF01580223). Nothing is multiplied, so all
// machines have the same bits.
func nearest(numbers []float64, sum float64) []float64 {
	sorted := slices.Clone(numbers)
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(b, a) })
	largest, less := 0.0, math.Inf(-1)
	for i, n := range sorted {
		largest += n
		less = max(less, (largest-max(sum, 0))/float64(i+1))
	}
	for zone, n := range numbers {
		sorted[zone] = max(0, n-less)
	}
	return sorted
}

// PublishSlot is Publish of a typical day's slot: counts are the sums of its windows.
func (p *Publisher) PublishSlot(s Slot, counts []int64, before *Digest) (Published, error) {
	out, err := p.Publish(s.Window, counts, before)
	out.Windows = s.Windows
	return out, err
}

// keyOf is the day whose key a window's noise has. A typical day has that of the last day of its
// range.
func (p *Publisher) keyOf(w Window) noise.Day {
	if p.typical != nil {
		return p.typical.key
	}
	return noise.DayAt(w.StartMS)
}

// draw returns discrete Laplace noise of scale c/ε: P(k) ∝ e^{-|k|ε/c}, exactly. c is PerDay for
// each day that the publication is about.
func (p *Publisher) draw(src noise.Source) int64 {
	c := uint64(p.days() * p.settings.PerDay)
	y, negative := noise.DiscreteLaplace(src, c*billion, p.epsilon)
	size := int64(math.MaxInt64 / 2)
	if y.Hi == 0 && y.Lo < uint64(size) {
		size = int64(y.Lo)
	}
	if negative {
		return -size
	}
	return size
}

// most is what a published number is limited to, either way: JSON's readers hold it exactly. The
// limit is a function of the noisy count alone. The noise reaches it less than once in 10^3000
// draws.
const most = 1 << 53

func clamp(count int64) int64 { return max(-most, min(count, most)) }

// Digest returns the digest of a window's true counts, one for each zone. Its transcript has
// another tag than the noise's.
func (p *Publisher) Digest(w Window, counts []int64) (d Digest, err error) {
	b := p.transcript(digestOf, w, uint32(len(counts)))
	for _, count := range counts {
		b = binary.BigEndian.AppendUint64(b, uint64(count))
	}
	p.buf = b
	src, err := p.streams.On(p.keyOf(w), b)
	if err != nil {
		return d, err
	}
	for i := 0; i < len(d); i += 8 {
		binary.BigEndian.PutUint64(d[i:], src.Uint64())
	}
	return d, nil
}

// Uses of a transcript.
const (
	noiseOf  = "geodither counts 1: noise of a zone"
	digestOf = "geodither counts 1: digest of all counts"
)

// ofTypical comes before the use in the transcripts of a typical day.
const ofTypical = "typical day, "

// transcript is what the noise of one zone in one window, or the digest of all, is a function of.
//
//	use         text with its length, 1 byte
//	days        only of a typical day, 32 bytes: Typical.Digest
//	source      with its length, 1 byte
//	edition     4 bytes
//	window      start and end, UTC, 8 bytes each; of a slot since midnight
//	zones       32 bytes, the digest of the zone set
//	epsilon     8 bytes, billionths
//	per day     4 bytes
//	number      4 bytes: the zone; of a digest, how many counts of 8 bytes follow
//
// Every field has a fixed length or carries it, so no two transcripts of different contents are
// the same bytes. The true counts are not part of the noise's: with them, equal bytes of two
// publications would show which zones did not change.
func (p *Publisher) transcript(use string, w Window, number uint32) []byte {
	s, digest := &p.settings, p.zones.Digest()
	if p.typical != nil {
		use = ofTypical + use
	}
	b := append(append(p.buf[:0], byte(len(use))), use...)
	if p.typical != nil {
		b = append(b, p.typical.digest[:]...)
	}
	b = append(append(b, byte(len(s.Source))), s.Source...)
	b = binary.BigEndian.AppendUint32(b, s.Edition)
	b = binary.BigEndian.AppendUint64(b, uint64(w.StartMS))
	b = binary.BigEndian.AppendUint64(b, uint64(w.EndMS))
	b = append(b, digest[:]...)
	b = binary.BigEndian.AppendUint64(b, p.epsilon)
	b = binary.BigEndian.AppendUint32(b, uint32(s.PerDay))
	p.buf = binary.BigEndian.AppendUint32(b, number)
	return p.buf
}

// HalfWidth returns half of the length of an interval that holds a zone's count, as the users'
// Counters bound it, in at least 90 % of all windows. It follows from the law of the noise alone.
func (p *Publisher) HalfWidth() int64 { return p.half }

// Interval returns the interval around a published number. A count is never negative.
func (p *Publisher) Interval(vehicles int64) (low, high int64) {
	return max(0, vehicles-p.half), max(0, vehicles+p.half)
}

// halfWidth returns the least m such that noise is beyond ±m in at most 10 % of draws. With
// a = e^{-rate}, P(|k| > m) = 2a^{m+1}/(1 + a).
func halfWidth(rate float64) int64 {
	const beyond = .1
	a := portable.Exp(-rate)
	// e^{-3.1} is below .05, and 1 + a above 1.
	return int64(sort.Search(int(math.Ceil(3.1/rate)), func(m int) bool {
		return 2*portable.Exp(-float64(float64(m+1)*rate)) <= float64(beyond*(1+a))
	}))
}

const billion = 1_000_000_000

// billionths returns ε as a whole number of billionths.
func (s Settings) billionths() (uint64, error) {
	whole, decimals, _ := strings.Cut(strconv.FormatFloat(s.Epsilon, 'f', -1, 64), ".")
	if len(decimals) > 9 {
		return 0, fmt.Errorf("epsilon %g has more than nine decimals", s.Epsilon)
	}
	return strconv.ParseUint(whole+decimals+strings.Repeat("0", 9-len(decimals)), 10, 64)
}
