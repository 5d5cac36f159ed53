package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/noise"
)

func TestKeyNew(t *testing.T) {
	t.Setenv(keyVariable, "")
	path := filepath.Join(t.TempDir(), "noise.key")
	r := succeed(t, "key", "new", path)
	text := strings.TrimSpace(read(t, path))
	if len(text) != 64 || strings.Contains(r.out+r.err, text) {
		t.Errorf("the key has %d digits, want 64, and must not be printed: %q", len(text), r.out)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if _, err := loadKey(path); err != nil {
		t.Errorf("the new key cannot be read: %v", err)
	}
	requireMessage(t, call(t, "key", "new", path), cli.ExitFailed, path, "it is kept")
	if r := succeed(t, "key", "new", "--if-missing", path); r.out != "" {
		t.Errorf("an existing key is said to be written: %q", r.out)
	}
	if got := strings.TrimSpace(read(t, path)); got != text {
		t.Error("an existing key was overwritten")
	}
	other := path + "2"
	succeed(t, "key", "new", "--if-missing", other)
	if read(t, other) == read(t, path) {
		t.Error("two new keys are the same")
	}
	requireMessage(t, call(t, "key", "new", filepath.Join(path, "below")), cli.ExitFailed, "below")
}

func TestLoadKey(t *testing.T) {
	dir := t.TempDir()
	good, other := noise.KeyFromSeed(1), noise.KeyFromSeed(2)
	file := write(t, dir, "good", "  "+good.Reveal()+"\n\n")
	short := write(t, dir, "short", good.Reveal()[:40])
	odd := write(t, dir, "odd", strings.Repeat("x", 64))
	for _, c := range []struct {
		name, env, path string
		want            noise.Key
		words           []string
	}{
		{name: "file", path: file, want: good},
		{name: "environment", env: other.Reveal() + "\n", path: file, want: other},
		{name: "environment alone", env: other.Reveal(), want: other},
		{name: "neither", words: []string{"key new", keyVariable}},
		{name: "missing", path: filepath.Join(dir, "gone"), words: []string{"gone", "key new"}},
		{name: "folder", path: dir, words: []string{dir, "read"}},
		{name: "short", path: short, words: []string{short, "64 hexadecimal digits"}},
		{name: "no digits", path: odd, words: []string{odd, "hexadecimal"}},
		{name: "short environment", env: good.Reveal()[:40], path: file, words: []string{keyVariable, "64 hexadecimal digits"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(keyVariable, c.env)
			key, err := loadKey(c.path)
			if len(c.words) == 0 {
				if err != nil || !key.Equal(c.want) {
					t.Errorf("%v, not the key that was meant", err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if strings.Contains(err.Error(), good.Reveal()[:16]) || strings.Contains(err.Error(), "xxxx") {
				t.Errorf("%q repeats the file", err)
			}
		})
	}
}

func TestIsExposed(t *testing.T) {
	path := write(t, t.TempDir(), "key", "x")
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: false, 0o644: true, 0o604: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if isExposed(path) != want {
			t.Errorf("mode %v: exposed %v, want %v", mode, !want, want)
		}
	}
	if isExposed(path + "gone") {
		t.Error("a missing file is exposed")
	}
}

// TestPseudonym: it is that of the records that are published under the same key.
func TestPseudonym(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	key := write(t, dir, "noise.key", noise.KeyFromSeed(1<<40).Reveal())
	t.Setenv(keyVariable, noise.KeyFromSeed(1<<40+1).Reveal()) // is not the one that is named
	named := strings.TrimSpace(succeed(t, "key", "pseudonym", "--key-file", key, "--user", "3").out)
	users := byUser(records(t, succeed(t, sanitizeArgs(traces, model, "--key-file", key, "--publish-user", "pseudonym", "--out-format", "json")...).out))
	if len(users[named]) == 0 || len(users) != 6 || len(users["3"]) != 0 {
		t.Errorf("%s has %d records of %d users", named, len(users[named]), len(users))
	}
	if other := strings.TrimSpace(succeed(t, "key", "pseudonym", "--user", "3").out); other == named || len(other) != 32 {
		t.Errorf("another key gives %q", other)
	}
	requireMessage(t, call(t, "key", "pseudonym", "--key-file", filepath.Join(dir, "gone"), "--user", "3"), cli.ExitFailed, "--key-file", "gone")
	requireMessage(t, call(t, "key", "pseudonym", "--key-file", key), cli.ExitUsage, "user")
}
