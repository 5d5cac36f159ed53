package audit

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

var update = flag.Bool("update", false,
	"write the table of planted faults into mechanism/PROOFS.md")

// TestSoundService: nothing is found in the engine, under rules and other options too, and
// the report says what was looked at.
func TestSoundService(t *testing.T) {
	t.Parallel()
	long(t)
	for name, change := range map[string]func(s *Settings){
		"as it comes": func(*Settings) {},
		"with rules": func(s *Settings) {
			s.Release.ReleaseInterval, s.Release.SameStep = 2, mechanism.SameStepDrop
			s.Release.Budget = mechanism.Budget{
				Epsilon: 4, WindowSteps: 10, Lifetime: 50, Spent: mechanism.SpentRepeat,
			}
		},
		"padded, with a pseudonym": func(s *Settings) {
			s.Release.MinRadiusKM, s.Release.Epsilon = 1, .5
			s.Publish = engine.Publish{
				User: engine.UserPseudonym, Timestamp: engine.TimestampStep,
			}
		},
		"the median, no padding, large ε": func(s *Settings) {
			s.Release.MinCells, s.Release.Epsilon, s.Release.Estimate = -1, 6,
				mechanism.EstimateMedian
		},
		"clamped, in JSON": func(s *Settings) {
			s.Input = engine.Input{Outside: engine.OutsideClamp}
			s.Encoding = schemas.JSON
		},
		"codebook": func(s *Settings) { s.Release.Mechanism = law.Codebook },
		"codebook, near": func(s *Settings) {
			s.Release.Mechanism, s.Release.Epsilon = law.Codebook, 3
			s.Release.Near = law.Near{DistanceKM: .1, Factor: 3}
		},
		"codebook, with rules": func(s *Settings) {
			s.Release.Mechanism, s.Release.Epsilon = law.Codebook, 3
			s.Release.ReleaseInterval, s.Release.SameStep = 2, mechanism.SameStepDrop
			s.Release.Budget = mechanism.Budget{
				Epsilon: 12, WindowSteps: 10, Lifetime: 150, Spent: mechanism.SpentRepeat,
			}
			s.Input.Outside = engine.OutsideClamp
		},
		"laplace": func(s *Settings) { s.Release.Mechanism = law.Laplace },
		"tight":   func(s *Settings) { s.Release.Mechanism = law.LaplaceTight },
		"pim":     func(s *Settings) { s.Release.Mechanism = law.PIM },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := townSettings(t)
			change(&s)
			r, err := Run(Engine, s, Options{Seed: 3, Workers: 2, Sizes: soundSizes})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Passed || r.Bound > s.Release.Epsilon || r.Tests < 300 {
				t.Errorf("passed: %v, bound %v, %d tests", r.Passed, r.Bound, r.Tests)
			}
			for _, c := range r.Checks {
				if c.Failures > 0 || c.Trials == 0 || c.Power == "" || c.Says == "" {
					t.Errorf("%s: %d failures in %d trials: %q; %q", c.Name, c.Failures, c.Trials,
						c.Details, c.Power)
				}
			}
		})
	}
}

var soundSizes = Sizes{Users: 4096, Shapes: 256, Vehicles: 4, Steps: 128, RuleSteps: 40}

// long leaves a test out under the race detector, where it takes minutes. The tests that
// run several goroutines for their own sake stay.
func long(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("an audit of this size takes minutes under the race detector")
	}
}

// TestUnbrokenTwinPasses: what the faults of the law do their work with has none of its own.
func TestUnbrokenTwinPasses(t *testing.T) {
	t.Parallel()
	long(t)
	twin := drawn((*redraw).again)
	r, err := Run(twin(Engine), townSettings(t), Options{Seed: 3, Workers: 2, Sizes: soundSizes})
	if err != nil || !r.Passed {
		t.Errorf("%v, %+v", err, r)
	}
	twin = answered(func(a *answer) grid.Point { return a.draw(a.vote, 1) })
	r, err = Run(twin(Engine), coded(t), Options{Seed: 3, Workers: 2, Sizes: soundSizes})
	if err != nil || !r.Passed {
		t.Errorf("of the codebook: %v, %+v", err, r)
	}
}

// TestFalseAlarms: with a confidence of .8 a fifth of the audits of the sound service may
// raise an alarm. More than 14 of 40 would have a probability below 1 % even so.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	long(t)
	for name, s := range map[string]Settings{"lattice": townSettings(t), "codebook": coded(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			falseAlarms(t, s)
		})
	}
}

