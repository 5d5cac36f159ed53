package mobility

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/parallel"
)

// Write writes the model as an Avro object container: the header, the rows of each class in blocks,
// the initial distribution. Reading it gives the same model, bit for bit. The model must be valid.
// Blocks are packed on all cores; the bytes depend on the model alone.
func (m *Model) Write(w io.Writer) error {
	if err := m.Validate(); err != nil {
		return err
	}
	for _, matrix := range m.Matrices {
		for c := range grid.Cell(m.Grid.Cells()) {
			if columns, _ := matrix.Entries(c); len(columns) > maxRowEntries {
				return fmt.Errorf("mobility: row %d has %d entries, more than %d: choose larger "+
					"cells", c, len(columns), maxRowEntries)
			}
		}
	}
	// The marker is not random: the same model gives the same bytes.
	marker := []byte(m.ID())
	// The writer of goavro packs one block after the other, and writes the pairs of the head in the
	// order of a map.
	head := append([]byte("Obj\x01"), 4) // two pairs
	for _, text := range []string{"avro.codec", "deflate", "avro.schema", Schema} {
		head = appendBytes(head, []byte(text))
	}
	head = append(append(head, 0), marker...)
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("mobility: writing the model: %w", err)
	}
	return parallel.Ordered(packedParts(m), func(packed *bytes.Buffer) error {
		size := binary.AppendVarint(binary.AppendVarint(nil, 1), int64(packed.Len()))
		for _, data := range [][]byte{size, packed.Bytes(), marker} {
			if _, err := w.Write(data); err != nil {
				return fmt.Errorf("mobility: writing the model: %w", err)
			}
		}
		return nil
	})
}

// WriteFile writes the model to a file, which appears under its name complete or not at all: the
// file is written under another name, synced and renamed. Its mode is [Model.FileMode], also if it
// replaces a file of another mode.
func (m *Model) WriteFile(path string) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	defer func() {
		if err != nil {
			_ = temporary.Close()
			_ = os.Remove(temporary.Name()) // the failure is reported; leftovers do no harm
		}
	}()
	buffered := bufio.NewWriterSize(temporary, 1<<20)
	if err := m.Write(buffered); err != nil {
		return err
	}
	if err := finish(temporary, buffered, m.FileMode()); err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

// FileMode returns who may read the model's file. A model that was trained with differential
// privacy protects each user of the traces, so everybody may read it. Any other model holds counts
// of what people did, and is for its owner alone.
func (m *Model) FileMode() fs.FileMode {
	if m.Provenance.Privacy != nil {
		return 0o644
	}
	return 0o600
}

// finish completes, syncs and closes a file, and sets its mode.
func finish(file *os.File, buffered *bufio.Writer, mode fs.FileMode) error {
	return errors.Join(buffered.Flush(), file.Chmod(mode), file.Sync(), file.Close())
}

// syncFolder makes a rename last. Some systems cannot sync a folder; the file itself is complete
// either way.
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
		return nil, fmt.Errorf("mobility: %w; \"geodither train\" makes a model", err)
	}
	defer file.Close() // read only: nothing is lost if closing fails
	m, err := ReadModel(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// packedParts yields the packing of the file's parts, in order.
func packedParts(m *Model) iter.Seq2[func() (*bytes.Buffer, error), error] {
	return func(yield func(func() (*bytes.Buffer, error), error) bool) {
		for encode := range parts(m) {
			pack := func() (*bytes.Buffer, error) {
				data, err := encode()
				if err != nil {
					return nil, err
				}
				return deflate(data)
			}
			if !yield(pack, nil) {
				return
			}
		}
	}
}

// deflaters keeps what packing a block needs, a megabyte for each core.
var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.DefaultCompression)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}}

func deflate(data []byte) (*bytes.Buffer, error) {
	packed := new(bytes.Buffer)
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(packed)
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	return packed, nil
}
