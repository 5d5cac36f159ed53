package traces

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	csvHeader = "user_id,timestamp,latitude,longitude\n"
	csvLine   = "u1,1700000000000,10.5,-20.25\n"
)

// repeat reads as some units of text, without holding them.
type repeat struct {
	head, unit string
	left       int
	rest       string
	given      int64
}

func (r *repeat) Read(p []byte) (n int, err error) {
	if r.head != "" {
		r.rest, r.head = r.head, ""
	}
	for n < len(p) {
		if r.rest == "" {
			if r.left == 0 {
				break
			}
			r.left--
			r.rest = r.unit
		}
		k := copy(p[n:], r.rest)
		r.rest, n = r.rest[k:], n+k
	}
	r.given += int64(n)
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Neither what is read ahead nor what is allocated grows with the input.
func TestStreams(t *testing.T) {
	const count = 500_000
	in := &repeat{head: csvHeader, unit: csvLine, left: count}
	r := open(t, []string{Stdin}, in, Options{})
	n := int64(0)
	allocated := allocating(func() {
		for _, err := range r.Fixes() {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if ahead := in.given - int64(len(csvHeader)) -
				n*int64(len(csvLine)); ahead > 2*bufferBytes {
				t.Fatalf("%d bytes are read ahead of fix %d", ahead, n)
			}
		}
	})
	if n != count {
		t.Errorf("%d fixes, want %d", n, count)
	}
	if allocated > 1<<20 {
		t.Errorf("%d bytes allocated for %d read", allocated, in.given)
	}
	if done, total := r.Progress(); done != in.given || total != 0 {
		t.Errorf("progress %d of %d, want %d of 0", done, total, in.given)
	}
}

func allocating(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestGzip(t *testing.T) {
	one := row{"u1", noon, 10.5, -20.25, -1}
	packed := zip(t, csvHeader+csvLine)
	folder := t.TempDir()

	path := write(t, folder, "named.csv", packed) // told by the content, not by the name
	r := open(t, []string{path}, nil, Options{})
	rows, err := drain(r)
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, rows, one)
	if done, total := r.Progress(); done != int64(len(packed)) || total != int64(len(packed)) {
		t.Errorf("progress %d of %d, want %d of both", done, total, len(packed))
	}

	rows, _, err = fromText(t, packed, Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, rows, one)

	rows, _, err = fromText(t, zip(t, csvHeader)+zip(t, csvLine), Options{}) // as cat makes it
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, rows, one)

	rows, _ = fromPaths(t, Options{}, write(t, folder, "plain.gz", csvHeader+csvLine), path)
	wantRows(t, rows, one, one)
}

// A gzip file that is cut anywhere is an error, whatever fixes came before, and
// none of them is half of a line.
func TestTruncatedGzip(t *testing.T) {
	content := csvHeader + strings.Repeat(csvLine, 40)
	packed := zip(t, content)
	for cut := 2; cut < len(packed); cut++ {
		path := write(t, t.TempDir(), "cut.csv.gz", packed[:cut])
		rows, err := drain(open(t, []string{path}, nil, Options{}))
		wantError(t, err, path, "cut short", "the gzip data is")
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		for _, r := range rows {
			if r != (row{"u1", noon, 10.5, -20.25, -1}) {
				t.Fatalf("cut at %d: a fix that is not in the file: %v", cut, r)
			}
		}
	}
}

func TestDamagedGzip(t *testing.T) {
	packed := []byte(zip(t, csvHeader+csvLine))
	packed[len(packed)-5] ^= 1 // of the checksum
	path := write(t, t.TempDir(), "bad.gz", string(packed))
	_, err := drain(open(t, []string{path}, nil, Options{}))
	wantError(t, err, path, "damaged after line 2", "the gzip data is")
}

func TestForeignFiles(t *testing.T) {
	for content, want := range map[string]string{
		"PK\x03\x04....":          "unpack it first",
		"\x28\xb5\x2f\xfd":        "zstd",
		"\xfd7zXZ\x00":            "xz",
		"BZh9":                    "bzip2",
		"PAR1":                    "Parquet",
		"SQLite format 3":         "SQLite",
		"\xff\xfeu\x00s\x00":      "UTF-16",
		zip(t, zip(t, csvHeader)): "twice",
	} {
		path := write(t, t.TempDir(), "x.csv", content)
		_, err := drain(open(t, []string{path}, nil, Options{}))
		wantError(t, err, path, want)
	}
}

