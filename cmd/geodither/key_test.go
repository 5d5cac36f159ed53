package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/noise"
)

func TestKeyNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "noise.key")
	r := succeed(t, "key", "new", path)
	text := strings.TrimSpace(read(t, path))
	if len(text) != 64 || strings.Contains(r.out+r.err, text) {
		t.Errorf("the key has %d digits, want 64, and must not be printed: %q", len(text), r.out)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if _, err := files.LoadKey(path); err != nil {
		t.Errorf("the new key cannot be read: %v", err)
	}
	requireMessage(t, call(t, "key", "new", path), cli.ExitFailed, path, "it is kept")
	if got := strings.TrimSpace(read(t, path)); got != text {
		t.Error("an existing key was overwritten")
	}
	other := path + "2"
	succeed(t, "key", "new", other)
	if read(t, other) == read(t, path) {
		t.Error("two new keys are the same")
	}
	requireMessage(t, call(t, "key", "new", filepath.Join(path, "below")), cli.ExitFailed, "below")
}

// TestPseudonym: it is that of the records that are published under the same key.
func TestPseudonym(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	key := write(t, dir, "noise.key", noise.KeyFromSeed(1<<40).Reveal())
	t.Setenv(files.KeyVariable, noise.KeyFromSeed(1<<40+1).Reveal()) // is not the one that is named
	named := strings.TrimSpace(succeed(t, "key", "pseudonym", "--key-file", key, "--user", "3").out)
	_, lines := sanitizeTo(t, "json", sanitizeArgs(traces, model, "--key-file", key,
		"-c", withConfig(t, "publish: {user: pseudonym}")[1])...)
	users := byUser(decoded(t, lines))
	if len(users[named]) == 0 || len(users) != 6 || len(users["3"]) != 0 {
		t.Errorf("%s has %d records of %d users", named, len(users[named]), len(users))
	}
	if other := strings.TrimSpace(
		succeed(t, "key", "pseudonym", "--user", "3").out); other == named || len(other) != 32 {
		t.Errorf("another key gives %q", other)
	}
	requireMessage(t, call(t, "key", "pseudonym", "--key-file", filepath.Join(dir, "gone"),
		"--user", "3"),
		cli.ExitFailed, "--key-file", "gone")
	requireMessage(t, call(t, "key", "pseudonym", "--key-file", key), cli.ExitUsage, "user")
}
