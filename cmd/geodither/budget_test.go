package main

import (
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas"
)

// withBudget is a complete config whose budget is another text, with its key.
func withBudget(text string) string {
	return strings.Replace(complete,
		"budget: {epsilon: 6, window: 2h, lifetime: 500}", text, 1)
}

// TestBudgetRequired: every command that reads a service's config refuses one that says nothing
// of a budget, in one line with both ways out, and takes the word none.
func TestBudgetRequired(t *testing.T) {
	dir, _ := configDir(t, complete)
	for name, text := range map[string]string{
		"no key": withBudget(""), "an empty key": withBudget("budget: "),
	} {
		config := write(t, dir, "missing.yml", strings.Replace(text, ", }", "}", 1))
		for _, command := range [][]string{
			{"run", "-c", config},
			{"state", "verify", "-c", config},
			{"state", "inspect", "-c", config, "--user", "0"},
			{"replay", "-c", config, "--output-topic", "again", "--dry-run"},
			{
				"aggregate", "-c", config, "--window", "1h", "--zone", "1km",
				"--in", filepath.Join(dir, "traces.csv"),
			},
		} {
			t.Run(name+", "+strings.Join(command[:2], " "), func(t *testing.T) {
				r := call(t, command...)
				requireMessage(t, r, cli.ExitUsage, "missing.yml: release.budget is not set",
					"{epsilon: 18, window: 24h}", `"none"`)
			})
		}
		if r := call(t, "doctor", "-c", config); r.code != cli.ExitFailed ||
			!strings.Contains(r.out, "release.budget is not set") {
			t.Errorf("doctor: exit %d, %s", r.code, r.out)
		}
	}
	o, _, err := config.Service(write(t, dir, "none.yml", withBudget("budget: none")))
	if b := o.Release.Budget; err != nil || b.Epsilon > 0 || b.Lifetime > 0 || b.WindowSteps > 0 {
		t.Errorf("none is %+v: %v", o.Release.Budget, err)
	}
}

// TestWrongBudget: a budget that limits nothing, that contradicts itself or under which nothing
// could be released is an error with a line for it. A misspelt key of it is none of its own.
func TestWrongBudget(t *testing.T) {
	dir, _ := configDir(t, complete)
	for _, c := range []struct {
		budget string
		words  []string
	}{
		{"budget: {}", []string{"limits nothing", `"budget: none"`}},
		{"budget: 60", []string{"line 15", "`60`", "write none"}},
		{"budget: unlimited", []string{"`unlimited`", "write none"}},
		{"budget: [1, 2]", []string{"line 15", "settings below it"}},
		{"budget: {epsilon: 6, windw: 2h}", []string{"line 15", `unknown key "windw"`}},
		{"budget: {epsilon: many, window: 2h}", []string{"`many`", "a number"}},
		{"budget: {epsilon: 6}", []string{"budget needs both its window"}},
		{"budget: {epsilon: 6, window: 2h, lifetime: 5.5}", []string{
			"lifetime of Σε = 5.5 is below the Σε = 6",
		}},
		{"budget: {epsilon: 0.25, window: 2h}", []string{
			"below the ε 0.5 of one release",
		}},
		{"budget: {lifetime: 0.25}", []string{
			"below the ε 0.5 of one release",
		}},
	} {
		t.Run(c.budget, func(t *testing.T) {
			requireMessage(t, call(t, "run",
				"-c", write(t, dir, "wrong.yml", withBudget(c.budget))),
				cli.ExitUsage, append(c.words, "wrong.yml")...)
		})
	}
	requireMessage(t, call(t, sanitizeArgs(filepath.Join(dir, "traces.csv"),
		filepath.Join(dir, "model.avro"),
		withConfig(t,
			"release: {mechanism: lattice, budget: {epsilon: 6, window: 1h, lifetime: 5}}")...)...),
		cli.ExitUsage, "lifetime of Σε = 5 is below")
}

