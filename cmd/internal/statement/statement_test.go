package statement

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
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

// sheet is the statement's, of a program that does not change from commit to commit.
func (s *service) sheet() *Sheet {
	s.Helper()
	sheet, err := New(s.config, noon)
	s.ok(err)
	sheet.Program = cli.Build{Version: "v1.2.3", Revision: "0a1b2c3"}
	return sheet
}

// both writes a sheet in both formats, and returns the YAML's values too.
func (s *service) both(sheet *Sheet) (text, markdown string, values map[string]any) {
	s.Helper()
	var one, other strings.Builder
	s.ok(YAML(&one, sheet))
	s.ok(Markdown(&other, sheet))
	if err := yaml.Unmarshal([]byte(one.String()), &values); err != nil {
		s.Fatalf("%v\n%s", err, one.String())
	}
	return one.String(), other.String(), values
}

// at follows keys down a YAML document.
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

const plain = "{mechanism: codebook, epsilon: 2, interval: 3h, " +
	"budget: {epsilon: 18, window: 24h}}"

// cases are configs, each with what its statement has to say and must not say, both in YAML and in
// Markdown, and with values of the YAML.
var cases = map[string]struct {
	release, rest string
	model         func(*mobility.Model)
	says, not     []string
	values        map[string]any
}{
	"codebook": {
		release: plain,
		says: []string{
			"follows from the releases of this user up to then", "predicted record has none",
			"\"geodither run\" refuses to start under another key while such an account is kept",
			"guarantee holds against everybody", "odds between two days",
			"theorem 12 (codebook)", "e^ε = 7.39",
			"above Σε = 18 in any 24 hours. That alone would allow 9 releases",
			"A lowered limit holds from one such window after the change on",
			"hold for 24 hours that start after the change",
			"24 hours of event time of a user cost at most Σε = 18", "Σε may reach 5,842",
			"factor e^Σε, 65,659,970",
			"the exact time of each fix", "the plain user id", "input.outside: dead_letter",
			"trained without differential privacy", "no day was destroyed",
			"at most one release in 3 hours",
			"an estimate that follows from earlier releases",
		},
		not: []string{
			"theorem 2 ", "pseudonym of the user",
			"which geodither calls high", "That a report was left out",
			"location set may leave out", "computed from", "bounds of models of the same people",
		},
		values: map[string]any{
			"deployment.privacy_loss.privacy_parameters.epsilon": 2,
			"deployment.privacy_loss.privacy_parameters.delta":   0,
			"deployment.dp_variant.variant_name":                 "Pure DP",
			"deployment.basic.data_curators":                     nil,
			"geodither.budget.window.epsilon":                    18,
			"geodither.budget.window.seconds":                    86400,
			"geodither.budget.lifetime":                          nil,
			"geodither.budget.most_in_24_h":                      18,
			"geodither.interval_s":                               10800,
			"geodither.measured":                                 nil,
			"geodither.retention.raw":                            nil,
			"geodither.topics.changelog":                         "fleet-changelog",
			"geodither.user":                                     "plain",
		},
	},
	"lattice": {
		release: "{mechanism: lattice, epsilon: 1, delta: 0.3, interval: 2h, " +
			"between: skip, budget: {lifetime: 60}}",
		rest: "publish: {user: pseudonym, timestamp: step}\ninput: {outside: clamp}\n",
		says: []string{
			"theorem 2 (privacy)", "theorem 8 (release and words)", "0.3, is another quantity",
			"a pseudonym of the user", "the step of 1 minute in which each fix",
			"counts as one in the nearest cell",
			"That a report was left out", "Between releases it publishes nothing",
			"the service publishes nothing",
			"For as long as the account is kept, a user's releases cost at most Σε = 60",
		},
		not: []string{
			"theorem 12", "the plain user id", "the exact time of each fix", "reason outside_map",
			"In any",
		},
		values: map[string]any{
			"deployment.privacy_loss.privacy_parameters.delta": 0,
			"geodither.location_set_delta":                     0.3,
			"geodither.user":                                   "pseudonym",
			"geodither.timestamp":                              "step",
			"geodither.outside_the_map":                        "clamp",
		},
	},
	"no budget": {
		release: "{mechanism: codebook, epsilon: 4, budget: none}",
		says: []string{
			"No budget limits the sum", "at most Σε = 5,764", "which geodither calls high",
			"about 10^2504", "release.budget is none",
		},
		not:    []string{"A budget for each user", "When the budget is spent"},
		values: map[string]any{"geodither.budget.spent": nil, "geodither.budget.window": nil},
	},
	"sum above a hundred": { // what lint warns of and what the statement says is one text
		release: "{mechanism: codebook, epsilon: 0.35, interval: 4m, budget: none}",
		says: []string{
			"hours of event time of a user cost at most Σε = 126.35", "Σε is at most 126.35 for",
		},
	},
	"private model": {
		release: plain,
		rest: "topics: {raw: a, sanitized: b, changelog: c, dead_letters: d, partitioner: any}\n" +
			"input: {key_check: off}\nhttp: {listen: ':8080'}\n",
		model: func(m *mobility.Model) {
			m.Provenance.Privacy = &mobility.Privacy{Epsilon: "1.5", Contribution: 100, Radius: 3}
			m.Provenance.Source = "buses: \x01\n- \"of\" a town"
		},
		says: []string{
			"ε_M = 1.5", "ε + 2ε_M (theorem 9)", `buses: - "of" a town`,
			"partitioner: any", "key_check: off", "at :8080",
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
			text, markdown, values := s.both(s.sheet())
			says := append(c.says, "Sanitized records stay personal data")
			not := append(c.not, "<no value>", "%!", "{{", "}}")
			s.wording("YAML", text, says, not)
			s.wording("Markdown", markdown, says, not)
			for path, want := range c.values {
				if got := s.at(values, path); got != want {
					t.Errorf("%s is %v, not %v", path, got, want)
				}
			}
			s.agree(values, markdown)
			s.proved(text + markdown)
			s.secret(text + markdown)
		})
	}
}

