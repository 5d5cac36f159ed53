package task

import (
	"encoding/binary"
	"errors"
)

// MarkKey is the changelog key under which every transaction writes the input
// offset that it commits.
const MarkKey = "\x00input"

var markKey = []byte(MarkKey)

// markVersion is the first byte of a mark's value; the offset follows as eight
// bytes, big-endian.
const markVersion = 1

const markLen = 9

// ValidKey reports whether a record's key may have a state: it is not empty and
// does not begin with a zero byte, which is kept for keys such as MarkKey.
func ValidKey(key []byte) bool { return len(key) > 0 && key[0] != 0 }

// AppendMark appends the value of a mark for the input offset next.
func AppendMark(dst []byte, next int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, markVersion), uint64(next))
}

// DecodeMark reads the value of a mark.
func DecodeMark(value []byte) (next int64, err error) {
	if len(value) != markLen || value[0] != markVersion {
		return 0, errors.New("task: the changelog's mark is not of a known version: it was written by a newer geodither, or by something else")
	}
	next = int64(binary.BigEndian.Uint64(value[1:]))
	if next < 0 {
		return 0, errors.New("task: the changelog's mark holds a negative offset")
	}
	return next, nil
}