// TestExampleBudgets: the budgets of the shipped configs last a day of 30 or 60 s steps at their
// own interval, and cost a user no more than is worth a warning.
func TestExampleBudgets(t *testing.T) {
	for _, name := range []string{"deploy/geodither.yml", "deploy/compose/geodither.yml"} {
		file, err := config.Read(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		model := townModel(t)
		for _, model.Step = range []time.Duration{30 * time.Second, time.Minute} {
			o, err := file.Release.Options(model.Step)
			if err != nil || o.Validate() != nil {
				t.Errorf("%s with a step of %v: %v, %v", name, model.Step, err, o.Validate())
				continue
			}
			text, warn := engine.BudgetAdvice(o, model.Step)
			free := o
			free.Budget = mechanism.Budget{}
			if most := engine.MostEpsilonDay(free, model.Step); warn ||
				most > o.Budget.Epsilon || most > 20 {
				t.Errorf("%s with a step of %v: the interval spends %g a day of a budget "+
					"of %+v: %s", name, model.Step, most, o.Budget, text)
			}
		}
	}
}

// TestRunWarnsOfTheBudget when there is none or when it is high, before it works; doctor says the
// same, and is content with a sane one.
func TestRunWarnsOfTheBudget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ release, level, says string }{
		"none": {
			"{mechanism: codebook, epsilon: 1, budget: none}", "warning", "release.budget is none",
		},
		"high": {
			"{mechanism: codebook, epsilon: 1, budget: {epsilon: 30, window: 24h}}", "warning",
			"a user's releases of a day add up to at most ε = 30. More than 20",
		},
		"sane": {
			"{mechanism: codebook, epsilon: 2, interval: 3h, " +
				"budget: {epsilon: 18, window: 24h}}", "ok",
			"a user's releases of a day add up to at most ε = 18",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := regexp.MustCompile(`(?m)^release: .*`).ReplaceAllLiteralString(complete,
				"release: "+c.release)
			text := strings.NewReplacer("one:9092, two:9092", "127.0.0.1:1",
				"level: debug, format: json", "format: text").Replace(release)
			_, config := configDir(t, text)
			_, found := examine(t, config)
			if !strings.Contains(found["release.budget "+c.level], c.says) {
				t.Errorf("doctor: %v", found)
			}
			service := start(t, nil, "run", "-c", config)
			eventually(t, "waiting for a broker",
				func() bool { return strings.Contains(service.log.String(), "127.0.0.1:1") })
			service.stop(t)
			if log := service.log.String(); strings.Contains(log, "release.budget") !=
				(c.level == "warning") ||
				c.level == "warning" && !strings.Contains(log, c.says) {
				t.Errorf("run: %s", log)
			}
		})
	}
}

// TestBudgetOfAnAlias: YAML's own ways of writing a mapping once work for a budget too.
func TestBudgetOfAnAlias(t *testing.T) {
	var file struct {
		One config.Budget `yaml:"one"`
		Two config.Budget `yaml:"two"`
	}
	if err := yaml.Unmarshal([]byte("one: &b {epsilon: 6, window: 2h}\ntwo: *b\n"),
		&file); err != nil || file.One != file.Two || file.Two.Window != 2*time.Hour {
		t.Errorf("%+v, %v", file, err)
	}
}

// TestSanitizeKeepsTheBudget: no 24 hours of fix times in a file hold more than the budget, where
// fixes lie at the ends of their steps. 24 hours touch one step more than 24 hours of steps do.
func TestSanitizeKeepsTheBudget(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 2, 10, 0, 29, 900_000_000, time.UTC)
	const day = 24 * time.Hour
	regular := make([]time.Time, 2*2880)
	for i := range regular {
		regular[i] = first.Add(time.Duration(i) * 30 * time.Second)
	}
	for name, c := range map[string]struct {
		release  string
		fixes    []time.Time
		window   time.Duration
		most     float64
		releases int
	}{
		"two fixes within a day": {
			"{mechanism: codebook, epsilon: 8, budget: {epsilon: 8, window: 24h}}",
			[]time.Time{first, first.Add(day - 29_800*time.Millisecond)},
			day, 8, 1,
		},
		"the same second, each day": {
			"{mechanism: codebook, epsilon: 8, budget: {epsilon: 8, window: 24h}}",
			[]time.Time{first, first.Add(day), first.Add(2 * day), first.Add(3 * day)},
			day, 8, 2,
		},
		"the same second, and a window that is a step shorter": {
			"{mechanism: codebook, epsilon: 8, budget: {epsilon: 8, window: 23h59m30s}}",
			[]time.Time{first, first.Add(day), first.Add(2 * day), first.Add(3 * day)},
			day - 30*time.Second, 8, 4,
		},
		"a plan of 6.6": {
			"{mechanism: codebook, epsilon: 6.6, interval: 40m, " +
				"budget: {epsilon: 20, window: 24h}}",
			regular, day, 19.8, 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := complete[:strings.Index(complete, "release:")] + "release: " + c.release + "\n"
			dir, config := configDir(t, text)
			model := townModel(t)
			model.Step = 30 * time.Second
			if err := model.WriteFile(filepath.Join(dir, "model.avro")); err != nil {
				t.Fatal(err)
			}
			var fixes []schemas.Raw
			for _, at := range c.fixes {
				fixes = append(fixes, schemas.Raw{
					UserID: "a", Timestamp: at.UnixMilli(), Latitude: 10.01, Longitude: 20.01,
				})
			}
			_, lines := sanitizeTo(t, "ndjson", "sanitize", "-c", config, "--in",
				write(t, dir, "traces.csv", servicetest.TownCSV(fixes)))
			all, releases, most := decoded(t, lines), 0, 0.
			for _, from := range all {
				sum := 0.
				for _, r := range all {
					ms := r.Timestamp - from.Timestamp
					if 0 <= ms && ms <= c.window.Milliseconds() {
						sum += r.Epsilon
					}
				}
				if most = max(most, sum); from.Epsilon > 0 {
					releases++
				}
			}
			if math.Abs(most-c.most) > 1e-9 || releases != c.releases {
				t.Errorf("at most Σε %g in %v and %d releases, want %g and %d", most, c.window,
					releases, c.most, c.releases)
			}
		})
	}
}
