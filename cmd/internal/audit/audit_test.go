package audit

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

var update = flag.Bool("update", false,
	"write the table of planted faults into mechanism/PROOFS.md")

// whole says whether everything is planted at full strength. Most of it takes minutes, so it has an
// environment variable, and a target that sets it: make test-audit.
var whole = os.Getenv("GEODITHER_AUDIT_FAULTS") == "1"

// long leaves a test out unless everything is to run.
func long(t *testing.T) {
	t.Helper()
	if !whole {
		t.Skip("left out, because it takes minutes: \"make test-audit\" runs it")
	}
}

// sounds are settings under which nothing is found. The quick ones are in every run of the tests.
var sounds = []struct {
	name   string
	quick  bool
	change func(s *Settings)
}{
	{"as it comes", false, func(*Settings) {}},
	{"with rules", true, func(s *Settings) {
		s.Release.ReleaseInterval = 2
		s.Release.Hours = workingHours
		s.Release.Budget = mechanism.Budget{
			Epsilon: 4, WindowSteps: 10, Lifetime: 50, Spent: mechanism.SpentRepeat,
		}
	}},
	{"with a pseudonym", false, func(s *Settings) {
		s.Release.Epsilon = .5
		s.Publish = engine.Publish{User: engine.UserPseudonym, Timestamp: engine.TimestampStep}
	}},
	{"the median, no padding, large ε", false, func(s *Settings) {
		s.Release.MinCells, s.Release.Epsilon, s.Release.Estimate = -1, 6, mechanism.EstimateMedian
	}},
	{"clamped, in JSON", false, func(s *Settings) {
		s.Input = engine.Input{Outside: engine.OutsideClamp}
		s.Encoding = schemas.JSON
	}},
	{"codebook", true, func(s *Settings) { s.Release.Mechanism = law.Codebook }},
	{"codebook, with rules", false, func(s *Settings) {
		s.Release.Mechanism, s.Release.Epsilon = law.Codebook, 3
		s.Release.ReleaseInterval = 2
		s.Release.Budget = mechanism.Budget{
			Epsilon: 12, WindowSteps: 10, Lifetime: 150, Spent: mechanism.SpentRepeat,
		}
		s.Input.Outside = engine.OutsideClamp
	}},
}

// workingHours are closed at the time at which an audit would otherwise start.
var workingHours = []hours.Span{{Days: 0x7f, From: 9 * 60, To: 17 * 60, Zone: "UTC"}}

