package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// unwritten returns the error of a file, or of a folder, that could not be written,
// under the name that the user knows it by, not that of a temporary one, with what to
// do. An error that is no file system's stays as it is.
func unwritten(path string, err error) error {
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &at):
		err = at.Err
	case errors.As(err, &link):
		err = link.Err
	default:
		return err
	}
	remedy := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = ": make room, or choose a place on another disk"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		remedy = ": choose a place that you may write to"
	}
	return fmt.Errorf("%s cannot be written: %w%s", path, err, remedy)
}

// named is what writes to a file that a user knows by another name than the system.
type named struct {
	file io.Writer
	path string
}

// Write implements io.Writer.
func (w named) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	return n, unwritten(w.path, err)
}

// writeWhole writes a file that appears complete or not at all, and that only its owner may
// read: what it is used for comes from people's traces.
func writeWhole(path string, data []byte) error {
	file, err := createText(path)
	if err != nil {
		return err
	}
	if err := file.restrict(); err != nil {
		return errors.Join(unwritten(path, err), file.discard())
	}
	if _, err := file.Write(data); err != nil {
		return errors.Join(err, file.discard())
	}
	return file.close()
}
