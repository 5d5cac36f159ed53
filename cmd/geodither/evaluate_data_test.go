package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// TestCheckInPlaces: the places of check-ins are their coordinates on the map, each once, in an
// order that does not depend on who has read what.
func TestCheckInPlaces(t *testing.T) {
	lines := []string{ // in and around Los Angeles
		"1\t2010-10-19T23:55:27Z\t34.05\t-118.25\t7",
		"1\t2010-10-18T22:17:43Z\t34.10\t-118.30\t8",
		"1\t2010-10-17T22:17:43Z\t34.05\t-118.25\t7",
		"1\t2010-10-16T22:17:43Z\t40.75\t-73.99\t9", // New York
		"2\t2010-10-19T23:55:27Z\t34.10\t-118.30\t8",
		"2\t2010-10-17T23:55:27Z\t33.95\t-118.40\t5",
		"2\t2010-10-16T22:17:43Z\t34.05\t-118.25\t7",
	}
	dir, ids := t.TempDir(), map[string]bool{}
	for _, files := range [][][]string{{lines}, {lines[:4], lines[4:]}, {lines[4:], lines[:4]}} {
		f := dataFlags{timestamps: []string{"3"}}
		for i, of := range files {
			path := filepath.Join(dir, fmt.Sprintf("%d.txt", i))
			if err := os.WriteFile(path, []byte(strings.Join(of, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			f.paths = append(f.paths, "gowalla="+path)
		}
		sets, err := f.read()
		if err != nil {
			t.Fatal(err)
		}
		sets[0].definition.Folds = 2
		data, err := sets[0].load(t.Context(), cli.NewProgress(io.Discard, nil),
			cli.Streams{Err: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if data.Places.Len() != 3 {
			t.Errorf("%d places, want 3", data.Places.Len())
		}
		ids[data.Places.ID] = true
	}
	if len(ids) != 1 {
		t.Error("the places depend on how they are read")
	}
}
