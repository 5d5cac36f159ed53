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
				UserID:    fmt.Sprintf("user-%d", u),
				Timestamp: 1_700_000_040_000 + int64(minute)*60_000 + int64(u),
				Latitude:  10.006 + .01*corner[0] + 1e-5*float64(u),
				Longitude: 20.008 + .012*corner[1],
			})
		}
	}
	return fixes
}

// crowdModel trains on traces with more flags, and returns the model's file and what was printed.
func crowdModel(t *testing.T, dir, in string, more ...string) (model, out string) {
	t.Helper()
	model = filepath.Join(dir, "model.avro")
	r := succeed(t, append([]string{
		"train", "--in", in, "--box", towntest.Box, "--cell", towntest.Cell,
		"--step", towntest.Step, "--out", model,
	}, more...)...)
	return model, r.out
}

// storedFit returns the fit in a model's file, and the model's id.
func storedFit(t *testing.T, path string) (*mobility.Fit, string) {
	t.Helper()
	m, err := mobility.ReadModelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return m.Provenance.Fit, m.ID()
}

// TestModelFitWrites: training measures nothing, and says what does. The fit on users held out gets
// into the model's file when that is asked for, the model stays the same, and its file, the report
// and the text say the same.
func TestModelFitWrites(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	report, plot := filepath.Join(dir, "fit.json"), filepath.Join(dir, "fit.svg")
	model, trained := crowdModel(t, dir, in)
	fit, id := storedFit(t, model)
	if fit != nil || strings.Contains(trained, "verdict") || !strings.Contains(trained,
		"fit          not measured: geodither model fit MODEL --in TRACES --held-out 0.1") {
		t.Errorf("training measures unasked, or does not say what measures: %+v\n%s", fit, trained)
	}
	measured := succeed(t, "model", "fit", model, "--in", in, "--held-out", "10").out
	if fit, _ := storedFit(t, model); fit != nil {
		t.Errorf("without --write the model's file has the fit %+v", fit)
	}
	out := succeed(t, "model", "fit", model, "--in", in, "--held-out", "10",
		"--write", "--json", report, "--plot", plot).out
	if out != measured {
		t.Errorf("--write measures something else:\n%s\n%s", measured, out)
	}
	fit, after := storedFit(t, model)
	if fit == nil || fit.Users != 10 || fit.Held != "10 of 34 users held out" ||
		len(fit.Calibration) != 6 || fit.Steps != 350 {
		t.Fatalf("the model's fit is %+v", fit)
	}
	if after != id {
		t.Errorf("the fit makes model %s of %s", after, id)
	}
	for _, word := range []string{"10 of 34 users held out", "verdict      drift at δ = "} {
		if !strings.Contains(out, word) {
			t.Errorf("the text does not say %q:\n%s", word, out)
		}
	}
	shown := succeed(t, "model", "inspect", model).out
	for _, word := range []string{
		"trained on   1190 fixes of 34 users", "10 of 34 users held out",
		"verdict      drift at δ = ",
	} {
		if !strings.Contains(shown, word) {
			t.Errorf("inspect does not say %q:\n%s", word, shown)
		}
	}
	var written mobility.Fit
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &written); err != nil || written.LogPrior != fit.LogPrior ||
		written.Drift(fit.Delta) != fit.Drift(fit.Delta) {
		t.Errorf("the report says %s (%v)", data, err)
	}
	if drawn, err := os.ReadFile(plot); err != nil || !strings.Contains(string(drawn), "<svg") {
		t.Errorf("no plot: %v", err)
	}
	if strings.Contains(out+shown+string(data), "user-") {
		t.Error("a user is named")
	}
}

