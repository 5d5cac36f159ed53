package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// doctorReport is the object that doctor --json prints.
type doctorReport struct {
	OK        bool
	Unchecked int
	Findings  []checks.Finding
	Expected  *expect.Summary
}

// examine runs the doctor, and returns its report by check and level.
func examine(t *testing.T, config string) (doctorReport, map[string]string) {
	t.Helper()
	r := call(t, "doctor", "-c", config, "--json")
	var report doctorReport
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("%v: %s %s", err, r.out, r.err)
	}
	if strings.Contains(r.err, "simulating what error to expect") != (report.Expected != nil) {
		t.Errorf("before its simulation it says %q", r.err)
	}
	if want := map[bool]int{true: cli.ExitDone, false: cli.ExitFailed}[report.OK]; r.code != want {
		t.Errorf("exit %d with ok=%v: %s", r.code, report.OK, r.err)
	}
	found := map[string]string{}
	for _, f := range report.Findings {
		found[f.Check+" "+f.Level] += f.Detail + "\n"
	}
	return report, found
}

// TestDoctor: a sound service is said to be one, before its topics are there and
// after; and what would stop it is found. The doctor makes nothing.
func TestDoctor(t *testing.T) {
	t.Parallel()
	broker := startBroker(t)
	text := func(more string) string {
		return fmt.Sprintf(`
brokers: [%q]
group: g
topics: {raw: raw, sanitized: out, create: true, partitions: 2}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: lattice, epsilon: 2, delta: 0.02, budget: none}
%s`, broker, more)
	}
	dir, config := configDir(t, text(""))
	fresh, found := examine(t, config)
	if !fresh.OK || strings.Count(found["topic ok"], "run will make it") != 3 ||
		!strings.Contains(found["topic warning"], "run will make it, empty, with 2 partitions") ||
		fresh.Expected == nil || fresh.Expected.Blind.Mean <= 0 ||
		fresh.Expected.Tracks != fewTracks {
		t.Errorf("before anything is there: %+v", fresh)
	}
	if _, err := os.Stat(filepath.Join(dir, "state")); err == nil {
		t.Error("the doctor made the state folder")
	}
	if r := call(t, "consume", "--brokers", broker, "--topic", "out"); r.code == cli.ExitDone {
		t.Error("the doctor made a topic")
	}

	service := start(t, nil, "run", "-c", config)
	eventually(t, "the topics", func() bool {
		return call(t, "consume", "--brokers", broker, "--topic", "out").code == cli.ExitDone
	})
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", filepath.Join(dir, "traces.csv"))
	eventually(t, "records", func() bool {
		return strings.Count(call(t, "consume", "--brokers", broker, "--topic", "out").out,
			"\n") >= len(servicetest.TownFixes())
	})
	service.stop(t)
	report, found := examine(t, config)
	worthless := strings.Replace(text(""), "epsilon: 2", "epsilon: 0.01", 1)
	out := succeed(t, "doctor", "-c", write(t, dir, "worthless.yml", worthless)).out
	if strings.Count(out, "nearer to the truth than the model alone") != 1 ||
		!strings.Contains(out, "\nunchecked  readers ") ||
		!strings.Contains(out, "\nno check failed; ") {
		t.Errorf("doctor of a config that gains little prints\n%s", out)
	}
	if !report.OK || report.Unchecked < 1 ||
		!strings.Contains(found["raw records ok"], "can be used") ||
		!strings.Contains(found["group ok"], "g has begun") || found["changelog ok"] == "" {
		t.Errorf("after a run: %+v", report)
	}
	for what, c := range map[string]struct{ old, new, finding, word string }{
		"encoding": {
			"key_file:", "encoding: {raw: json}\nkey_file:", "raw records failure", "encoding.raw",
		},
		"settings": {"epsilon: 2", "epsilon: 3", "changelog warning", "other settings"},
		"no broker": {
			"brokers: [", "brokers: [\"127.0.0.1:1\", ", "broker warning",
			"127.0.0.1:1 does not answer",
		},
		"worthless": {"epsilon: 2", "epsilon: 0.01", "expectation warning", "model alone"},
		"a file": {
			"state_dir: state", "state_dir: traces.csv/state", "state_dir failure", "no folder",
		},
	} {
		t.Run(what, func(t *testing.T) {
			changed := strings.Replace(text(""), c.old, c.new, 1)
			if changed == text("") {
				t.Fatal("the config was not changed")
			}
			report, found := examine(t, write(t, dir, "changed.yml", changed))
			if !strings.Contains(found[c.finding], c.word) ||
				report.OK != !strings.HasSuffix(c.finding, "failure") {
				t.Errorf("no %s with %q: %+v", c.finding, c.word, report.Findings)
			}
		})
	}
	t.Run("no broker at all", func(t *testing.T) {
		_, found := examine(t, write(t, dir, "away.yml",
			strings.Replace(text(""), broker, "127.0.0.1:1", 1)))
		if strings.Count(found["broker failure"], "is Kafka running") != 1 ||
			found["expectation ok"] != "" {
			t.Errorf("found %v", found)
		}
	})
	t.Run("for people", func(t *testing.T) {
		if err := os.Chmod(filepath.Join(dir, "noise.key"), 0o644); err != nil {
			t.Fatal(err)
		}
		out := succeed(t, "doctor", "-c", config).out
		for _, word := range []string{
			"ok         broker", "warning    key", "chmod 600",
			"Expected error with lattice, ε = 2",
		} {
			if !strings.Contains(out, word) {
				t.Errorf("no %q in\n%s", word, out)
			}
		}
		if secret := strings.TrimSpace(
			read(t, filepath.Join(dir, "noise.key"))); strings.Contains(out, secret) {
			t.Error("the doctor prints the key")
		}
	})
	requireMessage(t, call(t, "doctor"), cli.ExitUsage, "config")
}