// What a failing disk gave before the failure is handed on, and half a line is
// not.
func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader(csvHeader+csvLine+"u1,1700000000000,10.5,-20"),
		iotest.ErrReader(broken))
	r := open(t, []string{Stdin}, in, Options{})
	rows, err := drain(r)
	wantError(t, err, stdinName, "after line 2")
	if !errors.Is(err, broken) {
		t.Errorf("%v does not wrap the cause", err)
	}
	wantRows(t, rows, row{"u1", noon, 10.5, -20.25, -1})

	for _, start := range []string{"", "\x1f\x8b"} {
		in := io.MultiReader(strings.NewReader(start), iotest.ErrReader(broken))
		if _, err := drain(open(t, []string{Stdin}, in, Options{})); !errors.Is(err, broken) {
			t.Errorf("an error at the start is lost: %v", err)
		}
	}
}

// Readers may return as little as they like at a time.
func TestSmallReads(t *testing.T) {
	for _, text := range []string{csvHeader + csvLine, zip(t, csvHeader+csvLine)} {
		in := iotest.DataErrReader(iotest.OneByteReader(strings.NewReader(text)))
		rows, err := drain(open(t, []string{Stdin}, in, Options{}))
		if err != nil {
			t.Fatal(err)
		}
		wantRows(t, rows, row{"u1", noon, 10.5, -20.25, -1})
	}
}

// A file is closed when the caller stops, when it panics, and at the end.
func TestFilesAreClosed(t *testing.T) {
	path := write(t, t.TempDir(), "a.csv", csvHeader+csvLine+csvLine)
	for name, use := range map[string]func(r *Reader){
		"stopped": func(r *Reader) {
			for range r.Fixes() {
				break
			}
		},
		"panic": func(r *Reader) {
			defer func() { _ = recover() }()
			for range r.Fixes() {
				panic("of the caller")
			}
		},
		"read": func(r *Reader) {
			if _, err := drain(r); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, []string{path, path}, nil, Options{})
			use(r)
			if err := r.lane.source.closer.Close(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("the file was left open (%v)", err)
			}
		})
	}
}

// A folder of packed files is read with one of them open at a time, and in
// memory that does not grow with their number.
func TestPackedFolderStreams(t *testing.T) {
	const files, lines = 300, 100
	folder := t.TempDir()
	packed := zip(t, csvHeader+strings.Repeat(csvLine, lines))
	for i := range files {
		write(t, folder, fmt.Sprintf("%03d.csv.gz", i), packed)
	}
	r := open(t, []string{folder}, nil, Options{})
	opened := openedBelow(t, folder)
	if opened > 0 {
		t.Errorf("%d files are open before the first fix", opened)
	}
	n := 0
	allocated := allocating(func() {
		for _, err := range r.Fixes() {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%lines == 1 {
				opened = max(opened, openedBelow(t, folder))
			}
		}
	})
	if n != files*lines {
		t.Errorf("%d fixes, want %d", n, files*lines)
	}
	if opened > 1 || openedBelow(t, folder) > 0 {
		t.Errorf("%d files are open at once, %d at the end", opened, openedBelow(t, folder))
	}
	if allocated > files*(16<<10) {
		t.Errorf("%d bytes allocated for %d files: the buffers are not shared", allocated, files)
	}
}

// openedBelow returns how many files of a folder this process has open, where
// the system tells.
func openedBelow(t *testing.T, folder string) (n int) {
	t.Helper()
	const descriptors = "/proc/self/fd"
	entries, err := os.ReadDir(descriptors)
	if err != nil {
		t.Skip("this system does not list open files")
	}
	for _, entry := range entries {
		if path, err := os.Readlink(filepath.Join(descriptors, entry.Name())); err == nil &&
			filepath.Dir(path) == folder {
			n++
		}
	}
	return n
}
