package task

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// MarkKey is the changelog key under which every transaction writes a Mark.
const MarkKey = "\x00input"

var markKey = []byte(MarkKey)

// Mark says how far a partition is and under which settings its results were
// made. Every transaction writes one to the changelog, after everything else of
// its there, so the last one is the state of the partition.
type Mark struct {
	// Input is the input offset that the transaction commits.
	Input int64
	// Origin is the input offset at which processing of the partition began:
	// what was before it has never been seen. SkipLost moves it to where
	// processing goes on. -1: not known, the partition began under version 1.
	Origin int64
	// Since is the input offset from which on Settings have been in force, not
	// before Origin. -1: not known.
	Since int64
	// Lost: SkipLost has moved Origin. Users were there before it, so that the
	// results from Origin on depend on records that are gone.
	Lost bool
	// Open: a worker may have begun a transaction after this one, and a reader
	// of uncommitted data may have seen its records. A clean stop writes false.
	Open bool
	// Settings is a fingerprint of everything that determines a processor's
	// bytes, at most MarkBytes long; empty: not known.
	Settings []byte
	// Source is the identity of the input topic, at most MarkBytes long; empty:
	// not known.
	Source []byte
}

// MarkBytes is the greatest length of Mark.Settings and of Mark.Source.
const MarkBytes = 64

// Versions of a mark, its value's first byte. Version 1 is followed by Input.
// Version 2 is followed by a byte of flags, by Input, Origin and Since, and by
// Settings and Source, each after a byte with its length. Integers are eight
// bytes, big-endian. Version 1 is read for ever and not written any more.
const (
	markVersion1 = 1
	markVersion2 = 2

	markLen1  = 1 + 8
	markFixed = 1 + 1 + 3*8

	markOpen, markLost = 1, 2 // the flags
)

// ValidKey reports whether a record's key may have a state: it is not empty and
// does not begin with a zero byte, which is kept for keys such as MarkKey.
func ValidKey(key []byte) bool { return len(key) > 0 && key[0] != 0 }

// AppendMark appends the value of a mark, in version 2. It panics if Settings or
// Source is longer than MarkBytes.
func AppendMark(dst []byte, m Mark) []byte {
	if len(m.Settings) > MarkBytes || len(m.Source) > MarkBytes {
		panic(fmt.Sprintf("task: a mark's settings and source have %d and %d bytes, %d are the most", len(m.Settings), len(m.Source), MarkBytes))
	}
	flags := byte(0)
	if m.Open {
		flags |= markOpen
	}
	if m.Lost {
		flags |= markLost
	}
	dst = append(dst, markVersion2, flags)
	for _, offset := range [...]int64{m.Input, m.Origin, m.Since} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(offset))
	}
	for _, b := range [...][]byte{m.Settings, m.Source} {
		dst = append(append(dst, byte(len(b))), b...)
	}
	return dst
}

var (
	errMarkVersion = errors.New("task: the changelog's mark is not of a known version: it was written by a newer geodither, or by something else")
	errMarkDamaged = errors.New("task: the changelog's mark does not add up: it was not written by geodither")
)

// DecodeMark reads the value of a mark. Settings and Source are parts of value.
// A mark of version 1 has none, an unknown Origin and Since, and is open.
func DecodeMark(value []byte) (Mark, error) {
	if len(value) == markLen1 && value[0] == markVersion1 {
		m := Mark{Input: int64(binary.BigEndian.Uint64(value[1:])), Origin: none, Since: none, Open: true}
		return m, m.check()
	}
	if len(value) == 0 || value[0] != markVersion2 {
		return Mark{}, errMarkVersion
	}
	if len(value) < markFixed || value[1] > markOpen|markLost {
		return Mark{}, errMarkDamaged
	}
	offset := func(i int) int64 { return int64(binary.BigEndian.Uint64(value[2+8*i:])) }
	m := Mark{Open: value[1]&markOpen != 0, Lost: value[1]&markLost != 0, Input: offset(0), Origin: offset(1), Since: offset(2)}
	rest := value[markFixed:]
	for _, b := range [...]*[]byte{&m.Settings, &m.Source} {
		if len(rest) == 0 || int(rest[0]) > min(MarkBytes, len(rest)-1) {
			return Mark{}, errMarkDamaged
		}
		*b, rest = rest[1:1+rest[0]], rest[1+rest[0]:]
	}
	if len(rest) > 0 {
		return Mark{}, errMarkDamaged
	}
	return m, m.check()
}

// check compares the offsets with each other.
func (m Mark) check() error {
	if m.Origin < none || m.Since < m.Origin || m.Input < max(m.Since, 0) {
		return errMarkDamaged
	}
	return nil
}

// clone is m with memory of its own.
func (m Mark) clone() Mark {
	m.Settings, m.Source = bytes.Clone(m.Settings), bytes.Clone(m.Source)
	return m
}

// sameBut reports whether m and o are the same but for Input.
func (m Mark) sameBut(o Mark) bool {
	return m.Origin == o.Origin && m.Since == o.Since && m.Open == o.Open && m.Lost == o.Lost &&
		bytes.Equal(m.Settings, o.Settings) && bytes.Equal(m.Source, o.Source)
}