// wording requires words of a text, and that it has no others.
func (s *service) wording(format, text string, says, not []string) {
	s.Helper()
	text = flat(text)
	for _, words := range says {
		if !strings.Contains(text, words) {
			s.Errorf("the %s does not say %q:\n%s", format, words, text)
		}
	}
	for _, words := range not {
		if strings.Contains(text, words) {
			s.Errorf("the %s says %q:\n%s", format, words, text)
		}
	}
}

// flat is a text without its line breaks, margins and comment signs.
func flat(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n# ", "\n")), " ")
}

// agree requires that every text of the YAML stands in the Markdown too.
func (s *service) agree(values map[string]any, markdown string) {
	s.Helper()
	all, found := flat(strings.ReplaceAll(markdown, "**", "")), 0
	var look func(value any)
	look = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, below := range value {
				look(below)
			}
		case string:
			for paragraph := range strings.SplitSeq(value, "\n\n") {
				if !strings.Contains(value, "\n") {
					continue // a word, and no text
				}
				found++
				if !strings.Contains(all, flat(paragraph)) {
					s.Errorf("the Markdown lacks what the YAML says: %q", paragraph)
				}
			}
		}
	}
	look(values)
	if found < 20 {
		s.Errorf("the YAML has %d paragraphs", found)
	}
}

var theorem = regexp.MustCompile(`theorem (\d+)(?: \(([^)]+)\)|, (destroyed days))?`)

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

