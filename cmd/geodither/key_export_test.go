package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestKeyExport: of the files that are exported each does what it is for and nothing else.
func TestKeyExport(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir) // of 2023-11-14
	in := func(name string) string { return filepath.Join(dir, name) }
	succeed(t, "key", "new", in("noise.key"))
	from := []string{"key", "export", "--key-file", in("noise.key")}
	export := func(more ...string) result { return succeed(t, append(from, more...)...) }
	requireWords(t, export("--until", "2023-11-14", in("same.key")).out, "same.key",
		"before 2023-11-14", "destroy every copy")
	export("--until", "2023-11-15", in("later.key"))
	requireWords(t, export("--pseudonym", in("names.key")).out, "names.key", "pseudonyms")
	for _, name := range []string{"same.key", "later.key", "names.key"} {
		if info, err := os.Stat(in(name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", name, info.Mode(), err)
		}
		text := read(t, in(name))
		requireMessage(t, call(t, append(from, "--pseudonym", in(name))...),
			cli.ExitFailed, name, "exists")
		if read(t, in(name)) != text ||
			strings.Contains(text, strings.TrimSpace(read(t, in("noise.key")))) {
			t.Errorf("%s was overwritten, or holds the whole key", name)
		}
	}

	pseudonyms := withConfig(t, "publish: {user: pseudonym}")[1]
	sanitize := func(key string) result {
		return call(t, sanitizeArgs(traces, model, "--key-file", in(key), "-c", pseudonyms)...)
	}
	refused := func(key string) result {
		return call(t, sanitizeArgs(traces, model, "--key-file", in(key),
			"--out", in("refused.csv"))...)
	}
	whole := sanitize("noise.key")
	if same := sanitize("same.key"); whole.code != cli.ExitDone || same.out != whole.out {
		t.Errorf("the key from the day of the traces on gives other records: %s", same.err)
	}
	later := refused("later.key")
	requireWords(t, later.err, fmt.Sprintf(
		"Left out, as the service refuses them: %d key_destroyed", len(servicetest.TownFixes())),
		"no noise for the days")
	if later.code != cli.ExitDone || strings.Count(read(t, in("refused.csv")), "lattice") != 0 {
		t.Errorf("under a key without the day: exit %d, %s", later.code, later.err)
	}
	requireMessage(t, refused("names.key"), cli.ExitFailed, "key of pseudonyms")
	for _, name := range []string{"same.key", "later.key", "names.key"} {
		if got := succeed(t, "key", "pseudonym", "--key-file", in(name),
			"--user", "3").out; !strings.Contains(whole.out, strings.TrimSpace(got)) {
			t.Errorf("%s has another pseudonym", name)
		}
	}

	again := []string{"key", "export", "--key-file", in("later.key")}
	requireMessage(t, call(t, append(again, "--until", "2023-11-14", in("back.key"))...),
		cli.ExitFailed, "destroyed", "later day")
	succeed(t, append(again, "--until", "2024-01-01", in("onward.key"))...)
	requireMessage(t, call(t, "key", "export", "--key-file", in("names.key"),
		"--until", "2024-01-01", in("x.key")), cli.ExitFailed, "no noise")
	requireMessage(t, call(t, append(from, in("x.key"))...), cli.ExitUsage,
		"--until DAY or --pseudonym")
	requireMessage(t, call(t, append(from, "--pseudonym", "--until", "2024-01-01", in("x.key"))...),
		cli.ExitUsage, "--until DAY or --pseudonym")
	requireMessage(t, call(t, append(from, "--until", "tomorrow", in("x.key"))...),
		cli.ExitUsage, "2026-11-21")
	tomorrow := (noise.DayAt(time.Now().UnixMilli()) + 1).String()
	requireMessage(t, call(t, append(from, "--until", tomorrow, in("x.key"))...), cli.ExitUsage,
		tomorrow, "still to come")
	requireMessage(t, call(t, "key", "export", "--pseudonym", in("x.key")),
		cli.ExitFailed, files.KeyVariable)
	t.Setenv(files.KeyVariable, read(t, in("later.key")))
	if succeed(t, "key", "export", "--until", "2024-01-01",
		in("y.key")); read(t, in("y.key")) != read(t, in("onward.key")) {
		t.Error("the environment's key is exported otherwise")
	}
	for _, name := range []string{"back.key", "x.key"} {
		if _, err := os.Stat(in(name)); err == nil {
			t.Errorf("a refused export has made %s", name)
		}
	}
}

