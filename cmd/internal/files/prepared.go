package files

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// Content is what a file is to hold, with who may read it.
type Content interface {
	Write(w io.Writer) error
	FileMode() os.FileMode
}

// Prepared is a file that is written and synced under a temporary name. It gets its own name with
// commit, so that it appears complete or not at all.
type Prepared struct {
	temporary string // empty: the file has its name, or was given up
	path      string
}

// Prepare writes a file beside its path. It leaves nothing behind if the context ends.
func Prepare(ctx context.Context, path string, c Content) (*Prepared, error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, Unwritten(path, err)
	}
	f := &Prepared{temporary: file.Name(), path: path}
	err = cli.Interruptibly(ctx, func() error {
		buffered := bufio.NewWriterSize(file, 1<<20)
		if err := c.Write(buffered); err != nil {
			return err
		}
		return errors.Join(buffered.Flush(), file.Chmod(c.FileMode()), file.Sync())
	})
	// Writing that goes on after an interrupt ends with an error at the closed file.
	if err = errors.Join(err, file.Close()); err != nil {
		f.Discard()
		return nil, Unwritten(path, err)
	}
	return f, nil
}

// Commit gives the file its name.
func (f *Prepared) Commit() error {
	if err := os.Rename(f.temporary, f.path); err != nil {
		return Unwritten(f.path, err)
	}
	f.temporary = ""
	// It makes the name survive a crash of the machine. Some systems cannot sync a folder; the file
	// is complete either way.
	if folder, err := os.Open(filepath.Dir(f.path)); err == nil {
		_ = folder.Sync()
		_ = folder.Close()
	}
	return nil
}

// Discard removes what was written. It does nothing once the file has its name.
func (f *Prepared) Discard() {
	if f.temporary != "" {
		_ = os.Remove(f.temporary) // the caller reports why the file is given up
		f.temporary = ""
	}
}
