package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// smoothState is what a SmoothProcessor keeps of a user: the filter's track behind the last record,
// and the records of the open block with the filter's state before the first of them.
// state/FORMAT.md draws it.
type smoothState struct {
	track  follow.Track
	before []byte // encoded mechanism.State; empty without open records
	open   []waiting
	stored []byte       // the encoding of open
	coder  waitingCoder // behind the last open record
}

// waiting is a record of an open block. Its user is the state's. It has the filter's estimate, for
// the case that its model is gone when its block closes.
type waiting struct {
	record  schemas.Sanitized
	kafkaMS int64 // Kafka's timestamp
}

// smoothVersion is the first byte of an encoded state. It goes up when the same records make other
// states or other output.
const smoothVersion = 1

// What the first byte of a waiting record says.
const (
	waitsKind    = 3      // mask: the number of the kind among smoothKinds
	waitsHead    = 1 << 2 // model, mechanism and δ follow; else those of the record before
	waitsRelease = 1 << 3 // the record has a release
	waitsPlace   = 1 << 4 // its place follows; else it is that of the last record with one
	waitsEpsilon = 1 << 5 // ε follows; else a release costs as much as the last one, others 0
	waitsNumber  = 1 << 6 // the release number follows; else it counts releases
	waitsStep    = 1 << 7 // the step follows; else it is that of the timestamp
)

// waitsEllipse, in the byte before the estimate: there is an ellipse. The lower bits say which
// numbers of estimateOf follow; the others are as in the record before.
const waitsEllipse = 1 << 6

// estimateUnits are how many of the stored units a degree or a metre has: a place is stored to a
// centimetre, a length to a decimetre. The state is written with each record, so it must be small.
var estimateUnits = [...]float64{1e7, 1e7, 10, 10, 10, 10}

var smoothKinds = [...]string{
	schemas.KindReleased, schemas.KindRepeated, schemas.KindPredicted,
}

var errSmoothState = errors.New("the stored state of a smoothed user is damaged, or of a newer " +
	"geodither: start with another smooth.group and topics.smoothed, which the sanitized topic " +
	"fills")

// waitingCoder encodes or decodes the records of a block one after the other, each by its
// differences from those before it. Its zero value is before the first one.
type waitingCoder struct {
	last      waiting
	epsilon   float64 // of the last release
	latitude  float64 // of the last release that a record had
	longitude float64
	known     []string // texts that were read, so that none is allocated twice
}

// expect sets ε and the release number of a record to what they are expected to be.
func (c *waitingCoder) expect(r *schemas.Sanitized) {
	r.Epsilon, r.Release = 0, c.last.record.Release
	if r.Kind == schemas.KindReleased {
		r.Epsilon = c.epsilon
		r.Release++
	}
}

// went takes a record as the last one.
func (c *waitingCoder) went(w *waiting) {
	c.last = *w
	if w.record.Kind == schemas.KindReleased {
		c.epsilon = w.record.Epsilon
	}
	if w.record.ReleaseLatitude.Known {
		c.latitude = w.record.ReleaseLatitude.Number
		c.longitude = w.record.ReleaseLongitude.Number
	}
}

// estimateOf returns what a record says of the place, in estimateUnits: latitude, longitude,
// radius, and the ellipse, zeros if there is none.
func estimateOf(r *schemas.Sanitized) (e [len(estimateUnits)]int64) {
	for i, x := range [...]float64{
		r.Latitude, r.Longitude, r.RadiusM,
		r.SigmaMajorM.Number, r.SigmaMinorM.Number, r.AzimuthDeg.Number,
	} {
		const most = 1 << 50 // beyond, what a whole number is depends on the processor
		if x = math.Round(x * estimateUnits[i]); math.Abs(x) < most {
			e[i] = int64(x)
		}
	}
	return e
}

// setEstimate sets what a record says of the place.
func setEstimate(r *schemas.Sanitized, e [len(estimateUnits)]int64, ellipse bool) {
	in := func(i int) float64 { return float64(e[i]) / estimateUnits[i] }
	r.Latitude, r.Longitude, r.RadiusM = in(0), in(1), in(2)
	if ellipse {
		r.SigmaMajorM, r.SigmaMinorM = schemas.Some(in(3)), schemas.Some(in(4))
		r.AzimuthDeg = schemas.Some(in(5))
	}
}

