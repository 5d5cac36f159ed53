package files

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// File is a file that appears under its name when it is complete, or standard output.
type File struct {
	*bufio.Writer
	out   *os.File // nil for standard output
	final string   // the name to be; empty for a stream, a device or a pipe
}

// CreateOrStdout makes a file, or writes to standard output where the path is "-".
func CreateOrStdout(path string, stdout io.Writer) (*File, error) {
	if path == "-" {
		return &File{Writer: bufio.NewWriterSize(stdout, buffered)}, nil
	}
	return Create(path)
}

// buffered is how many bytes wait to be written together.
const buffered = 1 << 16

// Create makes a file, whatever its path is: "-" is a name too. It is written under a name of
// its own beside the path, so that two runs to one path do not mix: the last one to end has it.
func Create(path string) (*File, error) {
	out, final, err := temporary(path)
	if err != nil {
		return nil, err
	}
	return &File{bufio.NewWriterSize(named{out, path}, buffered), out, final}, nil
}

// Close completes the file.
func (f *File) Close() error {
	err := f.Flush()
	if f.out == nil {
		return err
	}
	err = errors.Join(err, Unwritten(f.final, f.out.Close()))
	if f.final == "" {
		return err
	}
	if err == nil {
		err = Unwritten(f.final, os.Rename(f.out.Name(), f.final))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.out.Name()))
	}
	return nil
}

// Wrote says on a log what a command has written to a file, or nothing of standard output.
func Wrote(log io.Writer, path, what string) {
	if path != "-" {
		fmt.Fprintf(log, "wrote %s to %s\n", what, path)
	}
}

// Restrict leaves a file that is not complete yet to its owner. Standard output, a device or a
// pipe stays as it is.
func (f *File) Restrict() error {
	if f.final == "" {
		return nil
	}
	return f.out.Chmod(0o600)
}

// Discard gives the file up. What a stream, a device or a pipe has seen stays.
func (f *File) Discard() error {
	switch {
	case f.out == nil:
		_ = f.Flush() // the caller reports why the file is given up
		return nil
	case f.final == "":
		_ = f.Flush()
		return f.out.Close()
	}
	return errors.Join(f.out.Close(), os.Remove(f.out.Name()))
}

// temporary opens a temporary file beside a path, and returns it with the name to give it in the
// end. It opens a device or a pipe itself, and then returns no name.
func temporary(path string) (file *os.File, final string, err error) {
	if err := CheckTarget(path); err != nil {
		return nil, "", err
	}
	// A link is followed, not replaced.
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		return file, "", Unwritten(path, err)
	}
	// 0666 less the umask, as any other output has it, which os.CreateTemp does not do: sanitized
	// records are made to be handed on.
	file, err = os.OpenFile(path+"."+rand.Text()[:8]+".partial",
		os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	return file, path, Unwritten(path, err)
}

// CheckTarget returns an error now if a file could not be written later.
func CheckTarget(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: name a file", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("%s cannot be written: there is no folder %s", path, filepath.Dir(path))
	}
	return nil
}

// NotAnInput refuses an output file that is one of the inputs: it would replace the traces that it
// is made from.
func NotAnInput(out string, inputs []string) error {
	target, err := os.Stat(out)
	if err != nil {
		return nil //nolint:nilerr // a file that does not exist is no input
	}
	for _, path := range inputs {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, target) {
			return cli.Usagef("--out %s is an input too", out)
		}
	}
	return nil
}
