package audit

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

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

// TestSoundService: neither the second implementation nor the command finds anything in the engine,
// under rules and other options too, and all their checks are made.
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
			sound(t, s)
		})
	}
}

func sound(t *testing.T, s Settings) {
	t.Helper()
	r, err := probe(Engine, s, soundSizes, 3, alarms)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), Engine, s, Options{Seed: 3, Draws: 1 << 12, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, bound := range []float64{r.bound, report.Bound.Epsilon} {
		if bound > s.Release.Epsilon || bound <= 0 || r.tests < 300 {
			t.Errorf("the bound is %v, after %d tests", bound, r.tests)
		}
	}
	if !report.Passed || report.Situations < duels || report.Records < 1<<12 {
		t.Errorf("the command finds %q in %d situations and %d records", report.Findings,
			report.Situations, report.Records)
	}
	for _, c := range append(r.checks, report.Checks...) {
		// Two draws from a fine lattice are hardly ever equal.
		rare := c == report.Checks[2] && !s.coded()
		if c.Failures > 0 || c.Trials == 0 && !rare {
			t.Errorf("%s: %d failures in %d trials: %q", c.Name, c.Failures, c.Trials, c.Details)
		}
	}
}

// alarms is the rate of false alarms of one probe.
const alarms = .001

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
		r, err := probe(c.start, townSettings(t), c.sizes, 7, alarms)
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(r.findings(), func(finding string) bool {
			return strings.Contains(finding, "so the "+id+" is not tested")
		})
		if c.finding != (len(r.findings()) > 0) || told != c.finding ||
			!slices.Equal(r.untested, c.untested) {
			t.Errorf("%+v: %q, without %q", c.sizes, r.findings(), r.untested)
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
	if _, err := probe(seen(Engine), s, Sizes{
		Users: 64, Vehicles: 2, Steps: 16, RuleSteps: 24, Visits: 100,
	}, 0, alarms); err != nil {
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
		r, err := probe(twin.plant(Engine), twin.settings, sizes, 3, alarms)
		if err != nil || len(r.findings()) > 0 {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}

// TestFalseAlarms: at a rate of .2 a fifth of the probes of the sound service may raise an
// alarm. More than 14 of 40 would have a probability below 1 % even so.
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
	const probes, most = 40, 14
	raised := 0
	for seed := range uint64(probes) {
		r, err := probe(Engine, s, Sizes{
			Users: 2048, Shapes: 128, Facts: 64, Streams: 256, Vehicles: 8, Steps: 96,
			RuleSteps: 2, Visits: 100,
		}, seed, .2)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.findings()) > 0 {
			raised++
		}
		for _, c := range r.checks[:11] { // those of bytes, which raise none
			if c.Failures > 0 {
				t.Errorf("seed %d, %s: %q", seed, c.Name, c.Details)
			}
		}
	}
	if raised > most {
		t.Errorf("%d alarms in %d probes", raised, probes)
	}
	t.Logf("%d alarms in %d probes", raised, probes)
}
