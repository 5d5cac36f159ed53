package files

import (
	"errors"
	"io"

	"github.com/geodither/geodither/schemas"
)

// Output is where sanitized records go: a file that appears when it is complete, or a stream.
type Output struct {
	writer Writer
	file   *File
}

// NewOutput opens a path, whose extension is its format, or standard output for "-", which is CSV.
func NewOutput(path string, stdout io.Writer) (*Output, error) {
	format, err := FormatOf(path)
	if err != nil {
		return nil, err
	}
	file, err := CreateOrStdout(path, stdout)
	if err != nil {
		return nil, err
	}
	writer, err := NewWriter(format, file)
	if err != nil {
		return nil, errors.Join(err, file.Discard())
	}
	return &Output{writer, file}, nil
}

// Write writes one record.
func (o *Output) Write(r schemas.Sanitized) error { return o.writer.Write(r) }

// Close completes the output.
func (o *Output) Close() error {
	if err := o.writer.Close(); err != nil {
		return errors.Join(err, o.file.Discard())
	}
	return o.file.Close()
}

// Discard gives the output up. What a stream has seen stays.
func (o *Output) Discard() error { return o.file.Discard() }
