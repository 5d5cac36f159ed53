package statement

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
)

// Markdown writes the facts as one page, made at a time. No sentence may claim more than
// mechanism/GUARANTEES.md does.
func Markdown(out io.Writer, f *Facts, made time.Time) error {
	page := "# What " + code(f.Group) + " guarantees\n\n" + flow(f.introduction(made)) + "\n\n" +
		f.table()
	for _, s := range []struct{ title, text string }{
		{"What the numbers mean", f.meaning()},
		{"What counts reveal", f.counts()},
		{"What counts from files have revealed", f.ledger()},
		{"What is not protected", f.unprotected()},
		{"Whom it rests on", f.trust()},
		{"What is kept, and erased", f.kept()},
		{"Measured attacks", f.attacks()},
		{"Warnings", list(f.Warnings)},
		{"What geodither does not know", unknown},
	} {
		if s.text != "" {
			page += "\n\n## " + s.title + "\n\n" + flow(s.text)
		}
	}
	_, err := io.WriteString(out, page+"\n")
	return err
}

func (f *Facts) introduction(made time.Time) string {
	return fmt.Sprintf(`**Sanitized records stay personal data.** A record says, about one person or
vehicle, where it was approximately and when. Differential privacy limits what the records say about
places. It does not make them anonymous.

%s made this page on %s from the config %s, its models and geodither %s%s. Make it again when one of
them changes. The theorems are those of mechanism/PROOFS.md in the program's source.`,
		code("geodither statement"), stamp(made), code(f.Config), f.Program.Version,
		when(f.Program.Revision != "", ", revision "+code(f.Program.Revision)))
}

// table has the figures.
func (f *Facts) table() string {
	text := "| | |\n|---|---|\n"
	row := func(name, format string, args ...any) {
		text += "| " + name + " | " + fmt.Sprintf(format, args...) + " |\n"
	}
	row("Privacy unit", "one fix: the place of one user id in one step of %s", seconds(f.StepS))
	row("ε of one release", "%s: the odds between two places change by at most a factor of %s",
		number(f.Epsilon), power(f.Epsilon))
	row("δ", "none")
	row("Near places", "no promise beyond that")
	row("Least time between releases", "%s; between them: %s", seconds(f.IntervalS),
		either(f.Between == mechanism.BetweenSkip, "nothing", "predictions, which cost nothing"))
	if len(f.Hours) > 0 {
		row("Releases only in", "%s (time zone rules %s)", strings.Join(f.Hours, "; "),
			hours.ZoneVersion)
	}
	row("Budget of a user", "%s", f.limits())
	row("ε in 24 hours of event time", "at most %s%s: odds between two days change by at most a "+
		"factor of %s", engine.Grouped(f.MostIn24H),
		when(f.MostIn24H > mechanism.HighEpsilonDay, ", which is high"), power(f.MostIn24H))
	if f.Budget.Lifetime == nil {
		row("ε in a lifetime", "no limit; in a year of daily reports at most %s",
			engine.Grouped(f.MostInAYear))
	}
	if c := f.Counts; c != nil {
		row("ε of a day in the counts", "%s, beside the records'", number(c.Epsilon))
	}
	row("Mechanism", "%s, exact for the published values (theorem %s)", f.Mechanism,
		either(f.Mechanism == law.Codebook, "12", "2"))
	row("Records", "in %s: %s, %s, %s with a radius, its kind and cost%s", code(f.Topics.Sanitized),
		either(f.pseudonym(), "a pseudonym", "the user id"),
		either(f.stepTimes(), "the step", "the exact time"),
		either(f.Records.Estimate == mechanism.EstimateMedian, "an estimate (median)",
			"an estimate"), when(f.Records.Release, ", and the release"))
	row("Outside the map", "%s", either(f.clamped(), "counts as in the nearest cell",
		"no record, which shows it"))
	for _, m := range f.Models {
		row("Model "+m.ID, "%s", m.words())
	}
	row("Noise key", "%s", f.keyWords())
	settings := "not computed, because the key or a login is not here"
	if f.Settings != nil {
		settings = code(*f.Settings)
	}
	row("Settings", "%s", settings)
	return strings.TrimSuffix(text, "\n")
}

