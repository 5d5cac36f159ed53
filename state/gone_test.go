package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRemovedWhileOpen: somebody deletes the folder of a store that is in use.
// The store reports it in one line. (The next process begins with a new store; this one still
// holds the lock of what it could not close.)
func TestRemovedWhileOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "folder")
	var log bytes.Buffer
	o := Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), MemTableBytes: 128 << 10}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s.Partition(0), Positions{Input: 1}, "ann", "1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	value := []byte(strings.Repeat("x", 3000))
	for n, p := 0, s.Partition(0); n < 100_000 && err == nil; n++ {
		err = p.Apply([]Change{{Key: fmt.Append(nil, n), Value: value}}, Positions{})
	}
	if !errors.Is(err, ErrGone) || !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "(folder-failed)") {
		t.Errorf("the error is %v", err)
	}
	_ = s.Close()
	for what, text := range map[string]string{"error": err.Error(), "log": log.String()} {
		if strings.Contains(text, "stack trace") || strings.Contains(text, ".go:") ||
			strings.Contains(text, "goroutine") {
			t.Errorf("the %s has a stack trace: %s", what, text)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %v", err)
	}
}

// lockEnv makes TestOtherProcess the other process.
const lockEnv = "GEODITHER_STATE_LOCK_TEST"

// TestOtherProcess: another process on the same folder is told which lock it is
// about, and the first one goes on.
func TestOtherProcess(t *testing.T) {
	if dir := os.Getenv(lockEnv); dir != "" {
		_, err := Open(dir, Options{Logger: quiet()})
		if !errors.Is(err, ErrLocked) {
			t.Fatalf("a second process answers %v", err)
		}
		t.Logf("told: %v", err)
		return
	}
	dir := t.TempDir()
	s, err := Open(dir, Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOtherProcess$", "-test.v")
	cmd.Env = append(os.Environ(), lockEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"used by another instance", filepath.Join(dir, "LOCK"),
		"(folder-in-use)",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the other process is not told %q:\n%s", want, out)
		}
	}
	apply(t, s.Partition(0), Positions{}, "still", "works")
	shut(t, s)
}
