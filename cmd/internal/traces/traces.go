// Package traces reads fixes from files: CSV, newline-delimited JSON, Geolife 1.3 and SNAP's
// Gowalla, each plain or packed with gzip. Files are streamed, so memory does not grow with their
// size (Reader.Fixes says what Gowalla's need).
//
// The content of the files is secret. No error and no count of this package repeats any of it:
// they name a file, a line and a constant reason.
//
//	traces.go  Open and Reader: which files, and one pass over them, also several at a time
//	format.go  the formats, how one is guessed, and how each is read
//	mapped.go  JSON messages in the forms of schemas/mapping
//	document.go  those of JSON over several lines
//	csv.go     CSV: quotes, the header, the names of columns
//	pass.go    the reading of one file: its next line, its fixes, its skipped lines
//	source.go  the bytes of a file, unpacked and counted, and its lines, of bounded length
//	fields.go  times, degrees and user ids
//	skips.go   what was left out, and why
package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geodither/geodither/mechanism/parallel"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Options configure a Reader. The zero value guesses the format of each file.
type Options struct {
	Format Format // of all files; empty: guessed for each
	// Columns maps user_id, timestamp, latitude, longitude or accuracy_m to the name that the
	// files use instead, for columns of CSV and fields of NDJSON. CSV ignores the case of names.
	Columns map[string]string
	// Mapping reads JSON: one message a line, or the messages of a document. nil: a line is a raw
	// record, and only what phones export is a document.
	Mapping *mapping.Mapping
	// MaxAhead is how far a fix may lie ahead of the clock, which Open reads once; default
	// schemas.DefaultMaxAhead. A fix that no clock can have is skipped by name, because an accepted
	// one makes all earlier fixes of its user late.
	MaxAhead time.Duration
	Now      func() time.Time // default time.Now
}

// latest returns the latest time that a fix can have, milliseconds since 1970.
func (o Options) latest() int64 {
	if o.MaxAhead == schemas.AnyAhead {
		return math.MaxInt64
	}
	now := time.Now
	if o.Now != nil {
		now = o.Now
	}
	return now().Add(cmp.Or(o.MaxAhead, schemas.DefaultMaxAhead)).UnixMilli()
}

// Validate reports an unknown format, a negative bound, or columns that no file could have.
func (o Options) Validate() error {
	if o.MaxAhead < 0 {
		return errors.New("max_ahead must not be negative")
	}
	switch o.Format {
	case "", CSV, NDJSON, Geolife, Gowalla:
		return o.checkColumns()
	}
	return fmt.Errorf("unknown format %q: use %s, %s, %s or %s", string(o.Format), CSV, NDJSON,
		Geolife, Gowalla)
}

// checkColumns reports columns that no file could have.
func (o Options) checkColumns() error {
	if len(o.Columns) == 0 {
		return nil
	}
	if o.Format != "" && !o.Format.named() {
		return fmt.Errorf("a file of %s has no column names", o.Format)
	}
	named := map[string]string{}
	for _, column := range slices.Sorted(maps.Keys(o.Columns)) {
		name := o.Columns[column]
		if !slices.ContainsFunc(columnNames[:], func(known []string) bool {
			return known[0] == column
		}) {
			return fmt.Errorf("there is no column %q: name user_id, timestamp, latitude, "+
				"longitude or accuracy_m", column)
		}
		if strings.TrimSpace(name) == "" || name != strings.TrimSpace(name) {
			return fmt.Errorf("the column for %s has no name, or blanks", column)
		}
		if other, ok := named[strings.ToLower(name)]; ok {
			return fmt.Errorf("the column %q stands for %s and %s", name, other, column)
		}
		named[strings.ToLower(name)] = column
	}
	for _, known := range columnNames {
		other, taken := named[known[0]]
		if _, renamed := o.Columns[known[0]]; taken && !renamed {
			return fmt.Errorf("the column %q stands for %s: name the one for %s as well", known[0],
				other, known[0])
		}
	}
	return nil
}