// limits says what limits the sum of ε.
func (f *Facts) limits() string {
	var all []string
	if b := f.Budget; b.Epsilon != nil {
		all = append(all, "Σε ≤ "+number(*b.Epsilon)+" in any "+seconds(*b.WindowS))
	}
	if b := f.Budget; b.Lifetime != nil {
		all = append(all, "Σε ≤ "+number(*b.Lifetime)+" in all")
	}
	if len(all) == 0 {
		return "**none**: Σε grows for as long as a user reports"
	}
	return strings.Join(all, ", ") + "; spent: " + either(
		*f.Budget.Spent == mechanism.SpentPredict, "predictions, which cost nothing", "nothing")
}

func (m Model) words() string {
	text := fmt.Sprintf("%d cells of %s between %s and %s", m.Cells, cli.Metres(m.CellM),
		m.LatLonSW, m.LatLonNE)
	if m.Start != nil {
		text += ", for fixes from " + *m.Start + " on"
	}
	if m.Source != "" {
		text += `, learned from "` + plain(m.Source) + `"`
	}
	if m.Users != 0 {
		text += ", " + cli.Quantity(m.Users, "user")
	}
	if m.Epsilon == nil {
		return text + ": trained without differential privacy"
	}
	return text + ": trained with differential privacy, ε_M = " + *m.Epsilon +
		" for each user whose traces went into it (theorem 7)"
}

func (f *Facts) keyWords() string {
	switch {
	case f.Key == nil:
		return "not here"
	case f.Key.First == nil:
		return code(f.Key.ID) + ", with the noise of all days"
	}
	return code(f.Key.ID) + ", with no noise of days before " + *f.Key.First
}

func (f *Facts) meaning() string {
	text := `A release is a place on the map that the service draws at random. The true place
changes how likely each outcome is by at most the factor e^ε, between any two cells of the map,
whatever an observer knew before. All else that a record says about places follows from releases and
public facts: the map, the model, all settings, and who reports when. The bound holds against
everybody who does not have the noise key.

Costs add up: all releases of a user together cost the sum of their ε, Σε, also if the user stands
still. No better bound is claimed`
	text += either(f.OneMoment.AnyTime == nil, `: `+f.OneMoment.None+".",
		` but the next one.`) + ` What all records say of one step is bounded by ε only where the
places of the other steps are known or independent. After a change of settings a limit holds from
one window on.`
	if m := f.OneMoment; m.AnyTime != nil {
		text += fmt.Sprintf(`

However many records there are, all of them together change the odds between two cells at one moment
by at most e^%s at a release, and by at most e^%s at any moment (theorem 15, one moment). That is
for an observer who knows the public model alone, reports whose times do not depend on places, and
reports on the map. For an observer who knows a habit, or where
the user was at another time, Σε is the bound.%s`, number(*m.AtARelease), number(*m.AnyTime),
			either(m.Gaps, ` It is the bound after silence too, since the model says that a silent
user may not have moved.`, ` That places before a long silence tell nothing of later ones is an
assumption.`))
	}
	text += `

The account of Σε belongs to one user id in one service. A second service on the same fixes, a
second id of the same person, another group, and an account that was lost or reset start at 0, and
what they release adds up. Event time is the reporting device's clock, and `
	text += either(f.MaxAheadS == nil, `"max_ahead: off" lets a fast clock have its days sooner.`,
		`with CreateTime on the raw topic a fast clock has its days sooner.`)
	if f.Partitioner == string(engine.AnyPartitioner) {
		text += ` "partitioner: any": nothing checks that a user is in one partition. A user in two
has two accounts.`
	}
	if !f.KeyCheck {
		text += ` "key_check: off": nothing checks that one user has one record key. A user with two
may have two accounts.`
	}
	return text + when(f.Mechanism == law.Lattice, ` Theorem 8 (release and words) covers a release
together with how many random words it took. The setting "delta" is no δ of the guarantee.`)
}

