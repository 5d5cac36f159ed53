package statement

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/trial"
)

// The texts that the YAML and the Markdown share. Blank lines separate paragraphs, and a line that
// begins with "- " begins an item. No text may claim more than mechanism/GUARANTEES.md does.

func personal(s *Sheet) string {
	return fmt.Sprintf(`Sanitized records stay personal data%s. A record says, about one person or
vehicle, where it was approximately and when. Differential privacy limits what the records say about
places. It does not make them anonymous.`,
		when(s.pseudonym(), ", under the pseudonym that replaces the user id as well"))
}

func description(s *Sheet) string {
	return fmt.Sprintf(`A service reads GPS fixes from the Kafka topic %s and writes differentially
private locations to %s. A sanitized record has %s, %s, an estimate of the place with the radius of
a 95 %% credible disc and an ellipse. %sThe estimate follows from the releases of this user up to
then, and not from one of them alone.%s The raw fix is not in it.

A release is a place on the map that the service draws at random. The true place changes how likely
each outcome is, within the bound of ε. All else that a record says about places follows from
releases and from public facts.

The topic %s lists refused fixes by their position in the raw topic, their time and the reason. The
topic %s, keyed by the user id, holds what the service remembers of each user, with the account of
ε.`,
		s.Topics.Raw, s.Topics.Sanitized,
		either(s.pseudonym(), "a pseudonym of the user", "the user id"),
		either(s.stepTimes(), "the start of the time step", "the exact time"),
		when(s.Release.Estimate == mechanism.EstimateMedian, `The estimate is the geometric
median of where the user may be, and not the mean. `),
		when(!s.Publish.OmitRelease, ` A record of a release, new or repeated, has that release too,
and a predicted record has none.`), s.Topics.DeadLetters, s.Topics.Changelog)
}

func domain(s *Sheet) string {
	g := s.Models[0].Grid
	box := g.Box()
	return fmt.Sprintf(`One place for each user id and each step of %s. Places are the %d cells of a
map, %d by %d squares with a side of %s, between %.4f, %.4f and %.4f, %.4f (latitude, longitude).`,
		cli.Duration(s.Step), g.Cells(), g.Width(), g.Height(), cli.Metres(g.CellM()), box.South,
		box.West, box.North, box.East) + when(len(s.Models) > 1, fmt.Sprintf(` There are %d versions
of the model, each with its map; this is the first one's.`, len(s.Models)))
}

// countsOf says what counts of the same fixes protect; empty where there are none.
func countsOf(s *Sheet) string {
	c := s.Counts
	if c == nil {
		return ""
	}
	return fmt.Sprintf(`"geodither counts serve" publishes in the topic %s how many users report in each
of %d zones and each window of %s, with noise. All that one user id does in a day, added or removed,
changes the odds of all published counts by at most the factor e^ε, with ε = %s. One day in place of
another, or a part of a day, is 2ε. A day is that of the clock of %s, and a user counts in at most
%d windows of it.

Days add up: 30 days cost %s. So does each further edition, group, key, length of windows or set of
zones for the same day.

Records and counts are of the same fixes. For the values of a day both together cost 2ε + Σε, here
at most %s. The day is that of the clock, %s at most.

The bound does not cover people who travel together. It does not hold against people who have
the key or true counts. The topic %s has true counts: it stays with those who may see raw fixes.`,
		c.Topic, c.Zones, cli.Duration(c.Window), number(c.Epsilon), c.TimeZone, c.PerDay,
		number(30*c.Epsilon), engine.Grouped(s.withRecords()), cli.Duration(c.LongestDay),
		c.Partial)
}

func unit(s *Sheet) string {
	return fmt.Sprintf(`The privacy unit is one fix: where one user id was in one step of %s. Two
inputs are neighbours if they differ in the place of one user in one step. ε bounds one release of
one user id. It is no bound for a day, a trajectory or a person: there the ε of all releases add up
(see the budget). What all records say of one step is bounded by ε where the places of the other
steps are known or independent, else by the Σε of all releases, in practice of those near in time.
The map, the model, all settings, and who reports when, are assumed to be public.`,
		cli.Duration(s.Step))
}

