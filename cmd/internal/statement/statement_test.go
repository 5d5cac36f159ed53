package statement

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/deploy"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// service is a folder with a config, a model and a key.
type service struct {
	*testing.T
	dir, config string
	model       *mobility.Model
	key         noise.Key
}

// newService writes a config with what is below the head, and the model and the key that it names.
func newService(t *testing.T, release, rest string) *service {
	t.Helper()
	t.Setenv(files.KeyVariable, "")
	const head = "brokers: [broker.example:9092]\ngroup: fleet\nmodel: model.avro\n" +
		"key_file: noise.key\nstate_dir: state\n"
	if !strings.Contains(rest, "topics:") {
		rest += "topics: {raw: fleet.raw, sanitized: fleet.sanitized}\n"
	}
	s := &service{T: t, dir: t.TempDir(), key: noise.KeyFromSeed(1 << 40)}
	var err error
	s.model, err = servicetest.TownModel()
	s.ok(err)
	s.config = s.file("geodither.yml", head+"release: "+release+"\n"+rest)
	s.ok(s.model.WriteFile(filepath.Join(s.dir, "model.avro")))
	s.file("noise.key", s.key.Reveal()+"\n")
	return s
}

func (s *service) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *service) file(name, text string) (path string) {
	s.Helper()
	path = filepath.Join(s.dir, name)
	s.ok(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// facts are those of a program that does not change from commit to commit.
func (s *service) facts() *Facts {
	s.Helper()
	f, err := New(s.config, nil, nil)
	s.ok(err)
	f.Program = cli.Build{Version: "v1.2.3", Revision: "0a1b2c3"}
	return f
}

// both writes facts in both formats, and returns the JSON's values too.
func (s *service) both(f *Facts) (markdown string, values map[string]any) {
	s.Helper()
	var page strings.Builder
	s.ok(Markdown(&page, f, noon))
	text, err := json.Marshal(f)
	s.ok(err)
	s.ok(json.Unmarshal(text, &values))
	return page.String(), values
}

// at follows keys down a JSON document.
func (s *service) at(values map[string]any, path string) any {
	s.Helper()
	var value any = values
	for key := range strings.SplitSeq(path, ".") {
		below, ok := value.(map[string]any)
		if !ok {
			s.Fatalf("there is nothing below %q of %s", key, path)
		}
		if value, ok = below[key]; !ok {
			s.Fatalf("there is no %q in %s", key, path)
		}
	}
	return value
}

const plainRelease = "{mechanism: codebook, epsilon: 2, interval: 3h, " +
	"budget: {epsilon: 18, window: 24h}}"

// cases are configs, each with what its page has to say and must not say, and with values of the
// JSON.
var cases = map[string]struct {
	release, rest string
	model         func(*mobility.Model)
	says, not     []string
	values        map[string]any
}{
	"codebook": {
		release: plainRelease,
		says: []string{
			"holds against everybody who does not have the noise key", "odds between two days",
			"codebook, exact for the published values (theorem 12)", "a factor of 7.39",
			"Σε ≤ 18 in any 24 hours; spent: predictions",
			"After a change of settings a limit holds",
			"at most 18: odds", "a factor of 65,659,970",
			"in a year of daily reports at most 5,842",
			"the exact time of each fix", "the plain user id", "and the release",
			"the record is missing", "trained without differential privacy",
			"3 hours; between them: predictions", "A home: nights add up",
		},
		not: []string{
			"theorem 2", "pseudonym", ", which is high", "That a report was left out", `"delta"`,
			"each version that the fixes",
		},
		values: map[string]any{
			"epsilon": 2., "delta": 0., "location_set_delta": nil, "budget.epsilon": 18.,
			"budget.window_s": 86400., "budget.lifetime": nil, "most_in_24_h": 18.,
			"interval_s": 10800., "topics.changelog": "fleet-changelog", "records.user": "plain",
			"nights_open": true, "hours": nil, "key.first_day": nil, "counts": nil,
		},
	},
	"lattice": {
		release: "{mechanism: lattice, epsilon: 1, delta: 0.3, interval: 2h, between: skip, " +
			"budget: {lifetime: 60}, hours: [{days: mon-fri, from: 06:00, to: 18:00, zone: UTC}]}",
		rest: "publish: {user: pseudonym, timestamp: step, release: false}\n" +
			"input: {outside: clamp}\nmax_ahead: off\n",
		says: []string{
			"(theorem 2)", "Theorem 8 (release and words)", `"delta" is no δ of the guarantee`,
			"a pseudonym, the step", "counts as in the nearest cell", "Releases only in",
			"That a report was left out", "2 hours; between them: nothing",
			"Σε ≤ 60 in all; spent: nothing", `"max_ahead: off" lets`,
		},
		not: []string{
			"theorem 12", "user id,", "the exact time of each fix", "and the release |", "In any",
			"A home: nights", "ε in a lifetime",
		},
		values: map[string]any{
			"delta": 0., "location_set_delta": .3, "records.user": "pseudonym",
			"records.timestamp": "step", "records.release": false, "outside_the_map": "clamp",
			"nights_open": false, "max_ahead_s": nil, "leaves_reports_out": true,
		},
	},
	"no budget": {
		release: "{mechanism: codebook, epsilon: 4, budget: none}",
		says: []string{
			"**none**: Σε grows", "at most 5,764, which is high", "about 10^2504",
			"release.budget is none",
		},
		not:    []string{"spent:"},
		values: map[string]any{"budget.spent": nil, "budget.epsilon": nil},
	},
	"sum above a hundred": { // what lint warns of and what the statement says is one text
		release: "{mechanism: codebook, epsilon: 0.35, interval: 4m, budget: none}",
		says:    []string{"at most 126.35, which is high", "add up to at most ε = 126.35."},
	},
	"private model": {
		release: plainRelease,
		rest: "topics: {raw: a, sanitized: b, changelog: c, dead_letters: d, partitioner: any}\n" +
			"input: {key_check: off}\nhttp: {listen: ':8080'}\n",
		model: func(m *mobility.Model) {
			m.Provenance.Privacy = &mobility.Privacy{Epsilon: "1.5", Contribution: 100, Radius: 3}
			m.Provenance.Source = "buses: \x01\n- \"of\" a town"
		},
		says: []string{
			"ε_M = 1.5", "ε + 2ε_M (theorem 9)", `buses: - "of" a town`,
			"partitioner: any", "key_check: off", "at `:8080`",
		},
		not: []string{"trained without differential privacy"},
	},
}

// TestStatement: what a statement states follows from the config and the model, in both formats.
func TestStatement(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newService(t, c.release, c.rest)
			if c.model != nil {
				c.model(s.model)
				s.ok(s.model.WriteFile(filepath.Join(s.dir, "model.avro")))
			}
			f := s.facts()
			markdown, values := s.both(f)
			s.wording(markdown, append(c.says, "Sanitized records stay personal data"),
				append(c.not, "<no value>", "%!", "{{", "}}"))
			for path, want := range c.values {
				if got := s.at(values, path); got != want {
					t.Errorf("%s is %v, not %v", path, got, want)
				}
			}
			s.proved(markdown)
			text, err := json.Marshal(f)
			s.ok(err)
			s.secret(markdown + string(text))
			if again, err := json.Marshal(s.facts()); err != nil || string(again) != string(text) {
				t.Errorf("the same config has other facts: %s, then %s (%v)", text, again, err)
			}
		})
	}
}

