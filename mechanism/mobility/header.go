package mobility

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/portable"
)

// Schema is the Avro schema of a model file, an Avro object container with the deflate codec; see
// FORMAT.md.
//
//go:embed model.avsc
var Schema string

// formatVersion is the version of the format.
const formatVersion = 1

// MaxEntries is the largest number of transitions that one matrix of a model file may have.
const MaxEntries = 1 << 28

// header is what a model file says before its rows, as JSON. FORMAT.md describes the fields.
type header struct {
	Version    int        `json:"version"`
	ID         string     `json:"id"`
	Plain      bool       `json:"plain"`
	Box        grid.Box   `json:"box"`
	CellM      float64    `json:"cell_m"`
	CellKM     float64    `json:"cell_km"`
	Width      int        `json:"width"`
	Height     int        `json:"height"`
	StepMS     int64      `json:"step_ms"`
	Calendar   Calendar   `json:"calendar"`
	Entries    []int64    `json:"entries"`
	Kernel     Kernel     `json:"kernel"`
	Jumps      Jumps      `json:"jumps"`
	Gaps       GapLaw     `json:"gaps"`
	Provenance Provenance `json:"provenance"`
}

// encodeHeader returns the first part of a model's file.
func encodeHeader(m *Model) ([]byte, error) {
	g := m.Grid
	h := header{
		Version: formatVersion, ID: m.ID(), Plain: g.IsPlain(), Box: g.Box(), CellM: g.CellM(),
		CellKM: g.CellKM(), Width: g.Width(), Height: g.Height(), StepMS: m.Step.Milliseconds(),
		Calendar: m.Calendar, Kernel: m.Kernel, Jumps: m.Jumps, Gaps: m.Gaps,
		Provenance: m.Provenance,
	}
	for _, matrix := range m.Matrices {
		h.Entries = append(h.Entries, int64(matrix.Transitions()))
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("mobility: the header cannot be encoded: %w", err)
	}
	if len(text) > maxHeaderBytes {
		return nil, fmt.Errorf("mobility: the model's header has %d bytes, more than %d: shorten "+
			"its provenance", len(text), maxHeaderBytes)
	}
	data := binary.AppendVarint(nil, headerKind)
	return appendBytes(appendBytes(data, []byte(seal(text))), text), nil
}

// seal returns the hash of a header: 16 hex digits. The model id does not cover the provenance, so
// without the seal a damaged ε would go unnoticed.
func seal(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// head is the content of a header: a model without rows, its id, and how many entries each class
// has.
type head struct {
	model   *Model
	id      string
	entries []int64
}

// decodeHeader reads the header, which the file's first block holds.
func decodeHeader(at *block) (*head, error) {
	content, err := at.content()
	if err != nil {
		return nil, err
	}
	c := cursor{portable.Reader{Rest: content}}
	if c.Varint() != headerKind {
		return nil, at.damaged("its parts are not in order: it does not begin with a header")
	}
	sealed, text := c.bytes(), c.bytes()
	var h header
	switch {
	case !c.done() || len(text) > maxHeaderBytes:
		return nil, at.damaged("the header cannot be decoded")
	case string(sealed) != seal(text):
		return nil, at.damaged("the header does not match its seal")
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, errors.New("mobility: the model's header is not JSON (model-file)")
	}
	return h.head()
}

// head checks what a header says.
func (h *header) head() (*head, error) {
	if h.Version != formatVersion {
		return nil, fmt.Errorf("mobility: the model file has version %d, not %d (model-file)",
			h.Version, formatVersion)
	}
	g, err := h.grid()
	if err != nil {
		return nil, err
	}
	if h.StepMS < 1 || h.StepMS > (24*time.Hour).Milliseconds() {
		return nil, errors.New("mobility: the model's step is not between a millisecond and a day")
	}
	if err := errors.Join(h.Calendar.Validate(), h.Gaps.Validate(), h.Kernel.validate(),
		h.Jumps.validate()); err != nil {
		return nil, fmt.Errorf("%w; train again", err)
	}
	if classes := h.Calendar.Classes(); len(h.Entries) != classes {
		return nil, fmt.Errorf("mobility: the model file states the entries of %d classes, its "+
			"calendar has %d (model-file)", len(h.Entries), classes)
	}
	total := int64(0)
	for _, n := range h.Entries {
		if n < 0 || n > MaxEntries {
			return nil, fmt.Errorf("mobility: the model file states %d entries, over %d "+
				"(model-file)", n, MaxEntries)
		}
		total += n
	}
	h.Provenance.Report.MatrixEntries = total
	if len(h.Gaps) == 0 {
		h.Gaps = nil
	}
	return &head{
		model: &Model{
			Grid: g, Step: time.Duration(h.StepMS) * time.Millisecond, Calendar: h.Calendar,
			Kernel: h.Kernel, Jumps: h.Jumps, Gaps: h.Gaps, Provenance: h.Provenance,
		},
		id: h.ID, entries: h.Entries,
	}, nil
}

func (h *header) grid() (g *grid.Grid, err error) {
	if h.Plain {
		g, err = grid.Plain(h.Width, h.Height, h.CellKM)
	} else {
		g, err = grid.New(h.Box, h.CellM)
	}
	if err != nil {
		return nil, fmt.Errorf("mobility: the model's grid cannot be: %w", err)
	}
	if g.Width() != h.Width || g.Height() != h.Height {
		return nil, fmt.Errorf("mobility: the model's grid has %d × %d cells, its box %d × %d",
			h.Width, h.Height, g.Width(), g.Height())
	}
	return g, nil
}

// appendBytes appends data in the encoding of Avro.
func appendBytes(dst, data []byte) []byte {
	return append(binary.AppendVarint(dst, int64(len(data))), data...)
}
