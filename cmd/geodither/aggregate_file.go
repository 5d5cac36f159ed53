package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// textFile is a file that appears when it is complete, or standard output.
type textFile struct {
	*bufio.Writer
	file  *os.File // nil for standard output
	final string
}

func newTextFile(path string, stdout io.Writer) (*textFile, error) {
	if path == "-" {
		return &textFile{Writer: bufio.NewWriter(stdout)}, nil
	}
	return createText(path)
}

// createText is newTextFile of what is a file's name, whatever it is.
func createText(path string) (*textFile, error) {
	file, final, err := create(path)
	if err != nil {
		return nil, err
	}
	return &textFile{bufio.NewWriter(named{file, path}), file, final}, nil
}

func (t *textFile) close() error {
	o := output{records: noRecords{}, buffered: t.Writer, file: t.file, path: t.final}
	return o.close()
}

// restrict leaves a file that is not complete yet to its owner. Standard output, a device or
// a pipe stays as it is.
func (t *textFile) restrict() error {
	if t.file == nil || t.final == "" {
		return nil
	}
	return t.file.Chmod(0o600)
}

func (t *textFile) discard() error {
	o := output{records: noRecords{}, buffered: t.Writer, file: t.file, path: t.final}
	return o.discard()
}

// noRecords has nothing to close.
type noRecords struct{ recordWriter }

func (noRecords) close() error { return nil }

func sizesOf(paths []string) (total int64, err error) {
	known := true
	for _, path := range paths {
		if path == "-" {
			known = false
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return 0, fmt.Errorf("%w: check the path", err)
		}
		if info.IsDir() {
			return 0, fmt.Errorf("%s is a folder: name files of sanitized records", path)
		}
		known = known && info.Mode().IsRegular()
		total += info.Size()
	}
	if !known {
		total = 0
	}
	return total, nil
}
