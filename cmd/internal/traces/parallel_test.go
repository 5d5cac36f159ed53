package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/geodither/geodither/schemas"
)

// together reads all fixes of r with some workers, sorted.
func together(r *Reader, workers int) ([]row, error) {
	parts := make([][]row, workers)
	err := r.Parallel(workers, func(worker int, fix schemas.Raw) error {
		parts[worker] = append(parts[worker], rowOf(fix))
		return nil
	})
	rows := slices.Concat(parts...)
	sortRows(rows)
	return rows, err
}

func sortRows(rows []row) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.ms, b.ms),
			cmp.Compare(a.lat, b.lat), cmp.Compare(a.lon, b.lon))
	})
}

// mixed is a folder of many files, some packed, some with bad lines.
func mixed(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for i := range 40 {
		var b strings.Builder
		b.WriteString(csvHeader)
		for j := range 30 + i {
			switch {
			case i%3 == 1 && j%9 == 4:
				b.WriteString("u1,1700000000000,95,2\n")
			case i%5 == 2 && j%11 == 0:
				b.WriteString("short\n")
			default:
				fmt.Fprintf(&b, "u%d,%d,%d.5,%d.25\n", (i+j)%7, 1_700_000_000_000+1000*i+j, i, j)
			}
		}
		content, name := b.String(), fmt.Sprintf("%02d.csv", i)
		if i%4 == 0 {
			content, name = zip(t, content), name+".gz"
		}
		write(t, folder, name, content)
	}
	return folder
}

// Whatever the number of workers, the fixes, the skips and the first of them are
// those of one pass.
func TestParallel(t *testing.T) {
	folder := mixed(t)
	one := open(t, []string{folder}, nil, Options{})
	want, err := drain(one)
	if err != nil {
		t.Fatal(err)
	}
	sortRows(want)
	if one.Skips().Total < 2*maxFirst {
		t.Fatalf("%d lines were skipped: too few to show which are the first", one.Skips().Total)
	}
	for _, workers := range []int{1, 2, 3, 8, 100} {
		r := open(t, []string{folder}, nil, Options{})
		got, err := together(r, workers)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d workers: %d fixes, other than the %d of one pass",
				workers, len(got), len(want))
		}
		if got, want := r.Skips(), one.Skips(); got.String() != want.String() ||
			!slices.Equal(got.First, want.First) {
			t.Errorf("%d workers skip\n%v %v\none pass skips\n%v %v", workers, got, got.First,
				want, want.First)
		}
		done, total := r.Progress()
		if done != total || total == 0 {
			t.Errorf("%d workers: progress %d of %d", workers, done, total)
		}
		_, err = together(r, workers)
		wantError(t, err, "read already")
	}
}

// The error is that of the first file in order that has one, though others fail
// sooner: here the second, behind its many good lines.
func TestParallelFirstError(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "00.csv", csvHeader+csvLine)
	long := zip(t, csvHeader+strings.Repeat(csvLine, 20_000))
	write(t, folder, "01.csv.gz", long[:len(long)-3])
	cut := zip(t, csvHeader+csvLine)
	for i := 2; i < 30; i++ {
		write(t, folder, fmt.Sprintf("%02d.csv.gz", i), cut[:len(cut)-3])
	}
	_, want := drain(open(t, []string{folder}, nil, Options{}))
	wantError(t, want, "01.csv.gz", "cut short")
	for range 5 {
		_, err := together(open(t, []string{folder}, nil, Options{}), 4)
		wantError(t, err, want.Error())
	}
}

func TestParallelTakeFails(t *testing.T) {
	full := errors.New("full")
	r := open(t, []string{mixed(t)}, nil, Options{})
	err := r.Parallel(3, func(int, schemas.Raw) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("got %v, want the error of take", err)
	}
}

// The end of the context ends the reading of a file that has much more to give,
// and of bad lines, of which the caller sees nothing.
func TestInterruptedReading(t *testing.T) {
	for name, line := range map[string]string{"fixes": csvLine, "bad lines": "short\n"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			in := &repeat{head: csvHeader, unit: line, left: 1 << 40}
			var given atomic.Int64 // one more block may be on its way at the end
			stopped := readerFunc(func(p []byte) (int, error) {
				if given.Load() > 1<<20 {
					cancel()
				}
				n, err := in.Read(p)
				given.Add(int64(n))
				return n, err
			})
			r, err := Open(ctx, []string{Stdin}, stopped, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := together(r, 2); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's end", err)
			}
			if n := given.Load(); n > 1<<21 {
				t.Errorf("%d bytes were read, of which the context should have ended most", n)
			}
		})
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A named pipe waits for who writes to it, and standard input for what comes.
func TestInterruptedWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.csv")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	from, to := io.Pipe()
	defer to.Close()
	for name, path := range map[string]string{"named pipe": path, "standard input": Stdin} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r, err := Open(ctx, []string{path}, from, Options{})
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if _, err := drain(r); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's end", err)
			}
		})
	}
}
