package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/towntest"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// crowd is a town of many: each of 34 users goes round its four corners at a pace of his own.
func crowd() []schemas.Raw {
	var fixes []schemas.Raw
	corners := [][2]float64{{0, 0}, {0, 1}, {1, 1}, {1, 0}}
	for u := range 34 {
		for minute := range 35 {
			corner := corners[(minute/(2+u%3)+u)%4]
			fixes = append(fixes, schemas.Raw{
				UserID: fmt.Sprintf("user-%d", u), Timestamp: 1_700_000_040_000 + int64(minute)*60_000 + int64(u),
				Latitude: 10.006 + .01*corner[0] + 1e-5*float64(u), Longitude: 20.008 + .012*corner[1],
			})
		}
	}
	return fixes
}

// trainCrowd trains on it with more flags and returns what was printed, and the fit in the model.
func trainCrowd(t *testing.T, dir, in string, more ...string) (string, *mobility.Fit) {
	t.Helper()
	model := filepath.Join(dir, "model.avro")
	out := succeed(t, append([]string{"train", "--in", in, "--box", towntest.Box, "--cell", towntest.Cell, "--step", towntest.Step, "--out", model}, more...)...).out
	m, err := mobility.ReadModelFile(model)
	if err != nil {
		t.Fatal(err)
	}
	return out, m.Provenance.Fit
}

// TestTrainHoldsOut: traces of many users are tried on some of them unasked, the model is trained on all of them all the same, and its file, the
// report and the text say the same.
func TestTrainHoldsOut(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	report, plot := filepath.Join(dir, "fit.json"), filepath.Join(dir, "fit.svg")
	out, fit := trainCrowd(t, dir, in, "--fit-json", report, "--fit-plot", plot)
	if fit == nil || fit.Users != 10 || fit.Held != "10 of 34 users held out" || len(fit.Calibration) != 6 || fit.Steps != 350 {
		t.Fatalf("the model's fit is %+v", fit)
	}
	for _, word := range []string{"trained on   1190 fixes of 34 users", "10 of 34 users held out", "verdict      drift at δ = "} {
		if !strings.Contains(out, word) {
			t.Errorf("the text does not say %q:\n%s", word, out)
		}
	}
	var written mobility.Fit
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &written); err != nil || written.LogPrior != fit.LogPrior || written.Drift(fit.Delta) != fit.Drift(fit.Delta) {
		t.Errorf("the report says %s (%v)", data, err)
	}
	if drawn, err := os.ReadFile(plot); err != nil || !strings.Contains(string(drawn), "<svg") {
		t.Errorf("no plot: %v", err)
	}
	if strings.Contains(out+string(data), "user-") {
		t.Error("a user is named")
	}
	if out, fit := trainCrowd(t, dir, in, "--held-out", "0"); fit != nil || strings.Contains(out, "verdict") {
		t.Errorf("nobody was to be held out: %+v", fit)
	}
}

