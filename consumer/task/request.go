package task

import (
	"encoding/binary"
	"errors"
)

// Request asks the owner of a partition to erase the state of a key.
type Request struct {
	Key    []byte
	Reset  bool  // keep nothing that counts, such as an account
	TimeMS int64 // when it was asked for, in Unix milliseconds
}

// requestVersion is the first byte of a request's value:
//
//	1 | flags 1 | time 8, big-endian | key
const (
	requestVersion = 1
	requestFixed   = 1 + 1 + 8
	requestReset   = 1 // the flag
)

// AppendRequest appends the value of a request.
func AppendRequest(dst []byte, r Request) []byte {
	flags := byte(0)
	if r.Reset {
		flags = requestReset
	}
	dst = binary.BigEndian.AppendUint64(append(dst, requestVersion, flags), uint64(r.TimeMS))
	return append(dst, r.Key...)
}

var errRequest = errors.New("task: a request to erase cannot be read (newer-program)")

// DecodeRequest reads the value of a request, whose key is then a part of it.
func DecodeRequest(value []byte) (Request, error) {
	if len(value) <= requestFixed || value[0] != requestVersion || value[1] > requestReset ||
		!ValidKey(value[requestFixed:]) {
		return Request{}, errRequest
	}
	return Request{
		Key: value[requestFixed:], Reset: value[1] == requestReset,
		TimeMS: int64(binary.BigEndian.Uint64(value[2:])),
	}, nil
}
