package statement

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/geodither/geodither/cmd/internal/expect"
)

// YAML writes the sheet in the fields of OpenDP's deployments registry. It is valid YAML.
func YAML(out io.Writer, s *Sheet) error {
	_, err := fmt.Fprintf(out, `# Differential privacy data sheet of the service %s, in the fields of OpenDP's
# registry of deployments (github.com/opendp/deployments-registry-data). "geodither statement" made
# it from the config %s, the model and the program named below, so make it again
# whenever one of them changes. A field that is null is not known to geodither: the comment beside
# it says who knows.
#
%s

deployment:
%s
%s
%s
%s
# What the registry has no field for. Numbers are those of the texts above.
geodither:
%s%s%s%s%s`,
		quote(s.Group), quote(s.Config), prefixed(flow(personal(s), width-2), "# "),
		basic(s), loss(s), deployed(s), implementation(s),
		settings(s), kept(s), measured(s), simulated(s), warnings(s))
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
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(margin+line, " ")
	}
	return strings.Join(lines, "\n")
}

// quote writes a text as YAML and JSON have it, on one line.
func quote(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // every text has a JSON
	}
	return string(data)
}

// orNull writes a value, or null and why there is none.
func orNull(known bool, value, why string) string { return either(known, value, "null  # "+why) }

func basic(s *Sheet) string {
	return fmt.Sprintf(`  basic:
    name: null  # %s
    data_curators: null  # %s
    intended_use: null  # %s
    data_product_type: Locations of single users, one record for each fix
    data_product_region: null  # %s
    description: |
%s
    publication_date: null  # %s
    data_product_sector: null  # %s
`,
		askName, askCurators, askUse, askRegion, scalar(6, personal(s), description(s)), askDate,
		askSector)
}

func loss(s *Sheet) string {
	return fmt.Sprintf(`  dp_variant:
    variant_name: Pure DP
    data_domain: |
%s
    unprotected_quantities: |
%s

  privacy_loss:
    privacy_unit: One fix (the place of one user id in one step)
    privacy_unit_details: |
%s
    privacy_parameters:
      epsilon: %s  # of one release
      delta: 0
      rho: null  # the account is kept in ε
    privacy_parameters_details: |
%s
`,
		scalar(6, domain(s)), scalar(6, unprotected(s)), scalar(6, unit(s)),
		number(s.Release.Epsilon), scalar(6, epsilon(s), delta(s), budget(s)))
}

func deployed(s *Sheet) string {
	return fmt.Sprintf(`  deployment_model:
    model_name: Central
    model_name_details: The operator of the service has the raw fixes.
    actors: |
%s
    release_type: Many releases
    release_type_details: |
%s
    data_source_type: Dynamic
    access_type: Non-interactive
    access_type_details: Readers of the sanitized topic receive records and ask no questions.

  accounting:
    post_processing: |
%s
    composition: |
%s
`,
		scalar(6, actors(s)), scalar(6, releaseType(s)), scalar(6, postprocessing),
		scalar(6, composition(s)))
}

func implementation(s *Sheet) string {
	return fmt.Sprintf(`  implementation:
    preprocessing_and_hyperparameter_tuning: |
%s
    mechanisms: |
%s
    justification: |
%s
`,
		scalar(6, preprocessing, model(s)),
		scalar(6, guarantee(s), arithmetic(s), key(s), exactlyOnce), scalar(6, justification))
}

// settings are those of the service, as values.
func settings(s *Sheet) string {
	r, b, near := s.Release, s.Release.Budget, "null  # not set: no second bound for near places"
	if s.near() {
		near = fmt.Sprintf("{distance_m: %s, on_map_m: %s, factor: %s}", number(s.nearM()),
			number(s.nearMapM()), number(r.Near.Factor))
	}
	return fmt.Sprintf(`  made_at: %s
  program: {version: %s, revision: %s}
  config: %s
  settings: %s
  group: %s
  topics:
    raw: %s
    sanitized: %s
    changelog: %s
    dead_letters: %s
  mechanism: %s
  location_set_delta: %s
  near: %s
  step_s: %s
  interval_s: %s
  budget:
    window: %s
    lifetime: %s
    spent: %s
    most_in_24_h: %s
  user: %s
  timestamp: %s
  outside_the_map: %s
`,
		stamp(s.Now), quote(s.Program.Version), quote(s.Program.Revision), quote(s.Config),
		orNull(s.Settings != "", quote(s.Settings),
			"the key or a login is not here; /status of the service has it"), quote(s.Group),
		quote(s.Topics.Raw), quote(s.Topics.Sanitized), quote(s.Topics.Changelog),
		quote(s.Topics.DeadLetters), r.Mechanism,
		orNull(!s.codebook(), number(r.Delta), "this mechanism has no location set"), near,
		number(s.Step.Seconds()), number(s.interval().Seconds()),
		orNull(s.window() != 0, fmt.Sprintf("{epsilon: %s, seconds: %s}", number(b.Epsilon),
			number(s.window().Seconds())), "no limit"),
		orNull(b.Lifetime != 0, number(b.Lifetime), "no limit"),
		orNull(!s.unlimited(), b.Spent, "there is no budget"), number(s.DayEpsilon),
		s.Publish.User, s.Publish.Timestamp, either(s.Clamped, "clamp", "dead_letter"))
}

// kept are the models, the key, and what is stored until when.
func kept(s *Sheet) string {
	text := "  models:\n"
	for _, m := range s.Models {
		trained := "null  # trained without differential privacy"
		if private := m.private(); private != nil {
			trained = private.Epsilon
		}
		text += fmt.Sprintf("  - id: %s\n    start: %s\n    training_epsilon: %s\n", quote(m.ID),
			orNull(!m.Start.IsZero(), stamp(m.Start), "the first version"), trained)
	}
	return text + fmt.Sprintf(`  key:
    first_day: %s
    rotation: null  # %s
  retention:
    raw: null  # %s
    sanitized: null  # %[3]s
    dead_letters: null  # %[3]s
    details: |
%[4]s
  erasure: |
%[5]s
`,
		orNull(s.Key.First != "", s.Key.First,
			either(s.Key.Known, "no day was destroyed", "the key is not here")),
		askRotation, askRetention, scalar(6, retention(s)), scalar(4, erasure))
}

// measured are the audits' results.
func measured(s *Sheet) string {
	if len(s.Measured) == 0 {
		return "  measured: null  # " + askAudit + "\n"
	}
	text := "  measured:\n"
	for _, m := range s.Measured {
		const unsaid = "the report does not say it"
		at, near := "null  # "+unsaid, "null  # not tested: no near factor is set"
		if m.Time != nil {
			at = stamp(*m.Time)
		}
		if m.Near != nil {
			near = atLeast(m.Near.Epsilon)
		}
		text += fmt.Sprintf(`  - what: audit of the mechanism and of the service
    at: %s
    program: %s
    model: %s
    data: %s
    passed: %t
    findings: %d
    epsilon_at_least: %s
    confidence: %s
    near_at_least: %s
    records: %d
    command: %s
`,
			at, orNull(m.Program != "", quote(m.Program), unsaid), quote(m.ModelID),
			quote(m.data()), m.Passed, len(m.Findings), atLeast(m.Bound.Epsilon),
			number(m.Confidence), near, m.Records, quote(m.Again))
	}
	return text
}

// simulated is the error to expect, and what nights at home tell.
func simulated(s *Sheet) string {
	if s.Expected == nil {
		return "  expected_error: null  # " + askError + "\n"
	}
	x := s.Expected
	return fmt.Sprintf(`  expected_error:
    estimate_mean_m: %v
    estimate_median_m: %v
    blind_mean_m: %v
    details: |
%s
`,
		expect.Whole(x.Estimate.Mean), expect.Whole(x.Estimate.Median),
		expect.Whole(x.Blind.Mean), scalar(6, expected(s))) +
		when(len(s.Homes) > 0, "  home: |\n"+scalar(4, homes(s))+"\n")
}

func warnings(s *Sheet) string {
	if len(s.Warnings) == 0 {
		return "  warnings: []\n"
	}
	text := "  warnings: \n"
	for _, warning := range s.Warnings {
		text += "  - " + quote(warning) + "\n"
	}
	return text
}