func epsilon(s *Sheet) string {
	set := fmt.Sprintf(` The setting "delta" of the config, %s, is another quantity: the prior mass
that the location set may leave out. It trades the size of the noise against how often the true cell
is replaced by a nearby one. It does not weaken the bound.`, number(s.Release.Delta))
	return fmt.Sprintf(`One release costs ε = %s: it changes the odds between any two cells of the
map by at most a factor of e^ε = %s, whatever an observer knew before. If two places were equally
likely to somebody, one of them is afterwards at most %[2]s times as likely as the other.

There is no δ in the guarantee: it does not fail with some small probability. It is computational,
though: it holds against everybody who does not have the noise key.%[3]s`,
		number(s.Release.Epsilon), power(s.Release.Epsilon),
		when(s.Release.Mechanism == law.Lattice, set))
}

func budget(s *Sheet) string {
	year := engine.Grouped(engine.MostEpsilon(s.Release, s.Step, 365*24*time.Hour))
	return limits(s) + fmt.Sprintf(`

With these settings, 24 hours of event time of a user cost at most Σε = %s. An observer's odds
between two days that a user may have had, with reports at the same times and all on the map, change
by at most the factor e^Σε, %s. Where settings were changed, both hold for 24 hours that start after
the change.%s%s Event time is the reporting device's clock. %s

%s`,
		engine.Grouped(s.DayEpsilon), power(s.DayEpsilon),
		when(s.high(), fmt.Sprintf(` That is above Σε = %v, which geodither calls high: it hardly
protects where somebody was over a day.`, mechanism.HighEpsilonDay)),
		when(s.Release.Budget.Lifetime == 0, ` There is no limit for all time: over a year of daily
reports Σε may reach `+year+"."), clocks(s), openHours(s))
}

// clocks says how far a device's clock may be fast.
func clocks(s *Sheet) string {
	if s.MaxAhead == engine.AnyAhead {
		return `The config says "max_ahead: off": a fast clock has its days sooner.`
	}
	return `With LogAppendTime on
the topic ` + s.Topics.Raw + ` "max_ahead" keeps it near the broker's clock; with CreateTime a fast
clock has its days sooner.`
}

// limits says what limits the sum of ε.
func limits(s *Sheet) string {
	if s.unlimited() {
		return `No budget limits the sum: the config says "budget: none". Σε grows for as long as a
user reports.`
	}
	b, text := s.Release.Budget, "The service keeps an account for each user id."
	if s.window() != 0 {
		text += fmt.Sprintf(` It refuses whatever would bring a user above Σε = %s in any %s. That
alone would allow %s in that time. A lowered limit holds from one such window after the change on.`,
			number(b.Epsilon), cli.Duration(s.window()), s.releases(b.Epsilon))
	}
	if b.Lifetime != 0 {
		text += fmt.Sprintf(` For as long as the account is kept, a user's releases cost at most Σε
= %s, which is %s.`, number(b.Lifetime), s.releases(b.Lifetime))
	}
	return text + " When the budget is spent, the service publishes " +
		either(b.Spent == mechanism.SpentPredict,
			"an estimate that follows from earlier releases and costs nothing.", "nothing.")
}

// openHours says in which hours releases are drawn, if these are not all.
func openHours(s *Sheet) string {
	var all []string
	for _, span := range s.Release.Hours {
		all = append(all, span.String())
	}
	cut := engine.HoursAdvice(s.Release, s.Step)
	return when(len(all) > 0, fmt.Sprintf(`Releases are drawn in steps that start within these
hours alone: %s (time zone rules %s). At other times records are predictions, which cost nothing.
The last release before and the first one after still tell something of the place between.%s`,
		strings.Join(all, "; "), hours.ZoneVersion, when(cut != "", " Note: "+cut+".")))
}

// homes says what nights at home tell, which has to be simulated.
func homes(s *Sheet) string {
	if len(s.Homes) == 0 {
		return ""
	}
	text := fmt.Sprintf(`What an observer learns of a home, if a user is there every night from 21
to 6 h and reports, and the observer knows that habit, the model and the settings (%s: with so
few, small differences between settings mean nothing):`,
		cli.Quantity(int64(s.Homes[0].Users), "simulated user"))
	for i, h := range s.Homes {
		text += fmt.Sprintf(`%s after %s the estimate is %s, and the home's own cell has a
probability of %.2g`, when(i > 0, ";"), nights(h),
			either(h.MedianM < .5, "in the right cell (median)",
				"off by "+cli.Metres(h.MedianM)+" (median)"), h.Posterior)
	}
	return text + fmt.Sprintf(`. To tell less, %s%s, or lower ε.`,
		when(!nightsClosed(s.Release.Hours), `leave the nights out of "release.hours", `),
		either(s.Release.Budget.Lifetime > 0, "lower the lifetime budget",
			"set a small lifetime budget"))
}

func nights(h expect.Home) string { return cli.Quantity(int64(h.Nights), "night") }

