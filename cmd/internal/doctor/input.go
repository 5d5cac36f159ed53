package doctor

import (
	"context"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/schemas"
)

// sampleRecords is how many raw records of a partition are tried.
const sampleRecords = 1000

// rawRecords reads a few from the end of each partition and tries to use them: a
// wrong encoding shows, whether reading is allowed, and how many fixes are late or
// outside the map.
func (d *examination) rawRecords(ctx context.Context, partitions int) {
	seen := service.NewSample(d.o, partitions)
	read, err := d.fixes(ctx, partitions, func(
		p *engine.Processor, n int32, r consumer.Record, fix engine.Fix,
	) error {
		_, err := seen.Add(p, n, r, fix)
		return err
	})
	if err != nil {
		d.add("raw records", Failure, "%v", err)
		d.skip("the raw records cannot be read", ofFixes...)
		return
	}
	bad := int(seen.Refused.Total())
	advice := d.o.Source().Advice(seen.Refused, 0)
	hopeless := seen.Hopeless(1)
	noDay := seen.Refused.Of(schemas.ReasonKeyDestroyed)
	if seen.Skipped > 0 {
		d.skipped(seen, read)
		read = seen.Seen - seen.Skipped // fixes, from here on
	}
	switch {
	case bad > 0 && 2*noDay > int64(bad):
		// No failure: these may be answered already, and the next ones are of a later day.
		d.add("raw records", Warning,
			"%d of the last %d would be refused: %s; the key begins at %v: %s", bad, read,
			seen.Refused.String(), d.o.Key.FirstDay(), advice)
	case bad > 0 && bad >= read:
		d.add("raw records", Failure, "none of the last %d can be used: %s (%s)",
			read, advice, seen.Refused.String())
	case hopeless != "":
		d.add("raw records", Failure, "nearly all of the last %d would be refused: %s", read,
			hopeless)
	case 2*bad > read:
		d.add("raw records", Warning, "%d of the last %d would be refused: %s; %s",
			bad, read, seen.Refused.String(), advice)
	case bad > 0:
		d.add("raw records", Warning, "%d of the last %d would be refused: %s",
			bad, read, seen.Refused.String())
	default:
		d.add("raw records", OK, "the last %d can be used", read)
	}
	if seen.Ancient > 0 {
		d.add("timestamps", Warning, "%d of the last %d fixes are in records with a Kafka "+
			"timestamp of 1970: their producer sets seconds in place of milliseconds. Brokers "+
			"delete such records first, and max_ahead refuses their fixes", seen.Ancient, seen.Seen)
	}
	d.partitioner(seen.Placed, d.begun)
	d.usersInOnePartition(seen.Users)
	d.placesAndOrder(seen)
}

// visitor gets a fix of a record in partition n.
type visitor = func(p *engine.Processor, n int32, r consumer.Record, fix engine.Fix) error

