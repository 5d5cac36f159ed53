package admin

import (
	"testing"

	kafka "github.com/segmentio/kafka-go"
)

// TestRights: a bit field is believed if it can be one. Brokers that know no authorized operations
// leave the field at the smallest number, or at 0.
func TestRights(t *testing.T) {
	const describe, read = 1 << kafka.ACLOperationTypeDescribe, 1 << kafka.ACLOperationTypeRead
	for _, c := range []struct {
		rights        Rights
		known, denied bool // of Read
	}{
		{Rights{}, false, false},
		{told(-1 << 31), false, false},
		{told(0), false, false},
		{told(read), false, false},
		{told(describe), true, true},
		{told(describe | read), true, false},
		{nothing, true, true},
	} {
		if c.rights.Known() != c.known || c.rights.Denied("Read") != c.denied {
			t.Errorf("%+v: known %t, Read denied %t", c.rights, c.rights.Known(),
				c.rights.Denied("Read"))
		}
	}
}
