package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

func auditArgs(model string, change ...string) []string {
	return append(
		[]string{
			"audit", "--model", model, "--epsilon", "1",
			"--delta", "0.1", "--mechanism", "lattice", "--draws", "5e3",
		},
		change...)
}

var took = regexp.MustCompile(`"seconds":[0-9.e+-]+|situations, in [0-9.msµ]+`)

func TestAuditOfTheLattice(t *testing.T) {
	_, model := townFiles(t, t.TempDir())
	r := succeed(t, auditArgs(model)...)
	requireWords(t, r.out, "verdict  nothing found: lattice at ε = 1, δ = 0.1",
		"true ε   at least 0.", "with confidence 0.999", "wrong guesses", "in 32 situations",
		"sweep           passed", "rules           passed", "equal releases",
		"places          passed", "attack          passed", "An attack cannot prove it",
		"PROOFS.md")
	if strings.Contains(r.out, "finding  ") || len(strings.Fields(r.out)) > 200 {
		t.Errorf("a finding on the lattice, or more than a short page:\n%s", r.out)
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
		Bound    struct{ Epsilon float64 }
		Command  string
	}
	settings := withConfig(t, "release: {mechanism: lattice, budget: none}")[1]
	r = succeed(t, auditArgs(model, "--json", "--seed", "7", "-c", settings)...)
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	if !report.Passed || report.Findings == nil || len(report.Findings) > 0 ||
		report.Bound.Epsilon < .6 || report.Bound.Epsilon > 1 {
		t.Errorf("%s", r.out)
	}
	for _, word := range []string{"--seed=7", "--config=" + settings} {
		if !strings.Contains(report.Command, word) {
			t.Errorf("the command %q lacks %q", report.Command, word)
		}
	}
}

// firstPart is a report without its time and its last line, the command.
func firstPart(out string) string {
	part, _, _ := strings.Cut(took.ReplaceAllString(out, ""), "The same report again")
	return part
}

// TestAuditOffersWhatItTakes: the help names no mechanism that an audit refuses.
func TestAuditOffersWhatItTakes(t *testing.T) {
	audited := newAudit(cli.Streams{}).Flags().Lookup("mechanism").Usage
	sanitized := newSanitize(cli.Streams{}).Flags().Lookup("mechanism").Usage
	for _, name := range law.Names() {
		taken := name == law.Codebook || name == law.Lattice
		if strings.Contains(audited, name) != taken || !strings.Contains(sanitized, name) {
			t.Errorf("%s: audit %q, sanitize %q", name, audited, sanitized)
		}
	}
}

// TestAuditTellsFindings: a report with findings is printed, and is an error.
func TestAuditTellsFindings(t *testing.T) {
	report := &audit.Report{
		Mechanism: "codebook", Epsilon: 1, Findings: []string{"places: 1 of 2 trials (equal)"},
		Checks: []*audit.Check{{Name: "places", Trials: 2, Failures: 1}, {Name: "rules"}},
	}
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		err := (&auditFlags{asJSON: asJSON}).tell(report, cli.Streams{Out: &out})
		if err == nil || !strings.Contains(err.Error(), "the audit of codebook did not pass") {
			t.Errorf("%v", err)
		}
		requireWords(t, out.String(), "places: 1 of 2 trials (equal)")
		if !asJSON {
			requireWords(t, out.String(), "1 finding: codebook", "does not hold",
				"places  FAILED     2 trials", "rules   not tried  0 trials")
		}
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
	r := succeed(t, "audit", "-c", path, "--draws", "2e3", "--json")
	if want := "attacking the mechanism and the service, with 2000 draws ...\n"; r.err != want {
		t.Errorf("on standard error it says %q, want %q", r.err, want)
	}
	var report struct {
		Passed  bool
		Epsilon float64
		Bound   struct{ Epsilon float64 }
		Records int
		Checks  []struct{ Trials, Failures int }
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	if !report.Passed || report.Epsilon != 2 || report.Records < 2000 ||
		report.Bound.Epsilon > 2 || len(report.Checks) != 5 {
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
		{[]string{"audit", "-c", filepath.Join(dir, "gone.yml")}, cli.ExitFailed, []string{
			"gone.yml",
		}},
		{auditArgs(model, "--draws", "10"), cli.ExitUsage, []string{"10 is too few"}},
		{auditArgs(model, "--draws", "0"), cli.ExitUsage, []string{"--draws"}},
		{auditArgs(model, "--draws", "-1e6"), cli.ExitUsage, []string{"draws"}},
		{auditArgs(model, "--draws", "1234.5"), cli.ExitUsage, []string{"1e6"}},
		{auditArgs(model, "--draws", "NaN"), cli.ExitUsage, []string{"1e6"}},
		{auditArgs(model, "--mechanism", "gauss"), cli.ExitUsage, []string{`"gauss"`, "lattice"}},
		{auditArgs(model, "--mechanism", "pim"), cli.ExitFailed, []string{"pim", "no proof"}},
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
		{auditArgs(tiny), cli.ExitFailed, []string{"more than one place"}},
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
	code := run(ctx, varied(auditArgs(model, "--draws", "1e12")),
		cli.Streams{In: strings.NewReader(""), Out: &out, Err: &log})
	if code != cli.ExitInterrupted || log.String() != "geodither: interrupted\n" ||
		out.String() != "" {
		t.Errorf("exit %d, %q, %q", code, &log, &out)
	}
	b := start(t, strings.NewReader(""), auditArgs(model, "--draws", "1e12")...)
	if code := b.stop(t); code != cli.ExitInterrupted ||
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
