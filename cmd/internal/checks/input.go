package checks

import (
	"context"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/schemas"
)

// first is the check of the records with which a start begins.
const first = "first records"

// recordChecks are those of the raw records.
func recordChecks() []Check {
	return []Check{
		{"raw records", first, sanitizes, needsRaw, (*examination).rawRecords},
		{"skipped records", "", sanitizes, needsRecords, (*examination).skipped},
		{"partitioner", first, sanitizes, needsRecords, (*examination).partitioner},
		{"users' partitions", first, sanitizes, needsRecords, (*examination).usersInOnePartition},
		{"map", first, sanitizes, needsRecords, (*examination).places},
		{"order", "", sanitizes, needsRecords, (*examination).order},
		{first, AtStart, sanitizes | windows, needsRaw, (*examination).firstRecords},
		{"readers", "", sanitizes, needsFolder, (*examination).readers},
	}
}

// sampleRecords is how many raw records of a partition are tried.
const sampleRecords = 1000

// rawRecords reads a few from the end of each partition and tries to use them: a
// wrong encoding shows, whether reading is allowed, and how many fixes are late or
// outside the map.
func (d *examination) rawRecords(ctx context.Context) {
	seen := NewSample(d.o.Settings, int(d.partitions()))
	var err error
	d.read, err = d.fixes(ctx, func(
		p *engine.Processor, n int32, r consumer.Record, fix engine.Fix,
	) error {
		_, err := seen.Add(p, n, r, fix)
		return err
	})
	if err != nil {
		d.add(Failure, "%w", err)
		return
	}
	d.sample = seen
	bad, read := int(seen.Refused.Total()), seen.Seen-seen.Skipped
	advice := d.o.Source().Advice(seen.Refused, 0)
	hopeless := seen.Hopeless(1)
	noDay := seen.Refused.Of(schemas.ReasonKeyDestroyed)
	switch {
	case bad > 0 && 2*noDay > int64(bad):
		// No failure: these may be answered already, and the next ones are of a later day.
		d.add(Warning,
			"%d of the last %d would be refused: %s; the key begins at %v: %s", bad, read,
			seen.Refused.String(), d.o.Key.FirstDay(), advice)
	case bad > 0 && bad >= read:
		d.add(Failure, "none of the last %d can be used: %s (%s)",
			read, advice, seen.Refused.String())
	case hopeless != "":
		d.add(Failure, "nearly all of the last %d would be refused: %s", read, hopeless)
	case 2*bad > read:
		d.add(Warning, "%d of the last %d would be refused: %s; %s",
			bad, read, seen.Refused.String(), advice)
	case bad > 0:
		d.add(Warning, "%d of the last %d would be refused: %s",
			bad, read, seen.Refused.String())
	default:
		d.add(OK, "the last %d can be used", read)
	}
	if seen.Ancient > 0 {
		d.add(Warning, "%d of the last %d fixes are in records with a Kafka "+
			"timestamp of 1970: their producer sets seconds in place of milliseconds. Brokers "+
			"delete such records first, and max_ahead refuses their fixes", seen.Ancient, seen.Seen)
	}
}

// visitor gets a fix of a record in partition n.
type visitor = func(p *engine.Processor, n int32, r consumer.Record, fix engine.Fix) error

// fixes visits the fixes of the last records of all raw partitions. read is how many records these
// are.
func (d *examination) fixes(ctx context.Context, visit visitor) (read int, err error) {
	for n := range d.partitions() {
		p, err := engine.NewProcessor(d.o.Settings,
			engine.Partition{Topic: d.o.Topics.Raw, Number: n, Of: int(d.partitions())})
		if err == nil {
			err = d.last(ctx, n, func(r consumer.Record) error {
				read++
				fixes, err := p.Fixes(topics.Record(r))
				for i := 0; i < len(fixes) && err == nil; i++ {
					err = visit(p, n, r, fixes[i])
				}
				return err
			})
		}
		if err != nil {
			return read, fmt.Errorf("partition %d of %s cannot be read: %w", n, d.o.Topics.Raw, err)
		}
	}
	return read, nil
}

