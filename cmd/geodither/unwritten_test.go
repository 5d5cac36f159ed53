package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// TestUnwritten: the user's name of the file, once, and what to do.
func TestUnwritten(t *testing.T) {
	foreign := errors.New("another error")
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "<nil>"},
		{foreign, "another error"},
		{&fs.PathError{Op: "write", Path: "dir/.tmp-1", Err: syscall.ENOSPC}, "dir/a.csv cannot be written: no space left on device: make room, or choose a place on another disk"},
		{fmt.Errorf("figure: %w", &fs.PathError{Op: "open", Path: "dir/.tmp-1", Err: syscall.EACCES}), "dir/a.csv cannot be written: permission denied: choose a place that you may write to"},
		{&os.LinkError{Op: "rename", Old: "dir/.tmp-1", New: "dir/a.csv", Err: syscall.EROFS}, "dir/a.csv cannot be written: read-only file system: choose a place that you may write to"},
		{&fs.PathError{Op: "write", Path: "dir/.tmp-1", Err: syscall.EIO}, "dir/a.csv cannot be written: input/output error"},
	} {
		once := unwritten("dir/a.csv", c.err)
		if got := fmt.Sprint(once); got != c.want || errors.Is(c.err, foreign) && !errors.Is(once, foreign) {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		if got := fmt.Sprint(unwritten("dir/a.csv", once)); got != c.want {
			t.Errorf("wrapped again: %s", got)
		}
	}
}

// TestFullDisk: commands name what they could not write, once, and what to do.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no device that is always full")
	}
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	sanitized := filepath.Join(dir, "sanitized.csv")
	succeed(t, sanitizeArgs(traces, model, "--out", sanitized)...)
	for _, args := range [][]string{
		sanitizeArgs(traces, model, "--out", "/dev/full"),
		{"aggregate", "--model", model, "--in", sanitized, "--window", "15m", "--zone", "1km", "--epsilon", "2", "--delta", "0.02", "--out", "/dev/full"},
		{"model", "fit", model, "--in", traces, "--min-segment", "10", "--json", "/dev/full"},
	} {
		r := call(t, args...)
		if r.code != cli.ExitFailed || strings.Count(r.err, "/dev/full cannot be written: no space left on device: make room, or choose a place on another disk") != 1 {
			t.Errorf("%s: exit %d\n%s", args[0], r.code, r.err)
		}
		if args[0] == "model" && !strings.Contains(r.out, "verdict") {
			t.Error("the fit that cannot be written is not printed either")
		}
	}
}

// TestWriteWhole: a file is replaced as a whole, and nothing else is left.
func TestWriteWhole(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "fit.json", "of before, and longer")
	if err := writeWhole(path, []byte("new")); err != nil || read(t, path) != "new" {
		t.Errorf("%v, %q", err, read(t, path))
	}
	if err := writeWhole(filepath.Join(dir, "none", "fit.json"), nil); err == nil {
		t.Error("there is no folder, and no error")
	}
	if left := names(t, dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
