package follow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/internal/portable"
	"github.com/geodither/geodither/mechanism/mobility"
)

// A Replayer smooths records for a service, which keeps bytes between two records of a user: the
// Track, the records of the open block, and the state before the first of them. The Track goes on
// with every record, so whether one can be followed is known at once. The records of a block are
// run again when one closes it, unless the caller still has their Open: the filter's result does
// not depend on when it runs, so a Replayer says what a Smoothing says of the same records, bit for
// bit.
//
// The caller names filters: a record's Model is the name of one. So records that were made under
// other settings can have a filter of their own. It is scratch for one goroutine. Cost of a record:
// a filter's step when it comes, and for each time that it is run again another one, and a
// Smoother's.
type Replayer struct {
	follower *Follower
	smoother *mechanism.Smoother
	lag      int64
	state    mechanism.State
	seen     mechanism.Seen // the record that Follow took last
	of       *filter        // of that record
	closed   []Past         // by the number of the moment, from base on
	base     int64
}

// Open is what smoothing needs of an open block: a function of its records and of the state before
// them. It can go on with the next record, and the records need not be run again.
type Open struct {
	block   mechanism.Block
	records []openRecord
}

// openRecord is a record of a block.
type openRecord struct {
	moment int64
	step   int64
	before []byte // the state before it; empty: it is not the first of its step, or not known
}

// Size returns about how many bytes of memory o has, that behind its records included.
func (o *Open) Size() int {
	n := o.block.Size()
	records := o.records[:cap(o.records)]
	for i := range records {
		n += 40 + cap(records[i].before)
	}
	return n
}

// Reset makes the block one without records, in the same memory.
func (o *Open) Reset() {
	o.block.Reset()
	o.records = o.records[:0]
}

// add adds a record. It returns the memory for the state before it, nil if nobody needs that: a
// block is cut before the first record of a step.
func (o *Open) add(step int64) (before *[]byte) {
	n := len(o.records)
	o.records = slices.Grow(o.records, 1)[:n+1]
	r := &o.records[n]
	r.step, r.before = step, r.before[:0]
	if n > 0 && o.records[n-1].step == step {
		return nil
	}
	return &r.before
}

// drop forgets the first records, and keeps their memory behind the others.
func (o *Open) drop(n int) {
	rest := len(o.records) - n
	for i := range rest {
		o.records[i], o.records[n+i] = o.records[n+i], o.records[i]
	}
	o.records = o.records[:rest]
}

// NewReplayer returns a Replayer without filters. The options are those of NewSmoother, with a lag
// that is not SmoothAll. They say as well whether reports may leave no record.
func NewReplayer(o mechanism.Options, lagSteps int64) *Replayer {
	return &Replayer{
		follower: &Follower{filters: map[string]*filter{}, options: o},
		smoother: mechanism.NewSmoother(o, lagSteps), lag: max(lagSteps, 1),
	}
}

// Add adds a filter, which must have the step of the others.
func (r *Replayer) Add(name string, m *mobility.Model, o mechanism.Options) error {
	v, err := newFilter(m, o)
	if err != nil {
		return err
	}
	v.name = name
	r.follower.filters[name] = v
	return nil
}

// Filters returns how many filters there are.
func (r *Replayer) Filters() int { return len(r.follower.filters) }

// Follow takes a user's track to the next record. linked says that the record's state came from
// that of the record before by a prediction (mechanism.Smoother.Note). A record that is not linked
// begins a new block, and one that is not known is in none. The only error that depends on the
// record is ErrOrder, after which the track is what it was.
func (r *Replayer) Follow(t *Track, p Published) (known, linked bool, err error) {
	f := r.follower
	t.filter, r.of = f.filters[t.name], f.filters[p.Model]
	known, err = f.take(t, &p, r.of)
	r.seen = mechanism.Seen{Step: p.Step, Kind: p.Kind, Release: p.Release}
	if errors.Is(err, ErrSettings) {
		err = nil // the user is lost, as with any other record that does not follow
	}
	t.name = ""
	if t.filter != nil {
		t.name = t.filter.name
	}
	return known, known && f.linked, err
}

// AppendBefore appends the state before the record that Follow took last, if it is known.
func (r *Replayer) AppendBefore(dst []byte) []byte { return r.follower.before.AppendBinary(dst) }

// Closes says whether a record that is linked may close a part of the block that it ends. open is
// the number of the block's records with it, and first the step of the first of them.
func (r *Replayer) Closes(p Published, last, first int64, open int) bool {
	return p.Kind == mechanism.Released && first <= p.Step-r.lag ||
		open >= mechanism.MaxWait || uint64(p.Step)-uint64(last) > mechanism.MaxBack
}

// Next takes the record that Follow took last, with no other call since, into an open block: one
// that has all open records of its user before it, to which it is linked, or none. What it closes
// and returns is as in Replay.
func (r *Replayer) Next(
	o *Open, end bool, each func(i int, past *Past) error,
) (closed int, rest []byte, err error) {
	if before := o.add(r.seen.Step); before != nil {
		*before = r.AppendBefore(*before)
	}
	r.base, r.closed = o.block.Open(), r.closed[:0]
	moment := r.smoother.Note(&o.block, r.of.sanitizer, &r.follower.state, r.seen, true, r.keep)
	o.records[len(o.records)-1].moment = moment
	return r.close(o, end, each)
}

// End closes an open block.
func (r *Replayer) End(o *Open, each func(i int, past *Past) error) error {
	r.base, r.closed = o.block.Open(), r.closed[:0]
	_, _, err := r.close(o, true, each)
	return err
}

