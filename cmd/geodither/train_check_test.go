package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestTrainUseless: traces that teach nothing make no model, and the message
// says what to do.
func TestTrainUseless(t *testing.T) {
	const head = "user_id,timestamp,latitude,longitude\n"
	one := head + "0,1700000040000,10.01,20.01\n"
	for name, c := range map[string]struct {
		text string
		more []string
		want []string
	}{
		"nothing": {head, nil, []string{"no fix in 1 file"}},
		"bad lines only": {
			head + "0,1,2\n", nil, []string{"no fix in 1 file", "1 line skipped: 1 wrong_columns"},
		},
		"all outside": {head + "0,1700000040000,50,50\n", nil, []string{
			"no fix of 1 lies inside the box", "(box-empty)",
		}},
		"swapped": {head + "0,1700000040000,20.01,10.01\n", nil, []string{
			"1 of 1 would if latitude and longitude changed places", "(box-empty)",
		}},
		"one fix": {one, nil, []string{"1 fix of 1 user", "longer --step"}},
		"beyond the gap": {
			one + "0,1700003600000,10.02,20.02\n1,1700000100000,10.02,20.02\n",
			[]string{"--interpolate", "10m"},
			[]string{"longer --step or gap of --interpolate"},
		},
		"far apart": {
			one + "0,1700003600000,10.02,20.02\n1,1700000100000,10.02,20.02\n", nil,
			[]string{"3 fixes of 2 users"},
		},
		"one each": {
			one + "1,1700000040000,10.02,20.02\n",
			[]string{"--every-fix"},
			[]string{"no two of a user in succession"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			input := write(t, dir, "traces.csv", c.text)
			requireMessage(t, trainOn(t, filepath.Join(dir, "model.avro"),
				append(c.more, "--in", input)...),
				cli.ExitFailed, c.want...)
			if left := names(t, dir); len(left) != 1 {
				t.Errorf("it left behind %v", left)
			}
		})
	}
}

// TestTrainWarnings: what makes a poor model is said, beside the model.
func TestTrainWarnings(t *testing.T) {
	fixes := servicetest.TownFixes()
	outside := fixes[0]
	outside.Latitude = 11
	far := strings.Repeat(servicetest.TownCSV(append(fixes[:0:0],
		outside))[len(servicetest.TownCSV(nil)):],
		10*len(fixes))
	alone := fixes[:0:0]
	for _, f := range fixes {
		if f.UserID == "0" {
			alone = append(alone, f)
		}
	}
	for name, c := range map[string]struct {
		text string
		more []string
		want string
	}{
		"good":    {servicetest.TownCSV(fixes), nil, ""},
		"outside": {servicetest.TownCSV(fixes) + far, nil, "fixes lie outside the box"},
		"skipped": {
			servicetest.TownCSV(fixes) + strings.Repeat("junk\n", 2*len(fixes)), nil,
			"more was skipped than read",
		},
		"one user": {servicetest.TownCSV(alone), nil, "all fixes are of one user"},
		"small cells": {
			servicetest.TownCSV(fixes), []string{"--cell", "50m"}, "little more than its smoothing",
		},
		"large cells": {
			servicetest.TownCSV(fixes),
			[]string{"--box", "10,20,10.2,20.2", "--cell", "11km"},
			"all fixes lie in one of 6 cells",
		},
		"idle classes": {
			servicetest.TownCSV(fixes),
			[]string{"--calendar", "6,20,weekend"},
			"no transition falls " +
				"into 3 classes of 4 that --calendar makes: working days, 6 to 20 h; " +
				"weekends, 6 to " +
				"20 h; weekends, 20 to 6 h; there everybody moves as in all others together",
		},
		"two classes": {
			servicetest.TownCSV(fixes),
			[]string{"--calendar", "weekend"},
			"no transition falls into 1 class of 2 that --calendar makes: weekends;",
		},
		"busy classes": {servicetest.TownCSV(fixes), []string{"--calendar", "0,22,utc-24m"}, ""},
		"other places": {
			servicetest.TownCSV(fixes) + strings.Repeat("0,1700000040000,20.01,10.01\n",
				2*len(fixes)),
			nil, "if latitude and longitude changed places",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := trainOn(t, filepath.Join(dir, "model.avro"),
				append([]string{"--in", write(t, dir, "traces.csv", c.text)}, c.more...)...)
			if r.code != cli.ExitDone || !strings.Contains(r.err, c.want) ||
				c.want == "" && r.err != "" {
				t.Errorf("exit %d, want %q:\n%s", r.code, c.want, r.err)
			}
		})
	}
}

// TestTrainBoxOrder: a box in another program's order is refused with the right
// one, where it can be seen.
func TestTrainBoxOrder(t *testing.T) {
	dir := t.TempDir()
	input, model := write(t, dir, "traces.csv", servicetest.TownCSV(servicetest.TownFixes())),
		filepath.Join(dir, "model.avro")
	for _, box := range []string{
		"116.27,39.85,116.5,39.97", "39.85,39.97,116.27,116.5", "116.27,116.5,39.85,39.97",
		"39.97,116.27,39.85,116.5",
	} {
		r := call(t, "train", "--in", input, "--box", box, "--cell", "340m",
			"--step", "60s", "--out", model)
		requireMessage(t, r, cli.ExitUsage, "south,west,north,east",
			"is it --box 39.85,116.27,39.97,116.5?")
	}
}

// TestTrainReport: it says how much was read of what.
func TestTrainReport(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "in/a.csv", servicetest.TownCSV(servicetest.TownFixes()[:100]))
	write(t, dir, "in/b.csv", servicetest.TownCSV(servicetest.TownFixes()[100:])+"junk\n")
	r := trainOn(t, filepath.Join(dir, "model.avro"), "--in", filepath.Join(dir, "in"))
	if want := "read  2 files: 288 fixes\n"; !strings.Contains(r.out, want) ||
		!strings.Contains(r.err, "1 line skipped: 1 wrong_columns") {
		t.Errorf("it says\n%s%swant %s", r.out, r.err, want)
	}
}
