package statement

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
)

// Markdown writes the sheet as text blocks for a data protection impact assessment.
func Markdown(out io.Writer, s *Sheet) error {
	first, rest, _ := strings.Cut(flow(personal(s), math.MaxInt), ". ")
	parts := []string{
		"# Statement on data protection: " + s.Group,
		"**" + first + ".**", prose(rest), prose(made(s)), table(s),
		"## 1. Description of the processing", prose(description(s)),
		"### Who is involved", prose(actors(s)),
		"### When something is released", prose(releaseType(s)),
		"### Data, and what is not protected", prose(domain(s)),
		"The guarantee does not cover:", prose(unprotected(s)),
		"### Retention", prose(retention(s)),
		"## 2. Necessity and proportionality", prose(necessity(s)),
		"### What one release reveals", prose(unit(s)), prose(epsilon(s)),
		"### What many releases reveal", prose(budget(s)), prose(composition(s)),
		prose(when(oneMoment(s) != "", oneMoment(s)+"\n\n") + postprocessing),
	}
	if s.Counts != nil {
		parts = append(parts, "### What counts reveal", prose(countsOf(s)))
	}
	parts = append(parts,
		"## 3. Risks to the persons", prose(risks(s)),
		"### The model and the settings", prose(preprocessing), prose(model(s)))
	if list := warned(s); len(list) > 0 {
		parts = append(parts, "### Warnings", items(list)+"\n")
	}
	parts = append(parts, "## 4. Measures", prose(measures(s)),
		"### The guarantee", prose(guarantee(s)),
		"### The noise key", prose(key(s)),
		"### Faults", prose(exactlyOnce),
		"### Erasure", prose(erasure),
		"### Measured attacks", prose(`An audit attacks the mechanism and the service like an
observer who knows everything but the key and the place. Its result is a lower bound: it can show
that a release reveals more than ε, and can never prove that it does not.`), attacks(s),
		"### Sources", prose(justification),
		"## 5. To fill in", "geodither does not know:", items(asks(s)))
	_, err := io.WriteString(out, strings.Join(parts, "\n\n")+"\n")
	return err
}

func prose(text string) string { return flow(text, width) }

// items is a list.
func items(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, wrapped("- "+text, width))
	}
	return strings.Join(all, "\n")
}

func code(text string) string { return "`" + text + "`" }

func made(s *Sheet) string {
	return fmt.Sprintf(`"geodither statement" made this text on %s from the config %s, the model and
the program, geodither %s%s. Make it again whenever one of them changes. Its headings are those of a
data protection impact assessment (the template of the EDPB, and the CNIL's method). It is no such
assessment by itself: the controller completes it, as section 5 lists, and signs it.`,
		stamp(s.Now), code(s.Config), s.Program.Version,
		when(s.Program.Revision != "", " (revision "+code(s.Program.Revision)+")"))
}

// table has the figures.
func table(s *Sheet) string {
	r, b := s.Release, s.Release.Budget
	window, lifetime := cli.Duration(s.window()), number(b.Lifetime)
	text := "| | |\n|---|---|\n"
	row := func(name, format string, args ...any) {
		text += "| " + name + " | " + fmt.Sprintf(format, args...) + " |\n"
	}
	row("Privacy unit", "one fix: the place of one user id in one step of %s", cli.Duration(s.Step))
	row("ε of one release", "%s: the odds between two places change by at most a factor of %s",
		number(r.Epsilon), power(r.Epsilon))
	row("Near places", "no promise beyond that")
	row("δ", "none")
	row("Least time between releases", "%s", cli.Duration(s.interval()))
	row("Budget", "%s%s%s%s", when(s.unlimited(), "**none**"),
		when(s.window() != 0, "Σε ≤ "+number(b.Epsilon)+" in any "+window),
		when(s.window() != 0 && b.Lifetime != 0, ", "),
		when(b.Lifetime != 0, "Σε ≤ "+lifetime+" in all"))
	row("ε in 24 hours of event time", "at most %s%s", engine.Grouped(s.DayEpsilon),
		when(s.high(), ", which is high"))
	row("ε in a lifetime", "%s", either(b.Lifetime != 0, "at most "+lifetime, "no limit"))
	if c := s.Counts; c != nil {
		row("ε of a day in the counts", "%s, beside the records'", number(c.Epsilon))
	}
	row("Mechanism", "%s, exact for the published values", r.Mechanism)
	row("Records carry", "%s and %s", either(s.pseudonym(), "a pseudonym", "the user id"),
		either(s.stepTimes(), "the step", "the exact time"))
	row("Outside the map", "%s",
		either(s.Clamped, "counts as in the nearest cell", "no record, which shows it"))
	for _, m := range s.Models {
		row("Model "+m.ID, "%s", trained(m))
	}
	row("Settings", "%s", either(s.Settings != "", code(s.Settings),
		"not computed, because the key or a login is not here"))
	return strings.TrimSuffix(text, "\n")
}

