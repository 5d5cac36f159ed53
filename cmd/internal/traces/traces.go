// Package traces reads fixes out of files: CSV, newline-delimited JSON, Geolife
// 1.3 and SNAP's Gowalla, each plain or packed with gzip. Files stream: memory
// does not grow with their size (see Reader.Fixes for Gowalla's).
//
// What the files hold is secret. No error and no count of this package repeats
// any of it: they name a file, a line and a constant reason.
//
//	traces.go   Open and Reader: one pass over all files
//	files.go    which files a path stands for
//	source.go   bytes of a file, unpacked and counted
//	parallel.go several files at a time
//	interrupt.go  waiting that ends with the context
//	lines.go    bounded lines
//	format.go   formats and how one is guessed
//	csv.go (record.go, header.go, columns.go), ndjson.go, geolife.go, gowalla.go: one each
//	fields.go   times, degrees and user ids
//	skips.go    what was left out, and why
package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"github.com/geodither/geodither/schemas"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Options configure a Reader. The zero value guesses the format of each file
// and skips bad lines.
type Options struct {
	Format Format // of all files; empty: guessed for each
	Strict bool   // a bad line is an error, instead of skipped and counted
	// Columns names columns of CSV and fields of NDJSON that are called otherwise
	// than their format has it: user_id, timestamp, latitude, longitude or
	// accuracy_m to the name in the files. In CSV the name may be in whatever case.
	Columns map[string]string
}

// Validate reports a format that is unknown, or columns that no file could have.
func (o Options) Validate() error {
	if err := o.Format.validate(); err != nil {
		return err
	}
	return o.checkColumns()
}

// Reader reads the fixes of some files, once. It is for one goroutine, but for
// Progress.
type Reader struct {
	ctx     context.Context //nolint:containedctx // the reading's, which an iterator has no other place for
	files   []file
	options Options
	stdin   io.Reader
	lane    lane  // of Fixes
	total   int64 // bytes of all files; 0 if unknown
	done    atomic.Int64
	used    bool
}

// Open finds the files that paths stand for and opens none of them yet. A path
// is a file, a folder or Stdin. A folder with Geolife's .plt files stands for
// those, of all users in it; any other folder for the files in it that are
// named as the format asks: .csv for CSV, .ndjson or .jsonl for NDJSON, .txt
// for Gowalla, all but .txt without a format, each also with .gz behind it.
// Folders are read in the order of names, paths in the given one.
//
// The error says which path is missing, holds nothing to read, or is given
// with a format that cannot be. The end of ctx ends the reading with its error
// within a block of 64 KiB, also where a pipe or standard input has nothing to
// give.
func Open(ctx context.Context, paths []string, stdin io.Reader, o Options) (*Reader, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, errors.New("no input: name files or folders, or - for standard input")
	}
	r := &Reader{ctx: ctx, options: o, stdin: stdin}
	r.lane.skips = newSkips()
	known, fromStdin := true, false
	for _, path := range paths {
		if path == Stdin {
			if fromStdin {
				return nil, errors.New("standard input is named twice: name - once")
			}
			if stdin == nil {
				return nil, errors.New("there is no standard input to read: name a file")
			}
			if o.Format == Geolife {
				return nil, errGeolifeStdin
			}
			fromStdin = true
			r.files = append(r.files, file{path: stdinName, stdin: true})
			continue
		}
		files, err := find(path, o.Format)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			known = known && f.regular
			r.total += f.size
		}
		r.files = append(r.files, files...)
	}
	if fromStdin || !known {
		r.total = 0
	}
	return r, nil
}

