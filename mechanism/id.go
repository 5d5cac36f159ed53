package mechanism

import (
	"encoding/hex"
	"fmt"
)

// ID is the 16 hex digits that name a model or a grid, as bytes.
type ID [8]byte

// ParseID reads 16 hex digits.
func ParseID(digits string) (ID, error) {
	var id ID
	if len(digits) != 2*len(id) {
		return ID{}, fmt.Errorf("mechanism: %q is not an identifier of 16 hex digits", digits)
	}
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return ID{}, fmt.Errorf("mechanism: %q is not an identifier of 16 hex digits", digits)
	}
	return id, nil
}

// String returns the 16 hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }
