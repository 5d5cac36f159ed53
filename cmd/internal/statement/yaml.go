package statement

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
)

// YAML writes the sheet in the fields of OpenDP's deployments registry. It is valid YAML.
func YAML(out io.Writer, s *Sheet) error {
	_, err := io.WriteString(out, heading(s)+deployment(s)+settings(s)+kept(s)+measured(s)+
		simulated(s)+warnings(s))
	return err
}

// scalar writes texts as the lines of a scalar, below a key.
func scalar(indent int, texts ...string) string {
	var all []string
	for _, text := range texts {
		all = append(all, flow(text, width-indent))
	}
	return prefixed(strings.Join(all, "\n\n"), strings.Repeat(" ", indent))
}

// prefixed puts a margin before each line, and no blanks at the end of an empty one.
func prefixed(text, margin string) string {
	paragraph := "\n" + strings.TrimRight(margin, " ") + "\n" + margin
	return margin + strings.NewReplacer("\n\n", paragraph, "\n", "\n"+margin).Replace(text)
}

// quote writes a text as YAML and JSON have it, on one line.
func quote(text string) string {
	data, _ := json.Marshal(text) // which has no error for a text
	return string(data)
}

// null is a value that is not known or not there, and the reason.
func null(why string) string { return "null  # " + why }

func heading(s *Sheet) string {
	name, config := quote(s.Group), quote(s.Config)
	return `# Differential privacy data sheet of the service ` + name + `, in the fields of OpenDP's
# registry of deployments (github.com/opendp/deployments-registry-data). "geodither statement" made
# it from the config ` + config + `, the model and the program named below, so make it again
# whenever one of them changes. A field that is null is not known to geodither: the comment beside
# it says who knows.
#
` + prefixed(flow(personal(s), width-2), "# ") + "\n\n"
}

// deployment has the registry's fields.
func deployment(s *Sheet) string {
	return `deployment:
  basic:
    name: ` + null(askName) + `
    data_curators: ` + null(askCurators) + `
    intended_use: ` + null(askUse) + `
    data_product_type: Locations of single users, one record for each fix
    data_product_region: ` + null(askRegion) + `
    description: |
` + scalar(6, personal(s), description(s)) + `
    publication_date: ` + null(askDate) + `
    data_product_sector: ` + null(askSector) + `

  dp_variant:
    variant_name: Pure DP
    data_domain: |
` + scalar(6, domain(s)) + `
    unprotected_quantities: |
` + scalar(6, unprotected(s)) + `

  privacy_loss:
    privacy_unit: One fix (the place of one user id in one step)
    privacy_unit_details: |
` + scalar(6, unit(s)) + `
    privacy_parameters:
      epsilon: ` + number(s.Release.Epsilon) + `  # of one release
      delta: 0
      rho: null  # the account is kept in ε
    privacy_parameters_details: |
` + scalar(6, epsilon(s), budget(s)) + `

  deployment_model:
    model_name: Central
    model_name_details: The operator of the service has the raw fixes.
    actors: |
` + scalar(6, actors(s)) + `
    release_type: Many releases
    release_type_details: |
` + scalar(6, releaseType(s)) + `
    data_source_type: Dynamic
    access_type: Non-interactive
    access_type_details: Readers of the sanitized topic receive records and ask no questions.

  accounting:
    post_processing: |
` + scalar(6, postprocessing) + `
    composition: |
` + scalar(6, composition(s)) + `

  implementation:
    preprocessing_and_hyperparameter_tuning: |
` + scalar(6, preprocessing, model(s)) + `
    mechanisms: |
` + scalar(6, guarantee(s), key(s), exactlyOnce) + `
    justification: |
` + scalar(6, justification) + "\n\n"
}

// settings are those of the service, as values.
func settings(s *Sheet) string {
	r, b := s.Release, s.Release.Budget
	window := fmt.Sprintf("{epsilon: %s, seconds: %s}", number(b.Epsilon),
		number(s.window().Seconds()))
	return `# What the registry has no field for. Numbers are those of the texts above.
geodither:
  made_at: ` + stamp(s.Now) + `
  program: {version: ` + quote(s.Program.Version) + ", revision: " + quote(s.Program.Revision) + `}
  config: ` + quote(s.Config) + `
  settings: ` + either(s.Settings != "", quote(s.Settings),
		null("the key or a login is not here; /status of the service has it")) + `
  group: ` + quote(s.Group) + `
  topics:
    raw: ` + quote(s.Topics.Raw) + `
    sanitized: ` + quote(s.Topics.Sanitized) + `
    changelog: ` + quote(s.Topics.Changelog) + `
    dead_letters: ` + quote(s.Topics.DeadLetters) + `
  mechanism: ` + r.Mechanism + `
  location_set_delta: ` + either(s.codebook(), null("this mechanism has no location set"),
		number(r.Delta)) + `
  max_ahead_s: ` + either(s.MaxAhead == engine.AnyAhead, null("off: a fix of any time is taken"),
		number(s.MaxAhead.Seconds())) + `
  step_s: ` + number(s.Step.Seconds()) + `
  interval_s: ` + number(s.interval().Seconds()) + `
  budget:
    window: ` + either(s.window() != 0, window, null("no limit")) + `
    lifetime: ` + either(b.Lifetime != 0, number(b.Lifetime), null("no limit")) + `
    spent: ` + either(s.unlimited(), null("there is no budget"), b.Spent) + `
    most_in_24_h: ` + sum(s.DayEpsilon) + `
  counts: ` + countsFields(s) + `
  user: ` + s.Publish.User + `
  timestamp: ` + s.Publish.Timestamp + `
  outside_the_map: ` + either(s.Clamped, "clamp", "dead_letter") + "\n"
}