// wording requires words of a text, and that it has no others.
func (s *service) wording(text string, says, not []string) {
	s.Helper()
	text = flat(text)
	for _, words := range says {
		if !strings.Contains(text, words) {
			s.Errorf("the statement does not say %q:\n%s", words, text)
		}
	}
	for _, words := range not {
		if strings.Contains(text, words) {
			s.Errorf("the statement says %q:\n%s", words, text)
		}
	}
}

// flat is a text without its line breaks and margins.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

var theorem = regexp.MustCompile(`[Tt]heorem (\d+)(?: \(([^)]+)\)|, (destroyed days|one moment))?`)

// proved requires that the theorems that a statement names are those of PROOFS.md.
func (s *service) proved(text string) {
	s.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "mechanism", "PROOFS.md"))
	s.ok(err)
	for _, m := range theorem.FindAllStringSubmatch(flat(text), -1) {
		head := "**Theorem " + m[1] + "** ("
		if name := m[2] + m[3]; name != "" {
			head += name + ")"
		}
		if !strings.Contains(string(data), head) {
			s.Errorf("PROOFS.md has no %q", head)
		}
	}
}

// secret requires that a statement tells neither the key nor where the brokers are.
func (s *service) secret(text string) {
	s.Helper()
	for _, word := range []string{strings.TrimSpace(s.key.Reveal()), "broker.example", s.dir} {
		if strings.Contains(text, word) {
			s.Errorf("the statement tells %q", word)
		}
	}
}

