package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
)

// prefixLen is the length of a partition's number, with which each key begins.
const prefixLen = 4

// storePartition is the prefix of keys that belong to the store as a whole. No partition has this
// number, because it is negative as an int32.
const storePartition = math.MaxUint32

// The store's own keys begin with a zero byte. Users' keys do not.
const (
	positionsName = "\x00positions"
	identityName  = "\x00identity"
	removedName   = "\x00removed" // values were removed, and may still be in the files
)

// Keys beside users' keys that Apply and Get take. Their values are opaque here.
const (
	MarkName = "\x00input" // the last mark of the changelog
	// PartitionName, RequestName and KeptName begin the keys of the states of the partition, of
	// requests to erase a user, and of what remains of erased users.
	PartitionName = "\x00partition"
	RequestName   = "\x00erase"
	KeptName      = "\x00kept"
)

// taken reports whether Apply and Get take a key.
func taken(key []byte) bool {
	return len(key) > 0 && (key[0] != 0 || string(key) == MarkName || reserved(key))
}

// reserved reports whether a key is that of a state of the partition, of a request to erase, or of
// what remains.
func reserved(key []byte) bool {
	return bytes.HasPrefix(key, []byte(PartitionName)) ||
		bytes.HasPrefix(key, []byte(RequestName)) || bytes.HasPrefix(key, []byte(KeptName))
}

const (
	positionsVersion = 1
	positionsLen     = 1 + 3*8
	identityVersion  = 1
)

// appendPrefix appends a partition's prefix. It is the partition's number, big-endian, so that a
// partition's keys lie together and partitions are in order.
func appendPrefix(dst []byte, partition uint32) []byte {
	return binary.BigEndian.AppendUint32(dst, partition)
}

// userKey returns the part of a key after the prefix; ok is false for the store's own keys.
func userKey(key []byte) (user []byte, ok bool) {
	if len(key) <= prefixLen || key[prefixLen] == 0 {
		return nil, false
	}
	return key[prefixLen:], true
}

func appendPositions(dst []byte, p Positions) []byte {
	dst = append(dst, positionsVersion)
	for _, v := range [...]int64{p.Input, p.Changelog, p.AppliedMS} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

var errPositions = errors.New("the positions of a partition cannot be read")

func decodePositions(value []byte) (p Positions, err error) {
	if len(value) != positionsLen || value[0] != positionsVersion {
		return p, errPositions
	}
	p.Input = int64(binary.BigEndian.Uint64(value[1:]))
	p.Changelog = int64(binary.BigEndian.Uint64(value[9:]))
	p.AppliedMS = int64(binary.BigEndian.Uint64(value[17:]))
	if p.Input < -1 || p.Changelog < 0 {
		return Positions{}, errPositions
	}
	return p, nil
}

func appendIdentity(dst, identity []byte) []byte {
	return append(append(dst, identityVersion), identity...)
}

// sameIdentity compares a stored identity record with a wanted identity.
func sameIdentity(record, identity []byte) bool {
	return len(record) > 0 && record[0] == identityVersion && bytes.Equal(record[1:], identity)
}

// Positions say which prefix of the input and of the changelog a partition's values are: the input
// offset (-1 if it is not known yet), the changelog offset from which a restoration goes on, and a
// time in Unix milliseconds at which the values were the changelog's last. The type is an alias of
// an unnamed type, so that users of the store need not import this package.
type Positions = struct{ Input, Changelog, AppliedMS int64 }