func falseAlarms(t *testing.T, s Settings) {
	t.Helper()
	const audits, most = 40, 14
	alarms := 0
	for seed := range uint64(audits) {
		r, err := Run(Engine, s, Options{
			Seed: seed, Confidence: .8, Workers: 2,
			Sizes: Sizes{Users: 1024, Shapes: 128, Vehicles: 8, Steps: 96, RuleSteps: 2},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Passed {
			alarms++
		}
		for _, c := range r.Checks[:9] { // those of bytes, which raise none
			if c.Failures > 0 {
				t.Errorf("seed %d, %s: %q", seed, c.Name, c.Details)
			}
		}
	}
	if alarms > most {
		t.Errorf("%d alarms in %d audits", alarms, audits)
	}
	t.Logf("%d alarms in %d audits", alarms, audits)
}

// TestReportDoesNotDependOnWorkers also shows that a seed repeats an audit.
func TestReportDoesNotDependOnWorkers(t *testing.T) {
	t.Parallel()
	var reports []*Report
	for _, workers := range []int{1, 3} {
		r, err := Run(Engine, townSettings(t), Options{
			Seed: 5, Workers: workers, Sizes: Sizes{
				Users: 6000, Shapes: 40, Vehicles: 3, Steps: 40, RuleSteps: 10,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, r)
	}
	if !reflect.DeepEqual(reports[0], reports[1]) {
		t.Errorf("%+v, with more workers %+v", reports[0], reports[1])
	}
}

// TestProgressEndsTheAudit: its error is the audit's.
func TestProgressEndsTheAudit(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	_, err := Run(Engine, townSettings(t), Options{
		Seed: 5, Sizes: bytesSizes, Progress: func(done, total int64) error {
			if done <= 0 || done > total {
				t.Errorf("%d of %d", done, total)
			}
			return stop
		},
	})
	if !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// TestFaults plants one fault after the other, and holds what is found against the table of
// mechanism/PROOFS.md.
func TestFaults(t *testing.T) {
	long(t)
	all := faults()
	rows, missed := make([]string, len(all)), 0
	t.Run("plant", func(t *testing.T) {
		for i, f := range all {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				s := townSettings(t)
				if f.group == codebooks {
					s = coded(t)
				}
				r, err := Run(f.plant(Engine), s, Options{Seed: 7, Sizes: f.sizes})
				if err != nil {
					t.Fatal(err)
				}
				if r.Passed != (f.missed != "") {
					t.Errorf("passed: %v", r.Passed)
				}
				rows[i] = row(i+1, f, r)
				for _, c := range r.Checks {
					if c.Failures > 0 {
						t.Logf("%s: %d %q", c.Name, c.Failures, c.Details)
					}
				}
			})
		}
	})
	for _, f := range all {
		if f.missed != "" {
			missed++
		}
	}
	if len(all) < 28 || len(all)-missed < 26*len(all)/28 {
		t.Errorf("%d of %d faults are missed", missed, len(all))
	}
	compareTable(t, rows, summary(all))
}

func row(number int, f fault, r *Report) string {
	found := "**missed**: " + f.missed
	for _, c := range r.Checks {
		if c.Failures > 0 {
			found = c.Name
			break
		}
	}
	mark := ""
	if f.example {
		mark = " †"
	}
	return fmt.Sprintf("| %d | %s%s | %s | %d |\n", number, f.name, mark, found, f.sizes.Users)
}

// summary counts by group what is found.
func summary(all []fault) string {
	text := "\n| group | found | planted |\n|---|---|---|\n"
	line := func(name string, of func(fault) bool) {
		found, planted := 0, 0
		for _, f := range all {
			if !of(f) {
				continue
			}
			if planted++; f.missed == "" {
				found++
			}
		}
		text += fmt.Sprintf("| %s | %d | %d |\n", name, found, planted)
	}
	for i, f := range all {
		if i == 0 || all[i-1].group != f.group {
			line(f.group, func(o fault) bool { return o.group == f.group })
		}
	}
	line("in all", func(fault) bool { return true })
	return text
}

const (
	proofs     = "../../../mechanism/PROOFS.md"
	tableBegin = "<!-- table of planted faults: go test ./cmd/internal/audit -run TestFaults " +
		"-update -->\n"
	tableEnd = "<!-- end of the table -->\n"
)

func compareTable(t *testing.T, rows []string, sums string) {
	t.Helper()
	text, err := os.ReadFile(proofs)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), tableBegin)
	was, tail, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		t.Fatalf("%s lacks the marks of the table", proofs)
	}
	table := "| | planted fault | found by | users |\n|---|---|---|---|\n" + strings.Join(rows,
		"") + sums
	if *update && !t.Failed() {
		if err := os.WriteFile(proofs, []byte(head+tableBegin+table+tableEnd+tail),
			0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was != table {
		t.Errorf("the table of %s is another one: run with -update and read the difference; now "+
			"it is\n%s", proofs, table)
	}
}