// Replay smooths the records of an open block, from the state before the first of them on: those
// that the last one closes, or all if the block ends with it. It calls each with their pasts, in
// order. It returns how many are closed, and the state before the first one that stays open, in the
// memory of o, which becomes what stays open.
func (r *Replayer) Replay(
	o *Open, before []byte, open []Published, end bool, each func(i int, past *Past) error,
) (closed int, rest []byte, err error) {
	if err := r.begin(before, open); err != nil {
		return 0, nil, err
	}
	o.Reset()
	r.base, r.closed = o.block.Open(), r.closed[:0]
	likely := r.firstOpen(open)
	for i := range open {
		v, err := r.filter(&open[i])
		if err != nil {
			return 0, nil, err
		}
		v.sanitizer.Migrate(&r.state)
		if before := o.add(open[i].Step); before != nil && i >= likely {
			*before = r.state.AppendBinary(*before)
		}
		if err := v.sanitizer.Observe(&r.state, open[i].seen()); err != nil {
			return 0, nil, err
		}
		o.records[i].moment = r.smoother.Note(&o.block, v.sanitizer, &r.state, open[i].seen(), true,
			r.keep)
	}
	return r.close(o, end, each)
}

// close calls each for the records whose moments have closed, and drops them.
func (r *Replayer) close(
	o *Open, end bool, each func(i int, past *Past) error,
) (closed int, rest []byte, err error) {
	if end {
		r.smoother.Finish(&o.block, r.keep)
	}
	for closed < len(o.records) && o.records[closed].moment < o.block.Open() {
		if err := each(closed, &r.closed[o.records[closed].moment-r.base]); err != nil {
			return closed, nil, err
		}
		closed++
	}
	o.drop(closed)
	if len(o.records) > 0 {
		rest = o.records[0].before
	}
	return closed, rest, nil
}

// begin sets the state to that before the first of some records.
func (r *Replayer) begin(before []byte, records []Published) error {
	err := r.state.DecodeBinary(before)
	if !r.state.Started && len(records) > 0 { // its encoding is without the number of releases
		r.state.Releases = releasesBefore(records[0].Record)
	}
	return err
}

// firstOpen returns the number of the first record that the last one does not close by its release.
func (r *Replayer) firstOpen(open []Published) int {
	last := &open[len(open)-1]
	if last.Kind != mechanism.Released {
		return 0
	}
	return slices.IndexFunc(open, func(p Published) bool { return p.Step > last.Step-r.lag })
}

// filter returns the filter of a record, and puts its release in its place.
func (r *Replayer) filter(p *Published) (*filter, error) {
	v := r.follower.filters[p.Model]
	if v == nil {
		return nil, fmt.Errorf("%w: %.16s", ErrModel, p.Model)
	}
	v.locate(p)
	return v, nil
}

// keep keeps a moment that closes.
func (r *Replayer) keep(m mechanism.Smoothed) {
	n := int(m.Number - r.base)
	if n >= len(r.closed) { // the last one comes first
		r.closed = slices.Grow(r.closed, n+1-len(r.closed))[:n+1]
	}
	r.closed[n] = PastOf(m)
}

// seen is what the filter takes of a record. A state that is started goes on over any gap: that it
// does, Follow has found.
func (p *Published) seen() mechanism.Seen {
	return mechanism.Seen{Step: p.Step, Kind: p.Kind, Release: p.Release, Carried: true}
}

// AppendBinary appends the encoding of a track: the standing in a byte, then varint the last step,
// and with their lengths in front, uvarint, the filter's name and the state. A new user's is a
// zero.
func (t *Track) AppendBinary(dst []byte) []byte {
	dst = append(dst, byte(t.standing))
	if t.standing == unseen {
		return dst
	}
	dst = binary.AppendVarint(dst, t.last)
	dst = append(binary.AppendUvarint(dst, uint64(len(t.name))), t.name...)
	return append(binary.AppendUvarint(dst, uint64(len(t.state))), t.state...)
}

// ErrTrack is what DecodeBinary returns for bytes that are no track.
var ErrTrack = errors.New("follow: the stored track of a user cannot be read")

// DecodeBinary replaces t by the track at the front of data, and returns what follows it. It
// accepts any bytes, and does not look into the state, which Follow reads.
func (t *Track) DecodeBinary(data []byte) (rest []byte, err error) {
	*t = Track{state: t.state[:0], name: t.name}
	if len(data) == 0 {
		return nil, ErrTrack
	}
	d := portable.Reader{Rest: data[1:]}
	if t.standing = standing(data[0]); t.standing == unseen {
		t.name = ""
		return d.Rest, nil
	}
	t.last = d.Varint()
	if name := cut(&d); string(name) != t.name { // mostly it is that of the user before
		t.name = string(name)
	}
	t.state = append(t.state, cut(&d)...)
	named := t.standing == followed || t.standing == lost
	if d.Bad || t.standing > outside || named != (t.name != "") ||
		(t.standing == followed) != (len(t.state) > 0) {
		return nil, ErrTrack
	}
	return d.Rest, nil
}

// cut takes bytes that have their length in front.
func cut(d *portable.Reader) []byte {
	n := d.Uvarint()
	if n > uint64(len(d.Rest)) {
		d.Rest, d.Bad = nil, true
		return nil
	}
	taken := d.Rest[:n]
	d.Rest = d.Rest[n:]
	return taken
}

// Filter returns the name of the filter of the last record, empty if there is none.
func (t *Track) Filter() string { return t.name }

// Last returns the step of the last record; only a user without a record is new.
func (t *Track) Last() (step int64, isNew bool) { return t.last, t.standing == unseen }

// Size returns about how many bytes of memory the state and the name have.
func (t *Track) Size() int { return cap(t.state) + len(t.name) }

// Reset makes the track that of a new user, in the same memory.
func (t *Track) Reset() { *t = Track{state: t.state[:0]} }