// Reader reads the fixes of some files once. One goroutine may use it; any may call Progress.
type Reader struct {
	ctx     context.Context //nolint:containedctx // an iterator has no other place for it
	files   []file
	options Options
	latest  int64 // time of a fix, see Options.MaxAhead
	stdin   io.Reader
	lane    lane  // of Fixes
	total   int64 // bytes of all files; 0 if unknown
	done    atomic.Int64
	used    bool
	owners  sync.Map // paths of exports by the person that they are of
}

// Open finds the files that paths stand for and opens none of them yet. A path is a file, a folder
// or Stdin. A folder with Geolife's .plt files stands for the files of all users in it. Any other
// folder stands for the files in it with the format's extension: .csv for CSV, .ndjson or .jsonl
// for NDJSON, .txt for Gowalla, and all of these but .txt if no format is given. Each may end in
// .gz. Folders are read in the order of names, paths in the given order.
//
// The error says which path is missing, holds nothing to read, or does not go with the format.
// When ctx ends, the reading ends with its error, at most a block of 64 KiB later. It does so too
// while a pipe or standard input has nothing to give.
func Open(ctx context.Context, paths []string, stdin io.Reader, o Options) (*Reader, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, errors.New("no input: name files, folders, or -")
	}
	r := &Reader{ctx: ctx, options: o, stdin: stdin, latest: o.latest()}
	r.lane.skips = newSkips()
	if err := r.find(paths); err != nil {
		return nil, err
	}
	for _, f := range r.files {
		if !f.regular {
			r.total = 0
			break
		}
		r.total += f.size
	}
	return r, nil
}

// find finds the files that paths stand for.
func (r *Reader) find(paths []string) error {
	fromStdin := false
	for _, path := range paths {
		if path != Stdin {
			files, err := filesOf(path, r.options.Format)
			if err != nil {
				return err
			}
			r.files = append(r.files, files...)
			continue
		}
		switch {
		case fromStdin:
			return errors.New("standard input is named twice")
		case r.stdin == nil:
			return errors.New("there is no standard input to read")
		case r.options.Format == Geolife:
			return errGeolifeStdin
		}
		fromStdin = true
		r.files = append(r.files, file{path: stdinName, stdin: true})
	}
	return nil
}

// Fixes returns the fixes in the order of the files and of their lines. Gowalla lists a user's
// newest check-in first; Fixes reverses each run of lines of one user, which it holds in memory,
// and so returns the oldest first. Every fix has passed schemas.Raw.Validate and has a time that a
// clock can have: after GPS began, and not ahead of now by more than Options.MaxAhead.
//
// An error ends the sequence and comes with a zero fix: a file that cannot be read or is cut short,
// a CSV header without a necessary column, or a format that cannot be guessed. The caller can range
// over the sequence once; stopping early closes the file.
// Cost: half a microsecond a fix (NDJSON: one) and no allocation except for accuracies
// and for NDJSON's user ids.
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

// read reads the file of an index.
func (r *Reader) read(ctx context.Context, l *lane, index int,
	yield func(schemas.Raw, error) bool,
) error {
	f := r.files[index]
	lines, err := l.source.open(ctx, f, r.stdin, &r.done)
	if err != nil {
		return err
	}
	// The caller has what was read: an error of closing cannot undo it.
	defer func() { _ = l.source.close() }()
	return readFile(&pass{
		lane: l, file: f, index: index, lines: lines, yield: yield,
		columns: r.options.Columns, mapping: r.options.Mapping, latest: r.latest, owners: &r.owners,
	}, r.options.Format)
}

// Files returns how many files there are to read.
func (r *Reader) Files() int { return len(r.files) }

// Skips returns what was left out so far. Fixes adds to it as it reads, so only the reading
// goroutine may use it; Parallel fills it in at its end.
func (r *Reader) Skips() *Skips { return &r.lane.skips }

