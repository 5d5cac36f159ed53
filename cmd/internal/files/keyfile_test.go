package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/noise"
)

func TestLoadKey(t *testing.T) {
	dir := t.TempDir()
	good, other := noise.KeyFromSeed(1), noise.KeyFromSeed(2)
	file := testFile(t, dir, "good", "  "+good.Reveal()+"\n\n")
	short := testFile(t, dir, "short", good.Reveal()[:40])
	odd := testFile(t, dir, "odd", strings.Repeat("x", 64))
	for _, c := range []struct {
		name, env, path string
		want            noise.Key
		words           []string
	}{
		{name: "file", path: file, want: good},
		{name: "the same twice", env: good.Reveal() + "\n", path: file, want: good},
		{
			name: "two keys", env: other.Reveal(), path: file,
			words: []string{KeyVariable, "holds another key than " + file},
		},
		{name: "a damaged file beside it", env: good.Reveal(), path: short, words: []string{short}},
		{
			name: "environment, no file", env: other.Reveal(), path: filepath.Join(dir, "gone"),
			want: other,
		},
		{name: "environment alone", env: other.Reveal(), want: other},
		{name: "neither", words: []string{"key-file", KeyVariable}},
		{name: "missing", path: filepath.Join(dir, "gone"), words: []string{"gone", "key new"}},
		{name: "folder", path: dir, words: []string{dir, "read"}},
		{name: "short", path: short, words: []string{short, "64 hexadecimal digits"}},
		{name: "no digits", path: odd, words: []string{odd, "hexadecimal"}},
		{
			name: "short environment", env: good.Reveal()[:40], path: file,
			words: []string{KeyVariable, "64 hexadecimal digits"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(KeyVariable, c.env)
			key, err := LoadKey(c.path)
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
			if strings.Contains(err.Error(), good.Reveal()[:16]) ||
				strings.Contains(err.Error(), "xxxx") {
				t.Errorf("%q repeats the file", err)
			}
		})
	}
}

func TestIsExposed(t *testing.T) {
	path := testFile(t, t.TempDir(), "key", "x")
	for mode, want := range map[os.FileMode]bool{
		0o600: false, 0o400: false, 0o640: false, 0o644: true, 0o604: true,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if IsExposed(path) != want {
			t.Errorf("mode %v: exposed %v, want %v", mode, !want, want)
		}
	}
	if IsExposed(path + "gone") {
		t.Error("a missing file is exposed")
	}
}