// mostWords is what fits on one page.
const mostWords = 1000

// TestExample: the page of the config that explains every key has these headings, in this order,
// these figures in its table, narrow lines, and few words.
func TestExample(t *testing.T) {
	s := newService(t, "", "")
	s.file("geodither.yml", deploy.Example)
	markdown, values := s.both(s.facts())
	want := []string{
		"What `geodither` guarantees", "What the numbers mean", "What is not protected",
		"Whom it rests on", "What is kept, and erased", "Measured attacks", "Warnings",
		"What geodither does not know",
	}
	if got := headings(markdown); !slices.Equal(got, want) {
		t.Errorf("headings %q, want %q", got, want)
	}
	s.wording(markdown, []string{
		"**Sanitized records stay personal data.**",
		"on 2026-11-23T12:00:00Z from the config `geodither.yml`", "v1.2.3, revision `0a1b2c3`",
		"| Privacy unit | one fix: the place of one user id in one step of 1 minute |",
		"| ε of one release | 2: the odds between two places change by at most a factor of 7.39 |",
		"| Near places | no promise beyond that |", "| δ | none |",
		"| Least time between releases | 3 hours; between them: predictions, which cost nothing |",
		"| Budget of a user | Σε ≤ 18 in any 24 hours, Σε ≤ 540 in all; spent: predictions",
		"| ε in 24 hours of event time | at most 18: ",
		"| Mechanism | codebook, exact for the published values (theorem 12) |",
		"the user id, the exact time, an estimate with a radius",
		"| Outside the map | no record, which shows it |",
		"| Model " + s.model.ID() + " | 49 cells of 500 m between 10.0000, 20.0000 and 10.0300, " +
			"20.0300",
		"None is cited.",
	}, nil)
	for path, want := range map[string]any{
		"step_s": 60., "budget.lifetime": 540., "outside_the_map": "dead_letter",
		"topics.dead_letters": "geodither-dead-letters",
	} {
		if got := s.at(values, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	for line := range strings.Lines(markdown) {
		if len([]rune(line)) > width+1 && !strings.HasPrefix(line, "|") {
			t.Errorf("a line of %d characters: %s", len([]rune(line)), line)
		}
	}
	if n := len(strings.Fields(markdown)); n > mostWords {
		t.Errorf("%d words are more than a page: at most %d", n, mostWords)
	}
}

func headings(markdown string) (all []string) {
	for line := range strings.Lines(markdown) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok &&
			strings.HasPrefix(line, "#") {
			all = append(all, strings.TrimSpace(title))
		}
	}
	return all
}

// TestOneMoment: what all records say of one moment is bounded under an interval in which the model
// forgets, with and without a law of gaps, and not under one in which it does not.
func TestOneMoment(t *testing.T) {
	for _, c := range []struct {
		interval, budget string
		law              mobility.GapLaw
		says, not        string
	}{
		{"12h", "none", nil, "That places before a long silence", "after silence too"},
		{"12h", "none", mobility.GapLaw{{Chain: 1}}, "after silence too", "a long silence"},
		{"1m", "none", nil, "hardly forgets where somebody was", "theorem 15"},
		{"12h", "{lifetime: 2}", nil, "the lifetime budget is smaller already", "theorem 15"},
	} {
		s := newService(t, "{mechanism: codebook, epsilon: 2, interval: "+c.interval+
			", budget: "+c.budget+"}", "")
		f, model := s.facts(), s.model.Copy()
		model.Gaps = c.law
		var err error
		f.OneMoment, err = f.boundMoment(model, s.release(), nil)
		s.ok(err)
		markdown, _ := s.both(f)
		says := []string{c.says}
		if m := f.OneMoment; m.AnyTime != nil {
			if *m.AtARelease < 2 || *m.AnyTime < *m.AtARelease {
				t.Errorf("%+v is less than one release tells", m)
			}
			says = append(says, fmt.Sprintf("by at most e^%s at a release, and by at most e^%s at "+
				"any moment (theorem 15", number(*m.AtARelease), number(*m.AnyTime)))
		}
		s.wording(markdown, says, []string{c.not})
	}
	s := newService(t, plainRelease, "")
	stop := errors.New("stop")
	if _, err := New(s.config, nil, func() error { return stop }); !errors.Is(err, stop) {
		t.Errorf("stopped, it says %v", err)
	}
}

// TestWithoutKey: a statement is made where the key is not, and says what it does not know then.
func TestWithoutKey(t *testing.T) {
	s := newService(t, plainRelease, "")
	if with := s.facts(); with.Settings == nil || with.Key == nil || with.Key.First != nil {
		t.Errorf("with the key: %+v, settings %v", with.Key, with.Settings)
	}
	day := noise.DayAt(noon.Add(-48 * time.Hour).UnixMilli())
	later, err := s.key.From(day)
	s.ok(err)
	s.file("noise.key", later.Reveal()+"\n")
	markdown, values := s.both(s.facts())
	s.wording(markdown, []string{"with no noise of days before " + day.String()}, nil)
	if got := s.at(values, "key.first_day"); got != day.String() {
		t.Errorf("a key from %v on has the first day %v", day, got)
	}
	s.ok(os.Remove(filepath.Join(s.dir, "noise.key")))
	markdown, values = s.both(s.facts())
	if s.at(values, "key") != nil || s.at(values, "settings") != nil {
		t.Errorf("of a key that is not here: %v", values)
	}
	s.wording(markdown, []string{"| Noise key | not here |", "noise.key is not here"}, nil)
}

// schedule puts a second model beside the service's.
func (s *service) schedule(later *mobility.Model) {
	s.Helper()
	s.ok(s.model.WriteFile(filepath.Join(s.dir, "model.avro")))
	s.ok(later.WriteFile(filepath.Join(s.dir, "later.avro")))
	s.file("models.yml",
		"- model: model.avro\n- model: later.avro\n  start: 2026-12-01T04:00:00Z\n")
	data, err := os.ReadFile(s.config)
	s.ok(err)
	s.file("geodither.yml", strings.Replace(string(data), "model: model.avro",
		"models: models.yml", 1))
}

// TestSchedule: all versions of a model are stated, and that their bounds add.
func TestSchedule(t *testing.T) {
	s := newService(t, plainRelease, "")
	s.model.Provenance.Privacy = &mobility.Privacy{Epsilon: "2"}
	later, err := servicetest.TownModel()
	s.ok(err)
	s.schedule(later)
	markdown, values := s.both(s.facts())
	models, ok := s.at(values, "models").([]any)
	if !ok || len(models) != 2 {
		t.Errorf("two versions: %v", models)
	}
	s.wording(markdown, []string{
		"for fixes from 2026-12-01T04", "trained without differential privacy",
		"There is no bound for it and the releases together", "here are several versions",
	}, nil)
	later.Provenance.Privacy = &mobility.Privacy{Epsilon: "1"}
	s.schedule(later)
	markdown, _ = s.both(s.facts())
	s.wording(markdown, []string{"each version that the fixes went into adds 2ε_M to ε"}, nil)
}

// release is the section of the config, with its defaults as the service has them.
func (s *service) release() mechanism.Options {
	s.Helper()
	file, _, err := config.Lint(s.config)
	s.ok(err)
	release, err := released(s.model, file.Release)
	s.ok(err)
	return release
}

// report is one of an audit that found nothing.
func (s *service) report(release mechanism.Options) audit.Report {
	return audit.Report{
		Mechanism: release.Mechanism, Epsilon: release.Epsilon,
		Delta: release.Delta, ModelID: s.model.ID(), Records: 500_000, Confidence: .999,
		Bound: audit.Bound{Epsilon: 1.98765}, Passed: true, Findings: []string{},
		Settings: audit.Settings{Release: release}.Facts(),
		Again:    "geodither audit -c geodither.yml", Program: "geodither v1",
		Time: &noon,
	}
}

func (s *service) saved(r audit.Report) (path string) {
	s.Helper()
	data, err := json.Marshal(r)
	s.ok(err)
	return s.file("audit.json", string(data))
}

// TestMeasured: a statement cites an audit of the same settings, with its date and its data, and
// refuses one of others.
func TestMeasured(t *testing.T) {
	s := newService(t, plainRelease, "")
	release, f := s.release(), s.facts()
	s.ok(f.addAudit(s.saved(s.report(release))))
	failed := s.report(release)
	failed.Passed, failed.Findings = false, []string{"too much"}
	failed.Time, failed.Program = nil, ""
	s.ok(f.addAudit(s.saved(failed)))
	markdown, values := s.both(f)
	audits, _ := s.at(values, "audits").([]any)
	if len(audits) != 2 || audits[0].(map[string]any)["epsilon_at_least"] != 1.9876 ||
		audits[1].(map[string]any)["passed"] != false {
		t.Errorf("audits %v", audits)
	}
	s.wording(markdown, []string{
		"on 2026-11-23T12:00:00Z", "found nothing against the guarantee",
		"the true ε is at least 1.9876, of 2.", "did not pass: 1 finding, such as: too much",
		"at a time that the report does not have",
	}, nil)
	released := func(change func(*mechanism.Options)) func(*audit.Report) {
		return func(r *audit.Report) {
			other := audit.Settings{Release: release}
			change(&other.Release)
			r.Settings = other.Facts()
		}
	}
	for what, change := range map[string]func(*audit.Report){
		"of model 0123":      func(r *audit.Report) { r.ModelID = "0123" },
		"is no report":       func(r *audit.Report) { r.ModelID = "" },
		"does not say which": func(r *audit.Report) { r.Settings = nil },
		`epsilon "3", and the config's is "2"`: released(
			func(o *mechanism.Options) { o.Epsilon = 3 }),
		`inference "paper", and the config's is "surrogate"`: released(
			func(o *mechanism.Options) { o.Inference = mechanism.InferencePaper }),
		`interval "1", and the config's is "180"`: released(
			func(o *mechanism.Options) { o.ReleaseInterval = 1 }),
		`release.between (budget spent) "", and the config's is "predict"; of`: released(
			func(o *mechanism.Options) { o.Budget = mechanism.Budget{} }),
		`publish.user "pseudonym", and the config's is "plain"`: func(r *audit.Report) {
			r.Settings["publish.user"] = "pseudonym"
		},
	} {
		r := s.report(release)
		change(&r)
		if err := f.addAudit(s.saved(r)); err == nil || !strings.Contains(err.Error(), what) ||
			!strings.Contains(err.Error(), "geodither audit -c FILE --json") {
			t.Errorf("a report that %s: %v", what, err)
		}
	}
	if err := f.addAudit(s.file("text.json", "true ε at least 1")); err == nil {
		t.Error("a text passes for a report")
	}
}

// TestRefused: a config with which the service would not start gets no statement.
func TestRefused(t *testing.T) {
	for release, want := range map[string]string{
		"{mechanism: codebook, epsilon: 2}":                           "release.budget",
		"{mechanism: codebook, epsilon: 2, delta: 0.1, budget: none}": "delta",
		"{mechanism: laplace, epsilon: 2, delta: 0.1, budget: none}":  "no proof",
		"{mechanism: codebook, epsilon: 2, budget: {epsilon: 1}}":     "budget",
		"{mechanism: codebook, epsilon: 2, budget: none, more: no}":   "more",
	} {
		s := newService(t, release, "")
		if _, err := New(s.config, nil, nil); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), s.config) {
			t.Errorf("%s: %v", release, err)
		}
	}
	s := newService(t, plainRelease, "")
	s.ok(os.Remove(filepath.Join(s.dir, "model.avro")))
	if _, err := New(s.config, nil, nil); err == nil || !strings.Contains(err.Error(), "model") {
		t.Errorf("without its model: %v", err)
	}
}