// Fixes returns the fixes in the order of the files and of their lines; Gowalla
// lists a user's newest check-in first, and is turned round: oldest first
// within each run of lines of one user, which is held in memory. Every fix has
// passed schemas.Raw.Validate.
//
// An error ends the sequence: a file that cannot be read or is cut short, a CSV
// header without a column that is needed, a format that cannot be guessed and,
// in strict reading, the first bad line. It comes with a zero fix. The sequence
// can be ranged over once; stopping early closes the file. Cost: less
// than half a microsecond a fix (NDJSON: one) and no allocation, but for an
// accuracy and for NDJSON's user ids.
func (r *Reader) Fixes() iter.Seq2[schemas.Raw, error] {
	return func(yield func(schemas.Raw, error) bool) {
		if r.used {
			yield(schemas.Raw{}, errUsed)
			return
		}
		r.used = true
		for i := range r.files {
			err := r.read(r.ctx, &r.lane, i, yield)
			if errors.Is(err, errStopped) {
				return
			}
			if err != nil {
				yield(schemas.Raw{}, err)
				return
			}
		}
	}
}

// Files returns how many files there are to read.
func (r *Reader) Files() int { return len(r.files) }

// Skips returns what was left out so far. It grows with the reading of Fixes, and
// is for the same goroutine; Parallel fills it in at its end.
func (r *Reader) Skips() *Skips { return &r.lane.skips }

// Progress returns how many bytes of the files, as they lie on the disk, were
// read, and how many there are; the total is 0 if that is not known, as from
// standard input and pipes. It may be called from any goroutine.
func (r *Reader) Progress() (doneBytes, totalBytes int64) { return r.done.Load(), r.total }

var errUsed = errors.New("these files were read already: open them again")

// errStopped is returned through the formats when the caller wants no more.
var errStopped = errors.New("stopped")

// pass is the reading of one file.
type pass struct {
	*lane
	options Options
	file    file
	index   int // of the file
	lines   *lines
	yield   func(schemas.Raw, error) bool
}

// read reads the file of an index.
func (r *Reader) read(ctx context.Context, l *lane, index int, yield func(schemas.Raw, error) bool) (err error) {
	f := r.files[index]
	lines, err := r.open(ctx, l, f)
	if err != nil {
		return err
	}
	// What was read is already with the caller: closing cannot undo it.
	defer func() { _ = l.source.close() }()

	p := &pass{lane: l, options: r.options, file: f, index: index, lines: lines, yield: yield}
	format, err := p.format()
	if errors.Is(err, io.EOF) {
		return p.skip(1, reasonEmptyFile)
	}
	if err != nil {
		return err
	}
	if len(p.options.Columns) > 0 && !format.named() {
		return fmt.Errorf("%s: a file of %s has no names of columns: leave the columns out", f.path, format)
	}
	switch format {
	case NDJSON:
		return p.readNDJSON()
	case Geolife:
		return p.readGeolife()
	case Gowalla:
		return p.readGowalla()
	default:
		return p.readCSV()
	}
}

// next returns the next line that is not empty; io.EOF after the last. Lines
// that are too long are skipped.
func (p *pass) next() ([]byte, error) {
	for {
		line, err := p.lines.next()
		switch {
		case errors.Is(err, errTooLong):
			if err := p.skip(p.lines.number, string(schemas.ReasonTooLarge)); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, p.failure(err)
		case len(line) > 0:
			return line, nil
		}
	}
}

// failure says which file could not be read and what to do; io.EOF stays as it
// is.
func (p *pass) failure(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return p.source.explain(p.file.path, p.lines.number, err)
}

// emit hands a fix to the caller, or skips it if it cannot be one.
func (p *pass) emit(fix schemas.Raw, line int) error {
	if reason := refusal(fix); reason != "" {
		return p.skip(line, reason)
	}
	if !p.yield(fix, nil) {
		return errStopped
	}
	return nil
}

// skip counts a bad line, or returns it as the error of strict reading.
func (p *pass) skip(line int, reason string) error {
	if p.options.Strict {
		return fmt.Errorf("%s:%d: %s: correct or remove the line, or read without strict to skip such lines",
			p.file.path, line, reason)
	}
	p.skips.Add(p.index, Skip{File: p.file.path, Line: line, Reason: reason})
	return nil
}

// refusal returns why a fix cannot be one; empty if it can.
func refusal(fix schemas.Raw) string {
	err := fix.Validate()
	if err == nil {
		return ""
	}
	if rejection, ok := errors.AsType[*schemas.Rejection](err); ok {
		return string(rejection.Reason)
	}
	return string(schemas.ReasonMalformed)
}
