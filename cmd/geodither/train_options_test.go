package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestTrainOptions: what the flags ask for is in the model's provenance and
// makes another model; what makes no sense is refused before anything is read.
func TestTrainOptions(t *testing.T) {
	dir := t.TempDir()
	traces := write(t, dir, "traces.csv", servicetest.TownCSV(servicetest.TownFixes()))
	ids := map[string]string{}
	for i, c := range []struct {
		flags, said string
	}{
		{"", `place="last fix"`},
		{"--interpolate 5m", `place="line to its end"`},
		{"--calendar 6,10,16,20,weekend,utc+8h", `hours=6,10,16,20 weekend=true`},
		{"--calendar weekend", `weekend=true`},
		{
			"--smoothing radius=3,jumps=0",
			"kernel_radius=3 backoff=20 user_cap=30 max_gap=0s every_fix=false " +
				`place="last fix" uniform=0.1 jumps=0 `,
		},
		{"--smoothing backoff=2.5,cap=7", `kernel_radius=5 backoff=2.5 user_cap=7`},
	} {
		model := filepath.Join(dir, fmt.Sprint(i, ".avro"))
		args := townTraining(traces, model)
		succeed(t, append(args, strings.Fields(c.flags)...)...)
		s := inspectModel(t, model)
		if !strings.Contains(s.Provenance.Options, c.said) {
			t.Errorf("%q: the options are %s", c.flags, s.Provenance.Options)
		}
		if other, ok := ids[s.ID]; ok {
			t.Errorf("%q and %q give one model", c.flags, other)
		}
		ids[s.ID] = c.flags
	}
	for flags, said := range map[string]string{
		"--interpolate 0s":             "write the longest gap",
		"--interpolate 30s":            "below the step",
		"--interpolate 5m --every-fix": "excludes Interpolate",
		"--smoothing radius=0":         "is no radius",
		"--smoothing reach=3":          "no part",
		"--smoothing backoff=much":     "is no backoff",
		"--smoothing jumps=1":          "not below 1",
		"--calendar 6":                 "two parts",
		"--calendar 6,25":              "0 to 23",
		"--calendar utc+8h":            "hours or weekends beside",
		"--calendar 6,noon":            "no hour",
		"--calendar 6,20,utc8":         "no local time",
		"--calendar 6,20,utc+30s":      "whole minutes",
	} {
		args := townTraining(traces, filepath.Join(dir, "no.avro"))
		r := call(t, append(args, strings.Fields(flags)...)...)
		if r.code == cli.ExitDone || !strings.Contains(r.err, said) {
			t.Errorf("%q: exit %d, %q", flags, r.code, r.err)
		}
	}
}