// TestNumbers: what is written is never below the true bound, nor above what was measured.
func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{power(1), "2.72"},
		{power(4), "54.6"},
		{power(math.Log(1234.5)), "1,235"},
		{power(50), "about 10^22"},
		{power(5760), "about 10^2502"},
		{power(2), "7.39"},
		{engine.Grouped(2880), "2,880"},
		{engine.Grouped(.1 + .2), "0.3"},
		{engine.Grouped(1234567.891), "1,234,567.9"},
		{number(floor(1.98769)), "1.9876"},
		{number(1e21), "1000000000000000000000"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// TestFewUsers: a model of few users is a warning.
func TestFewUsers(t *testing.T) {
	s := newService(t, plainRelease, "")
	s.model.Provenance.Report.Users = 6
	s.ok(s.model.WriteFile(filepath.Join(s.dir, "model.avro")))
	markdown, _ := s.both(s.facts())
	s.wording(markdown, []string{"model " + s.model.ID() + ": it was learned from 6 users"}, nil)
}

// TestLedger: the sums of the key's ledger are those of both kinds.
func TestLedger(t *testing.T) {
	s := newService(t, plainRelease, "")
	if _, values := s.both(s.facts()); s.at(values, "ledger_of_counts") != nil {
		t.Error("there are sums without a ledger")
	}
	const day, settings = 86_400_000, " 1 00 2 8 "
	text := "geodither ledger of counts 2\n"
	for i := range 40 { // typical days of 20 days, ε = 2, and counts of the first day
		from := i * day
		text += fmt.Sprint(from, from+day, from, from+day) + settings + strings.Repeat("0", 64) +
			fmt.Sprint(" 20 period", i/20) + "\n"
	}
	text += fmt.Sprint(0, day, 0, day) + settings + strings.Repeat("0", 64) + "\n"
	s.ok(os.WriteFile(filepath.Join(s.dir, "noise.key.counts"), []byte(text), 0o600))
	markdown, values := s.both(s.facts())
	if s.at(values, "ledger_of_counts.most_in_a_day") != 2.1 ||
		s.at(values, "ledger_of_counts.most_in_31_days") != 5.1 {
		t.Error("the sums are", s.at(values, "ledger_of_counts"))
	}
	s.wording(markdown, []string{"knows 41 published days", "with ε = 2.1, and all"}, nil)
}

// TestCounts: who signs for counts sees their ε, what it is of, and its sum with the records'.
func TestCounts(t *testing.T) {
	s := newService(t, plainRelease, "counts: {epsilon: 1.5, per_day: 10, zone: 1km}\n")
	markdown, values := s.both(s.facts())
	for path, want := range map[string]any{
		"epsilon": 1.5, "windows_per_day": 10., "window_s": 3600., "edition": 1.,
		"topic": "fleet.sanitized.counts", "with_records_in_a_day": 21.,
	} {
		if got := s.at(values, "counts."+path); got != want {
			t.Errorf("counts.%s is %v, want %v", path, got, want)
		}
	}
	s.wording(markdown, []string{
		"## What counts reveal", "with ε = 1.5. One day in place of another, or a part of a day, " +
			"is 2ε", "30 days cost 45", "2ε + Σε, here at most 21",
		"`fleet-counts-partial` has true counts",
	}, nil)
	// In 25 hours the budget of 24 allows another release of 6, and the interval does so.
	zoned := newService(t, "{mechanism: codebook, epsilon: 6, interval: 30m, "+
		"budget: {epsilon: 18, window: 24h}}",
		"counts: {epsilon: 1, per_day: 10, zone: 1km, time_zone: Europe/London}\n")
	markdown, values = zoned.both(zoned.facts())
	if got := zoned.at(values, "counts.with_records_in_a_day"); got != 38. ||
		zoned.at(values, "most_in_24_h") != 18. {
		t.Errorf("with records a day of 25 hours costs %v", got)
	}
	zoned.wording(markdown, []string{"here at most 38.", "Europe/London, 25 hours at most"}, nil)
}
