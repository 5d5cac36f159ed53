package task

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// MarkKey is the changelog key under which every transaction writes a Mark.
const MarkKey = "\x00input"

var markKey = []byte(MarkKey)

// Mark says how far a partition is, and with which settings its records were processed. Every
// transaction writes a mark to the changelog, as the last of its records there, so the last mark is
// the state of the partition.
type Mark struct {
	// Input is the input offset that the transaction commits.
	Input int64
	// Origin is the input offset at which processing of the partition began. SkipLost moves it to
	// where processing goes on. -1 if it is not known.
	Origin int64
	// Since is the input offset from which on the task has used Settings, at least Origin; -1 if it
	// is not known. Records from Origin to Since were processed with other settings. There may be
	// no such records: a worker that saw only aborted records leaves a mark too.
	Since int64
	// Epoch is the leader epoch of the input's records before Input, or of later ones that the same
	// answer had; -1 if it is not known.
	Epoch int32
	// Lost says that SkipLost has moved Origin. Results from Origin on depend on records that are
	// gone, because users had states before.
	Lost bool
	// Open says that a worker may have begun a transaction after this one, and that a reader of
	// uncommitted data may have seen its records. A clean stop writes false.
	Open bool
	// Settings is a fingerprint of everything that determines a processor's bytes, at most
	// MarkBytes long; empty if it is not known.
	Settings []byte
	// Source is the identity of the input topic, at most MarkBytes long; empty if it is not known.
	Source []byte
	// Names is a fingerprint of what names the values that an Eraser keeps, at most MarkBytes long;
	// empty if it is not known.
	Names []byte
	// Partitioner names what puts a key into an input partition, at most MarkBytes long; empty if
	// it is not known.
	Partitioner string
	// Amendments are what Settings have been amended by, in order, at most MaxAmendments.
	Amendments []Amendment
	// Rebuilt is when somebody wrote the changelog back, in Unix milliseconds; 0: never. A store
	// whose mark says otherwise is no copy of what the changelog has said since.
	Rebuilt int64
	// Published is the input offset before which everything was published before it was written
	// back. Records up to there make states again, and no results. 0 if there are none.
	Published int64
}

// Amendment is something that a processor's bytes depend on beside the settings, from an input
// offset on. See Amender.
type Amendment struct {
	From int64  // records before it are processed without the amendment
	Name []byte // opaque here; 1 to MarkBytes bytes
}

// MarkBytes is the greatest length of Mark.Settings, Source, Names and Partitioner, and of an
// amendment's name.
// MaxAmendments is how many amendments a mark holds. Every transaction writes a mark, so it has to
// stay small.
const (
	MarkBytes     = 64
	MaxAmendments = 64
)

// The value of a mark:
//
//	version 1 | flags 1 | Input | Origin | Since | with markRebuilt: Rebuilt | Published |
//	Epoch 4 | Settings | Source | Names | Partitioner | number of amendments 1 |
//	for each of them: From | Name
//
// Offsets and times are eight bytes and Epoch is four, big-endian. Settings, Source, Names,
// Partitioner and Name each follow a byte with their length.
const (
	markVersion = 1

	markOpen, markLost, markRebuilt = 1, 2, 4 // the flags
)

// ValidKey reports whether a record's key may have a state: it is not empty and does not begin with
// a zero byte, which is reserved for keys such as MarkKey.
func ValidKey(key []byte) bool { return len(key) > 0 && key[0] != 0 }

// AppendMark appends the value of a mark. It panics if a part of the mark is too long.
func AppendMark(dst []byte, m Mark) []byte {
	if max(len(m.Settings), len(m.Source), len(m.Names), len(m.Partitioner)) > MarkBytes ||
		len(m.Amendments) > MaxAmendments {
		panic(fmt.Sprintf("task: a mark's settings, source, names and partitioner have %d, %d, %d "+
			"and %d bytes, %d are the most; and %d amendments, of %d", len(m.Settings),
			len(m.Source), len(m.Names), len(m.Partitioner), MarkBytes, len(m.Amendments),
			MaxAmendments))
	}
	flags := byte(0)
	if m.Open {
		flags |= markOpen
	}
	if m.Lost {
		flags |= markLost
	}
	offsets := []int64{m.Input, m.Origin, m.Since}
	if m.Rebuilt != 0 {
		flags |= markRebuilt
		offsets = append(offsets, m.Rebuilt, m.Published)
	}
	dst = append(dst, markVersion, flags)
	for _, offset := range offsets {
		dst = binary.BigEndian.AppendUint64(dst, uint64(offset))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(m.Epoch))
	for _, b := range [...][]byte{m.Settings, m.Source, m.Names, []byte(m.Partitioner)} {
		dst = append(append(dst, byte(len(b))), b...)
	}
	dst = append(dst, byte(len(m.Amendments)))
	for _, a := range m.Amendments {
		if !ValidName(a.Name) {
			panic(fmt.Sprintf("task: an amendment's name has %d bytes, it must have 1 to %d",
				len(a.Name), MarkBytes))
		}
		dst = binary.BigEndian.AppendUint64(dst, uint64(a.From))
		dst = append(append(dst, byte(len(a.Name))), a.Name...)
	}
	return dst
}

