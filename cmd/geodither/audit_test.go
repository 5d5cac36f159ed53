package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/schemas"
)

func auditArgs(model string, change ...string) []string {
	return append(
		[]string{
			"audit", "--model", model, "--epsilon", "1",
			"--delta", "0.1", "--mechanism", "lattice", "--draws", "5e4",
		},
		change...)
}

var took = regexp.MustCompile(`"seconds":[0-9.e+-]+|draws in [0-9.msµ]+`)

func TestAuditOfTheLattice(t *testing.T) {
	traces, model := townFiles(t, t.TempDir())
	r := succeed(t, auditArgs(model)...)
	requireWords(t, r.out, "verdict      nothing found: lattice at ε = 1, δ = 0.1",
		"true ε       at least 0.", "repeat       passed", "separation   passed",
		"surrogates   passed", "estimates    passed", "on the lattice that all places share",
		"simulated traces", "never proves privacy", "PROOFS.md", "service      ", "equal releases",
		"would find: ", "in every 16th step", "seeds of at most", "confidence 0.9995",
		"right guesses and", "by at least e^0.", "with confidence 0.9995 (seen: e^",
		"which e^ε = 2.72 allows", "width: ", "area: ", "fat, thin: ")
	if strings.Contains(r.out, "finding  ") {
		t.Errorf("a finding on the lattice:\n%s", r.out)
	}

	// The command that the report names gives the report again.
	_, command, ok := strings.Cut(r.out, "The same report again: geodither ")
	if !ok || !strings.Contains(command, "--seed=1") || !strings.Contains(command, "--draws=") {
		t.Fatalf("no command with its seed and all flags in\n%s", r.out)
	}
	again := succeed(t, strings.Fields(command)...)
	if got, want := firstPart(again.out), firstPart(r.out); got != want {
		t.Errorf("the same command gives\n%s\nnot\n%s", got, want)
	}

	var report struct {
		Passed   bool
		Findings []string
		Attack   struct{ Bound float64 }
		Visits   int
		Command  string
	}
	settings := withConfig(t, "release: {mechanism: lattice, budget: none}")[1]
	r = succeed(t, auditArgs(model, "--json", "--in", traces, "--seed", "7", "-c", settings)...)
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	if !report.Passed || report.Findings == nil || len(report.Findings) > 0 ||
		report.Attack.Bound < .8 || report.Attack.Bound > 1 || report.Visits != 6*40 {
		t.Errorf("of six vehicles' 40 steps: %s", r.out)
	}
	for _, word := range []string{"--in=" + traces, "--seed=7", "--config=" + settings} {
		if !strings.Contains(report.Command, word) {
			t.Errorf("the command %q lacks %q", report.Command, word)
		}
	}
}

func TestAuditOfTheCodebook(t *testing.T) {
	traces, model := townFiles(t, t.TempDir())
	args := []string{"audit", "--model", model, "--epsilon", "1", "--draws", "5e4"}
	r := succeed(t, args...)
	requireWords(t, r.out, "verdict      nothing found: codebook at ε = 1 on model",
		"separation   passed", "votes        passed", "law          passed", "estimates    passed",
		"are code points that all places share", "differ by 1 ε at most, 0 by more",
		"codebooks met in", "survey's bound", "never proves privacy",
		"cells that vote for one code point", "code points that are left out")
	for _, word := range []string{"finding  ", "surrogate", "hull", "location sets met"} {
		if strings.Contains(r.out, word) {
			t.Errorf("the report on a codebook says %q:\n%s", word, r.out)
		}
	}
	var report struct {
		Passed     bool
		Attack     struct{ Bound float64 }
		Law        *struct{ Trials int }
		Situations []struct{ Points int }
		Service    struct {
			Bound  float64
			Checks []struct{ Name string }
		}
	}
	r = succeed(t, append(args, "--json", "--in", traces, "--epsilon", "2")...)
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	if !report.Passed || report.Attack.Bound < 1.8 || report.Attack.Bound > 2 ||
		report.Law == nil || len(report.Situations) == 0 || report.Situations[0].Points < 2 ||
		report.Service.Bound < 1 || report.Service.Bound > 2 ||
		report.Service.Checks[0].Name != "votes" {
		t.Errorf("%s", r.out)
	}
}

// firstPart is a report without its time and its last line, the command.
func firstPart(out string) string {
	part, _, _ := strings.Cut(took.ReplaceAllString(out, ""), "The same report again")
	return part
}