// homeFound is the mean probability of a home's own cell from which on the statement warns: an
// observer who guesses then names about one home in five. Of four users, the fewest that are
// simulated, one who is found nearly for sure is enough. On a map of few cells the probability must
// also be homeGain times what a cell has on average.
const (
	homeFound   = .2
	homeGain    = 5
	homeWarning = "simulated home: "
)

// warned are the warnings: of the config, of the models, and of what was simulated.
func warned(s *Sheet) []string {
	all := slices.Clone(s.Warnings)
	for _, m := range s.Models {
		if text := trial.FewUsers(m.Model); text != "" {
			all = append(all, "model "+m.ID+": "+text)
		}
	}
	cells := float64(s.Models[0].Grid.Cells())
	found := func(h expect.Home) bool {
		return h.Posterior >= max(homeFound, homeGain/cells)
	}
	if at := slices.IndexFunc(s.Homes, found); at >= 0 {
		all = append(all, fmt.Sprintf("%safter %s the own cell of a user's home has a probability "+
			"of %.2g: a reader of the records can find where people live", homeWarning,
			nights(s.Homes[at]), s.Homes[at].Posterior))
	}
	return all
}

// nightsClosed reports whether no release is drawn from 21 to 6 h, the nights of homes.
func nightsClosed(spans []hours.Span) bool {
	const rise, bed = 6 * 60, 21 * 60
	return len(spans) > 0 && !slices.ContainsFunc(spans, func(s hours.Span) bool {
		return s.From < rise || s.To > bed || s.To < s.From
	})
}

// oneMoment says what all records tell about one moment, which takes a computation.
func oneMoment(s *Sheet) string {
	switch {
	case s.NoMoment != "":
		return "For what all records together tell about one moment no better bound than Σε is " +
			"claimed: " + s.NoMoment + "."
	case s.Moment == nil:
		return ""
	}
	least := func(v float64) string { return fmt.Sprintf("%.2f", math.Ceil(100*v)/100) }
	return fmt.Sprintf(`However many records there are, all of them together change the odds between
two cells at one moment by at most e^%s at a release, and by at most e^%s at any moment. This is
theorem 15 (one moment) of mechanism/PROOFS.md, for releases %s apart or more, the model %s, and an
observer who knows nothing of the user but that model. The times of reports must not depend on
places, and all reports must lie on the map, because a missing record can tell more. It is no bound
for an observer who knows the user's habits, or where the user was at another time: for them Σε
is the bound.`,
		least(s.Moment.At), least(s.Moment.Between), cli.Duration(s.interval()), s.Models[0].ID) +
		either(len(s.Models[0].Gaps) > 0, ` It holds where the user reports in every
step. The model says that a user who is silent may not have moved, so after silence Σε is the
bound.`, fmt.Sprintf(` After a silence of more than %s the filter starts over. That earlier places
tell nothing of later ones then is an assumption.`,
			cli.Duration(time.Duration(s.Release.LongestGap(s.Models[0].Model))*s.Step)))
}

// expected says which error to expect, which has to be simulated.
func expected(s *Sheet) string {
	x, little := s.Expected, s.Expected.LittleGain()
	return fmt.Sprintf(`If people move as the model says and report in each step: %s.%s This is
simulated, on %d tracks that are nobody's (seed %d); "geodither tune" measures the error on real
traces. These are errors at the time of a record. Later records of a user tell more about earlier
places: every reader can compute that ("geodither smooth"), so what records show of the past is
nearer to the truth. "geodither tune" and "geodither sanitize --report" measure how near.`,
		x.Verdict(), when(little != "", " Warning: "+little+"."), x.Tracks, x.Seed)
}

func composition(s *Sheet) string {
	return fmt.Sprintf(`The releases of one user cost the sum of their ε, also if the user stands
still (adaptive sequential composition; no better bound is claimed).

The account belongs to one user id in one service. A second service on the same fixes, a second id
of the same person, or a new consumer group starts at 0, and the sums add. The account is in the
topic %s: if that is lost, the service stops.%s%s`,
		s.Topics.Changelog, when(s.Vouched, ` The config says "partitioner: any": nothing checks
that all records of a user are in one partition. A user in two partitions has two accounts. With a
budget "run" starts only if
topics.raw has one partition.`),
		when(!s.KeyCheck, ` The config says "key_check: off": nothing checks that one user always
has the same record key. A user with two keys may be in two partitions, and have two accounts. With
a
budget "run" starts only if topics.raw has one partition.`))
}

