package mechanism

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// mechanismVersion goes up whenever a mechanism turns the same facts into another release: other
// draws from the same stream, another rounding, another transcript. The golden bits of
// testdata/bits.txt belong to one version. The codebook mechanism has a version of its own besides,
// law.CodebookVersion, so that other code points leave the releases of the other mechanisms alone.
const mechanismVersion = 1

// Version is the version of the mechanisms: two programs of one version make the same releases and
// states of the same facts. Under the codebook mechanism law.CodebookVersion and StateVersion have
// to be the same too.
const Version = mechanismVersion

// transcript is what the noise of a release is a function of: everything that determines the
// release's law and whose it is. The law for a true cell x is that of A(σ(x)), and the map σ
// depends on every member of ΔX. Releases that share noise have the same transcript, hence the
// same law and the same value. DESIGN.md says what goes wrong without each fact.
//
//	tag         "geodither release 1", with its length
//	mechanism   name, then the way of isotropy, or "cell/" and the subdivision of the lattice,
//	            or "cell/", that of the code points, "/" and the codebook's version, with their
//	            lengths; version, 8 bytes
//	epsilon     8 bytes, float64
//	grid        8 bytes, with the step 8 bytes: of the model
//	model       8 bytes
//	user        with its length
//	step        8 bytes
//	release     8 bytes, its number
//	set         number of cells of ΔX, uvarint; its cells ascending, uvarints: the first one, then
//	            each minus the one before
//	cell        4 bytes, the surrogate
//
// Under the codebook mechanism the law is that of v(x), the vote of x, over the code points. The
// code points determine the votes of all cells, and what an answer means. Then set and cell are
//
//	points      number of code points, uvarint; of each column and row in steps, uvarints
//	vote        1 byte
//
// So the length of a transcript is a function of public facts: the cell and the vote, which alone
// are secret, have fixed lengths.
//
// The stream is that of the transcript under the key of the day on which the step begins. The day
// is no field: step and its length determine it.
//
// Every field has a fixed length or carries it, so no two transcripts of different contents are the
// same bytes. The sensitivity hull K is not there: set and grid determine it. Nor are δ, padding,
// pruning, the longest gap and the way of inference, which act on a release through the set alone;
// nor the rules of when to release and budgets, which decide whether there is one; nor the place of
// the estimate, which comes after it.
type transcript struct {
	buf    []byte
	prefix int
}

// begin writes the fields that are the same for all releases of a sanitizer.
func (t *transcript) begin(o Options, gridID, model ID, stepMS int64) {
	b := appendText(t.buf[:0], "geodither release 1")
	b = appendText(b, o.Mechanism)
	switch o.Mechanism {
	case law.Lattice:
		b = appendText(b, "cell/"+strconv.Itoa(o.Subdivision))
	case law.Codebook:
		b = appendText(b, "cell/"+strconv.Itoa(law.CodeSteps)+"/"+
			strconv.Itoa(law.CodebookVersion))
	default:
		b = appendText(b, o.Isotropy)
	}
	b = binary.LittleEndian.AppendUint64(b, mechanismVersion)
	b = appendFloat(b, o.Epsilon)
	b = append(b, gridID[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(stepMS))
	b = append(b, model[:]...)
	t.buf, t.prefix = b, len(b)
}

// complete returns the transcript of one release from a location set. It is valid until the next
// call.
func (t *transcript) complete(
	user string, step int64, number uint64, set []grid.Cell, cell grid.Cell,
) []byte {
	b := appendCells(t.whose(user, step, number), set)
	b = binary.LittleEndian.AppendUint32(b, uint32(cell))
	t.buf = b
	return b
}

// completeVote returns the transcript of one release from a codebook. It is valid until the next
// call.
func (t *transcript) completeVote(
	user string, step int64, number uint64, codebook *law.Quantizer, vote int,
) []byte {
	t.buf = codebook.AppendFacts(t.whose(user, step, number), vote)
	return t.buf
}

// whose begins the transcript of one release.
func (t *transcript) whose(user string, step int64, number uint64) []byte {
	b := appendText(t.buf[:t.prefix], user)
	b = binary.LittleEndian.AppendUint64(b, uint64(step))
	return binary.LittleEndian.AppendUint64(b, number)
}

// appendCells writes ascending cells as their number and their differences: most sets are patches,
// with one byte a cell.
func appendCells(b []byte, cells []grid.Cell) []byte {
	b = binary.AppendUvarint(b, uint64(len(cells)))
	b = slices.Grow(b, binary.MaxVarintLen32*len(cells))
	n, last := len(b), grid.Cell(0)
	b = b[:cap(b)]
	for _, c := range cells {
		d := uint32(c - last)
		last = c
		for ; d >= 0x80; d >>= 7 {
			b[n] = byte(d) | 0x80
			n++
		}
		b[n] = byte(d)
		n++
	}
	return b[:n]
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
