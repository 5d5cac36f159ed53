package aggregate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/internal/decode"
	"github.com/geodither/geodither/mechanism/mobility"
)

// A Replayer smooths records for a service, which keeps bytes between two records of a user and no
// Block: the Track, the records of the open block, and the state before the first of them. The
// Track goes on with every record, so whether one can be followed is known at once. The records of
// a block are run again when one closes it: the filter's result does not depend on when it runs, so
// a Replayer says what a Smoothing says of the same records, bit for bit.
//
// The caller names filters: a record's Model is the name of one. So records that were made under
// other settings can have a filter of their own. It is scratch for one goroutine. Cost of a record:
// a filter's step when it comes, and for each time that it is run again another one, and a
// Smoother's.
type Replayer struct {
	follower *Follower
	smoother *mechanism.Smoother
	lag      int64
	block    mechanism.Block
	state    mechanism.State
	rest     []byte  // the state before the first record that stays open
	closed   []Past  // by the number of the moment
	moments  []int64 // of the records at hand
}

// NewReplayer returns a Replayer without filters. The options are those of NewSmoother, with a lag
// that is not SmoothAll. They say as well whether reports may leave no record.
func NewReplayer(o mechanism.Options, lagSteps int64) *Replayer {
	return &Replayer{
		follower: &Follower{filters: map[string]*filter{}, options: o, hides: o.Hides()},
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
	t.filter = f.filters[t.name]
	known, err = f.take(t, &p, f.filters[p.Model])
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

// Replay smooths the records of an open block, from the state before the first of them on: those
// that the last one closes, or all if the block ends with it. It calls each with their pasts, in
// order. It returns how many are closed, and the state before the first one that stays open, in
// memory of its own.
func (r *Replayer) Replay(
	before []byte, open []Published, end bool, each func(i int, past *Past) error,
) (closed int, rest []byte, err error) {
	if err := r.begin(before, open); err != nil {
		return 0, nil, err
	}
	r.block.Reset()
	r.closed, r.moments = r.closed[:0], r.moments[:0]
	likely := r.firstOpen(open)
	for i := range open {
		if i == likely {
			r.rest = r.state.AppendBinary(r.rest[:0])
		}
		if err := r.observe(&open[i]); err != nil {
			return 0, nil, err
		}
		moment := r.smoother.Note(&r.block, r.follower.filters[open[i].Model].sanitizer, &r.state,
			open[i].seen(), true, r.keep)
		r.moments = append(r.moments, moment)
	}
	if end {
		r.smoother.Finish(&r.block, r.keep)
	}
	for closed < len(open) && r.moments[closed] < r.block.Open() {
		if err := each(closed, &r.closed[r.moments[closed]]); err != nil {
			return closed, nil, err
		}
		closed++
	}
	switch {
	case closed == len(open):
		return closed, nil, nil
	case closed != likely: // the last record lies beyond MaxBack
		err = r.begin(before, open)
		for i := 0; i < closed && err == nil; i++ {
			err = r.observe(&open[i])
		}
		r.rest = r.state.AppendBinary(r.rest[:0])
	}
	return closed, r.rest, err
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

// observe takes the state on to a record, as it was followed.
func (r *Replayer) observe(p *Published) error {
	v := r.follower.filters[p.Model]
	if v == nil {
		return fmt.Errorf("%w: %.16s", ErrModel, p.Model)
	}
	v.locate(p)
	v.sanitizer.Migrate(&r.state)
	return v.sanitizer.Observe(&r.state, p.seen())
}

// keep keeps a moment that closes.
func (r *Replayer) keep(m mechanism.Smoothed) {
	if n := int(m.Number) + 1; n > len(r.closed) { // the last one comes first
		r.closed = slices.Grow(r.closed, n-len(r.closed))[:n]
	}
	r.closed[m.Number] = pastOf(m)
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
var ErrTrack = errors.New("aggregate: the stored track of a user cannot be read")

// DecodeBinary replaces t by the track at the front of data, and returns what follows it. It
// accepts any bytes, and does not look into the state, which Follow reads.
func (t *Track) DecodeBinary(data []byte) (rest []byte, err error) {
	*t = Track{state: t.state[:0], name: t.name}
	if len(data) == 0 {
		return nil, ErrTrack
	}
	d := decode.Reader{Rest: data[1:]}
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
func cut(d *decode.Reader) []byte {
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

// Reset makes the track that of a new user, in the same memory.
func (t *Track) Reset() { *t = Track{state: t.state[:0]} }
