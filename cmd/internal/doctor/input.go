package doctor

import (
	"context"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/consumer/admin"
)

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
