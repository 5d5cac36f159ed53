package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/experiment"
	"github.com/geodither/geodither/mechanism/trial"
)

// TestEvaluateSample holds every number of the parameters of the shipped buses to golden ones, to
// four digits, and the report to what a reader looks for. A changed default of training changes its
// numbers too.
func TestEvaluateSample(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "buses")
	args := []string{
		"evaluate", "--quick", "--out", dir, "--experiment", "over-time,parameters",
	}
	r := succeed(t, args...)
	if !strings.Contains(r.out, "report.md") || r.err != "" {
		t.Errorf("it says %q and %q", r.out, r.err)
	}
	golden(t, "testdata/evaluate.csv", read(t, filepath.Join(dir, "tables", "parameters.csv")))
	text := read(t, filepath.Join(dir, "report.md"))
	for _, want := range []string{
		"Correlations (CCS 2015).", "releases of one user add up.",
		"| Liverpool buses | 8 | 8 | 6 | 360 | 60 | 30s | 17 | 864 | 0.25 ",
		"do not pass it on",
		"| PIM | 558 (454 to 662) | 0 | 18.5 (16.3 to 21.1) | 2 (1.48 to 2.71) |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q", want)
		}
	}
	for _, name := range []string{
		"over-time-buses", "over-time-buses-map", "parameters-buses-popular",
		"parameters-buses-personal",
	} {
		if info, err := os.Stat(filepath.Join(dir, "charts", name+".svg")); err != nil ||
			info.Size() < 5000 {
			t.Errorf("no chart %s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".gitignore")); err == nil {
		t.Error("open data are hidden")
	}
	// Again: nothing is measured twice, and the report is the same.
	before := read(t, filepath.Join(dir, "report.md"))
	r = succeed(t, args...)
	if !strings.Contains(r.err, "were measured before") ||
		read(t, filepath.Join(dir, "report.md")) != before {
		t.Errorf("the second report differs, or does not say what it took: %q", r.err)
	}
}

// golden compares with a file of testdata, or writes it if UPDATE_GOLDEN is set.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Split(read(t, path), "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(want) || line != want[i] {
			t.Errorf("%s:%d: %q (UPDATE_GOLDEN=1 writes it)", path, i+1, line)
			return
		}
	}
}