// ValidName reports whether an amendment may have this name.
func ValidName(name []byte) bool { return len(name) > 0 && len(name) <= MarkBytes }

var (
	errMarkVersion = errors.New("task: the changelog's mark has an unknown version (newer-program)")
	errMarkDamaged = errors.New("task: the changelog's mark does not add up (changelog-foreign)")
)

// DecodeMark reads the value of a mark. The mark's slices are parts of value.
func DecodeMark(value []byte) (Mark, error) {
	if len(value) == 0 || value[0] != markVersion {
		return Mark{}, errMarkVersion
	}
	r := reader{rest: value[1:]}
	flags := r.byte()
	m := Mark{
		Open: flags&markOpen != 0, Lost: flags&markLost != 0,
		Input: r.offset(), Origin: r.offset(), Since: r.offset(),
	}
	if flags&markRebuilt != 0 {
		m.Rebuilt, m.Published = r.offset(), r.offset()
		r.bad = r.bad || m.Rebuilt == 0
	}
	m.Epoch, m.Settings, m.Source, m.Names = r.epoch(), r.bytes(), r.bytes(), r.bytes()
	m.Partitioner = string(r.bytes())
	n := int(r.byte())
	r.bad = r.bad || n > MaxAmendments
	for len(m.Amendments) < n && !r.bad {
		m.Amendments = append(m.Amendments, Amendment{From: r.offset(), Name: r.bytes()})
	}
	if r.bad || len(r.rest) > 0 || flags > markOpen|markLost|markRebuilt {
		return Mark{}, errMarkDamaged
	}
	return m, m.check()
}

// reader takes fields from the front of a value. If a field is cut short, the reader is bad, and it
// and every later field are zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad = r.bad || len(r.rest) < n; r.bad {
		return make([]byte, n)
	}
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

func (r *reader) byte() byte    { return r.take(1)[0] }
func (r *reader) epoch() int32  { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) offset() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }

// bytes reads a length, at most MarkBytes, and that many bytes.
func (r *reader) bytes() []byte {
	n := int(r.byte())
	r.bad = r.bad || n > MarkBytes
	return r.take(n)
}

// check returns an error if the offsets contradict each other.
func (m Mark) check() error {
	if m.Origin < none || m.Epoch < none || m.Since < m.Origin || m.Input < max(m.Since, 0) ||
		min(m.Rebuilt, m.Published) < 0 {
		return errMarkDamaged
	}
	last := int64(0)
	for _, a := range m.Amendments {
		if a.From < last || a.From > m.Input || !ValidName(a.Name) {
			return errMarkDamaged
		}
		last = a.From
	}
	return nil
}

// Clone returns the mark with memory of its own.
func (m Mark) Clone() Mark {
	m.Settings, m.Source = bytes.Clone(m.Settings), bytes.Clone(m.Source)
	m.Names = bytes.Clone(m.Names)
	m.Amendments = slices.Clone(m.Amendments)
	for i := range m.Amendments {
		m.Amendments[i].Name = bytes.Clone(m.Amendments[i].Name)
	}
	return m
}

// sameBut reports whether two marks differ in nothing but Input and its Epoch.
func (m Mark) sameBut(o Mark) bool {
	return m.Origin == o.Origin && m.Since == o.Since && m.Open == o.Open && m.Lost == o.Lost &&
		m.Rebuilt == o.Rebuilt && m.Published == o.Published &&
		bytes.Equal(m.Settings, o.Settings) && bytes.Equal(m.Source, o.Source) &&
		bytes.Equal(m.Names, o.Names) && m.Partitioner == o.Partitioner &&
		slices.EqualFunc(m.Amendments, o.Amendments, Amendment.equal)
}

func (a Amendment) equal(b Amendment) bool {
	return a.From == b.From && bytes.Equal(a.Name, b.Name)
}

// none stands for an offset or an epoch that does not exist.
const none = -1
