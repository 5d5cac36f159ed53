package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestSanitizeInterrupted: Ctrl-C in the middle of a slow input ends the run at
// once, with an exit code of failure and without output.
func TestSanitizeInterrupted(t *testing.T) {
	dir := t.TempDir()
	_, model := townFiles(t, dir)
	in, feed := io.Pipe()
	defer feed.Close()
	out := filepath.Join(dir, "out", "sanitized.csv")
	write(t, dir, "out/sanitized.csv", "older")
	b := start(t, in, sanitizeArgs("-", model, "--out", out)...)
	if _, err := io.WriteString(feed, servicetest.TownCSV(servicetest.TownFixes())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a temporary file", func() bool { return len(names(t, filepath.Dir(out))) == 2 })
	if code := b.stop(t); code != cli.ExitInterrupted ||
		!strings.Contains(b.log.String(), "interrupted") {
		t.Errorf("exit %d, %q", code, b.log)
	}
	if left := names(t, filepath.Dir(out)); len(left) != 1 || read(t, out) != "older" {
		t.Errorf("left behind: %v", left)
	}
}

// TestOutputTargets: a link is followed, a device stays a device, and a new file
// has the mode of any other new file.
func TestOutputTargets(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	want := succeed(t, sanitizeArgs(traces, model, "--seed", "1")...).out
	target := write(t, dir, "target.csv", "older")
	link := filepath.Join(dir, "link.csv")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	succeed(t, sanitizeArgs(traces, model, "--seed", "1", "--out", link)...)
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 ||
		read(t, target) != want {
		t.Errorf("the link is now %v, %v", info.Mode(), err)
	}
	succeed(t, sanitizeArgs(traces, model, "--out", os.DevNull)...)
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Fatalf("%s is now %v, %v", os.DevNull, info.Mode(), err)
	}
	fresh, plain := filepath.Join(dir, "fresh.csv"), filepath.Join(dir, "plain")
	succeed(t, sanitizeArgs(traces, model, "--out", fresh)...)
	file, err := os.Create(plain)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	a, b := mode(t, fresh), mode(t, plain)
	if a != b {
		t.Errorf("the output's mode is %v, other files' %v", a, b)
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
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
		{
			"aggregate", "--model", model, "--in", sanitized, "--window", "15m", "--zone", "1km",
			"--out", "/dev/full",
		},
	} {
		r := call(t, args...)
		if r.code != cli.ExitFailed || strings.Count(r.err, "/dev/full cannot be written: no "+
			"space left on device: make room, or choose a place on another disk") != 1 {
			t.Errorf("%s: exit %d\n%s", args[0], r.code, r.err)
		}
	}
}