// append appends a record, whose kind is one of smoothKinds.
func (c *waitingCoder) append(dst []byte, w *waiting, stepMS int64) []byte {
	r, last := &w.record, &c.last.record
	at := len(dst)
	dst = append(dst, byte(slices.Index(smoothKinds[:], r.Kind)))
	ahead := r.Timestamp - last.Timestamp
	dst = binary.AppendVarint(dst, ahead)
	dst = binary.AppendVarint(dst, w.kafkaMS-c.last.kafkaMS-ahead)
	if r.ModelID != last.ModelID || r.Mechanism != last.Mechanism || r.Delta != last.Delta {
		dst[at] |= waitsHead
		for _, text := range []string{r.ModelID, r.Mechanism} {
			dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
		}
		dst = appendFloat(dst, r.Delta)
	}
	if r.ReleaseLatitude.Known {
		dst[at] |= waitsRelease
		if r.ReleaseLatitude.Number != c.latitude || r.ReleaseLongitude.Number != c.longitude {
			dst[at] |= waitsPlace
			dst = appendFloat(dst, r.ReleaseLatitude.Number)
			dst = appendFloat(dst, r.ReleaseLongitude.Number)
		}
	}
	expected := schemas.Sanitized{Kind: r.Kind}
	c.expect(&expected)
	if r.Epsilon != expected.Epsilon {
		dst[at] |= waitsEpsilon
		dst = appendFloat(dst, r.Epsilon)
	}
	if r.Release != expected.Release {
		dst[at] |= waitsNumber
		dst = binary.AppendVarint(dst, r.Release-expected.Release)
	}
	if step := mobility.StepOf(r.Timestamp, stepMS); r.Step != step {
		dst[at] |= waitsStep
		dst = binary.AppendVarint(dst, r.Step-step)
	}
	at = len(dst)
	dst = append(dst, 0)
	if r.SigmaMajorM.Known {
		dst[at] |= waitsEllipse
	}
	before := estimateOf(last)
	for i, x := range estimateOf(r) {
		if x != before[i] {
			dst[at] |= 1 << i
			dst = binary.AppendVarint(dst, x-before[i])
		}
	}
	c.went(w)
	return dst
}

// read reads the next record.
func (c *waitingCoder) read(d *smoothReader, stepMS int64) (w waiting) {
	flags := d.take(1)[0]
	r, last := &w.record, &c.last.record
	if flags&waitsKind == waitsKind {
		d.bad = true
		return w
	}
	r.Kind = smoothKinds[flags&waitsKind]
	ahead := d.varint()
	r.Timestamp = last.Timestamp + ahead
	w.kafkaMS = c.last.kafkaMS + ahead + d.varint()
	r.ModelID, r.Mechanism, r.Delta = last.ModelID, last.Mechanism, last.Delta
	if flags&waitsHead != 0 {
		r.ModelID, r.Mechanism, r.Delta = c.text(d.cut()), c.text(d.cut()), d.float()
	}
	if flags&waitsRelease != 0 {
		latitude, longitude := c.latitude, c.longitude
		if flags&waitsPlace != 0 {
			latitude, longitude = d.float(), d.float()
		}
		r.ReleaseLatitude, r.ReleaseLongitude = schemas.Some(latitude), schemas.Some(longitude)
	}
	c.expect(r)
	if flags&waitsEpsilon != 0 {
		r.Epsilon = d.float()
	}
	if flags&waitsNumber != 0 {
		r.Release += d.varint()
	}
	r.Step = mobility.StepOf(r.Timestamp, stepMS)
	if flags&waitsStep != 0 {
		r.Step += d.varint()
	}
	said, e := d.take(1)[0], estimateOf(last)
	for i := range e {
		if said>>i&1 != 0 {
			e[i] += d.varint()
		}
	}
	setEstimate(r, e, said&waitsEllipse != 0)
	c.went(&w)
	return w
}

// maxTexts bounds the texts that a coder remembers: those of a service are few.
const maxTexts = 64

// text returns a text, mostly one that was read before.
func (c *waitingCoder) text(b []byte) string {
	for _, text := range c.known {
		if text == string(b) {
			return text
		}
	}
	if len(c.known) >= maxTexts {
		c.known = nil
	}
	c.known = append(c.known, string(b))
	return c.known[len(c.known)-1]
}

// restart makes the coder one before the first record.
func (c *waitingCoder) restart() { *c = waitingCoder{known: c.known} }

// add appends a record to the open ones. Its estimate is rounded first, as it is stored.
func (s *smoothState) add(w waiting, stepMS int64) {
	setEstimate(&w.record, estimateOf(&w.record), w.record.SigmaMajorM.Known)
	s.stored = s.coder.append(s.stored, &w, stepMS)
	s.open = append(s.open, w)
}