// Fleet compares the vehicles of the last raw records with the noise of counts, which has a
// scale and is drawn for a number of zones. s is the start of the service that sanitizes.
func Fleet(ctx context.Context, s Start, zones int, scale float64, tell func(Finding)) {
	d := newExamination(s, s.Client(), tell)
	d.check, d.patience = "fleet", checkPatience
	raw := d.o.Topics.Raw
	vehicles, fixes := map[string]bool{}, 0
	d.wait(ctx)
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	have, err := admin.Partitions(ctx, d.client, d.call, raw)
	if d.counts = have; err == nil {
		_, err = d.fixes(ctx, func(
			_ *engine.Processor, _ int32, _ consumer.Record, fix engine.Fix,
		) error {
			if fix.Usable() {
				vehicles[fix.Raw.UserID], fixes = true, fixes+1
			}
			return nil
		})
	}
	if err != nil || fixes == 0 {
		d.skip("no fix of "+raw+" could be read", "fleet") // All says why
		return
	}
	about := len(vehicles) // to one digit: this goes into the logs of a cluster
	for unit := 10; about >= unit; unit *= 10 {
		about = (len(vehicles) + unit/2) / unit * unit
	}
	found := fmt.Sprintf("about %d vehicles in the last %d fixes, %.1g for each of %d zones; the "+
		"noise has the scale %.3g (per_day / epsilon)", about, fixes,
		float64(about)/float64(zones), zones, scale)
	// Where most vehicles are there once, the fleet is larger than the sample.
	if float64(len(vehicles)) < scale*float64(zones) && 3*len(vehicles) <= fixes {
		d.add(Warning, "%s, which hides so few. Choose larger zones: on files, "+
			"\"geodither counts\" without --per-day shows which are useful", found)
	} else {
		d.add(OK, "%s", found)
	}
}

// last visits the last records of a raw partition.
func (d *examination) last(
	ctx context.Context, n int32, visit func(consumer.Record) error,
) error {
	r, err := topics.Open(ctx, d.client, d.o.Topics.Raw, n,
		consumer.FetcherOptions{Options: d.call})
	if err != nil {
		return err
	}
	return r.Scan(ctx, max(r.First, r.End-sampleRecords), r.End, visit)
}

// lateShare is the share of late fixes in a sample above which there is a warning. A
// device that repeats a fix now and then stays below it.
const lateShare = .01

// skipped says how many of the records that were read a rule skips.
func (d *examination) skipped(context.Context) {
	s := d.sample
	if s.Skipped == 0 {
		return
	}
	level, advice := OK, ""
	if s.Skipped == s.Seen {
		level, advice = Warning, ": is the section input right?"
	}
	d.add(level, "%d of the %d fixes in the last %d records are skipped by a "+
		"rule of the section input%s", s.Skipped, s.Seen, d.read, advice)
}

