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
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// ruled is a crowd of ten, of whom four have two fixes each and one, user-0, the whole trace, beside five others.
func ruled() []schemas.Raw {
	return slices.DeleteFunc(crowd(), func(f schemas.Raw) bool {
		late := f.Timestamp >= 1_700_000_040_000+2*60_000
		return len(f.UserID) > len("user-0") || late && f.UserID >= "user-1" && f.UserID <= "user-4"
	})
}

// TestTrainHoldsOutNoRuler: people who are there for the number only hide nobody, whose fit it is; fewer steps of him, as the message says, or none.
func TestTrainHoldsOutNoRuler(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "ruled.csv", towntest.CSV(ruled()))
	list := write(t, dir, "held.txt", "user-0\nuser-1\nuser-2\nuser-3\nuser-4\n")
	model, report := filepath.Join(dir, "m.avro"), filepath.Join(dir, "fit.json")
	args := []string{"train", "--in", in, "--box", towntest.Box, "--cell", towntest.Cell, "--step", towntest.Step, "--held-out", list, "--fit-json", report, "--out", model}
	r := call(t, args...)
	requireMessage(t, r, cli.ExitFailed, "one of the users held out has 35 of the 43 steps that would be measured, more than half", "--held-out 0", "model fit")
	if strings.Contains(r.err, "user-") || len(names(t, dir)) != 2 {
		t.Errorf("%s\n%v", r.err, names(t, dir))
	}
	_, remedy, _ := strings.Cut(r.err, "--fit-steps ")
	steps, _, _ := strings.Cut(remedy, ",")
	succeed(t, append(args, "--fit-steps", steps)...)
	if m, err := mobility.ReadModelFile(model); err != nil || m.Provenance.Fit == nil || m.Provenance.Fit.Users != 5 || m.Provenance.Fit.Steps != 10 {
		t.Errorf("with --fit-steps %s the fit is %+v (%v)", steps, m.Provenance.Fit, err)
	}
	if text := read(t, report); strings.Contains(text, "drift_low") || strings.Contains(text, "drift_high") {
		t.Errorf("five users give an interval: %s", text)
	}
}

// TestTrainKeepsEnough: how well few people foretell others gets into no model.
func TestTrainKeepsEnough(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "crowd.csv", towntest.CSV(crowd()))
	few := write(t, dir, "few.csv", towntest.CSV(slices.DeleteFunc(crowd(), func(f schemas.Raw) bool { return len(f.UserID) > len("user-0") || f.UserID > "user-7" })))
	still := write(t, dir, "still.csv", towntest.CSV(standing()))
	var others strings.Builder
	for u := 4; u < 34; u++ {
		fmt.Fprintf(&others, "user-%d\n", u)
	}
	list, moving := write(t, dir, "others.txt", others.String()), write(t, dir, "moving.txt", "user-0\nuser-1\nuser-2\nuser-3\nuser-4\n")
	args := []string{"train", "--box", towntest.Box, "--cell", towntest.Cell, "--step", towntest.Step, "--out", filepath.Join(dir, "m.avro")}
	const remedy = "would tell how well these few foretell the others: hold out fewer, or nobody with --held-out 0"
	requireMessage(t, call(t, append(args, "--in", in, "--held-out", "30")...), cli.ExitUsage, "of 34 users 4 would not be held out", remedy)
	requireMessage(t, call(t, append(args, "--in", in, "--held-out", list)...), cli.ExitUsage, "of the traces' 34 users 4 are not in it", remedy)
	requireMessage(t, call(t, append(args, "--in", still, "--held-out", moving)...), cli.ExitFailed, "of the users who are not held out 1 have two steps", remedy)
	for _, held := range []string{"7", "5", "2", moving} {
		requireMessage(t, call(t, append(args, "--in", few, "--held-out", held)...), cli.ExitUsage, "the traces have 8 users", "takes 5 to hold out and 5 others", "--held-out 0")
	}
	if left := names(t, dir); len(left) != 5 {
		t.Errorf("it left behind %v", left)
	}
	succeed(t, append(args, "--in", in, "--held-out", "29")...)
}

// standing is a crowd of ten, of whom user-6 to user-9 have one fix each.
func standing() []schemas.Raw {
	return slices.DeleteFunc(crowd(), func(f schemas.Raw) bool {
		return len(f.UserID) > len("user-0") || f.Timestamp >= 1_700_000_040_000+60_000 && f.UserID >= "user-6"
	})
}

// TestTrainKeepsTheModel: what cannot be written beside the model does not take the model along.
func TestTrainKeepsTheModel(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no device that is always full")
	}
	dir := t.TempDir()
	in, model := write(t, dir, "crowd.csv", towntest.CSV(crowd())), filepath.Join(dir, "m.avro")
	r := call(t, "train", "--in", in, "--box", towntest.Box, "--cell", towntest.Cell, "--step", towntest.Step, "--fit-json", "/dev/full", "--out", model)
	if r.code != cli.ExitFailed || !strings.Contains(r.err, "/dev/full cannot be written: no space left on device") || !strings.Contains(r.err, "the model is in "+model+" all the same") {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
	if m, err := mobility.ReadModelFile(model); err != nil || m.Provenance.Fit == nil || !strings.Contains(r.out, "wrote "+model) || !strings.Contains(r.out, "verdict") {
		t.Errorf("%v\n%s", err, r.out)
	}
}

// TestFitToNoStream: standard output has the text, and "-" is no file; nor is there a file of no fit.
func TestFitToNoStream(t *testing.T) {
	dir := t.TempDir()
	in, model := townFiles(t, dir)
	train := []string{"train", "--in", filepath.Join(dir, "none.csv"), "--box", towntest.Box, "--cell", towntest.Cell, "--step", towntest.Step, "--out", filepath.Join(dir, "m.avro")}
	for _, args := range [][]string{
		{"model", "fit", model, "--in", in, "--json", "-"}, {"model", "fit", model, "--in", in, "--plot", "-"}, append(train, "--fit-json", "-"), append(train, "--fit-plot", "-"),
	} {
		requireMessage(t, call(t, args...), cli.ExitUsage, "name one in place of -")
	}
	requireMessage(t, call(t, append(train, "--held-out", "0", "--fit-json", filepath.Join(dir, "fit.json"))...), cli.ExitUsage, "holds nobody out, and there is no fit to write")
	t.Chdir(dir)
	if err := files.WriteWhole("-", []byte("x")); err != nil || read(t, "-") != "x" {
		t.Errorf("what writes files does not write one called -: %v", err)
	}
}
