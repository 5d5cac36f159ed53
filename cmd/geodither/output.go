package main

import (
	"errors"
	"io"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
)

// output is where sanitized records go: a file that appears when it is complete, or a stream.
type output struct {
	records recordWriter
	file    *files.File
}

// newOutput opens a path, or standard output for "-".
func newOutput(path, format string, stdout io.Writer) (*output, error) {
	f, err := files.CreateOrStdout(path, stdout)
	if err != nil {
		return nil, err
	}
	records, err := newRecordWriter(format, f)
	if err != nil {
		return nil, errors.Join(cli.Usage(err), f.Discard())
	}
	return &output{records, f}, nil
}

// close completes the output.
func (o *output) close() error {
	if err := o.records.close(); err != nil {
		return errors.Join(err, o.file.Discard())
	}
	return o.file.Close()
}

// discard gives the output up. What a stream has seen stays.
func (o *output) discard() error { return o.file.Discard() }
