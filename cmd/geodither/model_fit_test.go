package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
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
	r := succeed(t, append(townTraining(in, model), more...)...)
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
// into the model's file when that is asked for, the model stays the same, and its file, the JSON
// and the text say the same.
func TestModelFitWrites(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", servicetest.TownCSV(crowd()))
	model, trained := crowdModel(t, dir, in)
	fit, id := storedFit(t, model)
	if fit != nil || strings.Contains(trained, "verdict") || !strings.Contains(trained,
		"fit          not measured: geodither model fit MODEL --in TRACES --held-out 0.1") {
		t.Errorf("training measures unasked, or does not say what measures: %+v\n%s", fit, trained)
	}
	args := []string{"model", "fit", model, "--in", in, "--held-out", "10"}
	measured := succeed(t, args...).out
	if fit, _ := storedFit(t, model); fit != nil {
		t.Errorf("without --write the model's file has the fit %+v", fit)
	}
	if out := succeed(t, append(args, "--write")...).out; out != measured {
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
	shown := succeed(t, "model", "inspect", model).out
	for _, word := range []string{"10 of 34 users held out", "verdict      drift at δ = "} {
		if !strings.Contains(measured, word) || !strings.Contains(shown, word) {
			t.Errorf("the text does not say %q:\n%s\n%s", word, measured, shown)
		}
	}
	var printed mobility.Fit
	data := succeed(t, append(args, "--json")...).out
	if err := json.Unmarshal([]byte(data), &printed); err != nil ||
		printed.LogPrior != fit.LogPrior ||
		!slices.Equal(printed.Calibration, fit.Calibration) {
		t.Errorf("the JSON says %s (%v)", data, err)
	}
	if strings.Contains(measured+shown+data, "user-") {
		t.Error("a user is named")
	}
}

// TestModelFitHeldOutBy: a number, a share and a list, and what is none of these or does not go
// together.
func TestModelFitHeldOutBy(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", servicetest.TownCSV(crowd()))
	list := write(t, dir, "held.txt", "user-3\n\nuser-5\nnobody\nuser-8\nuser-13\nuser-21\n")
	model, _ := crowdModel(t, dir, in)
	for by, want := range map[string]int64{"5": 5, "0.2": 7, list: 5} {
		succeed(t, "model", "fit", model, "--in", in, "--held-out", by, "--write")
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
		{"--held-out", "5", "--epsilon", "0"},
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
	in := write(t, dir, "crowd.csv", servicetest.TownCSV(crowd()))
	for _, more := range []string{
		"", "--interpolate 2m", "--calendar 6,23,weekend,utc+1h",
		"--every-fix", "--smoothing radius=3,backoff=12.5,cap=7,jumps=0",
	} {
		model, _ := crowdModel(t, dir, in, strings.Fields(more)...)
		out := succeed(t, "model", "fit", model, "--in", in, "--held-out", "6").out
		if !strings.Contains(out, "6 of 34 users held out") {
			t.Errorf("%q: %s", more, out)
		}
	}
	model, _ := crowdModel(t, dir, in)
	before := read(t, model)
	others := write(t, dir, "others.csv", servicetest.TownCSV(crowd()[35:]))
	r := call(t, "model", "fit", model, "--in", others, "--held-out", "6", "--write")
	requireMessage(t, r, cli.ExitFailed, "training on these traces gives model ",
		"(held-out)")
	untold := changedModel(t, model, "untold.avro",
		func(m *mobility.Model) { m.Provenance.Options = "kernel_radius=5" })
	requireMessage(t, call(t, "model", "fit", untold, "--in", in, "--held-out", "6"),
		cli.ExitFailed, "lacks its training options", "(held-out)")
	if read(t, model) != before {
		t.Error("a refused measurement has changed the model's file")
	}
}

// TestModelFitHoldsOutEnough: the fit of a few people, or of a model of a few, tells about them. It
// gets into no model; the owner of the traces may see it.
func TestModelFitHoldsOutEnough(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", servicetest.TownCSV(crowd()))
	list := write(t, dir, "held.txt", "user-3\nuser-5\nuser-8\nuser-13\nnobody\nno one\n")
	model, _ := crowdModel(t, dir, in)
	before := read(t, model)
	for by, says := range map[string]string{
		"1":    "of the users held out 1 were measured: a fit of fewer than 5 reveals",
		"0.12": "of the users held out 4 were measured",
		list:   "of the users held out 4 were measured",
		"30":   "of the training users 4 have two steps without a gap",
	} {
		args := []string{"model", "fit", model, "--in", in, "--held-out", by}
		r := call(t, append(args, "--write")...)
		requireMessage(t, r, cli.ExitFailed, says, "leave --write out")
		if strings.Contains(r.err, "user-") {
			t.Errorf("a user is named: %s", r.err)
		}
		if out := succeed(t, args...).out; !strings.Contains(out, "verdict") {
			t.Errorf("for who has the traces, the fit is\n%s", out)
		}
	}
	if left := names(t, dir); len(left) != 3 || read(t, model) != before {
		t.Errorf("it left behind %v, or changed the model", left)
	}
}

// TestModelFitKeepsPrivacy: figures of a private model's own users are not covered by its ε. Nobody
// measures them.
func TestModelFitKeepsPrivacy(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", servicetest.TownCSV(crowd()))
	model, out := crowdModel(t, dir, in, "--dp-epsilon", "1")
	if strings.Contains(out, "verdict") || strings.Contains(out, "--held-out") {
		t.Errorf("of a private model it says\n%s", out)
	}
	for _, what := range [][]string{
		{"--held-out", "9"}, {"--held-out", "9", "--write"},
	} {
		r := call(t, append([]string{"model", "fit", model, "--in", in}, what...)...)
		requireMessage(t, r, cli.ExitFailed, "trained with differential privacy",
			"(held-out)")
	}
	if fit, _ := storedFit(t, model); fit != nil {
		t.Errorf("a private model has the fit %+v", fit)
	}
}

// TestModelFit measures a model on traces, the same each time, and names nobody.
func TestModelFit(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	in := write(t, dir, "crowd.csv", servicetest.TownCSV(crowd()))
	first := succeed(t, "model", "fit", model, "--in", in).out
	for _, word := range []string{
		"34 users", "ε = 1, δ = 0.01", "; model alone ", "verdict      ",
	} {
		if !strings.Contains(first, word) {
			t.Errorf("the text does not say %q:\n%s", word, first)
		}
	}
	if again := succeed(t, "model", "fit", model, "--in", in).out; again != first {
		t.Errorf("the same measurement gives\n%s\nand\n%s", first, again)
	}
	few := succeed(t, "model", "fit", model, "--in", traces).out
	if !strings.Contains(few, "unclear, since 6 users tell little about others") ||
		strings.Count(few, "  not known  ") != 6 || strings.Count(first, "  not known  ") == 6 {
		t.Errorf("of few users it says\n%s\nand of many\n%s", few, first)
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
