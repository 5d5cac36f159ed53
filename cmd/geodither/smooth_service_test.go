package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestSmoothService: "smooth -c FILE" writes to the smoothed topic what "smooth --in" makes of the
// same records, except those that still wait for a later one. The key file is gone by then, and a
// key in the environment that cannot be read does not matter: the command looks for neither. A
// replay under the config smooths what it has written too, to the last record.
func TestSmoothService(t *testing.T) {
	broker, dir := startBroker(t), t.TempDir()
	traces, _ := townFiles(t, dir)
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", "--create", "2", traces)
	config := write(t, dir, "geodither.yml", fmt.Sprintf(`brokers: [%q]
group: town
topics: {raw: raw, sanitized: out, create: true}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: codebook, epsilon: 3, interval: 4m, budget: none}
smooth: {lag: 4m}
`, broker))
	succeed(t, "topics", "create", "-c", config)
	lines := func(topic string) []string {
		text := succeed(t, "consume", "--brokers", broker, "--topic", topic).out
		return slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return l == "" })
	}
	fixes := len(servicetest.TownFixes())
	sanitizing := start(t, nil, "run", "-c", config)
	eventually(t, "every fix is published", func() bool { return len(lines("out")) == fixes })
	sanitizing.stop(t)
	plan := succeed(t, "replay", "-c", config, "--output-topic", "again", "--dry-run")
	requireWords(t, plan.out, "smoothed   again.smoothed")
	done := succeed(t, "replay", "-c", config, "--output-topic", "again")
	requireWords(t, done.out, "all of them are in again.smoothed")
	for _, flag := range []string{"--dry-run", "--json=false"} {
		const why = "not smoothed: smoothing needs a replay from the beginning, without --from\n"
		middle := succeed(t, "replay", "-c", config, "--output-topic", "middle", "--from", "2",
			flag)
		if !strings.Contains(middle.out, why) || strings.Contains(middle.out, "middle.smoothed") {
			t.Errorf("with --from a replay prints\n%s", middle.out)
		}
	}
	requireMessage(t, call(t, "replay", "-c", config, "--output-topic", "out.smoothed"),
		cli.ExitFailed, "topic out.smoothed", "name another --output-topic")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GEODITHER_KEY", "no key")
	in, out := write(t, dir, "in.ndjson", strings.Join(lines("out"), "\n")),
		filepath.Join(dir, "out.ndjson")
	said := succeed(t, "smooth", "-c", config, "--in", in, "--out", out)
	want := strings.Split(read(t, out), "\n")
	smoothing := start(t, nil, "smooth", "-c", config)
	eventually(t, "all but the last records of each user are smoothed", func() bool {
		return len(lines("out.smoothed")) > fixes*3/4
	})
	if code := smoothing.stop(t); code != 0 {
		t.Errorf("exit %d: %s", code, smoothing.log.String())
	}
	got := lines("out.smoothed")
	requireWords(t, smoothing.log.String(), "delay=\"a record waits for its user's next release")
	again := lines("again.smoothed")
	for _, line := range again {
		if !slices.Contains(want, line) {
			t.Fatalf("of the replay the topic has %s", line)
		}
	}
	if len(again) != fixes {
		t.Errorf("of %d records of the replay %d are smoothed", fixes, len(again))
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Fatalf("the topic has %s, which is not among\n%s", line, read(t, out))
		}
	}
	slices.Sort(got)
	if once := slices.Compact(slices.Clone(got)); len(once) != len(got) ||
		!strings.Contains(said.err, fmt.Sprintf(": %d smoothed", fixes)) {
		t.Errorf("%d of %d records come twice, or not all are smoothed: %s", len(got)-len(once),
			len(got), said.err)
	}
}

// TestSmoothConfig: doctor, "config show" and "config lint" know the smoothing service, with the
// names that follow from others, where the config speaks of it, and only there.
func TestSmoothConfig(t *testing.T) {
	t.Parallel()
	broker := startBroker(t)
	const section = "smooth: {lag: 4m}\n"
	text := fmt.Sprintf(`brokers: [%q]
group: town
topics: {raw: raw, sanitized: out, create: true, partitions: 2}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: codebook, epsilon: 3, interval: 2m, budget: none}
`, broker)
	dir, config := configDir(t, text+section)
	without := write(t, dir, "without.yml", text)
	shown := succeed(t, "config", "show", "-c", config).out
	for _, words := range []string{
		"group: town-smooth # default", "smoothed: out.smoothed # default", "lag: 4m\n",
	} {
		if !strings.Contains(shown, words) {
			t.Errorf("config show lacks %q:\n%s", words, shown)
		}
	}
	if shown := succeed(t, "config", "show", "-c", without).out; strings.Contains(shown, "smooth") {
		t.Errorf("without the section config show says\n%s", shown)
	}
	for wrong, words := range map[string]string{
		"smooth: {lag: 90s}\n":                  "smooth.lag: 1m30s is no multiple",
		"smooth: {group: town}\n":               "smooth.group: it is the group of the service",
		"publish: {release: false}\n" + section: "publish.release: false leaves nothing to smooth",
	} {
		path := write(t, dir, "wrong.yml",
			text+"counts: {epsilon: 1, per_day: 4, zone: 2km}\n"+wrong)
		if r := call(t, "config", "lint", "-c", path); r.code != cli.ExitUsage ||
			!strings.Contains(r.err, words) {
			t.Errorf("lint of %s: exit %d, %s", wrong, r.code, r.err)
		}
		// The checks after it are made, or have a line that says why not.
		if _, found := examine(t, path); !strings.Contains(found["smooth failure"], words) ||
			found["counts ok"] == "" || found["fleet unchecked"] == "" ||
			found["expectation unchecked"] == "" {
			t.Errorf("doctor of %s: %v", wrong, found)
		}
	}
	_, found := examine(t, config)
	if had := found["smooth ok"]; strings.Count(had, "smooth will make it") != 3 ||
		!strings.Contains(had, "out is missing; smooth waits for the service that makes it") ||
		!strings.Contains(had, "town-smooth-changelog") || !strings.Contains(had, "state-smooth") {
		t.Errorf("before anything is there: %v", found)
	}
	succeed(t, "topics", "create", "-c", config)
	_, found = examine(t, config)
	if had := found["smooth ok"]; strings.Count(had, "has 2 partitions") != 3 ||
		found["smooth failure"] != "" {
		t.Errorf("with topics: %v", found)
	}
	if _, found := examine(t, without); found["smooth ok"] != "" {
		t.Errorf("without the section: %v", found)
	}
}
