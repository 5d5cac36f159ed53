package mobility

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/linkedin/goavro/v2"

	"github.com/geodither/geodither/mechanism/grid"
)

// Schema is the Avro schema of a model file, an Avro object container with the deflate codec.
//
//go:embed model.avsc
var Schema string

const fileVersion = 1

// partCodec is made once; a goavro codec is safe for use by many goroutines.
var partCodec = sync.OnceValues(func() (*goavro.Codec, error) { return goavro.NewCodec(Schema) })

// Names of the union's branches.
const (
	headerPart  = "geodither.model.Header"
	rowsPart    = "geodither.model.Rows"
	initialPart = "geodither.model.Initial"
)

// fields is a record as goavro has it.
type fields = map[string]any

func part(name string, content fields) fields { return fields{"part": goavro.Union(name, content)} }

// Write writes the model as an Avro object container: the header, rows in blocks, the initial distribution. Reading it
// gives the same model, bit for bit. The model must be valid.
func (m *Model) Write(w io.Writer) error {
	if err := m.Validate(); err != nil {
		return err
	}
	for c := range grid.Cell(m.Grid.Cells()) {
		if length := m.Matrices[0].RowStart[c+1] - m.Matrices[0].RowStart[c]; length > maxRowEntries {
			return fmt.Errorf("mobility: row %d has %d entries, a file takes %d; choose larger cells", c, length, maxRowEntries)
		}
	}
	codec, err := partCodec()
	if err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	config := goavro.OCFConfig{W: w, Codec: codec, CompressionName: goavro.CompressionDeflateLabel}
	copy(config.SyncMarker[:], m.ID()) // not random: the same model gives the same blocks
	out, err := goavro.NewOCFWriter(config)
	if err != nil {
		return fmt.Errorf("mobility: writing the model: %w", err)
	}
	for content := range m.parts() {
		if err := out.Append([]any{content}); err != nil {
			return fmt.Errorf("mobility: writing the model: %w", err)
		}
	}
	return nil
}

// WriteFile writes the model to a file that appears under its name complete or not at all: it is written beside it,
// synced and renamed.
func (m *Model) WriteFile(path string) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	defer func() {
		if err != nil {
			_ = temporary.Close()
			_ = os.Remove(temporary.Name()) // what failed is reported; a rest beside it does no harm
		}
	}()
	buffered := bufio.NewWriterSize(temporary, 1<<20)
	if err := m.Write(buffered); err != nil {
		return err
	}
	if err := finish(temporary, buffered); err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

// finish leaves a closed file that others may read, as the umask of a plain creation mostly has it.
func finish(file *os.File, buffered *bufio.Writer) error {
	return errors.Join(buffered.Flush(), file.Chmod(0o644), file.Sync(), file.Close())
}

// syncFolder makes the rename last. Some systems cannot sync a folder; the file itself is complete either way.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	_ = folder.Sync()
	return folder.Close()
}

// ReadModelFile reads a model that [Model.WriteFile] wrote; see [ReadModel].
func ReadModelFile(path string) (*Model, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("mobility: %w; make a model with train", err)
	}
	defer file.Close() // read only: nothing is lost if closing fails
	m, err := ReadModel(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// ReadModel reads a model and checks all of it: the format, that rows and initial distribution are distributions, and
// that the content has the id that the header states. Any bytes may be given; the error says what is wrong and what to
// do. Time and memory grow with the model that the file really holds up to its first fault, not with what it claims or
// inflates to. A small file can hold a large model, though: equal rows pack a hundred times smaller and more.
func ReadModel(r io.Reader) (*Model, error) {
	in, err := newContainer(r)
	if err != nil {
		return nil, err
	}
	b := builder{}
	for {
		content, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := b.add(content); err != nil {
			return nil, err
		}
	}
	return b.finish()
}

func (m *Model) header() fields {
	g, p := m.Grid, m.Provenance
	box := g.Box()
	return part(headerPart, fields{
		"version": fileVersion, "id": m.ID(), "plain": g.IsPlain(),
		"south": box.South, "west": box.West, "north": box.North, "east": box.East,
		"cell_m": g.CellM(), "cell_km": g.CellKM(), "width": g.Width(), "height": g.Height(),
		"step_ms": m.Step.Milliseconds(), "entries": m.Matrices[0].Transitions(),
		"provenance": fields{
			"source": p.Source, "tool": p.Tool, "options": p.Options,
			"users": p.Report.Users, "fixes": p.Report.Fixes, "outside_box": p.Report.OutsideBox,
			"transitions": p.Report.Transitions, "cells_seen": p.Report.CellsSeen, "rows_seen": p.Report.RowsSeen,
		},
	})
}

// modelOf returns the model that a header describes, without rows.
func modelOf(h fields) (m *Model, id string, entries int64, err error) {
	// goavro has checked the types against the schema.
	if version := h["version"].(int32); version != fileVersion {
		return nil, "", 0, fmt.Errorf("mobility: the model file has version %d, this program reads %d; use the program that wrote it, or train again", version, fileVersion)
	}
	width, height := int(h["width"].(int32)), int(h["height"].(int32))
	var g *grid.Grid
	if h["plain"].(bool) {
		g, err = grid.Plain(width, height, h["cell_km"].(float64))
	} else {
		box := grid.Box{South: h["south"].(float64), West: h["west"].(float64), North: h["north"].(float64), East: h["east"].(float64)}
		g, err = grid.New(box, h["cell_m"].(float64))
	}
	if err != nil {
		return nil, "", 0, fmt.Errorf("mobility: the model's grid cannot be: %w", err)
	}
	if g.Width() != width || g.Height() != height {
		return nil, "", 0, fmt.Errorf("mobility: the model's grid has %d × %d cells, its box gives %d × %d; train again", width, height, g.Width(), g.Height())
	}
	if entries = h["entries"].(int64); entries < int64(g.Cells()) {
		return nil, "", 0, fmt.Errorf("mobility: the model file states %d entries for a grid of %d cells, and each needs one; train again", entries, g.Cells())
	}
	stepMS := h["step_ms"].(int64)
	if stepMS < 1 || stepMS > (24*time.Hour).Milliseconds() {
		return nil, "", 0, errors.New("mobility: the model's step is not between a millisecond and a day; train again")
	}
	p := h["provenance"].(fields)
	number := func(name string) int64 { return p[name].(int64) }
	m = &Model{Grid: g, Step: time.Duration(stepMS) * time.Millisecond, Matrices: []*Matrix{{RowStart: []int64{0}}}}
	m.Provenance = Provenance{
		Source: p["source"].(string), Tool: p["tool"].(string), Options: p["options"].(string),
		Report: Report{
			Users: number("users"), Fixes: number("fixes"), OutsideBox: number("outside_box"),
			Transitions: number("transitions"), CellsSeen: number("cells_seen"), RowsSeen: number("rows_seen"),
			MatrixEntries: entries,
		},
	}
	return m, h["id"].(string), entries, nil
}
