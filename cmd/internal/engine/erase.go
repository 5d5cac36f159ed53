package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"slices"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
)

// erasedLabel comes before the user in what an erased user's name is the keyed hash of.
const erasedLabel = "geodither erased user 1\x00"

// Eraser is task.Eraser for users' states, for one goroutine. It never forgets what a user has
// spent, unless that was asked for: an erased user who comes back would otherwise begin at Σε =
// 0, and erasing would be a way to reset a budget. It never forgets the last step and the number of
// releases: a user who began again at number 1 could have the noise of an earlier release again.
type Eraser struct {
	mac                  hash.Hash
	sum                  [sha256.Size]byte
	name, kept, recalled []byte // scratch
	state                mechanism.State
}

// NewEraser panics on the zero key.
func NewEraser(key noise.Key) *Eraser { return &Eraser{mac: key.MAC(noise.Pseudonyms)} }

// Subject appends the name of an erased user: HMAC-SHA-256 of the id under the subkey of published
// names, behind a label of its own. Nobody without the key can tell whose it is.
func (e *Eraser) Subject(dst, user []byte) []byte {
	e.mac.Reset()
	e.mac.Write([]byte(erasedLabel))
	e.mac.Write(user)
	return append(dst, e.mac.Sum(e.sum[:0])...)
}

// Kept implements task.Eraser.
func (e *Eraser) Kept(user []byte) []byte {
	e.name = e.Subject(append(e.name[:0], task.KeptKey...), user)
	return e.name
}

// RequestKey returns the changelog's key of a request to erase a user.
func (e *Eraser) RequestKey(user []byte) []byte {
	return e.Subject([]byte(task.RequestKey), user)
}

// Erase implements task.Eraser.
func (e *Eraser) Erase(r task.Request, offset int64, state, kept []byte) ([]byte, error) {
	before, err := DecodeKept(kept)
	if err != nil || len(state) == 0 && len(kept) == 0 {
		return nil, err
	}
	if len(state) == 0 {
		state = before.Account
	}
	account, err := e.account(state, r.Reset)
	if err != nil {
		return nil, err
	}
	after := Kept{
		Account: account, TimeMS: r.TimeMS, Partial: before.Partial,
		Erasures: append(before.Erasures, Erasure{Offset: offset, Reset: r.Reset}),
	}
	if surplus := len(after.Erasures) - maxErasures; surplus > 0 {
		after.Erasures, after.Partial = after.Erasures[surplus:], true
	}
	e.kept = after.AppendBinary(e.kept[:0])
	return e.kept, nil
}

// account returns what is kept of a state, in memory of the eraser; nothing of no state. Of a reset
// the last step and the number of releases remain.
func (e *Eraser) account(state []byte, reset bool) ([]byte, error) {
	if err := e.state.DecodeBinary(state); err != nil || len(state) == 0 {
		return nil, err
	}
	e.state.Erase()
	if reset {
		e.state.Ledger.Reset()
		e.state.EpsilonSpent, e.state.Rho = 0, 0
	}
	e.recalled = e.state.AppendBinary(e.recalled[:0])
	return e.recalled, nil
}

// Recall implements task.Eraser. The account goes over to the user's new state, and that there was
// an erasure stays written down.
func (e *Eraser) Recall(kept []byte) (state, remains []byte, err error) {
	k, err := DecodeKept(kept)
	if err != nil || len(k.Account) == 0 {
		return nil, nil, err
	}
	e.recalled = append(e.recalled[:0], k.Account...)
	k.Account = nil
	e.kept = k.AppendBinary(e.kept[:0])
	return e.recalled, e.kept, nil
}

// Owes implements task.Eraser: whether some ε is in the account. The number of releases alone can
// be lost with the key, because another key has other noise.
func (e *Eraser) Owes(kept []byte) (bool, error) {
	k, err := DecodeKept(kept)
	if err != nil {
		return false, err
	}
	epsilon, err := k.Spent()
	return epsilon > 0, err
}

// Kept is what remains of an erased user in the changelog, under a keyed hash: the account, without
// any place, until the user comes back; and where in the raw topic the user was erased, without
// which nobody could compute the user's later records again (verify).
type Kept struct {
	TimeMS   int64     // of the last erasure, Unix milliseconds
	Erasures []Erasure // oldest first; at most maxErasures
	Partial  bool      // there were earlier erasures than these
	Account  []byte    // a mechanism.State after Erase; empty: none is kept, or it is in use again
}

// Spent is the Σε of the account: 0 after a reset, and where none is kept.
func (k Kept) Spent() (epsilon float64, err error) {
	var s mechanism.State
	err = s.DecodeBinary(k.Account)
	return s.EpsilonSpent, err
}

// Erasure is one erasure of a user.
type Erasure struct {
	Offset int64 // raw records from there on were processed without the state
	Reset  bool  // and without the costs in the account
}

// maxErasures bounds the record of a user who is erased again and again.
const maxErasures = 16

// The encoding of Kept, whose integers are big-endian:
//
//	version 1 | flags 1 | time 8 | n 1 | n × (flags 1 | offset 8) | account
const (
	keptVersion = 1
	keptFixed   = 1 + 1 + 8 + 1
	keptEach    = 1 + 8
	keptPartial = 1 // flag of the record
	keptReset   = 1 // flag of an erasure
)

// AppendBinary appends the encoding of k.
func (k Kept) AppendBinary(dst []byte) []byte {
	dst = append(dst, keptVersion, flag(k.Partial, keptPartial))
	dst = binary.BigEndian.AppendUint64(dst, uint64(k.TimeMS))
	dst = append(dst, byte(len(k.Erasures)))
	for _, x := range k.Erasures {
		dst = append(dst, flag(x.Reset, keptReset))
		dst = binary.BigEndian.AppendUint64(dst, uint64(x.Offset))
	}
	return append(dst, k.Account...)
}

func flag(is bool, bit byte) byte {
	if is {
		return bit
	}
	return 0
}

var errKept = errors.New("what remains of an erased user cannot be read (newer-program)")

// DecodeKept reads the encoding. No bytes are the zero Kept. Account is a part of data.
func DecodeKept(data []byte) (Kept, error) {
	if len(data) == 0 {
		return Kept{}, nil
	}
	if len(data) < keptFixed || data[0] != keptVersion || data[1] > keptPartial {
		return Kept{}, errKept
	}
	k := Kept{
		Partial: data[1] == keptPartial, TimeMS: int64(binary.BigEndian.Uint64(data[2:])),
	}
	n := int(data[keptFixed-1])
	rest := data[keptFixed:]
	if n == 0 || n > maxErasures || len(rest) < n*keptEach {
		return Kept{}, errKept
	}
	last := int64(0)
	for each := range slices.Chunk(rest[:n*keptEach], keptEach) {
		x := Erasure{
			Reset: each[0] == keptReset, Offset: int64(binary.BigEndian.Uint64(each[1:])),
		}
		if each[0] > keptReset || x.Offset < last {
			return Kept{}, errKept
		}
		last = x.Offset
		k.Erasures = append(k.Erasures, x)
	}
	k.Account = rest[n*keptEach:]
	return k, nil
}

// MoveKept returns what remains of an erased user for another raw topic, of which offset is the
// first that is processed: the user was erased before that. When is not known in its offsets.
func MoveKept(data []byte, offset int64) ([]byte, error) {
	k, err := DecodeKept(data)
	if err != nil {
		return nil, err
	}
	k.Partial = true
	for i := range k.Erasures {
		k.Erasures[i].Offset = offset
	}
	return k.AppendBinary(nil), nil
}