func guarantee(s *Sheet) string {
	text, theorem := `Mechanism "lattice": noise on a lattice of places, sized by a set of likely
cells. A true cell outside the set is released as the nearest cell of it. The guarantee is theorem 2
(privacy) of mechanism/PROOFS.md, and theorem 8 (release and words) for the release together with
the number of random words that it took: for any two cells of the map, and for the values that are
published. Two near places of the set are told apart less than two far ones. How much less depends
on the size of the set, and for cells outside it only e^ε holds: that is no promise for each pair of
near places.`, "8"
	if s.codebook() {
		theorem = "12"
		text = `Mechanism "codebook": a few places on the map are code points, by public
facts alone. Every cell votes for its nearest code point, and randomized response, a draw by chance
in which a vote counts more, decides which code point is published. The guarantee is theorem 12
(codebook) of mechanism/PROOFS.md: for any two cells of the map, whether the prior holds them likely
or not, and for the values that are published. What a release tells about two neighbouring cells may
be the full e^ε, where the border between two votes runs between them: nothing more is promised for
near places.`
	}
	return text + fmt.Sprintf(`

Floating point: the mechanism samples in integer arithmetic, so that the guarantee holds for the
floating-point values that are published, and not only for real numbers.

Timing: the guarantee covers the number of random words that a release takes (theorem %s), not the
time that the processor takes. Publish on a schedule that does not wait for the computation, or keep
the time of computation from observers.`, theorem)
}

func key(s *Sheet) string {
	return `Noise is a keyed function of everything that determines its distribution (HMAC-SHA-256
and ChaCha8). A retry, or a re-run of the same input with the same key, model and settings,
publishes the same bytes and spends nothing. The guarantee holds against everybody who does not have
the key, as far as these two functions are secure. Anybody with the key can take the noise off every
release.

The key is as secret as the raw fixes. One key serves one set of raw fixes: fixes that are corrected
and fed again need another key. Each day has a noise key of its own. After "geodither key export
--until DAY" and the destruction of every older copy, nobody can take the noise off the days before
(theorem 11, destroyed days).` + when(s.Key.Known, " The key that was here when this statement "+
		"was made has "+either(s.Key.First != "", "no noise of days before "+s.Key.First+".",
		"the noise of all days: no day was destroyed."))
}

func model(s *Sheet) string {
	text := `The model of how people move is public: ε does not cover what it says about the people
whose traces it was learned from.
`
	for _, m := range s.Models {
		text += "\n- " + version(m)
	}
	return text + when(len(s.Models) > 1, `

An observer may read all of these models. The bounds of models of the same people add: each further
model that somebody's fixes went into adds 2ε_M. A model without ε_M among them leaves no bound for
the models and the releases together.`)
}

// version says how one version of the model was trained.
func version(m Model) string {
	source, users := m.Provenance.Source, m.Provenance.Report.Users
	return "Model " + m.ID + when(!m.Start.IsZero(), ", for fixes from "+stamp(m.Start)+" on") +
		when(source != "", `, learned from "`+source+`"`) +
		when(users != 0, ", "+cli.Quantity(users, "user")) + ": " + trained(m) +
		either(m.Provenance.Privacy != nil, ` for each user whose traces went into it (theorem 7).
For a step that was trained on and is released too, this model and the release together have the
bound ε + 2ε_M (theorem 9).`, `, so there is no bound for the model and the releases together, if
the traces are of the same people.`)
}

func trained(m Model) string {
	if private := m.Provenance.Privacy; private != nil {
		return "trained with differential privacy, ε_M = " + private.Epsilon
	}
	return "trained without differential privacy"
}

func unprotected(s *Sheet) string {
	return fmt.Sprintf(`- That a user has a record, the number of records, and their order. For
somebody who reports only at work they show the start, the end and the breaks of a shift.
- Time: %s.
- Who it is: %s. So records of one user can be linked.
- The model, the map and all settings, which are public.
- %s.
- Dead letters: position in the raw topic, exact time and reason of each refused fix.%s Keep the
topic %s as secret as raw fixes.
- Metrics, status, the log and the findings of doctor: they name no user and no place, but count raw
traffic, and fixes outside the map. Keep them inside%s.
- People who travel together: they share what is released about any one of them.%s`,
		either(s.stepTimes(), "the step of "+cli.Duration(s.Step)+` in which each fix was made. A
reader who watches the topic also sees when a record appears`, "the exact time of each fix"),
		either(s.pseudonym(), `all records of a user have the same pseudonym, and lie in the user's
partition. A pseudonym is a name, not anonymity`, "records have the plain user id"),
		either(s.Clamped, `Places outside the map: nothing shows that a fix was outside, because it
counts as one in the nearest cell. Its estimate claims a place on the map for somebody who is not
there`, `That a user was more than one cell outside the map: such a fix has no record, which shows
it to a reader who expected a report (input.outside: dead_letter). No budget counts that`),
		when(!s.Clamped, " The reason outside_map says something about the place."),
		s.Topics.DeadLetters, when(s.Listen != "", " (this config serves metrics and status at "+
			s.Listen+")"), when(s.Hides, `
- That a report was left out: this config leaves some without a record on purpose, by a rule that
uses public facts only.`))
}

