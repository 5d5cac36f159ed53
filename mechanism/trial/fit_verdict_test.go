package trial

import (
	"errors"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/mobility"
)

func TestVerdict(t *testing.T) {
	good := mobility.Fit{
		Users: 40, Steps: 20_000, Moves: 19_000, LogLikelihood: -1.4, LogPopularity: -7, Epsilon: 1,
		Delta: .01,
		Calibration: []mobility.FitDelta{
			{Delta: .001, Drift: .004, Low: .003, High: .005},
			{Delta: .01, Drift: .011, Low: .008, High: .014},
			{Delta: .3, Drift: .3, Low: .2, High: .4},
		},
		Estimate: mobility.FitError{Mean: 3900}, Blind: mobility.FitError{Mean: 4800},
	}
	for _, c := range []struct {
		name   string
		change func(*mobility.Fit)
		want   []string // of each line, in order
	}{
		{
			"good", func(*mobility.Fit) {},
			[]string{"drift at δ = .01 is .011 (.008 to .014 for other users like these): about δ"},
		},
		{"too sure", func(f *mobility.Fit) {
			f.Calibration[1] = mobility.FitDelta{Delta: .01, Drift: .08, Low: .05, High: .12}
		}, []string{
			"drift at δ = .01 is .08 (.05 to .12 for other users like these): the model is too " +
				"sure; try more jumps",
		}},
		{"too sure by one user", func(f *mobility.Fit) {
			f.Calibration[1] = mobility.FitDelta{Delta: .01, Drift: .08, Low: 0, High: .2}
		}, []string{"unclear, too little to judge by; hold out more users"}},
		{"too unsure", func(f *mobility.Fit) {
			f.Calibration[1] = mobility.FitDelta{Delta: .01, Drift: .002, Low: .001, High: .003}
		}, []string{"the model is too unsure"}},
		{"nobody drifts", func(f *mobility.Fit) {
			f.Calibration[1] = mobility.FitDelta{Delta: .01}
		}, []string{"drift at δ = .01 is 0 in 20000 steps: the model is too unsure"}},
		{"few steps", func(f *mobility.Fit) { f.Steps = 50 }, []string{"drift at δ = .3 is .3"}},
		{
			"one user", func(f *mobility.Fit) { f.Users = 1 },
			[]string{
				"drift at δ = .01 is .011 in 20000 steps: unclear, since 1 user tells little " +
					"about others",
			},
		},
		{
			"few users, right", func(f *mobility.Fit) { f.Users = 9 },
			[]string{
				"is .011 in 20000 steps: unclear, since 9 users tell little about others, and " +
					"intervals from fewer than 10 would be too narrow; measure it on 10 users or " +
					"more",
			},
		},
		{"few users, too sure", func(f *mobility.Fit) {
			f.Users, f.Calibration[1] = 9, mobility.FitDelta{
				Delta: .01, Drift: .08, Low: .05, High: .12,
			}
		}, []string{"is .08 in 20000 steps: unclear"}},
		{"enough users", func(f *mobility.Fit) { f.Users = 10 }, []string{"about δ"}},
		{
			"impossible", func(f *mobility.Fit) { f.Impossible = .049 },
			[]string{"about δ", "4.9 % of the moves are impossible"},
		},
		{
			"no model", func(f *mobility.Fit) { f.LogLikelihood = -7.5 },
			[]string{"about δ", "worse than popularity alone"},
		},
		{
			"useless", func(f *mobility.Fit) { f.Estimate.Mean = 4700 },
			[]string{
				"about δ",
				"hardly better than publishing nothing (4.70 km off on average, model alone " +
					"4.80 km)",
			},
		},
	} {
		f := good
		f.Calibration = append([]mobility.FitDelta{}, good.Calibration...)
		c.change(&f)
		got := FitVerdict(f)
		if len(got) != len(c.want) {
			t.Errorf("%s: %d lines, want %d: %q", c.name, len(got), len(c.want), got)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: line %d is %q, want %q", c.name, i, got[i], want)
			}
		}
	}
}

func TestFraction(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", .08: ".08", .0123: ".012", .3: ".3", .00084: ".00084", 1: "1", .000000001: "0",
	} {
		if got := fraction(x); got != want {
			t.Errorf("%g is written %q, want %q", x, got, want)
		}
	}
}

// TestDisclosable: a fit that others may read is of five users at least, of a model of five others
// at least.
func TestDisclosable(t *testing.T) {
	for _, c := range []struct {
		held, others int64
		want         error
	}{
		{5, 5, nil},
		{200, 1000, nil},
		{4, 100, ErrFewHeld},
		{0, 100, ErrFewHeld},
		{100, 4, ErrFewOthers},
		{100, 0, ErrFewOthers},
		{4, 4, ErrFewHeld},
	} {
		if err := Disclosable(c.held, c.others); !errors.Is(err, c.want) ||
			(err == nil) != (c.want == nil) {
			t.Errorf("%d held out, %d others: %v, want %v", c.held, c.others, err, c.want)
		}
	}
}