// Progress returns how many bytes of the files, as stored on the disk, were read, and how many
// there are. The total is 0 if it is unknown, as for standard input and pipes. Any goroutine may
// call it.
func (r *Reader) Progress() (doneBytes, totalBytes int64) { return r.done.Load(), r.total }

var errUsed = errors.New("these files were read already")

// Parallel reads the files as Fixes does, with up to so many workers at a time, and gives each fix
// to take, with the number of its worker, from 0. A worker reads one file after another, each from
// its start to its end, and calls take from one goroutine. Different workers call it at the same
// time. A single file is not split between workers.
//
// The skipped lines and the error are those of Fixes: if several files cannot be read, the error
// is that of the first file in their order. An error of take ends the reading too. Memory is
// 200 kB a worker.
func (r *Reader) Parallel(workers int, take func(worker int, fix schemas.Raw) error) error {
	if r.used {
		return errUsed
	}
	r.used = true
	lanes := make([]lane, max(1, min(workers, len(r.files))))
	err := parallel.Pool{
		Workers: len(lanes),
	}.Do(len(r.files), func(worker int) func(*parallel.Task) error {
		return func(t *parallel.Task) error {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			ctx, stop := context.WithCancel(r.ctx)
			defer stop()
			t.OnStop(stop)
			var refused error
			err := r.read(ctx, &lanes[worker], t.Number, func(fix schemas.Raw, _ error) bool {
				refused = take(worker, fix)
				return refused == nil
			})
			if refused != nil {
				return refused
			}
			return err
		}
	})
	parts := make([]*Skips, len(lanes))
	for i := range lanes {
		parts[i] = &lanes[i].skips
	}
	r.lane.skips = Merge(parts...)
	return err
}

// stdinName is the name of standard input in errors and skips.
const stdinName = "standard input"

// maxDepth is how many folders deep the search for .plt files goes:
// Geolife/Data/USER/Trajectory/x.plt, and one more. It ends loops of links.
const maxDepth = 4

// filesOf returns the files that a path stands for: the file itself, or those of a folder.
func filesOf(path string, format Format) ([]file, error) {
	info, err := os.Stat(path)
	if err != nil {
		if wrong, ok := errors.AsType[*fs.PathError](err); ok {
			err = wrong.Err // without the name of the system call
		}
		return nil, fmt.Errorf("%s: %w: check the path", path, err)
	}
	if !info.IsDir() {
		return []file{newFile(path, info)}, nil
	}
	var files []file
	if format == "" || format == Geolife {
		if files, err = walk(path, []string{".plt"}, maxDepth); err != nil {
			return nil, err
		}
	}
	if len(files) == 0 && format != Geolife {
		if files, err = walk(path, format.extensions(), 0); err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the folder %s holds no %s files", path,
			strings.Join(format.extensions(), ", "))
	}
	return files, nil
}

// walk returns the files with one of some extensions in a folder and up to depth folders below
// it, in the order of names. It follows links. It leaves out names with a leading dot, because
// macOS puts a ._x.plt beside each x.plt.
func walk(folder string, extensions []string, depth int) ([]file, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("%w: give read permission or leave the folder out", err)
	}
	var files []file
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		wanted := hasExtension(entry.Name(), extensions)
		if strings.HasPrefix(entry.Name(), ".") || !wanted && entry.Type().IsRegular() {
			continue
		}
		info, err := os.Stat(path)
		switch {
		case err != nil && wanted:
			return nil, fmt.Errorf("%w: repair or remove it", err)
		case err != nil: // a dead link to something else
		case info.IsDir() && depth > 0:
			below, err := walk(path, extensions, depth-1)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		case !info.IsDir() && wanted:
			files = append(files, newFile(path, info))
		}
	}
	return files, nil
}

func newFile(path string, info os.FileInfo) file {
	f := file{path: path, regular: info.Mode().IsRegular()}
	if f.regular {
		f.size = info.Size()
	}
	return f
}
