package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Unwritten returns the error of a file or folder that could not be written, with what to do about
// it. It names the path that the user gave, not that of a temporary file. An error that is not the
// file system's stays as it is.
func Unwritten(path string, err error) error {
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

// named writes to a file, and its errors call the file by the user's path.
type named struct {
	file io.Writer
	path string
}

// Write implements io.Writer.
func (w named) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	return n, Unwritten(w.path, err)
}