// partitioner says how the records that were read came to their partitions, and whether
// that is what the config says.
func (d *examination) partitioner(context.Context) {
	placed := d.sample.Placed
	by := d.o.Partitioner
	likely, known := placed.Likely()
	switch {
	case placed.Partitions() == 1:
		d.add(OK, "%s has one partition, so no record can lie in a wrong one",
			d.o.Topics.Raw)
	case placed.Users() == 0:
		d.add(Unchecked, "%s; no record could be looked at yet", by)
	case by == engine.AnyPartitioner && placed.Twice() > 0:
		d.add(Warning, "topics.partitioner is any, and %d of %d users were found in more "+
			"than one partition: each partition gives a user a budget of its own. Have every "+
			"producer use one partitioner, and set topics.partitioner to it",
			placed.Twice(), placed.Users())
	case by == engine.AnyPartitioner && known:
		d.add(OK, "any: no record is refused for its partition. The %d users found lie "+
			"where %s puts them: set topics.partitioner: %s to have that checked", placed.Users(),
			likely, likely)
	case by == engine.AnyPartitioner:
		d.add(OK, "any: no record is refused for its partition. None of the %d users was "+
			"found in two", placed.Users())
	case placed.Mostly(by):
		d.add(Failure, "%s", placed.Advice(by, d.o.Topics.Raw, d.begun))
	case placed.Misplaced(by) > 0:
		d.add(Warning, "%d of %d users found lie in another partition than %s puts them, "+
			"and %s: their records would be refused (wrong_partition). Before a first start set "+
			"topics.partitioner to the producers' own; later have every producer use %s",
			placed.Misplaced(by), placed.Users(), by, placed.Explain(by), by)
	default:
		d.add(OK, "the %d users found lie where %s puts them", placed.Users(), by)
	}
}

// usersInOnePartition looks for users in two partitions, where no key check keeps them out.
func (d *examination) usersInOnePartition(context.Context) {
	switch users := d.sample.Users; {
	case users.Users() == 0:
	case users.Twice() > 0:
		d.add(Failure, "%w", d.sample.TwoPartitions())
	default:
		d.add(OK, "input.key_check is off, and none of the %d users found is in two "+
			"partitions", users.Users())
	}
}

// share says how many of the sound fixes these are.
func (d *examination) share(n int) string {
	return fmt.Sprintf("%d of the last %d (%.1f %%)", n, d.sample.Fixes,
		100*float64(n)/float64(d.sample.Fixes))
}

// places says which share of the sound fixes lies outside the map.
func (d *examination) places(context.Context) {
	s := d.sample
	if s.Fixes == 0 {
		d.skip("no fix could be used", "map")
		return
	}
	level, detail := OK, "all of the last fixes lie on the map"
	if s.Outside > 0 {
		detail = d.share(s.Outside) + " lie outside the map"
		if d.o.Input.Outside == engine.OutsideClamp {
			detail += " and count as in its nearest cell (input.outside: clamp)"
		} else {
			detail += fmt.Sprintf(", %d of them further than one cell: these become dead letters "+
				"(input.outside)", s.Far)
		}
	}
	switch {
	case 2*s.Swapped > s.Outside:
		level = Warning
		detail += ". " + engine.SwappedAdvice
	case float64(s.Outside) > engine.OutsideShare*float64(s.Fixes):
		level = Warning
		detail += ". Is the map the fleet's? Train a model whose box holds it"
	}
	if s.Far == s.Fixes && d.o.Input.Outside == engine.OutsideDeadLetter {
		level = Failure // nothing would be published
	}
	d.add(level, "%s", detail)
}

// order says which share of the sound fixes comes too late.
func (d *examination) order(context.Context) {
	switch s := d.sample; {
	case s.Fixes == 0:
		d.skip("no fix could be used", "order")
	case float64(s.Late) > lateShare*float64(s.Fixes):
		d.add(Warning, "%s are late, of a step before their user's last one in the "+
			"sample: they are not published. A user's fixes have to come in order: are there two "+
			"feeds of the same users?", d.share(s.Late))
	default:
		d.add(OK, "%s are late", d.share(s.Late))
	}
}

// firstRecords looks at the records with which a start would begin, as the start does.
func (d *examination) firstRecords(ctx context.Context) {
	if err := d.o.First(ctx, int(d.partitions()), d.begun); err != nil {
		d.add(Failure, "%w", err)
		return
	}
	d.add(OK, "run can process the records with which it would start")
}

// readers names what no check can see.
func (d *examination) readers(context.Context) {
	d.add(Unchecked, "doctor cannot see the readers of %s. Each must set "+
		"isolation.level=read_committed; otherwise it reads the records of aborted transactions, "+
		"and reads them again when they are published", d.o.Topics.Sanitized)
}