// fixes visits the fixes of the last records of all raw partitions. read is how many records these
// are.
func (d *examination) fixes(
	ctx context.Context, partitions int, visit visitor,
) (read int, err error) {
	for n := range int32(partitions) {
		p, err := engine.NewProcessor(d.o.Settings,
			engine.Partition{Topic: d.o.Topics.Raw, Number: n, Of: partitions})
		if err == nil {
			err = d.sample(ctx, n, func(r consumer.Record) error {
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

// ExamineFleet compares the vehicles of the last raw records with the noise of counts, which has a
// scale and is drawn for a number of zones. o are the options of the service that sanitizes.
func ExamineFleet(
	ctx context.Context, o service.Options, zones int, scale float64, tell func(Finding),
) []Finding {
	d := newExamination(run, o, tell)
	d.client = o.Client()
	raw := d.o.Topics.Raw
	vehicles, fixes := map[string]bool{}, 0
	d.wait(ctx)
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	have, err := admin.Partitions(ctx, d.client, d.call, raw)
	if err == nil {
		if twice := engine.OneAccount(d.o.Partitioner, d.o.Source(), have[raw]); twice != nil {
			d.add("counts", Failure, "%v", twice)
		}
		_, err = d.fixes(ctx, have[raw], func(
			_ *engine.Processor, _ int32, _ consumer.Record, fix engine.Fix,
		) error {
			if fix.Usable() {
				vehicles[fix.Raw.UserID], fixes = true, fixes+1
			}
			return nil
		})
	}
	if err != nil || fixes == 0 {
		d.skip("no fix of "+raw+" could be read", "fleet") // Examine says why
		return d.found
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
		d.add("fleet", Warning, "%s, which hides so few. Choose larger zones: on files, "+
			"\"geodither counts\" without --per-day shows which are useful", found)
	} else {
		d.add("fleet", OK, "%s", found)
	}
	return d.found
}

// sample visits the last records of a raw partition.
func (d *examination) sample(
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
func (d *examination) skipped(s *service.Sample, read int) {
	level, advice := OK, ""
	if s.Skipped == s.Seen {
		level, advice = Warning, ": is the section input right?"
	}
	d.add("skipped records", level, "%d of the %d fixes in the last %d records are skipped by a "+
		"rule of the section input%s", s.Skipped, s.Seen, read, advice)
}

// partitioner says how the records that were read came to their partitions, and whether
// that is what the config says.
func (d *examination) partitioner(placed *account.Placement, begun bool) {
	const check = "partitioner"
	by := d.o.Partitioner
	likely, known := placed.Likely()
	switch {
	case placed.Partitions() == 1:
		d.add(check, OK, "%s has one partition, so no record can lie in a wrong one",
			d.o.Topics.Raw)
	case placed.Users() == 0:
		d.add(check, Unchecked, "%s; no record could be looked at yet", by)
	case by == engine.AnyPartitioner && placed.Twice() > 0:
		d.add(check, Warning, "topics.partitioner is any, and %d of %d users were found in more "+
			"than one partition: each partition gives a user a budget of its own. Have every "+
			"producer use one partitioner, and set topics.partitioner to it",
			placed.Twice(), placed.Users())
	case by == engine.AnyPartitioner && known:
		d.add(check, OK, "any: no record is refused for its partition. The %d users found lie "+
			"where %s puts them: set topics.partitioner: %s to have that checked", placed.Users(),
			likely, likely)
	case by == engine.AnyPartitioner:
		d.add(check, OK, "any: no record is refused for its partition. None of the %d users was "+
			"found in two", placed.Users())
	case placed.Mostly(by):
		d.add(check, Failure, "%s", placed.Advice(by, d.o.Topics.Raw, begun))
	case placed.Misplaced(by) > 0:
		d.add(check, Warning, "%d of %d users found lie in another partition than %s puts them, "+
			"and %s: their records would be refused (wrong_partition). Before a first start set "+
			"topics.partitioner to the producers' own; later have every producer use %s",
			placed.Misplaced(by), placed.Users(), by, placed.Explain(by), by)
	default:
		d.add(check, OK, "the %d users found lie where %s puts them", placed.Users(), by)
	}
}

// usersInOnePartition looks for users in two partitions, where no key check keeps them out.
func (d *examination) usersInOnePartition(users *account.Placement) {
	const check = "users' partitions"
	switch {
	case users.Users() == 0:
	case users.Twice() > 0:
		d.add(check, Failure, "input.key_check is off, and %d of %d users were found in more than "+
			"one partition: each partition gives a user a budget of its own. Key the records by "+
			"their user id, and leave input.key_check on", users.Twice(), users.Users())
	default:
		d.add(check, OK, "input.key_check is off, and none of the %d users found is in two "+
			"partitions", users.Users())
	}
}

// placesAndOrder adds the findings on fixes that are sound and lie wrong, or come too late.
func (d *examination) placesAndOrder(s *service.Sample) {
	if s.Fixes == 0 {
		d.skip("no fix could be used", "map", "order")
		return
	}
	share := func(n int) string {
		return fmt.Sprintf("%d of the last %d (%.1f %%)", n, s.Fixes,
			100*float64(n)/float64(s.Fixes))
	}
	level, detail := OK, "all of the last fixes lie on the map"
	if s.Outside > 0 {
		detail = share(s.Outside) + " lie outside the map"
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
	d.add("map", level, "%s", detail)
	switch {
	case float64(s.Late) > lateShare*float64(s.Fixes):
		d.add("order", Warning, "%s are late, of a step before their user's last one in the "+
			"sample: they are not published. A user's fixes have to come in order: are there two "+
			"feeds of the same users?", share(s.Late))
	default:
		d.add("order", OK, "%s are late", share(s.Late))
	}
}

// firstRecords looks at the records with which a start would begin, as the start does.
func (d *examination) firstRecords(ctx context.Context, partitions int) {
	const check = "first records"
	s, err := service.New(d.o)
	if err == nil {
		err = s.LookFirst(ctx, partitions, d.begun)
	}
	if err != nil {
		d.add(check, Failure, "%v", err)
		return
	}
	d.add(check, OK, "a start would not stop at the records with which it begins")
}

// ExamineFirstCounted is the check of the first raw records for a service that counts them.
func ExamineFirstCounted(
	ctx context.Context, o service.Options, c *service.Counting, tell func(Finding),
) {
	d := newExamination("counts", o, tell)
	d.client = o.Client()
	d.wait(ctx)
	d.within(ctx, "counts", func(ctx context.Context) {
		have, err := admin.Partitions(ctx, d.client, d.call, d.o.Topics.Raw)
		var s *service.Service
		if err == nil {
			s, err = service.NewWindows(d.o, c)
		}
		if err == nil {
			err = s.LookFirst(ctx, have[d.o.Topics.Raw], false)
		}
		if err != nil {
			d.add("counts", Failure, "%v", err)
		}
	})
}