// watched tells when something was written to it.
type watched struct {
	bytes.Buffer
	lines chan string
}

func (w *watched) Write(p []byte) (int, error) {
	w.lines <- string(p)
	return w.Buffer.Write(p)
}

// TestDoctorCounts: with the section counts the doctor looks at the topics, groups and rights of
// the services that count, and at the raw topic's times.
func TestDoctorCounts(t *testing.T) {
	t.Parallel()
	broker := startBroker(t)
	dir, config := configDir(t, fmt.Sprintf(`
brokers: [%q]
group: g
topics: {raw: raw, sanitized: out, create: true, partitions: 2}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: lattice, epsilon: 2, delta: 0.02, budget: none}
counts: {epsilon: 1, per_day: 4, zone: 2km}
`, broker))
	succeed(t, "topics", "create", "-c", config)
	(&servicetest.World{Addr: broker}).Alter(t, "raw", "message.timestamp.type", "CreateTime")
	_, found := examine(t, config)
	if !strings.Contains(found["counts failure"], "--topic raw --add-config "+
		"message.timestamp.type=LogAppendTime") {
		t.Errorf("the times of producers are not found: %+v", found)
	}
	for _, topic := range []string{
		"g-counts-partial has", "g-counts-changelog has",
		"out.counts has", "g-counts-totals-changelog has",
	} {
		if !strings.Contains(found["counts ok"], topic) {
			t.Errorf("%s is not looked at: %v", topic, found)
		}
	}
	if strings.Contains(found["fleet ok"]+found["fleet warning"], "vehicles") {
		t.Errorf("there are vehicles in an empty topic: %v", found)
	}
	users := map[string]bool{}
	for _, fix := range servicetest.TownFixes() {
		users[fix.UserID] = true
	}
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", filepath.Join(dir, "traces.csv"))
	if _, found := examine(t, write(t, dir, "wrong.yml", strings.Replace(read(t, config),
		"counts: {epsilon: 1", "counts: {epsilon: -1", 1))); found["fleet unchecked"] == "" ||
		!strings.Contains(found["counts failure"], "epsilon -1") {
		t.Errorf("with an ε that cannot be: %v", found)
	}
	if strings.Contains(found["counts ok"], "ledger") {
		t.Errorf("there is a ledger: %v", found)
	}
	succeed(t, countsArgs("--in", write(t, dir, "in.csv", countsColumns+
		strings.Join(someFixes(), "")), "--key-file", filepath.Join(dir, "noise.key"))...)
	for epsilon, level := range map[string]string{"1": "warning", "100": "ok"} {
		_, found = examine(t, write(t, dir, "other.yml", strings.Replace(read(t, config),
			"counts: {epsilon: 1", "counts: {epsilon: "+epsilon, 1)))
		words := fmt.Sprintf("%d vehicles in the last %d fixes, ", len(users),
			len(servicetest.TownFixes()))
		if !strings.Contains(found["fleet "+level], words) {
			t.Errorf("at ε = %s no %s with %q: %v", epsilon, level, words, found)
		}
		if !strings.Contains(found["counts ok"], "the key's ledger has 2 published days: ε of a "+
			"user's day is at most 1, of 31 days 2, and beside that what \"counts serve\"") {
			t.Errorf("no sums of the ledger: %v", found)
		}
	}
}

// TestDoctorTellsAtOnce: a finding is printed when it is known, before the next check, and
// nothing is simulated once one has failed.
func TestDoctorTellsAtOnce(t *testing.T) {
	t.Parallel()
	_, config := configDir(t, complete)
	out := &watched{lines: make(chan string)}
	ended := make(chan int)
	go func() {
		ended <- run(t.Context(), []string{"doctor", "-c", config},
			cli.Streams{In: strings.NewReader(""), Out: out, Err: new(bytes.Buffer)})
	}()
	// Nothing goes on while nobody takes the line, so the first one is alone.
	if first := <-out.lines; !strings.Contains(first, "config") || strings.Count(first, "\n") != 1 {
		t.Errorf("the first that is printed is %q", first)
	}
	all, code := "", -1
	for code < 0 {
		select {
		case line := <-out.lines:
			all += line
		case code = <-ended:
		}
	}
	if code != cli.ExitFailed || strings.Contains(all, "not checked, because") ||
		strings.Count(all, "\nfailure") != 2 {
		t.Errorf("exit %d, and not one line about each broker:\n%s", code, all)
	}
}
