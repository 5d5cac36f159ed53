package mobility

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// hashWriter collects numbers into large writes.
type hashWriter struct {
	hash.Hash
	buf []byte
}

func newHash() hashWriter { return hashWriter{Hash: sha256.New()} }

func (w *hashWriter) text(s string) {
	w.number(uint64(len(s)))
	w.buf = append(w.buf, s...)
}

func (w *hashWriter) number(v uint64) {
	w.buf = binary.LittleEndian.AppendUint64(w.buf, v)
	if len(w.buf) >= 1<<16 {
		w.flush()
	}
}

func (w *hashWriter) row(columns []grid.Cell, values []float64) {
	w.number(uint64(len(columns)))
	at := len(w.buf)
	w.buf = slices.Grow(w.buf, 16*len(columns))[:at+16*len(columns)]
	for i, c := range columns {
		binary.LittleEndian.PutUint64(w.buf[at:], uint64(c))
		binary.LittleEndian.PutUint64(w.buf[at+8:], math.Float64bits(values[i]))
		at += 16
	}
}

func (w *hashWriter) flush() {
	w.Write(w.buf)
	w.buf = w.buf[:0]
}

// id ends the hash and returns it as 16 hex digits.
func (w *hashWriter) id() string {
	w.flush()
	return hex.EncodeToString(w.Sum(nil)[:8])
}
