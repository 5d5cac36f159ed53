package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestProbe of the state folder leaves nothing behind, and sees a disk on which a
// file can be made and not written.
func TestProbe(t *testing.T) {
	dir := t.TempDir()
	servicetest.OK(t, probe(dir, os.CreateTemp))
	full := func(dir, pattern string) (*os.File, error) {
		link := filepath.Join(dir, pattern)
		if err := os.Symlink("/dev/full", link); err != nil {
			return nil, err
		}
		return os.OpenFile(link, os.O_WRONLY, 0)
	}
	if err := probe(dir, full); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