// TestTrainHeldOutBy: a number, a share and a list.
func TestTrainHeldOutBy(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	list := write(t, dir, "held.txt", "user-3\n\nuser-5\nnobody\nuser-8\nuser-13\nuser-21\n")
	for by, want := range map[string]int64{"5": 5, "0.2": 7, list: 5} {
		if _, fit := trainCrowd(t, dir, in, "--held-out", by); fit == nil || fit.Users != want {
			t.Errorf("--held-out %s: %+v, want %d users", by, fit, want)
		}
	}
	traces, _ := townFiles(t, t.TempDir())
	if out, fit := trainCrowd(t, dir, traces); fit != nil || strings.Contains(out, "verdict") {
		t.Errorf("of six users some were held out unasked: %+v", fit)
	}
	args := []string{"train", "--in", in, "--box", towntest.Box, "--cell", towntest.Cell, "--step", towntest.Step, "--out", filepath.Join(dir, "m.avro")}
	for _, bad := range [][]string{
		{"--held-out", "34"},
		{"--held-out", "-1"},
		{"--held-out", "2.5"},
		{"--held-out", filepath.Join(dir, "none.txt")},
		{"--fit-plot", "fit.pdf"},
		{"--fit-epsilon", "0"},
		{"--fit-runs", "0"},
		{"--min-segment", "-1"},
		{"--min-segment", "36"},
		{"--select", "--dp-epsilon", "1", "--dp-contribution", "50"},
		{"--held-out", "3", "--dp-epsilon", "1", "--dp-contribution", "50"},
	} {
		if r := call(t, append(args, bad...)...); r.code == cli.ExitDone || r.err == "" {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// TestTrainHoldsOutEnough: the fit of a few people tells about them, and gets into no model and no report.
func TestTrainHoldsOutEnough(t *testing.T) {
	dir := t.TempDir()
	fixes := crowd()
	for i := range fixes { // users 4 and on report rarely, so that nothing follows anything
		if len(fixes[i].UserID) != len("user-1") || fixes[i].UserID > "user-3" {
			fixes[i].Timestamp += int64(i%35) * 60_000
		}
	}
	in, sparse := write(t, dir, "crowd.csv", towntest.CSV(crowd())), write(t, dir, "sparse.csv", towntest.CSV(fixes))
	list := write(t, dir, "held.txt", "user-3\nuser-5\nuser-8\nuser-13\nnobody\nno one\n")
	model, report := filepath.Join(dir, "m.avro"), filepath.Join(dir, "fit.json")
	args := []string{"train", "--box", towntest.Box, "--cell", towntest.Cell, "--step", towntest.Step, "--out", model}
	const remedy = "a fit of fewer than 5, which stands in the model, would tell about these few: hold out more"
	requireMessage(t, call(t, append(args, "--in", in, "--held-out", "1")...), cli.ExitUsage, "of 34 users 1 would be held out", remedy)
	requireMessage(t, call(t, append(args, "--in", in, "--held-out", "0.12", "--fit-json", report)...), cli.ExitUsage, "of 34 users 4 would be held out", remedy)
	requireMessage(t, call(t, append(args, "--in", in, "--held-out", list)...), cli.ExitUsage, "4 of its users are in the traces", remedy)
	slow := write(t, dir, "slow.txt", "user-0\nuser-1\nuser-2\nuser-3\nuser-4\nuser-5\n")
	requireMessage(t, call(t, append(args, "--in", sparse, "--held-out", slow)...), cli.ExitFailed, "4 of the users held out have a stretch of 2 steps", remedy)
	requireMessage(t, call(t, append(args, "--in", sparse, "--fit-json", report)...), cli.ExitFailed, "of the users held out have a stretch of 2 steps", remedy)
	requireMessage(t, call(t, append(args, "--in", in, "--fit-steps", "120", "--min-segment", "30")...), cli.ExitFailed, "120 steps in stretches of 30 are of 4 users", remedy, "--fit-steps")
	// It is known before anything is read.
	requireMessage(t, call(t, append(args, "--in", filepath.Join(dir, "none.csv"), "--held-out", "9", "--fit-steps", "120", "--min-segment", "30")...), cli.ExitUsage,
		"120 steps in stretches of 30 are of 4 users", remedy, "--fit-steps")
	if left := names(t, dir); len(left) != 4 {
		t.Errorf("it left behind %v", left)
	}
	if out, fit := trainCrowd(t, dir, sparse); fit != nil || !strings.Contains(out, "fit          not measured") {
		t.Errorf("nobody has asked for a fit of few: %+v\n%s", fit, out)
	}
}

// TestTrainPrivatelyMeasuresNothing: the figures would be of the users whose privacy the model keeps.
func TestTrainPrivatelyMeasuresNothing(t *testing.T) {
	dir := t.TempDir()
	in, model := write(t, dir, "crowd.csv", towntest.CSV(crowd())), filepath.Join(dir, "m.avro")
	r := call(t, "train", "--in", in, "--box", towntest.Box, "--cell", towntest.Cell, "--step", towntest.Step, "--out", model, "--dp-epsilon", "1", "--dp-contribution", "50")
	if r.code != cli.ExitDone || strings.Contains(r.out, "verdict") {
		t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if m, err := mobility.ReadModelFile(model); err != nil || m.Provenance.Fit != nil {
		t.Errorf("a private model has the fit %+v (%v)", m.Provenance.Fit, err)
	}
}

// TestTrainSelects: the table names the candidates, and the model is made with the one that is marked.
func TestTrainSelects(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	out, _ := trainCrowd(t, dir, in, "--select", "--held-out", "0", "--fit-steps", "300", "--fit-epsilon", "3")
	var marked []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "* ") {
			marked = strings.Fields(line)
		}
	}
	if len(marked) < 5 {
		t.Fatalf("no candidate is marked:\n%s", out)
	}
	for _, word := range []string{
		fmt.Sprintf("kernel_radius=%s backoff=%s user_cap=%s", marked[1], marked[2], marked[3]), "selected_of=", "selected_at_epsilon=3", "source       traces", "made by      geodither",
	} {
		if !strings.Contains(out, word) {
			t.Errorf("the model's options do not say %q:\n%s", word, out)
		}
	}
}

// TestModelFit measures a model on traces, the same each time.
func TestModelFit(t *testing.T) {
	dir := t.TempDir()
	_, model := townFiles(t, dir)
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	first := succeed(t, "model", "fit", model, "--in", in, "--steps", "200", "--min-segment", "5", "--epsilon", "2").out
	for _, word := range []string{"34 users", "ε = 2, δ = 0.01", "verdict      "} {
		if !strings.Contains(first, word) {
			t.Errorf("the text does not say %q:\n%s", word, first)
		}
	}
	if again := succeed(t, "model", "fit", model, "--in", in, "--steps", "200", "--min-segment", "5", "--epsilon", "2").out; again != first {
		t.Errorf("the same measurement gives\n%s\nand\n%s", first, again)
	}
	plot := filepath.Join(dir, "fit.svg")
	few := succeed(t, "model", "fit", model, "--in", filepath.Join(dir, "traces.csv"), "--min-segment", "10", "--plot", plot).out
	if !strings.Contains(few, "unclear, since 6 users tell little about others") || strings.Count(few, "  not known  ") != 6 || strings.Count(first, "  not known  ") == 6 {
		t.Errorf("of few users it says\n%s\nand of many\n%s", few, first)
	}
	if !strings.Contains(read(t, plot), "No band: it takes 10 users") {
		t.Error("the plot of a few users' fit has a band")
	}
	const judged = "Above the dashed line the model is too sure"
	if strings.Contains(read(t, plot), judged) {
		t.Error("the plot judges what the verdict calls unclear")
	}
	alone := strings.SplitAfter(towntest.CSV(towntest.Fixes()), "\n")
	one := write(t, dir, "one.csv", alone[0]+strings.Join(slices.DeleteFunc(slices.Clone(alone), func(l string) bool { return !strings.HasPrefix(l, "3,") }), ""))
	if of := succeed(t, "model", "fit", model, "--in", one, "--min-segment", "10", "--plot", plot).out; !strings.Contains(of, "fit          on 1 user and 40 steps,") || !strings.Contains(read(t, plot), "1 user, 40 steps") {
		t.Errorf("of one user it says\n%s", of)
	}
	if verdict := succeed(t, "model", "fit", model, "--in", in, "--min-segment", "10", "--epsilon", "2", "--plot", plot).out; strings.Contains(verdict, "unclear") == strings.Contains(read(t, plot), judged) {
		t.Errorf("the plot does not say how it is read, or does of what is unclear:\n%s", verdict)
	}
	elsewhere := write(t, dir, "far.csv", "user_id,timestamp,latitude,longitude\na,1700000000000,50,50\n")
	for _, bad := range [][]string{{}, {model}, {model, "--in", elsewhere}, {filepath.Join(dir, "none.avro"), "--in", in}, {model, "--in", in, "--interpolate"}} {
		if r := call(t, append([]string{"model", "fit"}, bad...)...); r.code == cli.ExitDone {
			t.Errorf("model fit %v is accepted", bad)
		}
	}
}
