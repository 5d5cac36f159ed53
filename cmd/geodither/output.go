package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// output is where sanitized records go: a file that appears when it is
// complete, or a stream.
type output struct {
	records  recordWriter
	buffered *bufio.Writer
	file     *os.File // nil for standard output
	path     string   // of the complete file; empty for a stream, a device or a pipe
}

// newOutput opens a path, or standard output for "-". A file is written under a
// name of its own beside the path, so that two runs to one path do not mix: the
// last one to end has it.
func newOutput(path, format string, std cli.Streams) (*output, error) {
	o := new(output)
	target := std.Out
	if path != "-" {
		var err error
		if o.file, o.path, err = create(path); err != nil {
			return nil, err
		}
		target = named{o.file, path}
	}
	o.buffered = bufio.NewWriterSize(target, 1<<16)
	var err error
	if o.records, err = newRecordWriter(format, o.buffered); err != nil {
		return nil, errors.Join(cli.Usage(err), o.discard())
	}
	return o, nil
}

// create opens a temporary file beside a path and returns it with what to
// rename it to; a device or a pipe is opened itself, with nothing to rename.
func create(path string) (file *os.File, final string, err error) {
	if err := checkTarget(path); err != nil {
		return nil, "", err
	}
	// A link is followed, not replaced.
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		return file, "", unwritten(path, err)
	}
	// 0666 less the umask, as any other output has it, which os.CreateTemp does
	// not do: sanitized records are made to be handed on.
	file, err = os.OpenFile(path+"."+rand.Text()[:8]+".partial", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	return file, path, unwritten(path, err)
}

// checkTarget says early what would keep a file from being written late.
func checkTarget(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: name a file to write", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("%s cannot be written: there is no folder %s: make it first", path, filepath.Dir(path))
	}
	return nil
}

// close completes the output.
func (o *output) close() error {
	err := o.records.close()
	if err == nil { // else it would say the same again
		err = o.buffered.Flush()
	}
	if o.file == nil {
		return err
	}
	err = errors.Join(err, unwritten(o.path, o.file.Close()))
	if o.path == "" {
		return err
	}
	if err == nil {
		err = unwritten(o.path, os.Rename(o.file.Name(), o.path))
	}
	if err != nil {
		return errors.Join(err, os.Remove(o.file.Name()))
	}
	return nil
}

// discard gives the output up; what a stream has seen stays.
func (o *output) discard() error {
	switch {
	case o.file == nil:
		_ = o.buffered.Flush() // why it is given up is reported
		return nil
	case o.path == "":
		_ = o.buffered.Flush()
		return o.file.Close()
	}
	return errors.Join(o.file.Close(), os.Remove(o.file.Name()))
}

// notAnInput refuses an output that is one of the inputs: it would replace the
// traces that it was made from.
func notAnInput(out string, inputs []string) error {
	target, err := os.Stat(out)
	if err != nil {
		return nil //nolint:nilerr // what is not there yet is no input
	}
	for _, path := range inputs {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, target) {
			return cli.Usagef("--out %s is an input too: name another file", out)
		}
	}
	return nil
}