// TestModelFitHeldOutBy: a number, a share and a list, and what is none of these or does not go
// together.
func TestModelFitHeldOutBy(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	list := write(t, dir, "held.txt", "user-3\n\nuser-5\nnobody\nuser-8\nuser-13\nuser-21\n")
	model, _ := crowdModel(t, dir, in)
	for by, want := range map[string]int64{"5": 5, "0.2": 7, list: 5} {
		succeed(t, "model", "fit", model, "--in", in, "--held-out", by, "--steps", "200", "--write")
		if fit, _ := storedFit(t, model); fit == nil || fit.Users != want {
			t.Errorf("--held-out %s: %+v, want %d users", by, fit, want)
		}
	}
	for _, bad := range [][]string{
		{"--held-out", "34"},
		{"--held-out", "0"},
		{"--held-out", "-1"},
		{"--held-out", "2.5"},
		{"--held-out", filepath.Join(dir, "none.txt")},
		{"--held-out", "5", "--plot", "fit.pdf"},
		{"--held-out", "5", "--epsilon", "0"},
		{"--held-out", "5", "--runs", "0"},
		{"--held-out", "5", "--min-segment", "-1"},
		{"--held-out", "5", "--min-segment", "36"},
		{"--held-out", "5", "--personal", dir},
		{"--held-out", "5", "--select"},
		{"--select", "--write"},
		{"--select", "--json", filepath.Join(dir, "fit.json")},
		{"--write"},
	} {
		if r := call(t, append([]string{"model", "fit", model, "--in", in},
			bad...)...); r.code == cli.ExitDone || r.err == "" {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// TestModelFitRebuilds: a second model is trained as the first was, whatever its options, and only
// on the traces of the first.
func TestModelFitRebuilds(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	for _, more := range []string{
		"", "--interpolate 2m", "--calendar 6,23,weekend,utc+1h",
		"--every-fix", "--smoothing radius=3,backoff=12.5,cap=7,jumps=0",
	} {
		model, _ := crowdModel(t, dir, in, strings.Fields(more)...)
		if out := succeed(t, "model", "fit", model, "--in", in, "--held-out", "6",
			"--steps", "100").out; !strings.Contains(out, "6 of 34 users held out") {
			t.Errorf("%q: %s", more, out)
		}
	}
	model, _ := crowdModel(t, dir, in)
	before := read(t, model)
	others := write(t, dir, "others.csv", towntest.CSV(crowd()[35:]))
	r := call(t, "model", "fit", model, "--in", others, "--held-out", "6", "--write")
	requireMessage(t, r, cli.ExitFailed, "training on these traces gives model ",
		"give these, all of them and no others")
	untold := changedModel(t, model, "untold.avro",
		func(m *mobility.Model) { m.Provenance.Options = "kernel_radius=5" })
	for _, what := range []string{"--held-out=6", "--select"} {
		requireMessage(t, call(t, "model", "fit", untold, "--in", in, what), cli.ExitFailed,
			"does not tell its training options", "train it again")
	}
	if read(t, model) != before {
		t.Error("a refused measurement has changed the model's file")
	}
}

// TestModelFitHoldsOutEnough: the fit of a few people tells about them, and gets into no model;
// whoever has the traces may see it.
func TestModelFitHoldsOutEnough(t *testing.T) {
	dir := t.TempDir()
	fixes := crowd()
	for i := range fixes { // users 4 and on report rarely, so that nothing follows anything
		if len(fixes[i].UserID) != len("user-1") || fixes[i].UserID > "user-3" {
			fixes[i].Timestamp += int64(i%35) * 60_000
		}
	}
	in, sparse := write(t, dir, "crowd.csv", towntest.CSV(crowd())), write(t, dir,
		"sparse.csv", towntest.CSV(fixes))
	list := write(t, dir, "held.txt", "user-3\nuser-5\nuser-8\nuser-13\nnobody\nno one\n")
	slow := write(t, dir, "slow.txt", "user-0\nuser-1\nuser-2\nuser-3\nuser-4\nuser-5\n")
	model, _ := crowdModel(t, dir, in)
	rare, _ := crowdModel(t, t.TempDir(), sparse)
	before := read(t, model) + read(t, rare)
	const reason = "a fit of fewer than 5 would tell about these few"
	for _, c := range []struct {
		model, in, by string
		more          []string
		users         int
	}{
		{model, in, "1", nil, 1},
		{model, in, "0.12", nil, 4},
		{model, in, list, nil, 4},
		{rare, sparse, slow, []string{"--min-segment", "3"}, 4},
		{model, in, "9", []string{"--steps", "9"}, 4},
	} {
		args := append([]string{"model", "fit", c.model, "--in", c.in, "--held-out", c.by},
			c.more...)
		r := call(t, append(args, "--write", "--json", filepath.Join(dir, "fit.json"))...)
		requireMessage(t, r, cli.ExitFailed,
			fmt.Sprintf("of the users held out %d would be measured", c.users), reason,
			"hold out more users", "leave --write out: then the fit tells only you")
		if strings.Contains(r.err, "user-") {
			t.Errorf("a user is named: %s", r.err)
		}
		if out := succeed(t, args...).out; !strings.Contains(out, fmt.Sprintf(
			"fit          on %d user", c.users)) {
			t.Errorf("for who has the traces, the fit of %d is\n%s", c.users, out)
		}
	}
	// It is known before anything is read.
	none := filepath.Join(dir, "none.csv")
	requireMessage(t, call(t, "model", "fit", model, "--in", none, "--held-out", "9",
		"--write", "--steps", "120", "--min-segment", "30"),
		cli.ExitUsage, "120 steps in stretches of 30 are of 4 users", reason, "--steps")
	if left := names(t, dir); len(left) != 5 || read(t, model)+read(t, rare) != before {
		t.Errorf("it left behind %v, or changed a model", left)
	}
}

// TestModelFitKeepsPrivacy: figures of a private model's own users are not covered by its ε, and
// neither is a choice by them. Nobody measures them.
func TestModelFitKeepsPrivacy(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	model, out := crowdModel(t, dir, in, "--dp-epsilon", "1")
	if strings.Contains(out, "verdict") || strings.Contains(out, "--held-out") {
		t.Errorf("of a private model it says\n%s", out)
	}
	for _, what := range [][]string{
		{"--held-out", "9"}, {"--held-out", "9", "--write"}, {"--select"},
	} {
		r := call(t, append([]string{"model", "fit", model, "--in", in}, what...)...)
		requireMessage(t, r, cli.ExitFailed, "trained with differential privacy",
			"traces of other people")
	}
	if fit, _ := storedFit(t, model); fit != nil {
		t.Errorf("a private model has the fit %+v", fit)
	}
}

// TestModelFitSelects: the table names the candidates, and the last line is the flag of the one
// that is marked, to train with.
func TestModelFitSelects(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	model, _ := crowdModel(t, dir, in)
	before := read(t, model)
	out := succeed(t, "model", "fit", model, "--in", in, "--select", "--steps", "300",
		"--epsilon", "3").out
	if read(t, model) != before {
		t.Error("a choice has changed the model's file")
	}
	var marked []string
	last := ""
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "* ") {
			marked = strings.Fields(line)
		}
		last = strings.TrimSpace(line)
	}
	if len(marked) < 5 {
		t.Fatalf("no candidate is marked:\n%s", out)
	}
	if want := fmt.Sprintf("--smoothing radius=%s,backoff=%s,cap=%s,jumps=",
		marked[1], marked[2], marked[3]); !strings.HasPrefix(last, want) {
		t.Errorf("the last line is %q, want %s", last, want)
	}
	_, trained := crowdModel(t, dir, in, strings.Fields(last)...)
	if want := fmt.Sprintf("kernel_radius=%s backoff=%s user_cap=%s",
		marked[1], marked[2], marked[3]); !strings.Contains(trained, want) {
		t.Errorf("the model's options do not say %q:\n%s", want, trained)
	}
}

// TestModelFit measures a model on traces, the same each time.
func TestModelFit(t *testing.T) {
	dir := t.TempDir()
	_, model := townFiles(t, dir)
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	first := succeed(t, "model", "fit", model, "--in", in, "--steps", "200",
		"--min-segment", "5", "--epsilon", "2").out
	for _, word := range []string{"34 users", "ε = 2, δ = 0.01", "verdict      "} {
		if !strings.Contains(first, word) {
			t.Errorf("the text does not say %q:\n%s", word, first)
		}
	}
	if again := succeed(t, "model", "fit", model, "--in", in, "--steps", "200",
		"--min-segment", "5", "--epsilon", "2").out; again != first {
		t.Errorf("the same measurement gives\n%s\nand\n%s", first, again)
	}
	plot := filepath.Join(dir, "fit.svg")
	few := succeed(t, "model", "fit", model, "--in", filepath.Join(dir, "traces.csv"),
		"--min-segment", "10", "--plot", plot).out
	if !strings.Contains(few, "unclear, since 6 users tell little about others") ||
		strings.Count(few, "  not known  ") != 6 || strings.Count(first, "  not known  ") == 6 {
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
	one := write(t, dir, "one.csv", alone[0]+strings.Join(slices.DeleteFunc(slices.Clone(alone),
		func(l string) bool { return !strings.HasPrefix(l, "3,") }), ""))
	if of := succeed(t, "model", "fit", model, "--in", one, "--min-segment", "10",
		"--plot", plot).out; !strings.Contains(of, "fit          on 1 user and 40 steps,") ||
		!strings.Contains(read(t, plot), "1 user, 40 steps") {
		t.Errorf("of one user it says\n%s", of)
	}
	if verdict := succeed(t, "model", "fit", model, "--in", in, "--min-segment", "10",
		"--epsilon", "2",
		"--plot", plot).out; strings.Contains(verdict,
		"unclear") == strings.Contains(read(t, plot), judged) {
		t.Errorf("the plot does not say how it is read, or does of what is unclear:\n%s", verdict)
	}
	elsewhere := write(t, dir, "far.csv",
		"user_id,timestamp,latitude,longitude\na,1700000000000,50,50\n")
	for _, bad := range [][]string{
		{}, {model}, {model, "--in", elsewhere}, {filepath.Join(dir, "none.avro"), "--in", in},
	} {
		if r := call(t, append([]string{"model", "fit"}, bad...)...); r.code == cli.ExitDone {
			t.Errorf("model fit %v is accepted", bad)
		}
	}
}