// TestEvaluateOwn: a data set of the user's own, whose folder git leaves alone, with traces as long
// as the data have them.
func TestEvaluateOwn(t *testing.T) {
	dir := t.TempDir()
	traces := write(t, dir, "traces.csv", servicetest.TownCSV(servicetest.TownFixes()))
	out := filepath.Join(dir, "out")
	succeed(t, "evaluate", "--data", "town="+traces, "--box", servicetest.TownBox, "--cell",
		servicetest.TownCell,
		"--step", "town="+servicetest.TownStep, "--timestamps", "30",
		"--quick", "--experiment", "parameters", "--also", "lattice", "--out", out)
	rows, err := csv.NewReader(
		strings.NewReader(read(t, filepath.Join(out, "tables", "parameters.csv")))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	mechanisms := map[string]bool{}
	for _, row := range rows[1:] {
		mechanisms[row[2]] = true
		if row[0] != "town" || row[5] != "6" {
			t.Fatalf("a row of other data: %q", row)
		}
	}
	if len(mechanisms) != 4 || !mechanisms["lattice"] || !mechanisms["blind"] {
		t.Errorf("measured %v", mechanisms)
	}
	if read(t, filepath.Join(out, ".gitignore")) != "*\n" {
		t.Error("git may take the folder")
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others may read the folder: %v", err)
	}
}

// TestEvaluateSparesGitignore: a folder's own .gitignore stays, be it that of a repository, and the
// caller is told; that of an earlier report is no news.
func TestEvaluateSparesGitignore(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	own := write(t, dir, ".gitignore", "/bin/\n")
	for folder, told := range map[string]bool{".": true, "fresh": false} {
		f := evaluateFlags{out: folder}
		for range 2 {
			var errs strings.Builder
			if err := f.prepare([]dataSet{{}}, cli.Streams{Err: &errs}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(errs.String(), ".gitignore is left as it is"); got != told ||
				!told && errs.Len() > 0 {
				t.Errorf("%s: it says %q", folder, errs.String())
			}
		}
	}
	if got := read(t, own); got != "/bin/\n" {
		t.Errorf("the folder's own .gitignore is now %q", got)
	}
	if got := read(t, filepath.Join(dir, "fresh", ".gitignore")); got != "*\n" {
		t.Errorf("a fresh folder's is %q", got)
	}
}

func TestEvaluateRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for message, args := range map[string][]string{
		`experiment "overtime" is unknown`: {"--experiment", "overtime"},
		`"nonsense" is nothing`:            {"--also", "nonsense"},
		"write NAME=PATH":                  {"--data", "traces.csv"},
		"has no --box":                     {"--data", "fleet=traces.csv"},
		"has no --step": {
			"--data", "fleet=traces.csv", "--box", servicetest.TownBox, "--cell",
			servicetest.TownCell,
		},
		`"other=250m" is of a data set`: {"--cell", "other=250m"},
		"is no time":                    {"--step", "soon"},
		"no number of timestamps":       {"--timestamps", "many"},
		"length":                        {"--cell", "250"},
	} {
		requireMessage(t, call(t, append([]string{"evaluate", "--out", out}, args...)...),
			cli.ExitUsage, message)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a wrong command makes a folder")
	}
	requireMessage(t, call(t, "evaluate", "--out", out,
		"--data", "geolife="+filepath.Join(t.TempDir(), "none")),
		cli.ExitFailed, "check the path")
}

// TestBusErrors measures the estimates of the shipped buses over eight seeds, each bus under a
// model of others, and prints with -v what RESULTS.md has. The limits are a fifth above that.
func TestBusErrors(t *testing.T) {
	sets, err := (&dataFlags{}).read()
	if err != nil {
		t.Fatal(err)
	}
	std := cli.Streams{Err: &strings.Builder{}}
	d, err := sets[0].load(t.Context(), cli.NewProgress(std.Err, nil), std)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ epsilon, codebook, lattice float64 }{
		{1, 1.4, 2.4}, {2, .75, 1.2}, {4, .37, .65},
	} {
		rms := map[experiment.Variant]float64{}
		for v, limit := range map[experiment.Variant]float64{
			experiment.Codebook: c.codebook, experiment.Lattice: c.lattice,
		} {
			rms[v] = busError(t, d, d.Release(v, c.epsilon, .3))
			t.Logf("ε = %g, %s: %.3f km rms", c.epsilon, v.Label(), rms[v])
			if rms[v] > limit {
				t.Errorf("ε = %g, %s: %.3f km rms, want %g", c.epsilon, v.Label(), rms[v], limit)
			}
		}
		if rms[experiment.Codebook] > .75*rms[experiment.Lattice] {
			t.Errorf("ε = %g: the codebook has %.3f km, the lattice %.3f", c.epsilon,
				rms[experiment.Codebook], rms[experiment.Lattice])
		}
	}
}

// busError is the rms distance of estimates to the truth over eight seeds, km.
func busError(t *testing.T, d *experiment.Data, o mechanism.Options) float64 {
	t.Helper()
	var score trial.Score
	for seed := range uint64(8) {
		for i := range d.Traces {
			model, err := d.WithoutFold(d.Traces[i].Fold)
			if err != nil {
				t.Fatal(err)
			}
			s, err := mechanism.NewSanitizer(model, experiment.Keyed(seed, 0), o)
			if err != nil {
				t.Fatal(err)
			}
			runner := trial.Runner{Sanitizer: s, Release: true}
			err = runner.Run(d.Traces[i].Track(d.Grid), func(r *trial.Result) error {
				score.Add(r)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return score.Estimate.RMS() / 1000
}
