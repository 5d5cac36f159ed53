package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// refusingFS makes no folder, for the reason that it has.
type refusingFS struct {
	vfs.FS
	reason error
}

func (f refusingFS) MkdirAll(dir string, _ fs.FileMode) error {
	return &fs.PathError{Op: "mkdir", Path: dir, Err: f.reason}
}

// TestFolderThatCannotBeMade: the error is the true one and says what to do. It never says that
// files of a store have disappeared, for there was none.
func TestFolderThatCannotBeMade(t *testing.T) {
	base := t.TempDir()
	file, dangling := filepath.Join(base, "file"), filepath.Join(base, "dangling")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(base, "nowhere", "at", "all"), dangling); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir    string
		reason error // of a folder that the test cannot make fail by itself
		want   error
	}{
		"a file of that name": {file, nil, ErrNoFolder},
		"a file on the path": {
			filepath.Join(file, "below", "state"), nil,
			ErrNoFolder,
		},
		"a link to nowhere":             {dangling, nil, ErrNoFolder},
		"a link to nowhere on the path": {filepath.Join(dangling, "state"), nil, ErrNoFolder},
		"a parent in which nothing is":  {filepath.Join(base, "x"), syscall.ENOENT, ErrUnmade},
		"a read-only file system":       {filepath.Join(base, "x"), syscall.EROFS, ErrReadOnly},
		"a parent of somebody else":     {filepath.Join(base, "x"), syscall.EACCES, ErrReadOnly},
		"a full disk":                   {filepath.Join(base, "x"), syscall.ENOSPC, ErrFull},
		"a name that is too long": {
			filepath.Join(base, strings.Repeat("x", 300)), nil,
			ErrUnmade,
		},
		"a file system that makes no dir": {
			filepath.Join(base, "x"), syscall.EOPNOTSUPP,
			ErrUnmade,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Logger: quiet()}
			if c.reason != nil {
				o.FS = refusingFS{vfs.Default, c.reason}
			}
			s, err := Open(c.dir, o)
			if err == nil {
				_ = s.Close()
				t.Fatal("it opens")
			}
			text := err.Error()
			if !errors.Is(err, c.want) || errors.Is(err, ErrGone) ||
				!strings.Contains(text, c.dir) || strings.Contains(text, "\n") {
				t.Errorf("it says %q", text)
			}
		})
	}
}