func TestAuditExitsOnFindings(t *testing.T) {
	_, model := townFiles(t, t.TempDir())
	r := call(t, auditArgs(model, "--mechanism", "pim", "--draws", "20000")...)
	if r.code != cli.ExitFailed {
		t.Errorf("exit %d on floats", r.code)
	}
	requireWords(t, r.out, "1 finding: pim", "low bits", "no finite ε", "does not hold")
	requireWords(t, r.err, "the audit of pim did not pass")
	r = call(t, auditArgs(model, "--mechanism", "laplace", "--draws", "20000", "--json")...)
	var report struct {
		Passed   bool
		Findings []string
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != cli.ExitFailed ||
		report.Passed || len(report.Findings) != 1 {
		t.Errorf("exit %d, %v: %s", r.code, err, r.out)
	}
}

// TestAuditOfAConfig: the settings are the service's, its rules included, and its key is not
// asked for.
func TestAuditOfAConfig(t *testing.T) {
	dir := t.TempDir()
	_, model := townFiles(t, dir)
	path := write(t, dir, "geodither.yml", "model: "+filepath.Base(model)+`
key_file: there-is-none
release: {mechanism: lattice, epsilon: 2, delta: 0.1, interval: 1m, budget: none}
publish: {user: pseudonym, timestamp: step}
encoding: {sanitized: json}
input: {outside: clamp}
`)
	given, err := (&auditFlags{settings: config.Flags{Path: path}}).service(new(pflag.FlagSet))
	if err != nil {
		t.Fatal(err)
	}
	if given.Encoding != schemas.JSON || given.Publish.User != engine.UserPseudonym ||
		given.Input != (engine.Input{Outside: engine.OutsideClamp}) {
		t.Errorf("audited under %v, %v, %v", given.Encoding, given.Publish, given.Input)
	}
	r := succeed(t, "audit", "-c", path, "--draws", "2e4", "--json")
	var report struct {
		Passed  bool
		Epsilon float64
		Exact   struct{ Comparisons int } `json:"ratio"`
		Service struct {
			Passed         bool
			Records, Tests int
			Bound          float64
			Checks         []struct {
				Name, Power      string
				Trials, Failures int
			}
		}
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	s := report.Service
	if !report.Passed || report.Epsilon != 2 || report.Exact.Comparisons == 0 || !s.Passed ||
		s.Records < 5000 || s.Tests < 100 || s.Bound > 2 || len(s.Checks) != 13 {
		t.Errorf("%s", r.out)
	}
}

func TestAuditUsage(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	tiny := filepath.Join(dir, "tiny.avro") // a map of one cell
	succeed(t, "train", "--in", traces, "--box", servicetest.TownBox, "--cell", "11km",
		"--step", servicetest.TownStep, "--out", tiny)
	for _, c := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{"audit"}, cli.ExitUsage, []string{"-c", "--model"}},
		{[]string{"audit", "--model", model}, cli.ExitUsage, []string{"epsilon"}},
		{[]string{"audit", "-c", filepath.Join(dir, "gone.yml")}, cli.ExitUsage, []string{
			"gone.yml",
		}},
		{auditArgs(model, "--draws", "10"), cli.ExitUsage, []string{"10 draws tell nothing"}},
		{auditArgs(model, "--draws", "0"), cli.ExitUsage, []string{"--draws"}},
		{auditArgs(model, "--draws", "-1e6"), cli.ExitUsage, []string{"draws"}},
		{auditArgs(model, "--draws", "1234.5"), cli.ExitUsage, []string{"1e6"}},
		{auditArgs(model, "--draws", "NaN"), cli.ExitUsage, []string{"1e6"}},
		{auditArgs(model, "--mechanism", "gauss"), cli.ExitUsage, []string{`"gauss"`, "lattice"}},
		{auditArgs(model, "--epsilon", "0"), cli.ExitUsage, []string{"epsilon"}},
		{auditArgs(model,
			"--delta", "1", "--mechanism", "lattice"), cli.ExitUsage, []string{"delta"}},
		{
			auditArgs(model, withConfig(t,
				"release: {mechanism: lattice, min_radius: 3km, budget: none}")...),
			cli.ExitUsage,
			[]string{"settings.yml", `unknown key "min_radius"`},
		},
		{auditArgs(filepath.Join(dir, "gone")), cli.ExitFailed, []string{"no such file"}},
		{auditArgs(model, "--in", filepath.Join(dir, "gone")), cli.ExitFailed, []string{
			"no such file",
		}},
		{auditArgs(tiny), cli.ExitFailed, []string{"more than one place", "--delta"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			requireMessage(t, call(t, c.args...), c.code, c.words...)
		})
	}
}

func TestAuditIsInterrupted(t *testing.T) {
	_, model := townFiles(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, log shared
	code := run(ctx, auditArgs(model, "--draws", "1e12"),
		cli.Streams{In: strings.NewReader(""), Out: &out, Err: &log})
	if code != cli.ExitFailed || log.String() != "geodither: interrupted\n" || out.String() != "" {
		t.Errorf("exit %d, %q, %q", code, &log, &out)
	}
	b := start(t, strings.NewReader(""), auditArgs(model, "--draws", "1e12")...)
	if code := b.stop(t); code != cli.ExitFailed ||
		!strings.Contains(b.log.String(), "interrupted") {
		t.Errorf("exit %d, %q", code, b.log)
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"a/b-c_1.csv": "a/b-c_1.csv", "a b": "'a b'", "it's": `'it'\''s'`, "": "''",
		"$x": "'$x'", "Straße": "'Straße'",
	} {
		if got := shellWord(word); got != want {
			t.Errorf("%q becomes %s, want %s", word, got, want)
		}
	}
}
