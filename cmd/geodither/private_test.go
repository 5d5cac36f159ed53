package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// requireMode checks who may use a file or a folder.
func requireMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
		t.Errorf("%s: mode %v, %v; want %v", filepath.Base(path), info.Mode().Perm(), err, want)
	}
}

// TestFilesOfTracesAreClosed: what comes from people's traces is for its owner, also in a folder
// that others may read, and where a file is replaced that they could read. A model that protects
// each user is for everybody.
func TestFilesOfTracesAreClosed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	traces, model := townFiles(t, dir)
	in := func(name string) string { return filepath.Join(dir, name) }
	open := write(t, dir, "open.avro", "")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	succeed(t, townTraining(traces, open)...)
	requireMode(t, open, 0o600)
	succeed(t, townTraining(traces, in("dp.avro"), "--dp-epsilon", "1")...)
	requireMode(t, in("dp.avro"), 0o644)
	succeed(t, sanitizeArgs(traces, model, "--seed", "1", "--out", in("sanitized.csv"))...)
	succeed(t, "aggregate", "--model", model, "--in", in("sanitized.csv"), "--window", "10m",
		"--out", in("density.csv"))
	requireMode(t, in("density.csv"), 0o600) // of six vehicles
	requireMode(t, dir, 0o755)
}

// TestOpenFolderIsSaid: an existing folder stays as it is, and that others can list it is said.
func TestOpenFolderIsSaid(t *testing.T) {
	for mode, says := range map[fs.FileMode]bool{0o755: true, 0o700: false, 0o750: false} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		if _, err := claim(dir, &log); err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(log.String(), "chmod 700"); said != says {
			t.Errorf("mode %v: %q", mode, log.String())
		}
		requireMode(t, dir, mode)
		log.Reset()
		e := evaluateFlags{out: dir}
		if err := e.prepare(nil, cli.Streams{Err: &log}); err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(log.String(), "chmod 700"); said != says {
			t.Errorf("evaluate, mode %v: %q", mode, log.String())
		}
		requireMode(t, dir, mode)
	}
}
