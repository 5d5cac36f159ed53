package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/mobility"
)

// modelFile is a model on its way to a file, which appears complete or not at
// all.
type modelFile struct {
	temporary string // empty: it is there, or given up
	path      string
}

// prepare writes a model beside the path. The end of the context leaves nothing.
func prepare(ctx context.Context, model *mobility.Model, path string) (*modelFile, error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, unwritten(path, err)
	}
	f := &modelFile{temporary: file.Name(), path: path}
	err = cli.Interruptibly(ctx, func() error {
		buffered := bufio.NewWriterSize(file, 1<<20)
		if err := model.Write(buffered); err != nil {
			return err
		}
		return errors.Join(buffered.Flush(), file.Chmod(model.FileMode()), file.Sync())
	})
	// Writing that goes on ends at a file that is closed.
	if err = errors.Join(err, file.Close()); err != nil {
		f.discard()
		return nil, unwritten(path, err)
	}
	return f, nil
}

// commit gives the file its name.
func (f *modelFile) commit() error {
	if err := os.Rename(f.temporary, f.path); err != nil {
		return unwritten(f.path, err)
	}
	f.temporary = ""
	// It makes the name last. Some systems cannot sync a folder; the file is
	// complete either way.
	if folder, err := os.Open(filepath.Dir(f.path)); err == nil {
		_ = folder.Sync()
		_ = folder.Close()
	}
	return nil
}

// discard removes what was written, unless it has its name.
func (f *modelFile) discard() {
	if f.temporary != "" {
		_ = os.Remove(f.temporary) // why it is given up is reported
		f.temporary = ""
	}
}
