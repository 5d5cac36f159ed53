package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
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
		{&fs.PathError{Op: "write", Path: "dir/.tmp-1", Err: syscall.ENOSPC}, "dir/a.csv cannot " +
			"be written: no space left on device: make room, or choose a place on another disk"},
		{fmt.Errorf("figure: %w", &fs.PathError{
			Op: "open", Path: "dir/.tmp-1", Err: syscall.EACCES,
		}), "dir/a.csv cannot be written: permission denied: choose a place that you may write to"},
		{
			&os.LinkError{Op: "rename", Old: "dir/.tmp-1", New: "dir/a.csv", Err: syscall.EROFS},
			"dir/a.csv cannot be written: read-only file system: choose a place that you " +
				"may write to",
		},
		{
			&fs.PathError{Op: "write", Path: "dir/.tmp-1", Err: syscall.EIO},
			"dir/a.csv cannot be written: input/output error",
		},
	} {
		once := Unwritten("dir/a.csv", c.err)
		if got := fmt.Sprint(once); got != c.want ||
			errors.Is(c.err, foreign) && !errors.Is(once, foreign) {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		if got := fmt.Sprint(Unwritten("dir/a.csv", once)); got != c.want {
			t.Errorf("wrapped again: %s", got)
		}
	}
}

// TestWriteWhole: a file is replaced as a whole, and nothing else is left.
func TestWriteWhole(t *testing.T) {
	dir := t.TempDir()
	path := testFile(t, dir, "fit.json", "older, and longer")
	if err := WriteWhole(path, []byte("new")); err != nil || textOf(t, path) != "new" {
		t.Errorf("%v, %q", err, textOf(t, path))
	}
	if err := WriteWhole(filepath.Join(dir, "none", "fit.json"), nil); err == nil {
		t.Error("there is no folder, and no error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func testFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