// drop removes the first records. before is the state before the first one that stays.
func (s *smoothState) drop(n int, before []byte, stepMS int64) {
	s.open = slices.Delete(s.open, 0, n)
	s.before = append(s.before[:0], before...)
	s.stored = s.stored[:0]
	s.coder.restart()
	for i := range s.open {
		s.stored = s.coder.append(s.stored, &s.open[i], stepMS)
	}
}

// AppendBinary appends the encoding.
func (s *smoothState) AppendBinary(dst []byte) []byte {
	dst = s.track.AppendBinary(append(dst, smoothVersion))
	if len(s.open) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.before)))
	dst = append(dst, s.before...)
	return append(dst, s.stored...)
}

// DecodeBinary replaces s by an encoded state; no bytes are a new user. It accepts any bytes, and
// does not look into states of the filter.
func (s *smoothState) DecodeBinary(data []byte, stepMS int64) error {
	s.before, s.open, s.stored = s.before[:0], s.open[:0], s.stored[:0]
	s.coder.restart()
	if len(data) == 0 {
		s.track.Reset()
		return nil
	}
	if data[0] != smoothVersion {
		return errSmoothState
	}
	rest, err := s.track.DecodeBinary(data[1:])
	if err != nil {
		return errors.Join(errSmoothState, err)
	}
	if len(rest) == 0 {
		return nil
	}
	d := smoothReader{rest: rest}
	s.before = append(s.before, d.cut()...)
	s.stored = append(s.stored, d.rest...)
	for len(d.rest) > 0 && !d.bad {
		s.open = append(s.open, s.coder.read(&d, stepMS))
	}
	if d.bad || len(s.before) == 0 || len(s.open) == 0 || s.track.Filter() == "" {
		return errSmoothState
	}
	return nil
}

// smoothReader reads from the front of bytes that may hold anything. Behind what cannot be read,
// everything is 0.
type smoothReader struct {
	rest []byte
	bad  bool
}

var zeros [8]byte

func (d *smoothReader) take(n int) []byte {
	if n > len(d.rest) {
		d.rest, d.bad = nil, true
		return zeros[:min(n, len(zeros))]
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *smoothReader) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.rest, d.bad = nil, true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// cut takes bytes that have their length in front.
func (d *smoothReader) cut() []byte {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > uint64(len(d.rest)-n) {
		d.rest, d.bad = nil, true
		return nil
	}
	d.rest = d.rest[n:]
	return d.take(int(v))
}

func (d *smoothReader) float() float64 {
	x := math.Float64frombits(binary.BigEndian.Uint64(d.take(8)))
	d.bad = d.bad || math.IsNaN(x) || math.IsInf(x, 0)
	return x
}

func appendFloat(dst []byte, x float64) []byte {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(x))
}

// maxBlockBytes bounds the memory for the open blocks of a partition's users: 300 to 500 users with
// two intervals of ten steps each, and a record a step.
const maxBlockBytes = 16 << 20

// openBlocks keeps open blocks in memory, so that their records need not be decoded and run again.
// A block is a function of the user's encoded state, with which it is kept: for any other state it
// is not used. So what is kept changes no result. Where there is no room, any block makes way.
type openBlocks struct {
	users       map[string]*openBlock
	bytes, most int
}

// openBlock is a user's state with the open block.
type openBlock struct {
	smoothState
	block   follow.Open
	known   bool   // block has the open records
	encoded []byte // the state
	size    int    // in bytes
}

// of returns a user's state. It is the caller's until keep.
func (b *openBlocks) of(user, state []byte, stepMS int64) (*openBlock, error) {
	o := b.users[string(user)]
	if o != nil {
		b.bytes -= o.size
		delete(b.users, string(user))
		if bytes.Equal(o.encoded, state) {
			return o, nil
		}
	} else {
		o = new(openBlock)
	}
	o.known = false
	return o, o.DecodeBinary(state, stepMS)
}

// keep keeps a user's state if the block is known and has a record.
func (b *openBlocks) keep(user []byte, o *openBlock, encoded []byte) {
	if !o.known || len(o.open) == 0 {
		return
	}
	o.encoded = append(o.encoded[:0], encoded...)
	const record = 300 // of open, in bytes
	o.size = 500 + len(user) + cap(o.encoded) + cap(o.stored) + cap(o.before) + record*cap(o.open) +
		o.track.Size() + o.block.Size()
	if o.size > b.most {
		return
	}
	for name, other := range b.users {
		if b.bytes+o.size <= b.most {
			break
		}
		b.bytes -= other.size
		delete(b.users, name)
	}
	if b.users == nil {
		b.users = map[string]*openBlock{}
	}
	b.users[string(user)] = o
	b.bytes += o.size
}

// clear forgets all blocks.
func (b *openBlocks) clear() { b.users, b.bytes = nil, 0 }