// counts says what counts of the same fixes protect; empty where there are none.
func (f *Facts) counts() string {
	c := f.Counts
	if c == nil {
		return ""
	}
	return fmt.Sprintf(`%s has how many users report in each of %d zones and each window of %s, with
noise. All that one user id does in a day, added or removed, changes the odds of all published
counts by at most the factor e^ε, with ε = %s. One day in place of another, or a part of a day, is
2ε. A day is that of the clock of %s, %s at most, and a user counts in at most %d windows of it.

Days add up: 30 days cost %s. So does each further edition, group, key, length of windows or set of
zones for the same day. With the records, the values of a day cost 2ε + Σε, here at most %s.

People who travel together share what is published. %s has true counts: keep it as secret as raw
fixes.`,
		code(c.Topic), c.Zones, seconds(c.WindowS), number(c.Epsilon), c.TimeZone,
		seconds(c.LongestDayS), c.PerDay, number(engine.Rounded(30*c.Epsilon)),
		engine.Grouped(c.WithRecords), code(c.TrueCounts))
}

// ledger says what the key's ledger adds up; empty where there is none.
func (f *Facts) ledger() string {
	l := f.Ledger
	if l == nil {
		return ""
	}
	return fmt.Sprintf(`The ledger beside the key knows %d published days of %s, daily ones and
those of typical days. All that one user id does in a day, added or removed, changes the odds of all
of it by at most e^ε, with ε = %s, and all that it does in 31 days with ε = %s. One day or period in
place of another is twice that. Counts of the service above are not in the ledger.`, l.Days,
		code("geodither counts"), number(l.MostInADay), number(l.MostIn31))
}

func (f *Facts) unprotected() string {
	items := []string{
		`That a user has a record, how many, and their order: for somebody who reports only at work
they show a shift and its breaks.`,
		"Time: " + either(f.stepTimes(), `records have the step, but a reader who watches the topic
sees when each appears.`, "records have the exact time of each fix."),
		"Who it is: " + either(f.pseudonym(), `all records of a user have one pseudonym, which
links them. A pseudonym is no anonymity.`, `records have the plain user id, which links them.`),
		either(f.clamped(), `Outside the map: the estimate claims a place on the map for somebody
who is not there.`, `That a user was outside the map: the record is missing, and no budget counts
that.`),
		f.model(),
		fmt.Sprintf(`Dead letters (%s): position in the raw topic, exact time and reason of each
refused fix. Keep them as secret as raw fixes.`, code(f.Topics.DeadLetters)),
		`Metrics, status and log: they name no user and no place, but count raw traffic` +
			either(f.Listen != "", ". This config serves them at "+code(f.Listen)+".", "."),
		"People who travel together: they share what is released about one of them.",
		"How long a computation takes.",
	}
	if f.NightsOpen && f.Budget.Lifetime == nil {
		items = append(items, `A home: nights add up, and nothing limits their sum.`)
	}
	if f.LeavesOut {
		items = append(items, `That a report was left out: this config leaves some without a record,
by a rule that uses public facts only.`)
	}
	return list(items)
}

// model says what the models of how people move tell.
func (f *Facts) model() string {
	text := `What the public model says of the people it was learned from. `
	private := !slices.ContainsFunc(f.Models, func(m Model) bool { return m.Epsilon == nil })
	switch {
	case !private:
		text += `There is no bound for it and the releases together, if these are the same people.`
	case len(f.Models) == 1:
		text += `For a step that was trained on and is released too, both together have the bound
ε + 2ε_M (theorem 9).`
	default:
		text += `For a step that was trained on and is released too, each version that the fixes
went into adds 2ε_M to ε (theorem 9).`
	}
	return text
}