func necessity(s *Sheet) string {
	off := `"geodither doctor -c FILE" says which error to expect with this model and these
settings, beside the error without any release.`
	if s.Expected != nil {
		off = expected(s)
	}
	return `Whether the purpose needs location data, and whether it needs them of single users, only
the controller can say. These settings decide how much is published:

- ε, the interval and the budget: a smaller ε and a longer interval publish less about places.
- Error: strong privacy and street-level accuracy do not go together. ` + off + `
- Counts instead of persons: "geodither counts" publishes where a fleet is at an ε for a user's
whole day. With a handful of vehicles they are about individual people.`
}

func risks(s *Sheet) string {
	return fmt.Sprintf(`- Singling out: possible. Each record belongs to one %s.
- Linkage: possible by the id and by times. ε bounds what a release adds about places, whatever else
the observer knows. It does not bound what ids and times reveal.
- Inference of places: bounded for a release by ε, and for longer times by the sum.%s Many releases
of somebody who stays in one place tell that place apart from others.%s
- Loss of the key: the finder can take the noise off all releases of the days that it covers.
- Loss of the changelog: accounts start at 0 if the operator accepts it.
- Wrong conclusions: repeated and predicted records are no new observations, and an estimate has a
radius.`,
		either(s.pseudonym(), "pseudonym", "user id"),
		when(s.high(), " Over a day the sum is high with these settings."),
		when(homes(s) != "", " "+homes(s)))
}

func measures(s *Sheet) string {
	return fmt.Sprintf(`- Differential privacy of each release, with the guarantee below.%s
- A noise key, with days that can be destroyed.
- %s; %s.
- Nothing of a user, a place or a key in logs, metrics and errors. Dead letters without content.
- Erasure with a receipt, "geodither state verify" for whether what was published is what the
settings give, and attacks on the mechanism and on the service: "geodither audit".`,
		when(!s.unlimited(), "\n- A budget for each user, which the service enforces."),
		either(s.pseudonym(), "Pseudonyms in the place of user ids",
			"No pseudonyms: publish.user is plain"),
		either(s.stepTimes(), "times cut to the step", "exact times: publish.timestamp is exact"))
}

// attacks lists what audits have found.
func attacks(s *Sheet) string {
	var all []string
	for _, m := range s.Measured {
		all = append(all, audited(m))
	}
	return either(len(all) > 0, items(all), prose(`This statement cites no audit. To have one in it,
run "geodither audit -c FILE --json > audit.json", and make the statement with "--audit
audit.json".`))
}

// audited says in a sentence or two what an audit has found.
func audited(m audit.Report) string {
	verdict := "found nothing against the guarantee"
	if !m.Passed {
		verdict = "did not pass: " + cli.Quantity(int64(len(m.Findings)), "finding") +
			", such as: " + m.Findings[0]
	}
	at := "at a time that the report does not say"
	if m.Time != nil {
		at = "on " + stamp(*m.Time)
	}
	text := fmt.Sprintf("An audit %s, of model %s, %s. With confidence %s the odds of a "+
		"place were multiplied by at least %s (true ε at least %s), of %s that ε allows.",
		at, m.ModelID, verdict, number(m.Confidence),
		atLeast(math.Exp(m.Bound.Epsilon)), atLeast(m.Bound.Epsilon), power(m.Epsilon))
	return text + " Command: " + code(m.Again)
}

// asks lists what geodither does not know, also that for which the registry has no field.
func asks(s *Sheet) []string {
	all := []string{
		askName, askCurators, askUse, askRegion, askDate, askSector, askRotation, askRetention,
	}
	if len(s.Measured) == 0 {
		all = append(all, askAudit)
	}
	if s.Expected == nil {
		all = append(all, askError)
	}
	return append(all, askShift,
		"who may read the topics, the log and the metrics: the operator of the cluster",
		"what the persons are told, and how they use their rights: the controller")
}