// TestChecksOfKeys: where the key is from, which days it has, and whether it is one at all.
func TestChecksOfKeys(t *testing.T) {
	path := write(t, t.TempDir(), "noise.key", "")
	today := noise.DayAt(time.Now().UnixMilli())
	from := func(day noise.Day) noise.Key {
		key, err := noise.NewKey().From(day)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	for name, c := range map[string]struct {
		key        noise.Key
		path, env  string
		level, say string
	}{
		"whole": {noise.NewKey(), path, "", checks.OK, "key export --until"},
		"past": {
			from(today - 2), path, "", checks.OK,
			"from " + (today - 2).String() + " on",
		},
		"future":      {from(today + 3), path, "", checks.Failure, "key-file"},
		"environment": {noise.NewKey(), "", "x", checks.OK, "in the environment"},
		"seed 0":      {noise.KeyFromSeed(0), path, "", checks.Failure, "small seed"},
		"seed 65536":  {noise.KeyFromSeed(65536), path, "", checks.Failure, "small seed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(files.KeyVariable, c.env)
			file := config.File{KeyFile: c.path}
			found := file.Checks(service.Options{Settings: engine.Settings{Key: c.key}})
			if !slices.ContainsFunc(found, func(f checks.Finding) bool {
				return f.Check == "key_file" && f.Level == c.level &&
					strings.Contains(f.Detail, c.say)
			}) {
				t.Errorf("no %s with %q: %+v", c.level, c.say, found)
			}
		})
	}
}

// TestRunRefusesSeeds: a service does not start under a key that anybody can find, nor where the
// environment and the file hold two keys.
func TestRunRefusesSeeds(t *testing.T) {
	dir := t.TempDir()
	townFiles(t, dir)
	config := write(t, dir, "c.yml", "brokers: [\"127.0.0.1:1\"]\ngroup: g\n"+
		"topics: {raw: a, sanitized: b}\nmodel: model.avro\nkey_file: noise.key\nstate_dir: s\n"+
		"release: {mechanism: lattice, epsilon: 1, delta: 0.1, budget: none}\n")
	part, err := noise.KeyFromSeed(7).From(20_000)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"whole": noise.KeyFromSeed(1).Reveal(), "part": part.Reveal(),
	} {
		write(t, dir, "noise.key", text)
		r := call(t, "run", "-c", config)
		requireMessage(t, r, cli.ExitUsage, "small seed", "key-file")
		if strings.Contains(r.err, strings.Fields(text)[len(strings.Fields(text))-1]) {
			t.Errorf("%s: the error repeats the key", name)
		}
	}
	ahead, err := noise.NewKey().From(noise.DayAt(time.Now().UnixMilli()) + 2)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "noise.key", ahead.Reveal())
	requireMessage(t, call(t, "run", "-c", config), cli.ExitUsage, ahead.FirstDay().String(),
		"(key-file)")
	secret := noise.NewKey().Reveal()
	t.Setenv(files.KeyVariable, secret)
	for _, command := range []string{"run", "statement"} {
		r := call(t, command, "-c", config)
		if requireWords(t, r.err, "GEODITHER_KEY holds another key than",
			"unset the one"); r.code == cli.ExitDone ||
			strings.Contains(r.err, secret) {
			t.Errorf("%s ends with %d: %s", command, r.code, r.err)
		}
	}
	write(t, dir, "noise.key", secret+"\n")
	service := start(t, nil, "run", "-c", config)
	eventually(t, "a start under one key in two places", func() bool {
		return strings.Contains(service.log.String(), "connecting to Kafka")
	})
	service.stop(t)
}
