package mechanism

import (
	"encoding/binary"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
)

// mechanismVersion goes up whenever a mechanism turns the same stream into another release.
const mechanismVersion = 1

// transcript is what the noise of a release is a function of: everything that determines the release's law and whose it is. Two
// releases that share noise have the same transcript, hence the same law and the same value. Leaving the cell out would publish the
// difference of two cells; leaving K out would give two equations in one noise.
//
//	tag         "geodither release 1", with its length
//	mechanism   name and way of isotropy, with their lengths; version, 8 bytes
//	epsilon     8 bytes, float64
//	grid        8 bytes, with the step 8 bytes: of the model
//	model       8 bytes
//	user        with its length
//	step        8 bytes
//	release     8 bytes, its number
//	hull        number of vertices of half of K, uvarint; their whole coordinates, varints (the other half is minus the first)
//	cell        4 bytes, the surrogate
//
// Every field has a fixed length or carries it, so no two transcripts of different contents are the same bytes.
type transcript struct {
	buf    []byte
	prefix int
}

// begin writes the fields that are the same for all releases of a sanitizer.
func (t *transcript) begin(o Options, gridID, model ID, stepMS int64) {
	b := appendText(t.buf[:0], "geodither release 1")
	b = appendText(b, o.Mechanism)
	b = appendText(b, o.Isotropy)
	b = binary.LittleEndian.AppendUint64(b, mechanismVersion)
	b = appendFloat(b, o.Epsilon)
	b = append(b, gridID[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(stepMS))
	b = append(b, model[:]...)
	t.buf, t.prefix = b, len(b)
}

// complete returns the transcript of one release. It is valid until the next call.
func (t *transcript) complete(user string, step int64, number uint64, k []convex.Lattice, cell grid.Cell) []byte {
	b := appendText(t.buf[:t.prefix], user)
	b = binary.LittleEndian.AppendUint64(b, uint64(step))
	b = binary.LittleEndian.AppendUint64(b, number)
	half := k[:(len(k)+1)/2]
	b = binary.AppendUvarint(b, uint64(len(half)))
	for _, v := range half {
		b = binary.AppendVarint(b, v.X)
		b = binary.AppendVarint(b, v.Y)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(cell))
	t.buf = b
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
