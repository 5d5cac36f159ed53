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
	// Versions are those of the task (Options.Versions), at most MaxVersions.
	Versions []Version
	// Latest is the highest time of a record that was processed (Effects.Time); 0: none had one.
	Latest int64
	// Rebuilt is when somebody wrote the changelog back, in Unix milliseconds; 0: never. A store
	// whose mark says otherwise is no copy of what the changelog has said since.
	Rebuilt int64
	// Published is the input offset before which everything was published before it was written
	// back. Records up to there make states again, and no results. 0 if there are none.
	Published int64
}

// Version is something that a processor's bytes depend on beside the settings, for records from a
// time on, such as a version of a model.
type Version struct {
	From int64  // in the unit of Effects.Time; records of earlier times do not depend on it
	Name []byte // opaque here; 1 to MarkBytes bytes
}

// MarkBytes is the greatest length of Mark.Settings, Source, Names and Partitioner, and of a
// version's name. MaxVersions is how many versions a mark holds. Every transaction writes a mark,
// so it has to stay small.
const (
	MarkBytes   = 64
	MaxVersions = 64
)

// The value of a mark:
//
//	version 1 | flags 1 | Input | Origin | Since | with markRebuilt: Rebuilt | Published |
//	Epoch 4 | Settings | Source | Names | Partitioner | Latest | number of versions 1 |
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
		len(m.Versions) > MaxVersions {
		panic(fmt.Sprintf("task: a mark's settings, source, names and partitioner have %d, %d, %d "+
			"and %d bytes, %d are the most; and %d versions, of %d", len(m.Settings),
			len(m.Source), len(m.Names), len(m.Partitioner), MarkBytes, len(m.Versions),
			MaxVersions))
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
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.Latest))
	dst = append(dst, byte(len(m.Versions)))
	for _, v := range m.Versions {
		if !validName(v.Name) {
			panic(fmt.Sprintf("task: a version's name has %d bytes, it must have 1 to %d",
				len(v.Name), MarkBytes))
		}
		dst = binary.BigEndian.AppendUint64(dst, uint64(v.From))
		dst = append(append(dst, byte(len(v.Name))), v.Name...)
	}
	return dst
}

// validName reports whether a version may have this name.
func validName(name []byte) bool { return len(name) > 0 && len(name) <= MarkBytes }

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
	m.Latest = r.offset()
	n := int(r.byte())
	r.bad = r.bad || n > MaxVersions
	for len(m.Versions) < n && !r.bad {
		m.Versions = append(m.Versions, Version{From: r.offset(), Name: r.bytes()})
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
		min(m.Rebuilt, m.Published, m.Latest) < 0 || checkVersions(m.Versions) != nil {
		return errMarkDamaged
	}
	return nil
}

// checkVersions returns an error unless versions ascend and have names.
func checkVersions(list []Version) error {
	for i, v := range list {
		if !validName(v.Name) || i > 0 && v.From <= list[i-1].From {
			return fmt.Errorf("task: version %d has no name of 1 to %d bytes, or does not start "+
				"after the one before it", i+1, MarkBytes)
		}
	}
	return nil
}

// Clone returns the mark with memory of its own.
func (m Mark) Clone() Mark {
	m.Settings, m.Source = bytes.Clone(m.Settings), bytes.Clone(m.Source)
	m.Names = bytes.Clone(m.Names)
	m.Versions = slices.Clone(m.Versions)
	for i := range m.Versions {
		m.Versions[i].Name = bytes.Clone(m.Versions[i].Name)
	}
	return m
}

// sameBut reports whether two marks differ in nothing but Input, its Epoch and Latest.
func (m Mark) sameBut(o Mark) bool {
	return m.Origin == o.Origin && m.Since == o.Since && m.Open == o.Open && m.Lost == o.Lost &&
		m.Rebuilt == o.Rebuilt && m.Published == o.Published &&
		bytes.Equal(m.Settings, o.Settings) && bytes.Equal(m.Source, o.Source) &&
		bytes.Equal(m.Names, o.Names) && m.Partitioner == o.Partitioner &&
		slices.EqualFunc(m.Versions, o.Versions, Version.equal)
}

func (v Version) equal(o Version) bool { return v.From == o.From && bytes.Equal(v.Name, o.Name) }

// none stands for an offset or an epoch that does not exist.
const none = -1
