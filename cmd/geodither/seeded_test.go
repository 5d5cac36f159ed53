package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/noise"
)

const marked = "lattice (seeded, not private)"

// TestSeededOutput: every record of a seeded run is marked in every format, the run warns, and
// readers take the records and say what they are. Without a seed there is neither mark nor warning.
func TestSeededOutput(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	for _, format := range []string{"csv", "json", "geojson"} {
		seeded, text := sanitizeTo(t, format, sanitizeArgs(traces, model, "--seed", "1")...)
		if n := strings.Count(text, marked); n != len(servicetest.TownFixes()) {
			t.Errorf("%s: %d of %d records are marked", format, n, len(servicetest.TownFixes()))
		}
		requireWords(t, seeded.err, "WARNING: NOT PRIVATE", "--key-file")
		for name, more := range map[string][]string{
			"a key": {"--key-file", key}, "a fresh key": nil,
		} {
			r, text := sanitizeTo(t, format, sanitizeArgs(traces, model, more...)...)
			if strings.Contains(text, "seeded") || strings.Contains(r.err, "NOT PRIVATE") {
				t.Errorf("%s, %s: marked as seeded", format, name)
			}
		}
	}
	// A seed's key in a file has no mark, so it is refused.
	small := write(t, dir, "seed.key", noise.KeyFromSeed(70_000).Reveal())
	requireMessage(t, call(t, sanitizeArgs(traces, model, "--key-file", small)...), cli.ExitUsage,
		"--key-file", "small seed")
	for name, c := range map[string]struct {
		args []string
		says bool
	}{"seeded": {[]string{"--seed", "1"}, true}, "keyed": {[]string{"--key-file", key}, false}} {
		out := filepath.Join(dir, name+".csv")
		succeed(t, sanitizeArgs(traces, model, append(c.args, "--out", out)...)...)
		config := withConfig(t, "model: "+model, "release: {mechanism: lattice, budget: none}")
		for _, more := range [][]string{{"--model", model}, config} {
			r := succeed(t, append([]string{"aggregate", "--in", out, "--window", "10m"},
				more...)...)
			if said := strings.Contains(r.err, `marked "seeded, not private"`); said != c.says {
				t.Errorf("%s %q: said %t:\n%s", name, more, said, r.err)
			}
		}
	}
}
