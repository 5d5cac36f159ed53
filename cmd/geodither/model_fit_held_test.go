package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/towntest"
	"github.com/geodither/geodither/schemas"
)

// ruled is a crowd of ten, of whom four have two fixes each and one, user-0, the whole trace,
// beside five others.
func ruled() []schemas.Raw {
	return slices.DeleteFunc(crowd(), func(f schemas.Raw) bool {
		late := f.Timestamp >= 1_700_000_040_000+2*60_000
		return len(f.UserID) > len("user-0") || late && f.UserID >= "user-1" && f.UserID <= "user-4"
	})
}

// TestModelFitHoldsOutNoRuler: people who are there for the number only hide nobody, whose fit it
// is; fewer steps of him, as the message says, or none.
func TestModelFitHoldsOutNoRuler(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "ruled.csv", towntest.CSV(ruled()))
	list := write(t, dir, "held.txt", "user-0\nuser-1\nuser-2\nuser-3\nuser-4\n")
	model, _ := crowdModel(t, dir, in)
	report := filepath.Join(dir, "fit.json")
	args := []string{
		"model", "fit", model, "--in", in, "--held-out", list, "--json", report, "--write",
	}
	r := call(t, args...)
	requireMessage(t, r, cli.ExitFailed,
		"one of the users held out has 35 of the 43 steps that would be measured, more than half",
		"leave --write out: then the fit tells only you")
	if fit, _ := storedFit(t, model); fit != nil || strings.Contains(r.err, "user-") ||
		len(names(t, dir)) != 3 {
		t.Errorf("%s\n%v, %+v", r.err, names(t, dir), fit)
	}
	_, remedy, _ := strings.Cut(r.err, "--steps ")
	steps, _, _ := strings.Cut(remedy, ";")
	succeed(t, append(args, "--steps", steps)...)
	if fit, _ := storedFit(t, model); fit == nil || fit.Users != 5 || fit.Steps != 10 {
		t.Errorf("with --steps %s the fit is %+v", steps, fit)
	}
	if text := read(t, report); strings.Contains(text, "drift_low") ||
		strings.Contains(text, "drift_high") {
		t.Errorf("five users give an interval: %s", text)
	}
}

// TestModelFitKeepsEnough: how well few people predict others gets into no model.
func TestModelFitKeepsEnough(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	few := write(t, dir, "few.csv", towntest.CSV(slices.DeleteFunc(crowd(),
		func(f schemas.Raw) bool { return len(f.UserID) > len("user-0") || f.UserID > "user-7" })))
	still := write(t, dir, "still.csv", towntest.CSV(standing()))
	var others strings.Builder
	for u := 4; u < 34; u++ {
		fmt.Fprintf(&others, "user-%d\n", u)
	}
	list, moving := write(t, dir, "others.txt", others.String()), write(t, dir, "moving.txt",
		"user-0\nuser-1\nuser-2\nuser-3\nuser-4\n")
	models := map[string]string{}
	for _, traces := range []string{in, few, still} {
		models[traces], _ = crowdModel(t, t.TempDir(), traces)
	}
	for _, c := range []struct{ in, by, says string }{
		{in, "30", "of the users who are not held out 4 have two steps without a gap"},
		{in, list, "of the users who are not held out 4 have two steps without a gap"},
		{still, moving, "of the users who are not held out 1 have two steps without a gap"},
		{few, "7", "of the users who are not held out 1 have two steps without a gap"},
		{few, "5", "of the users who are not held out 3 have two steps without a gap"},
		{few, moving, "of the users who are not held out 3 have two steps without a gap"},
	} {
		r := call(t, "model", "fit", models[c.in], "--in", c.in, "--held-out", c.by, "--write")
		requireMessage(t, r, cli.ExitFailed, c.says,
			"would reveal how these few move: hold out fewer",
			"leave --write out")
	}
	requireMessage(t, call(t, "model", "fit", models[few], "--in", few,
		"--held-out", "2", "--write"),
		cli.ExitFailed, "of the users held out 2 would be measured")
	for traces, model := range models {
		if fit, _ := storedFit(t, model); fit != nil {
			t.Errorf("%s: the fit got into the model", filepath.Base(traces))
		}
	}
	succeed(t, "model", "fit", models[in], "--in", in, "--held-out", "29", "--min-segment", "5",
		"--steps", "300", "--write")
	if fit, _ := storedFit(t, models[in]); fit == nil || fit.Users != 29 {
		t.Errorf("with five others the fit is %+v", fit)
	}
}

// standing is a crowd of ten, of whom user-6 to user-9 have one fix each.
func standing() []schemas.Raw {
	return slices.DeleteFunc(crowd(), func(f schemas.Raw) bool {
		return len(f.UserID) > len("user-0") ||
			f.Timestamp >= 1_700_000_040_000+60_000 && f.UserID >= "user-6"
	})
}

// TestModelFitKeepsTheModel: what cannot be written beside the model does not take the fit along.
func TestModelFitKeepsTheModel(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no device that is always full")
	}
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	model, _ := crowdModel(t, dir, in)
	r := call(t, "model", "fit", model, "--in", in, "--held-out", "10", "--steps", "200",
		"--write", "--json", "/dev/full")
	if r.code != cli.ExitFailed ||
		!strings.Contains(r.err, "/dev/full cannot be written: no space left on device") ||
		!strings.Contains(r.err, "the fit is in the model's file all the same") {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
	if fit, _ := storedFit(t, model); fit == nil || !strings.Contains(r.out, "verdict") {
		t.Errorf("%+v\n%s", fit, r.out)
	}
}

// TestFitToNoStream: standard output has the text, and "-" is no file.
func TestFitToNoStream(t *testing.T) {
	dir := t.TempDir()
	in, model := townFiles(t, dir)
	for _, args := range [][]string{
		{"model", "fit", model, "--in", in, "--json", "-"},
		{"model", "fit", model, "--in", in, "--plot", "-"},
		{"model", "fit", model, "--in", in, "--held-out", "2", "--json", "-"},
		{"model", "fit", model, "--in", in, "--held-out", "2", "--plot", "-"},
	} {
		requireMessage(t, call(t, args...), cli.ExitUsage, "name one in place of -")
	}
	t.Chdir(dir)
	if err := files.WriteWhole("-", []byte("x")); err != nil || read(t, "-") != "x" {
		t.Errorf("what writes files does not write one called -: %v", err)
	}
}
