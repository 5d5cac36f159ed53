package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/verify"
)

// townService is a service of the synthetic town on an embedded broker, that has
// answered everything and stopped.
type townService struct {
	*crashWorld
	fed    int64
	config string
}

// newTownService feeds a fleet and lets the service answer it.
func newTownService(t *testing.T) *townService {
	t.Helper()
	s := &townService{crashWorld: newCrashWorld(t)}
	s.fed = s.feed(t, 20, 10)
	s.serve(t, "town", s.fed, nil)
	s.config = filepath.Join(s.dir, "town.yml")
	return s
}

// command starts a command line in a process of its own.
func (s *townService) command(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{
		cmd: exec.CommandContext(t.Context(), os.Args[0], args...), log: new(bytes.Buffer),
	}
	p.cmd.Env = append(os.Environ(), "GEODITHER_TEST_COMMAND=1")
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// edit writes the config with one text in place of another.
func (s *townService) edit(t *testing.T, old, text string) string {
	t.Helper()
	data, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(data), old) != 1 {
		t.Fatalf("%q is not in the config once", old)
	}
	return write(t, s.dir, fmt.Sprintf("edited-%x.yml", text),
		strings.Replace(string(data), old, text, 1))
}

// TestStateInspectAndReset: a user's state as text and as JSON; the folder's reset
// loses nothing; that of everything wants to be told twice.
func TestStateInspectAndReset(t *testing.T) {
	s := newTownService(t)
	c := []string{"-c", s.config}
	state := func(args ...string) []string {
		return append(append([]string{"state"}, args...), c...)
	}
	fromChangelog := succeed(t, state("inspect", "--user", "sim-000001")...).out
	requireWords(t, fromChangelog, "private", "changelog, offset", "estimate",
		"10, Σε 10", "posterior")
	var inspected account.State
	r := succeed(t, state("inspect", "--user", "sim-000001", "--json")...)
	if err := json.Unmarshal([]byte(r.out), &inspected); err != nil || inspected.Offset < 0 ||
		inspected.Estimate == nil || inspected.Releases != 10 {
		t.Errorf("%s, %v", r.out, err)
	}
	requireMessage(t, call(t, state("inspect", "--user", "typo")...),
		cli.ExitFailed, "has no state")
	requireMessage(t, call(t, state("inspect", "--user", "")...), cli.ExitUsage, "--user")

	requireWords(t, succeed(t, state("reset", "--dry-run")...).out,
		"would remove store", "town-state")
	requireWords(t, succeed(t, state("reset")...).out, "removed store")
	requireWords(t, succeed(t, state("reset")...).out, "nothing to remove")
	if r := succeed(t, "state", "verify", "-c", s.config, "--json"); !strings.Contains(r.out,
		`"verified":true`) {
		t.Errorf("after a reset of the folder: %s", r.out)
	}

	requireMessage(t, call(t, state("reset", "--accept=second-release")...), cli.ExitUsage,
		"--everything")
	words := []string{fmt.Sprintf("holds %d records", s.fed), "second time", "ε = 1"}
	requireMessage(t, call(t, state("reset", "--everything")...), cli.ExitFailed,
		append(words, "nothing was removed", "--accept=second-release")...)
	requireWords(t, succeed(t, state("reset", "--everything", "--dry-run")...).out,
		append(words, "would remove")...)
	if r := succeed(t, "state", "verify", "-c", s.config, "--json"); !strings.Contains(r.out,
		`"verified":true`) {
		t.Errorf("after a dry run: %s", r.out)
	}
	requireWords(t, succeed(t, state("reset", "--everything", "--accept=second-release")...).out,
		append(words, "removed", "state reset --accept=lost-account")...)
	requireMessage(t, call(t, state("inspect", "--user", "sim-000001")...),
		cli.ExitFailed, "has no state")
}

