package mobility

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile writes the model to a file that appears under its name complete or not at all: it is written beside it,
// synced and renamed. Its mode is FileMode, also where it replaces a file of another mode.
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
	if err := finish(temporary, buffered, m.FileMode()); err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

// FileMode is who may read the model's file. A model that was trained with differential privacy
// protects each user of the traces, so everybody may. Any other holds counts of what people did,
// and is for its owner.
func (m *Model) FileMode() fs.FileMode {
	if m.Provenance.Privacy != nil {
		return 0o644
	}
	return 0o600
}

// finish leaves a closed file of a mode.
func finish(file *os.File, buffered *bufio.Writer, mode fs.FileMode) error {
	return errors.Join(buffered.Flush(), file.Chmod(mode), file.Sync(), file.Close())
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
