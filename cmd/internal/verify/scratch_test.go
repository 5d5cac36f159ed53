package verify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/state"
)

// TestSweep: the states that a killed verification has left behind are removed,
// those of one at work are not, nor is anything else.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	made := func(name string) (string, *state.Store) {
		path := filepath.Join(dir, name)
		store, err := state.Open(path, state.Options{})
		servicetest.OK(t, err)
		servicetest.OK(t, store.Partition(0).Apply(
			[]state.Change{{Key: []byte("user"), Value: []byte("place")}}, state.Positions{}))
		return path, store
	}
	killed, store := made(folderPrefix + "1")
	servicetest.OK(t, store.Close())
	working, store := made(folderPrefix + "2")
	defer store.Close()
	beginning := filepath.Join(dir, folderPrefix+"3")
	servicetest.OK(t, os.Mkdir(beginning, 0o700))
	other, store := made("other")
	servicetest.OK(t, store.Close())
	Sweep(dir)
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("what was left behind is still there: %v", err)
	}
	for _, path := range []string{working, beginning, other} {
		_, err := os.Stat(path)
		servicetest.OK(t, err)
	}
}