// TestConsumeDeadLetters: one for each record that was fed cut short, with its
// place and the reason.
func TestConsumeDeadLetters(t *testing.T) {
	s := newTownService(t)
	args := []string{
		"consume", "--brokers", s.addr, "--topic", s.prefix + "town.dead",
		"--dead-letters", "--format",
	}
	lines := strings.Split(strings.TrimSpace(succeed(t, append(args, "json")...).out), "\n")
	if want := int(s.fed) / 101; len(lines) != want {
		t.Errorf("%d dead letters, want %d", len(lines), want)
	}
	requireWords(t, lines[0], `"topic":"`+s.prefix+`raw"`, `"offset":`, `"reason":"`,
		`"timestamp":"20`) // a time for people, as of sanitized records
	requireWords(t, succeed(t, append(args, "csv")...).out,
		"topic,partition,offset,reason,timestamp\n", s.prefix+"raw,")
	requireMessage(t, call(t, append(args, "geojson")...), cli.ExitUsage, "json or csv")
	args[len(args)-2] = "--format=json"
	requireMessage(t, call(t, args[:len(args)-1]...), cli.ExitFailed, "(--dead-letters)")
}

// TestStateVerdict: a report ends with what is verified, and how much.
func TestStateVerdict(t *testing.T) {
	part := func(violations int64, compared int64, why ...string) verify.PartitionReport {
		return verify.PartitionReport{
			Verified: violations == 0 && len(why) == 0, ViolationCount: violations,
			Sanitized: 100, Equal: compared + 1, NotVerified: why,
		}
	}
	for want, parts := range map[string][]verify.PartitionReport{
		"verified: committed":                     {part(0, 3), part(0, 4)},
		"partly verified: 9 committed records":    {part(0, 3), part(0, 4, "settings changed")},
		"different: 2 violations":                 {part(0, 3, "settings changed"), part(2, 4)},
		"not verified: nothing could be compared": {{NotVerified: []string{"retention"}}},
	} {
		report := verify.Report{Verified: parts[0].Verified && len(parts) > 1 && parts[1].Verified}
		report.Partitions = parts
		var out bytes.Buffer
		if err := printReport(&out, report); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if !strings.HasPrefix(lines[len(lines)-1], want) {
			t.Errorf("the verdict is %q, want %q", lines[len(lines)-1], want)
		}
	}
}

func requireWords(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q does not say %q", text, word)
		}
	}
}

// TestStateRebuild deletes the changelog of a service: doctor and run refuse, and after it
// was written back from the state folder everything is proved and goes on.
func TestStateRebuild(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	s := newTownService(t)
	says := func(code int, words string, args ...string) {
		t.Helper()
		r := call(t, args...)
		if r.code != code {
			t.Errorf("geodither %v: exit %d, want %d", args, r.code, code)
		}
		requireWords(t, r.out+r.err, strings.Split(words, "|")...)
	}
	rebuild := []string{"state", "rebuild-changelog", "-c", s.config}
	says(cli.ExitFailed, "nothing to write back", rebuild...)
	topic := s.prefix + "town.changelog"
	res, err := s.client.DeleteTopics(t.Context(),
		&kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err = errors.Join(err, res.Errors[topic]); err != nil {
		t.Fatal(err)
	}
	says(cli.ExitFailed, "the changelog is lost|(changelog-lost)|run would not make it",
		"doctor", "-c", s.config)
	says(cli.ExitFailed, "the changelog is lost|(changelog-lost)", "run", "-c", s.config)
	for _, args := range [][]string{
		{}, {"--dry-run"}, {"--everything", "--accept=second-release"},
	} {
		says(cli.ExitFailed,
			"nothing was removed: this folder may be the only copy|--accept=lost-account",
			append([]string{"state", "reset", "-c", s.config}, args...)...)
	}
	says(cli.ExitFailed, "(changelog-lost)",
		"state", "verify", "-c", s.config)
	says(cli.ExitUsage, "config", "state", "rebuild-changelog")
	says(cli.ExitDone, "this would be written to the new topic|Nothing was written",
		append(rebuild, "--dry-run")...)
	says(cli.ExitDone, "written to the new topic|state verify", rebuild...)
	says(cli.ExitDone, "verified: committed output", "state", "verify", "-c", s.config)
	says(cli.ExitDone, "the changelog has states wherever", "doctor", "-c", s.config)
}
