package state

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRemove: what a store has goes, what else lies in the folder stays, and an
// open store is left alone.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	if found, err := Remove(filepath.Join(dir, "typo"), false); err != nil || len(found.Names) > 0 {
		t.Fatalf("a folder that does not exist: %+v, %v", found, err)
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Partition(1).Apply([]Change{{Key: []byte("k"), Value: []byte("v")}},
		Positions{}); err != nil {
		t.Fatal(err)
	}
	if found, err := Remove(dir, true); err != nil || !found.InUse ||
		!slices.Equal(found.Names, []string{"store"}) || found.Bytes == 0 {
		t.Errorf("a look at an open store: %+v, %v", found, err)
	}
	if _, err := Remove(dir, false); !errors.Is(err, ErrLocked) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("removing an open store: %v", err)
	}
	if err := s.Partition(1).Apply([]Change{{Key: []byte("k"), Value: []byte("w")}},
		Positions{}); err != nil {
		t.Errorf("the store after that: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"store.aside-1", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, keep := range []bool{true, false} {
		found, err := Remove(dir, keep)
		if err != nil || found.InUse ||
			!slices.Equal(found.Names, []string{"store", "store.aside-1"}) || found.Bytes < 5 {
			t.Errorf("keep %t: %+v, %v", keep, found, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 || left[0].Name() != "LOCK" || left[1].Name() != "notes.txt" {
		t.Errorf("left are %v, %v", left, err)
	}
	if again, err := Remove(dir, false); err != nil || len(again.Names) > 0 {
		t.Errorf("the second time: %+v, %v", again, err)
	}
}