// TestSoundService: nothing is found in the engine, under rules and other options too, and
// the report says what was looked at.
func TestSoundService(t *testing.T) {
	t.Parallel()
	for _, c := range sounds {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if !c.quick {
				long(t)
			}
			s := townSettings(t)
			c.change(&s)
			r, err := Run(t.Context(), Engine, s, Options{Seed: 3, Workers: 2, Sizes: soundSizes})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Passed || r.Bound.Epsilon > s.Release.Epsilon || r.Bound.Epsilon <= 0 ||
				r.Tests < 300 {
				t.Errorf("passed: %v, bound %+v, %d tests", r.Passed, r.Bound, r.Tests)
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

var soundSizes = Sizes{
	Users: 4096, Shapes: 256, Streams: 4096, Facts: 256, Vehicles: 4, Steps: 96, RuleSteps: 32,
	Visits: 200,
}

// TestUntestedFacts: a fact of which the releases cannot be compared is listed, and a fix without a
// release is a finding: here it hides noise that ignores the beginning of the user's id.
func TestUntestedFacts(t *testing.T) {
	t.Parallel()
	// In the town no member of the set has the other last bit.
	const id, bit = "beginning of the user's id", "last bit of the cell"
	hidden := wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
		e, err := b.inner.Feed(f, before)
		if strings.Contains(f.User, "-Audit") {
			e.Counts.Releases = 0
		}
		return e, err
	})
	for _, c := range []struct {
		start    Maker
		sizes    Sizes
		finding  bool
		untested []string
	}{
		{hidden(without(id)(Engine)), Sizes{Facts: 64, Visits: 100}, true, []string{id, bit}},
		{Engine, Sizes{Facts: leastClass, Visits: 100}, false, []string{bit}},
		{Engine, Sizes{Facts: leastClass - 1, Visits: 100}, false, []string{
			"key", id, "end of the user's id", "step", "number of the release", "ε", "cell",
			otherSet, bit, "model",
		}},
		{Engine, Sizes{}, false, []string{"every fact"}},
	} {
		c.sizes.RuleSteps = 1
		r, err := Run(t.Context(), c.start, townSettings(t), Options{Seed: 7, Sizes: c.sizes})
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(r.Findings, func(finding string) bool {
			return strings.Contains(finding, "so the "+id+" is not tested")
		})
		if r.Passed == c.finding || told != c.finding || !slices.Equal(r.Untested, c.untested) {
			t.Errorf("%+v: passed: %v, %q, without %q", c.sizes, r.Passed, r.Findings, r.Untested)
		}
	}
}

// TestRefused: what has no proof is not audited.
func TestRefused(t *testing.T) {
	for _, change := range []func(o *mechanism.Options){
		func(o *mechanism.Options) { o.Mechanism = law.PIM },
		func(o *mechanism.Options) { o.Inference = mechanism.InferencePaper },
	} {
		s := townSettings(t)
		change(&s.Release)
		if _, err := Run(t.Context(), Engine, s, Options{Sizes: soundSizes}); err == nil ||
			!strings.Contains(err.Error(), "audit codebook or lattice") {
			t.Errorf("%v", err)
		}
	}
}

// TestHours: the followed vehicles and all runs are at times in which the service releases, and the
// walks under the given rules meet times inside and outside of them.
func TestHours(t *testing.T) {
	t.Parallel()
	s := townSettings(t)
	s.Release.Hours = workingHours
	open, err := hours.New(workingHours)
	if err != nil {
		t.Fatal(err)
	}
	released, withheld, outside := 0, 0, 0
	seen := wrap(func(b *broken, f Fix, before []byte) (Effect, error) {
		e, err := b.inner.Feed(f, before)
		now := open.Open(f.Timestamp - f.Timestamp%60_000)
		switch {
		case len(b.Release.Hours) == 0 && strings.Contains(f.User, "audit-rules"):
		case len(b.Release.Hours) == 0 && !now:
			outside++
		case len(b.Release.Hours) > 0 && now:
			released += int(e.Counts.Releases)
		case len(b.Release.Hours) > 0:
			withheld++
		}
		return e, err
	})
	if _, err := Run(t.Context(), seen(Engine), s, Options{Workers: 1, Sizes: Sizes{
		Users: 64, Vehicles: 2, Steps: 16, RuleSteps: 24, Visits: 100,
	}}); err != nil {
		t.Fatal(err)
	}
	// The fixes of the check of days are at midnight.
	if released == 0 || withheld == 0 || outside > 2*4*dayUsers {
		t.Errorf("%d released and %d withheld under the given hours, %d fixes outside of them",
			released, withheld, outside)
	}
}

// TestUnbrokenTwinPasses: what the faults of the law do their work with has none of its own.
func TestUnbrokenTwinPasses(t *testing.T) {
	t.Parallel()
	long(t)
	sizes := soundSizes
	sizes.Facts = 0 // it draws by a transcript of its own, which lacks some facts
	for name, twin := range map[string]struct {
		settings Settings
		plant    func(Maker) Maker
	}{
		"lattice": {townSettings(t), drawn((*redraw).again)},
		"codebook": {coded(t), answered(func(r *redraw) grid.Point {
			return r.answer(r.vote, 1)
		})},
	} {
		r, err := Run(t.Context(), twin.plant(Engine), twin.settings,
			Options{Seed: 3, Workers: 2, Sizes: sizes})
		if err != nil || !r.Passed {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
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
		r, err := Run(t.Context(), Engine, s, Options{
			Seed: seed, Confidence: .8, Workers: 2, Sizes: Sizes{
				Users: 2048, Shapes: 128, Facts: 64, Streams: 256, Vehicles: 8, Steps: 96,
				RuleSteps: 2, Visits: 100,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Passed {
			alarms++
		}
		for _, c := range r.Checks[:11] { // those of bytes, which raise none
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
		r, err := Run(t.Context(), Engine, townSettings(t), Options{
			Seed: 5, Workers: workers, Sizes: Sizes{
				Users: 6000, Shapes: 40, Streams: 100, Facts: 20, Vehicles: 3, Steps: 40,
				RuleSteps: 10, Visits: 60,
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
	_, err := Run(t.Context(), Engine, townSettings(t), Options{
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

// TestFaults plants one fault after the other, and compares what is found with the table of
// mechanism/PROOFS.md. Without GEODITHER_AUDIT_FAULTS=1 it plants a few.
func TestFaults(t *testing.T) {
	all := faults()
	rows, missed := make([]string, len(all)), 0
	t.Run("plant", func(t *testing.T) {
		for i, f := range all {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				if !f.quick {
					long(t)
				}
				s := townSettings(t)
				if f.settings != nil {
					s = f.settings(t)
				}
				began := time.Now()
				r, err := Run(t.Context(), f.plant(Engine), s, Options{Seed: 7, Sizes: f.sizes})
				if err != nil {
					t.Fatal(err)
				}
				if r.Passed != (f.missed != "") {
					t.Errorf("passed: %v", r.Passed)
				}
				rows[i] = row(i+1, f, r)
				t.Logf("%v, %q", time.Since(began), r.Findings)
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
	return fmt.Sprintf("| %d | %s%s | %s | %d |\n", number, f.name, mark, found, r.Records)
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
	tableBegin = "<!-- table of planted faults: GEODITHER_AUDIT_FAULTS=1 go test " +
		"./cmd/internal/audit -run TestFaults -update -->\n"
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
	table := "| | planted fault | found by | records |\n|---|---|---|---|\n" + strings.Join(rows,
		"") + sums
	if !whole {
		for _, row := range rows {
			if !strings.Contains(was, row) {
				t.Errorf("the table of %s lacks %s", proofs, row)
			}
		}
		return
	}
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