func (f *Facts) trust() string {
	return list([]string{
		"The operator, who has the raw fixes and the noise key.",
		fmt.Sprintf(`The operators of the Kafka cluster, unless they cannot read the topics %s and
%s.`, code(f.Topics.Raw), code(f.Topics.Changelog)),
		`Those who have the key: it takes the noise off all releases of the days that it covers. One
key serves one set of raw fixes; corrected fixes need another. After "geodither key export --until
DAY" and the destruction of all older copies that is over for earlier days (theorem 11, destroyed
days).`,
	})
}

func (f *Facts) kept() string {
	return fmt.Sprintf(`The brokers' retention decides how long records are kept: "geodither doctor
-c FILE" shows it. A user's state stays in %s, and in each instance's state folder, until "geodither
erase" erases it; the receipt lists what remains. The account of Σε stays under a keyed hash, so
that a person who comes back goes on with it.`, code(f.Topics.Changelog))
}

// attacks lists what audits have found.
func (f *Facts) attacks() string {
	if len(f.Audits) == 0 {
		return `None is cited. "geodither audit -c FILE --json > audit.json" makes a report, and
"--audit audit.json" cites it.`
	}
	var all []string
	for _, a := range f.Audits {
		verdict := "found nothing against the guarantee"
		if !a.Passed {
			verdict = "did not pass: " + cli.Quantity(int64(len(a.Findings)), "finding")
			if len(a.Findings) > 0 {
				verdict += ", such as: " + a.Findings[0]
			}
		}
		at := "at a time that the report does not have"
		if a.Time != nil {
			at = "on " + stamp(*a.Time)
		}
		all = append(all, fmt.Sprintf(`An audit %s, of model %s, %s. With confidence %s
the true ε is at least %s, of %s. Command: %s`, at, a.Model, verdict, number(a.Confidence),
			number(a.AtLeast), number(f.Epsilon), code(a.Command)))
	}
	return list(all) + `

An attack can show that a release reveals more than ε, and never that it does not.`
}

// unknown is what the page's readers have to add.
const unknown = `Purpose and legal basis; who is responsible; where the persons are; who may read
the topics, the log and the metrics; how long topics keep records; who has copies of the key; what
the persons are told; whether readers may see when a shift starts and ends.`

func (f *Facts) pseudonym() bool { return f.Records.User == engine.UserPseudonym }
func (f *Facts) stepTimes() bool { return f.Records.Timestamp == engine.TimestampStep }
func (f *Facts) clamped() bool   { return f.OutsideTheMap == engine.OutsideClamp }

// width is how long a line of a text may be.
const width = 98

// flow breaks a text into lines. Paragraphs have blank lines between them, and a line that begins
// with "- " begins an item.
func flow(text string) string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		for i, part := range strings.Split("\n"+paragraph, "\n- ") {
			wrapped := cli.Wrap(plain(part), width-2)
			if i > 0 {
				lines = append(lines, "- "+strings.Join(wrapped, "\n  "))
			} else if wrapped[0] != "" {
				lines = append(lines, wrapped...)
			}
		}
		lines = append(lines, "")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func list(items []string) string {
	if len(items) == 0 {
		return ""
	}
	return "- " + strings.Join(items, "\n- ")
}

// plain makes one line of a text, and replaces what a model file may say of its source and no page
// takes.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

func code(text string) string { return "`" + text + "`" }

// when returns a text that stands under a condition, or nothing.
func when(holds bool, text string) string { return either(holds, text, "") }

// either returns the text that stands under a condition, or the one that stands without it.
func either(holds bool, text, other string) string {
	if holds {
		return text
	}
	return other
}

func seconds(s float64) string { return cli.Duration(time.Duration(s * float64(time.Second))) }

// number writes a number with the digits that it has, and no exponent.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// power writes e^x, a factor of odds, in few digits, rounded up.
func power(x float64) string {
	switch f := math.Exp(x); {
	case f < 100:
		return number(math.Ceil(f*100-1e-6) / 100)
	case f < 1e9:
		return engine.Grouped(math.Ceil(f))
	}
	return "about 10^" + number(math.Ceil(x/math.Ln10))
}