// countsFields are the settings of counts of the same fixes.
func countsFields(s *Sheet) string {
	c := s.Counts
	if c == nil {
		return null("the config has no section counts")
	}
	return `
    epsilon: ` + number(c.Epsilon) + `  # of all that a user does in a day
    per_day: ` + fmt.Sprint(c.PerDay) + `
    window_s: ` + number(c.Window.Seconds()) + `
    zones: ` + fmt.Sprint(c.Zones) + `
    edition: ` + fmt.Sprint(c.Edition) + `
    topic: ` + quote(c.Topic) + `
    with_records_in_a_day: ` + sum(s.withRecords()) + `
    details: |
` + scalar(6, countsOf(s))
}

// kept are the models, the key, and what is stored until when.
func kept(s *Sheet) string {
	text := "  models:\n"
	for _, m := range s.Models {
		epsilon := null("trained without differential privacy")
		if private := m.Provenance.Privacy; private != nil {
			epsilon = private.Epsilon
		}
		text += "  - id: " + quote(m.ID) + "\n    start: " +
			either(m.Start.IsZero(), null("the first version"), stamp(m.Start)) +
			"\n    training_epsilon: " + epsilon + "\n"
	}
	allDays := null(either(s.Key.Known, "no day was destroyed", "the key is not here"))
	return text + `  key:
    id: ` + either(s.Key.ID != "", quote(s.Key.ID), null("the key is not here")) + `
    first_day: ` + either(s.Key.First != "", s.Key.First, allDays) + `
    rotation: ` + null(askRotation) + `
  retention:
    raw: ` + null(askRetention) + `
    sanitized: ` + null(askRetention) + `
    dead_letters: ` + null(askRetention) + `
    details: |
` + scalar(6, retention(s)) + `
  erasure: |
` + scalar(4, erasure) + "\n"
}

// measured are the audits' results.
func measured(s *Sheet) string {
	if len(s.Measured) == 0 {
		return "  measured: " + null(askAudit) + "\n"
	}
	text := "  measured:\n"
	for _, m := range s.Measured {
		unsaid := null("the report does not say it")
		at := unsaid
		if m.Time != nil {
			at = stamp(*m.Time)
		}
		text += `  - what: audit of the mechanism and of the service
    at: ` + at + `
    program: ` + either(m.Program != "", quote(m.Program), unsaid) + `
    model: ` + quote(m.ModelID) + `
    passed: ` + fmt.Sprint(m.Passed) + `
    findings: ` + fmt.Sprint(len(m.Findings)) + `
    epsilon_at_least: ` + atLeast(m.Bound.Epsilon) + `
    confidence: ` + number(m.Confidence) + `
    records: ` + fmt.Sprint(m.Records) + `
    command: ` + quote(m.Again) + "\n"
	}
	return text
}

// simulated is the error to expect, and what nights at home and all records of a moment tell.
func simulated(s *Sheet) string {
	x := s.Expected
	if x == nil {
		return "  expected_error: " + null(askError) + "\n"
	}
	estimate, blind := x.Judged()
	return `  expected_error:
    estimate_mean_m: ` + number(expect.Whole(estimate.Mean)) + `
    estimate_median_m: ` + number(expect.Whole(estimate.Median)) + `
    blind_mean_m: ` + number(expect.Whole(blind.Mean)) + `
    details: |
` + scalar(6, expected(s)) + when(homes(s) != "", "\n  home: |\n"+scalar(4, homes(s))) +
		when(oneMoment(s) != "", "\n  one_moment: |\n"+scalar(4, oneMoment(s))) + "\n"
}

func warnings(s *Sheet) string {
	list := warned(s)
	text := "  warnings: " + when(len(list) == 0, "[]") + "\n"
	for _, warning := range list {
		text += "  - " + quote(warning) + "\n"
	}
	return text
}