// TestExample: the statement of the config that explains every key has these headings, in this
// order, these figures in its table, and narrow lines.
func TestExample(t *testing.T) {
	s := newService(t, "", "")
	s.file("geodither.yml", deploy.Example)
	text, markdown, values := s.both(s.sheet())
	if got := headings(markdown); !slices.Equal(got, exampleHeadings) {
		t.Errorf("headings %q, want %q", got, exampleHeadings)
	}
	s.wording("Markdown", markdown, []string{
		"**Sanitized records stay personal data.**",
		"on 2026-11-23T12:00:00Z from the config `geodither.yml`", "v1.2.3 (revision `0a1b2c3`)",
		"| Privacy unit | one fix: the place of one user id in one step of 1 minute |",
		"| ε of one release | 2: the odds between two places change by at most a factor of 7.39 |",
		"| Near places | no promise beyond that |", "| δ | none |",
		"| Least time between releases | 3 hours |",
		"| Budget | Σε ≤ 18 in any 24 hours, Σε ≤ 540 in all |",
		"| ε in 24 hours of event time | at most 18 |", "| ε in a lifetime | at most 540 |",
		"| Mechanism | codebook, exact for the published values |",
		"| Records carry | the user id and the exact time |",
		"| Outside the map | no record, which shows it |",
		"| Model " + s.model.ID() + " | trained without differential privacy |",
		"Places are the 49 cells of a map, 7 by 7 squares with a side of 500 m, between 10.0000, " +
			"20.0000 and 10.0300, 20.0300",
		"This statement cites no audit.",
	}, nil)
	for path, want := range map[string]any{
		"deployment.deployment_model.release_type": "Many releases",
		"geodither.made_at":                        noon,
		"geodither.step_s":                         60,
		"geodither.budget.lifetime":                540,
		"geodither.outside_the_map":                "dead_letter",
		"geodither.topics.dead_letters":            "geodither-dead-letters",
		"deployment.privacy_loss.privacy_unit": "One fix " +
			"(the place of one user id in one step)",
		"deployment.privacy_loss.privacy_parameters": map[string]any{
			"epsilon": 2, "delta": 0, "rho": nil,
		},
	} {
		if got := s.at(values, path); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	for line := range strings.Lines(text + markdown) {
		tabled := strings.HasPrefix(line, "|") || strings.Contains(line, "null  # ") ||
			strings.HasPrefix(strings.TrimSpace(line), "settings: ") ||
			strings.HasPrefix(line, "  - \"") // a warning
		if len([]rune(line)) > 101 && !tabled {
			t.Errorf("a line of %d characters: %s", len([]rune(line)), line)
		}
	}
}

// exampleHeadings are those of an impact assessment, without their marks.
var exampleHeadings = []string{
	"Statement on data protection: geodither", "1. Description of the processing",
	"Who is involved", "When something is released", "Data, and what is not protected",
	"Retention", "2. Necessity and proportionality", "What one release reveals",
	"What many releases reveal", "3. Risks to the persons", "The model and the settings",
	"Warnings",
	"4. Measures", "The guarantee", "The noise key", "Faults", "Erasure", "Measured attacks",
	"Sources", "5. To fill in",
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

// TestUnknown: the YAML leaves no null without a word on it, and the Markdown lists what the YAML
// does not know.
func TestUnknown(t *testing.T) {
	s := newService(t, plain, "")
	text, markdown, _ := s.both(s.sheet())
	nulls := 0
	for line := range strings.Lines(text) {
		_, comment, isNull := strings.Cut(strings.TrimSpace(line), ": null")
		if !isNull {
			continue
		}
		nulls++
		ask, said := strings.CutPrefix(comment, "  # ")
		if !said || len(ask) < 8 {
			t.Errorf("nobody learns why it is null: %s", line)
		}
	}
	sheet := s.sheet()
	list := asks(sheet)
	onlyMarkdown := 0
	for _, ask := range list {
		if !strings.Contains(flat(markdown), ask) {
			t.Errorf("the Markdown does not ask for %q", ask)
		}
		if !strings.Contains(text, "null  # "+ask) {
			onlyMarkdown++ // the registry has no field for it
		}
	}
	if len(list) != 13 || onlyMarkdown != 3 {
		t.Errorf("%d of %d are in the Markdown alone", onlyMarkdown, len(list))
	}
	if nulls < 15 {
		t.Errorf("%d fields are null:\n%s", nulls, text)
	}
}

// TestExpected: a statement says which error to expect, the doctor's, and asks for it no more.
func TestExpected(t *testing.T) {
	s := newService(t, plain, "")
	sheet := s.sheet()
	sheet.Nights = []int{1}
	steps := int64(0)
	s.ok(sheet.Simulate(t.Context(), 4, func(done, _ int64) error { steps = done; return nil }))
	service, _, err := config.Service(s.config)
	s.ok(err)
	x, err := expect.Simulate(t.Context(), service.Model, service.Release,
		expect.Options{Tracks: 4, Seed: 1})
	s.ok(err)
	if want := x.Summary(); steps == 0 || *sheet.Expected != want {
		t.Errorf("after %d steps: %+v, want %+v", steps, *sheet.Expected, want)
	}
	text, markdown, values := s.both(sheet)
	s.agree(values, markdown)
	if got, want := s.at(values, "geodither.expected_error.estimate_mean_m"),
		int(sheet.Expected.Estimate.Mean+.5); got != want {
		t.Errorf("estimate_mean_m is %v, want %v", got, want)
	}
	says := []string{
		"off by " + cli.Metres(sheet.Expected.Estimate.Mean) + " on average",
		"(blind) by " + cli.Metres(sheet.Expected.Blind.Mean),
		`every reader can compute that ("geodither smooth")`,
		"after 1 night the estimate is off by " + cli.Metres(sheet.Homes[0].MedianM) + " (median)",
		". To tell less, leave the nights out of",
	}
	not := []string{"--simulate", "geodither doctor -c FILE\" says which error"}
	s.wording("YAML", text, says, not)
	s.wording("Markdown", markdown, says, not)
	rounded := *sheet
	rounded.DayEpsilon = 19.799999999999997
	rounded.Homes = slices.Clone(sheet.Homes)
	rounded.Homes[0].MedianM = 0
	text, _, _ = s.both(&rounded)
	s.wording("YAML", text, []string{
		"most_in_24_h: 19.8 ", "after 1 night the estimate is in the right cell (median), and",
	}, nil)
	s.oneMoment(sheet)
	stop := errors.New("stop")
	err = sheet.Simulate(t.Context(), 4, func(int64, int64) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("stopped, it says %v", err)
	}
}

// oneMoment looks at what a statement says of all records about one moment: under an interval in
// which the model forgets, with and without a law of gaps, and under one in which it does not.
func (s *service) oneMoment(sheet *Sheet) {
	told := func() []string {
		return []string{
			fmt.Sprintf("by at most e^%.2f at a release, and by at most e^%.2f at any moment",
				math.Ceil(100*sheet.Moment.At)/100, math.Ceil(100*sheet.Moment.Between)/100),
			"for releases 12 hours apart or more",
		}
	}
	sheet.Release.ReleaseInterval = 12 * 60
	first := sheet.Models[0].Model
	for _, law := range []mobility.GapLaw{nil, {{Chain: 1}}} {
		model := first.Copy()
		model.Gaps = law
		sheet.Models[0].Model = model
		s.ok(sheet.boundMoment(s.Context()))
		says, not := append(told(), "After a silence of more than 1 hour the"), "Σε is the bound."
		if law != nil {
			says[2], not = not, says[2]
			says[2] = "after silence " + says[2]
		} else {
			not = "after silence " + not
		}
		text, markdown, _ := s.both(sheet)
		s.wording("YAML", text, says, []string{"no better bound than Σε", not})
		s.wording("Markdown", markdown, says, []string{"no better bound than Σε", not})
	}
	sheet.Release.ReleaseInterval = 1
	s.ok(sheet.boundMoment(s.Context()))
	text, markdown, _ := s.both(sheet)
	says := []string{"no better bound than Σε is claimed: in 1 minute, the time between two"}
	s.wording("YAML", text, says, nil)
	s.wording("Markdown", markdown, says, nil)
}

// TestWithoutKey: a statement is made where the key is not, and says what it does not know then.
func TestWithoutKey(t *testing.T) {
	s := newService(t, plain, "")
	with := s.sheet()
	if with.Settings == "" || !with.Key.Known {
		t.Errorf("with the key: %+v, settings %q", with.Key, with.Settings)
	}
	day := noise.DayAt(noon.Add(-48 * time.Hour).UnixMilli())
	later, err := s.key.From(day)
	s.ok(err)
	s.file("noise.key", later.Reveal()+"\n")
	_, markdown, values := s.both(s.sheet())
	if !strings.Contains(flat(markdown), "has no noise of days before "+day.String()) ||
		fmt.Sprint(s.at(values, "geodither.key.first_day")) != day.Start().String() {
		t.Errorf("of a key from %v on: %v\n%s", day, s.at(values, "geodither.key.first_day"),
			markdown)
	}
	s.ok(os.Remove(filepath.Join(s.dir, "noise.key")))
	text, markdown, _ := s.both(s.sheet())
	for _, want := range []string{
		"first_day: null  # the key is not here", "settings: null  # the key",
		"noise.key is not here",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(markdown, "when this statement was made") {
		t.Errorf("the statement speaks of a key that is not here:\n%s", markdown)
	}
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
	s := newService(t, plain, "")
	s.model.Provenance.Privacy = &mobility.Privacy{Epsilon: "2"}
	later, err := servicetest.TownModel()
	s.ok(err)
	s.schedule(later)
	sheet := s.sheet()
	text, markdown, values := s.both(sheet)
	models, ok := s.at(values, "geodither.models").([]any)
	if !ok || len(models) != 2 || !strings.Contains(flat(text), "for fixes from 2026-12-01T04") ||
		!strings.Contains(markdown, "trained without differential privacy") {
		t.Errorf("two versions: %v\n%s", models, text)
	}
	s.agree(values, markdown)
	s.wording("YAML", text, []string{
		"The bounds of models of the same people add: each further model that somebody's fixes " +
			"went into adds 2ε_M", "A model without ε_M among them leaves no bound",
		"this model and the release together have the bound ε + 2ε_M (theorem 9)",
	}, nil)
}

// report is one of an audit that found nothing.
func (s *service) report(sheet *Sheet) audit.Report {
	return audit.Report{
		Mechanism: sheet.Release.Mechanism, Epsilon: sheet.Release.Epsilon,
		Delta: sheet.Release.Delta, ModelID: s.model.ID(), Records: 500_000, Confidence: .999,
		Bound: audit.Bound{Epsilon: 1.98765}, Passed: true, Findings: []string{},
		Settings: audit.Settings{Release: sheet.Release}.Facts(),
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
	s := newService(t, plain, "")
	sheet := s.sheet()
	s.ok(sheet.AddAudit(s.saved(s.report(sheet))))
	failed := s.report(sheet)
	failed.Passed, failed.Findings = false, []string{"too much"}
	failed.Time, failed.Program = nil, ""
	s.ok(sheet.AddAudit(s.saved(failed)))
	text, markdown, values := s.both(sheet)
	s.agree(values, markdown)
	for _, want := range []string{
		"epsilon_at_least: 1.9876\n", "at: 2026-11-23T12:00:00Z", "findings: 1", "passed: false",
		"at: null  # the report does not say it", "records: 500000",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for _, want := range []string{
		"on 2026-11-23T12:00:00Z", "found nothing against the guarantee",
		"at least 7.2983 (true ε at least 1.9876), of 7.39 that ε allows",
		"did not pass: 1 finding, such as: too much",
		"at a time that the report does not say",
	} {
		if !strings.Contains(flat(markdown), want) {
			t.Errorf("%q is not in\n%s", want, markdown)
		}
	}
	released := func(change func(*mechanism.Options)) func(*audit.Report) {
		return func(r *audit.Report) {
			other := audit.Settings{Release: sheet.Release}
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
		r := s.report(sheet)
		change(&r)
		if err := sheet.AddAudit(s.saved(r)); err == nil || !strings.Contains(err.Error(), what) ||
			!strings.Contains(err.Error(), "geodither audit -c FILE --json") {
			t.Errorf("a report that %s: %v", what, err)
		}
	}
	if err := sheet.AddAudit(s.file("text.json", "true ε at least 1")); err == nil {
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
		if _, err := New(s.config, noon); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), s.config) {
			t.Errorf("%s: %v", release, err)
		}
	}
	s := newService(t, plain, "")
	s.ok(os.Remove(filepath.Join(s.dir, "model.avro")))
	if _, err := New(s.config, noon); err == nil || !strings.Contains(err.Error(), "model") {
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
		{atLeast(1.98769), "1.9876"},
		{number(1e21), "1000000000000000000000"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// diff is what Diff writes, whose count must agree with it.
func (s *service) diff(earlier string, now *Sheet) string {
	s.Helper()
	var out strings.Builder
	n, err := Diff(&out, []byte(earlier), now)
	s.ok(err)
	if told := fmt.Sprintf("differences: %d.", n); n > 0 != strings.Contains(out.String(), told) {
		s.Errorf("%d differences in\n%s", n, out.String())
	}
	return out.String()
}

// TestDiffEvidence: what an audit or a simulation adds is compared where both statements have it,
// and else named as not compared.
func TestDiffEvidence(t *testing.T) {
	s := newService(t, plain, "")
	bare, full := s.sheet(), s.sheet()
	s.ok(full.AddAudit(s.saved(s.report(full))))
	full.Expected = &expect.Summary{Tracks: 3}
	full.Homes, full.NoMoment = []expect.Home{{Nights: 7}}, "no reason"
	other := *full
	other.Expected = &expect.Summary{Tracks: 3, Estimate: expect.Errors{Mean: 70}}
	other.Homes = []expect.Home{{Nights: 7, Users: 4, Posterior: .2}} // also a warning
	audited := s.sheet()
	failed := s.report(audited)
	failed.Findings = []string{"a finding"}
	s.ok(audited.AddAudit(s.saved(failed)))
	audited.Expected, audited.Homes, audited.NoMoment = full.Expected, full.Homes, full.NoMoment
	written := func(sheet *Sheet) string {
		text, _, _ := s.both(sheet)
		return text
	}
	const audit, simulated = "what --audit adds, which only the %s statement has.\n",
		"what --simulate adds, which only the %s statement has.\n"
	for _, c := range []struct {
		before, now *Sheet
		says        []string
		same        bool
	}{
		{full, bare, []string{
			fmt.Sprintf(audit, "earlier"), fmt.Sprintf(simulated, "earlier"),
		}, true},
		{bare, full, []string{fmt.Sprintf(audit, "new"), fmt.Sprintf(simulated, "new")}, true},
		{full, &other, []string{
			"only simulated figures differ.\n\nSimulated figures, not counted: small " +
				"differences mean nothing.\n\n" +
				"geodither.expected_error.estimate_mean_m\n  - 0\n  + 70",
			"geodither.home\n",
		}, true},
		{full, audited, []string{"geodither.measured.1.findings\n  - 0\n  + 1"}, false},
	} {
		got := s.diff(written(c.before), c.now)
		if strings.Contains(got, "differences: ") == c.same ||
			strings.Contains(got, "Not compared") != (c.same && c.now != &other) {
			t.Errorf("same fields %t:\n%s", c.same, got)
		}
		for _, want := range c.says {
			if !strings.Contains(got, want) {
				t.Errorf("the difference does not contain %q:\n%s", want, got)
			}
		}
	}
}

// TestRemedies: of a home the statement advises nothing that the config does already.
func TestRemedies(t *testing.T) {
	for _, c := range []struct{ hours, budget, want string }{
		{"", "{epsilon: 18, window: 24h}", `leave the nights out of "release.hours", set a small ` +
			"lifetime budget, or lower ε."},
		{
			"from: 06:00, to: 18:00", "{epsilon: 18, window: 24h, lifetime: 90}",
			"To tell less, lower the lifetime budget, or lower ε.",
		},
		{"from: 05:59, to: 18:00", "{lifetime: 90}", "leave the nights out"},
		{"from: 12:00, to: 21:01", "{lifetime: 90}", "leave the nights out"},
		{"from: 20:00, to: 08:00", "{lifetime: 90}", "leave the nights out"},
	} {
		open := ""
		if c.hours != "" {
			open = ", hours: [{days: mon-fri, " + c.hours + ", zone: UTC}]"
		}
		s := newService(t, "{mechanism: codebook, epsilon: 2, interval: 3h, budget: "+
			c.budget+open+"}", "")
		sheet := s.sheet()
		sheet.Homes = []expect.Home{{Nights: 1, Users: 4}}
		if got := flat(homes(sheet)); !strings.Contains(got, c.want) {
			t.Errorf("hours %q, budget %s: no %q in %q", c.hours, c.budget, c.want, got)
		}
	}
}

// TestWarned: a model of few users and a home that is found are warnings, in both formats.
func TestWarned(t *testing.T) {
	s := newService(t, plain, "")
	sheet := s.sheet()
	sheet.Expected, sheet.Warnings = &expect.Summary{Tracks: 3}, nil
	sheet.Homes = []expect.Home{{Nights: 1, Users: 4, Posterior: .19}}
	for _, c := range []struct {
		users     int64
		posterior float64
		want      []string
	}{
		{20, .19, nil},
		{6, .19, []string{"model " + s.model.ID() + ": it was learned from 6 users"}},
		{20, .2, []string{"simulated home: after 7 nights the own cell of a user's home has"}},
	} {
		model := s.model.Copy()
		model.Provenance.Report.Users = c.users
		sheet.Models[0].Model = model
		sheet.Homes = append(sheet.Homes[:1], expect.Home{Nights: 7, Posterior: c.posterior})
		text, markdown, values := s.both(sheet)
		list, _ := s.at(values, "geodither.warnings").([]any)
		if len(list) != len(c.want) || strings.Contains(markdown, "### Warnings") !=
			(len(list) > 0) {
			t.Errorf("%d users, %v: warnings %q", c.users, c.posterior, list)
		}
		s.wording("YAML", text, append(c.want, "(4 simulated users: with so few"), nil)
		s.wording("Markdown", markdown, c.want, nil)
	}
}

// TestDiff: a statement differs from an earlier one in what was changed, and in no more.
func TestDiff(t *testing.T) {
	s := newService(t, plain, "")
	text, markdown, _ := s.both(s.sheet())
	diff := func(earlier string, now *Sheet) string { return s.diff(earlier, now) }
	later := s.sheet()
	later.Now = noon.Add(24 * time.Hour)
	if got := diff(text, later); got !=
		"Compared with the statement of 2026-11-23T12:00:00Z, no field differs.\n" {
		t.Errorf("the same settings a day later: %s", got)
	}

	filled := text
	for _, f := range []struct{ ask, by string }{
		{"name: null", "name: Fleet map"},
		{"data_curators: null", "data_curators: [one, other]"},
		{"raw: null", "raw: 7 days"},
	} {
		filled = strings.Replace(filled, f.ask, f.by, 1)
	}
	want := "no field differs.\nNot compared: what you filled in: name, data_curators, " +
		"retention.raw.\n"
	if got := diff(filled, later); !strings.HasSuffix(got, want) {
		t.Errorf("of a statement that was filled in: %s, want %s", got, want)
	}
	want = "differences: 1.\n\ngeodither.budget.lifetime\n  - 90\n  + null\n"
	limited := strings.Replace(text, "lifetime: null", "lifetime: 90", 1)
	if got := diff(limited, later); !strings.Contains(got, want) {
		t.Errorf("of a limit that was dropped: %s", got)
	}

	later = newService(t, strings.Replace(plain, "epsilon: 18", "epsilon: 36", 1), "").sheet()
	got := diff(text, later)
	for _, want := range []string{
		"geodither.budget.window.epsilon\n  - 18\n  + 36\n",
		"deployment.privacy_loss.privacy_parameters_details\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the difference does not contain %q:\n%s", want, got)
		}
	}
	for _, not := range []string{"made_at", "program", "step_s", "justification"} {
		if strings.Contains(got, not) {
			t.Errorf("%s did not change:\n%s", not, got)
		}
	}

	renamed := s.sheet()
	renamed.Config = "other.yml"
	if got := diff(text, renamed); !strings.Contains(got, "no field differs") {
		t.Errorf("the same config in a file of another name: %s", got)
	}
	other := newService(t, plain, "max_ahead: 7m\n")
	other.file("noise.key", noise.KeyFromSeed(1<<41).Reveal()+"\n")
	whole, err := os.ReadFile(other.config)
	s.ok(err)
	other.file("geodither.yml", strings.Replace(string(whole), "group: fleet", "group: other", 1))
	got = diff(text, other.sheet())
	for _, want := range []string{
		"geodither.group\n  - fleet\n  + other\n", "geodither.key.id\n  - ",
		"geodither.max_ahead_s\n  - ", "  + 420\n", "  different: key_file, max_ahead\n",
		"WARNING: another group starts", "WARNING: another key draws", "WARNING: a clock",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the difference does not contain %q:\n%s", want, got)
		}
	}

	for _, bad := range []string{"", "brokers: [a]\n", markdown, text[:200] + "\t: {"} {
		if _, err := Diff(new(strings.Builder), []byte(bad), later); !errors.Is(err,
			errNoStatement) {
			t.Errorf("%.40q: error %v, want %v", bad, err, errNoStatement)
		}
	}
}

// TestCounts: who signs for counts sees their ε, what it is of, and its sum with the records'.
func TestCounts(t *testing.T) {
	none := newService(t, plain, "")
	before, _, values := none.both(none.sheet())
	if got := none.at(values, "geodither.counts"); got != nil {
		t.Errorf("counts without the section: %v", got)
	}
	s := newService(t, plain, "counts: {epsilon: 1.5, per_day: 10, zone: 1km}\n")
	_, markdown, values := s.both(s.sheet())
	for path, want := range map[string]any{
		"epsilon": 1.5, "per_day": 10, "window_s": 3600, "edition": 1,
		"topic": "fleet.sanitized.counts", "with_records_in_a_day": 21,
	} {
		if got := s.at(values, "geodither.counts."+path); got != want {
			t.Errorf("counts.%s is %v, want %v", path, got, want)
		}
	}
	details, _ := s.at(values, "geodither.counts.details").(string)
	for _, text := range []string{details, markdown} {
		text = strings.Join(strings.Fields(text), " ")
		for _, want := range []string{
			"with ε = 1.5. One day in place of another, or a part of a day, is 2ε",
			"30 days cost 45", "2ε + Σε, here at most 21", "fleet-counts-partial has true counts",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
	}
	// In 25 hours the budget of 24 allows another release of 6, and the interval does so.
	zoned := newService(t, "{mechanism: codebook, epsilon: 6, interval: 30m, "+
		"budget: {epsilon: 18, window: 24h}}",
		"counts: {epsilon: 1, per_day: 10, zone: 1km, time_zone: Europe/London}\n")
	_, markdown, values = zoned.both(zoned.sheet())
	if got := zoned.at(values, "geodither.counts.with_records_in_a_day"); got != 38 ||
		zoned.at(values, "geodither.budget.most_in_24_h") != 18 ||
		!strings.Contains(strings.Join(strings.Fields(markdown), " "),
			"here at most 38. The day is that of the clock, 25 hours at most") {
		t.Errorf("with records a day of 25 hours costs %v:\n%s", got, markdown)
	}
	if out := s.diff(before, s.sheet()); !strings.Contains(out,
		"geodither.counts.epsilon\n  + 1.5\n") {
		t.Errorf("the difference does not show the counts:\n%s", out)
	}
}