func actors(s *Sheet) string {
	return fmt.Sprintf(`- The operator of the service, who has the raw fixes and the noise key, and
must be trusted with both.
- Readers of %s. Each of them is an adversary of the guarantee, with any knowledge beside the
records, who lacks the key.
- The operators of the Kafka cluster, who can read the raw topic and the changelog unless other
measures prevent it.`, s.Topics.Sanitized)
}

func releaseType(s *Sheet) string {
	return fmt.Sprintf(`Continual: the service releases for as long as users report. A user has at
most one release in %s. Between releases it publishes %s.`,
		cli.Duration(s.interval()), either(s.Release.Between == mechanism.BetweenSkip, "nothing",
			"estimates, which cost nothing"))
}

func retention(s *Sheet) string {
	return fmt.Sprintf(`The brokers decide how long records are kept: "geodither doctor -c FILE"
shows it. The changelog is compacted, so the state and the account of a user stay in %s until they
are erased, and each instance keeps a copy in its folder "%s".`, s.Topics.Changelog, s.StateDir)
}

// Texts that are the same in all statements.
const (
	postprocessing = `Repeated releases, estimates, radii, ellipses and predictions are functions of
published releases, the model and the settings. They cost no ε.`
	preprocessing = `Before the release, a fix passes the rules of the config, by its cell and its
step alone. ε does not cover what the choice of settings says about traces that they were tuned on.`
	erasure = `"geodither erase -c FILE --user ID > RECEIPT" erases what the service has
stored of a person: the state in the changelog and in the state folder. The receipt has a keyed hash
of the id, and the partition and offset of the erasure. It lists what remains and until when: raw
and sanitized records and dead letters until their topics' retention ends, models that were
trained on the person's fixes, state folders of stopped instances, replays, mirrors and backups.
Where counts are published, the hours in which the person counted stay until the day is closed,
under a hash of the id that needs no key.

The account of ε stays under the keyed hash, with the times and ε of past releases, so that a person
who comes back goes on with it. Another noise key, or another number of partitions, loses the kept
accounts. "geodither run" refuses to start under another key while such an account is kept, unless
the operator accepts the loss. A key of which days were destroyed is the same key here. An account
that was lost, or erased with --reset-budget, starts at 0: then the old ε and the new one add up,
and nothing bounds the sum.`
	exactlyOnce = `Readers of committed records see what a run without faults gives: one sanitized
record for each accepted fix, and one dead letter for each refused one, through crashes, fencing,
rebalances and lost disks. A reader of uncommitted records may see a record twice, but never two
different releases of one fix, unless the operator changed settings and accepted that. Records that
settings leave out on purpose are counted.`
	justification = `In https://github.com/geodither/geodither, mechanism/GUARANTEES.md says what ε
bounds and what it does not cover, mechanism/PROOFS.md has the theorems and says what is only
tested, and mechanism/evaluation/RESULTS.md has the errors on real traces.`

	// What geodither does not know, and who does.
	askName      = "the name of the data product: the publisher"
	askCurators  = "who is responsible (controller, processor): your legal department"
	askUse       = "the purpose, and the legal basis: the controller"
	askRegion    = "where the persons are: the operator of the fleet"
	askDate      = "when the records were or will be published: the operator"
	askSector    = "the sector: the controller"
	askRotation  = "how often days of the noise key are destroyed, and who has copies: the operator"
	askRetention = "how long the topics keep records: the brokers, or \"geodither doctor -c FILE\""
	askAudit     = "a measured attack: run \"geodither audit -c FILE --json > audit.json\", then " +
		"\"geodither statement -c FILE --audit audit.json\""
	askError = "the error to expect of the estimates, and what releases over nights reveal " +
		"about a home: \"geodither statement -c FILE --simulate\" works both out, in minutes"
	askShift = "whether readers may see when somebody's shift starts and ends, and its breaks: " +
		"the controller, with those who speak for the staff"
)
