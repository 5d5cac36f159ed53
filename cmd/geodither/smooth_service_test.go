package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestSmoothService: "smooth -c FILE" writes to the smoothed topic what "smooth --in" makes of the
// same records, except those that still wait for a later one. The key file is gone by then, and a
// key in the environment that cannot be read does not matter: the command looks for neither.
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
