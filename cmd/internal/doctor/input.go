package doctor

import (
	"fmt"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// lateShare is the share of late fixes in a sample above which there is a warning. A
// device that repeats a fix now and then stays below it.
const lateShare = .01

// sampled is what a sample of the raw records shows of their fixes. It holds numbers, and
// of users no more than the last step of each.
type sampled struct {
	refused  engine.Refusals
	fixes    int // that could be used, apart from their place and order
	outside  int // of these, outside the map of their version
	far      int // and beyond its margin
	swapped  int // of those outside, on the map with latitude and longitude swapped
	late     int // of a step before their user's last one in the sample
	seen     int // fixes of whatever sort
	ancient  int // of them, in records whose Kafka timestamp lies before GPS
	skipped  int // of them, by a rule of the section input
	lastStep map[string]int64

	placed *account.Placement // where keys lie
	users  *account.Placement // where users lie, if keys need not be theirs; else nobody
}

func newSampled(partitions int) *sampled {
	return &sampled{
		lastStep: map[string]int64{}, placed: account.NewPlacement(partitions),
		users: account.NewPlacement(partitions),
	}
}

// look takes one fix of a record into account, from partition n.
func (s *sampled) look(
	o service.Options, p *engine.Processor, n int32, r consumer.Record, fix engine.Fix,
) error {
	s.seen++
	if r.Timestamp >= 0 && r.Timestamp <= schemas.FirstGPSMS {
		s.ancient++
	}
	if fix.Skipped != mapping.NoRule {
		s.skipped++
		return nil
	}
	switch {
	case fix.Refused == nil:
		s.placed.Add(r.Key, n)
		if !o.Source().OneKey() {
			s.users.Add([]byte(fix.Raw.UserID), n)
		}
		if o.Day(fix.Raw.Timestamp) >= o.Key.FirstDay() {
			return s.add(p, o.Input, fix.Raw)
		}
		s.refused.Add(schemas.ReasonKeyDestroyed, r.Value)
	case fix.Refused.Reason == schemas.ReasonWrongPartition:
		s.placed.Add(r.Key, n) // where it lies is a finding of its own
	default:
		s.refused.Add(fix.Refused.Reason, r.Value)
	}
	return nil
}

// skipped says how many of the records that were read a rule skips.
func (d *examination) skipped(s *sampled, read int) {
	level, advice := OK, ""
	if s.skipped == s.seen {
		level, advice = Warning, ": is the section input right?"
	}
	d.add("skipped records", level, "%d of the %d fixes in the last %d records are skipped by a "+
		"rule of the section input%s", s.skipped, s.seen, read, advice)
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

// add looks at a fix in the order of its partition, which is its user's order.
func (s *sampled) add(p *engine.Processor, input engine.Input, fix schemas.Raw) error {
	step, place, err := p.Look(fix)
	if err != nil {
		return err
	}
	s.fixes++
	if last, known := s.lastStep[fix.UserID]; known && step < last {
		s.late++
		return nil
	}
	if place.Outside {
		s.outside++
	}
	if place.Swapped {
		s.swapped++
	}
	if place.Far {
		s.far++
		if input.Outside == engine.OutsideDeadLetter {
			return nil // it does not make later ones late
		}
	}
	s.lastStep[fix.UserID] = step
	return nil
}

// report adds the findings on fixes that are sound and lie wrong, or come too late.
func (s *sampled) report(d *examination) {
	if s.fixes == 0 {
		d.skip("no fix could be used", "map", "order")
		return
	}
	share := func(n int) string {
		return fmt.Sprintf("%d of the last %d (%.1f %%)", n, s.fixes,
			100*float64(n)/float64(s.fixes))
	}
	level, detail := OK, "all of the last fixes lie on the map"
	if s.outside > 0 {
		detail = share(s.outside) + " lie outside the map"
		if d.o.Input.Outside == engine.OutsideClamp {
			detail += " and count as in its nearest cell (input.outside: clamp)"
		} else {
			detail += fmt.Sprintf(", %d of them further than one cell: these become dead letters "+
				"(input.outside)", s.far)
		}
	}
	switch {
	case 2*s.swapped > s.outside:
		level = Warning
		detail += ". " + engine.SwappedAdvice
	case float64(s.outside) > engine.OutsideShare*float64(s.fixes):
		level = Warning
		detail += ". Is the map the fleet's? Train a model whose box holds it"
	}
	if s.far == s.fixes && d.o.Input.Outside == engine.OutsideDeadLetter {
		level = Failure // nothing would be published
	}
	d.add("map", level, "%s", detail)
	switch {
	case float64(s.late) > lateShare*float64(s.fixes):
		d.add("order", Warning, "%s are late, of a step before their user's last one in the "+
			"sample: they are not published. A user's fixes have to come in order: are there two "+
			"feeds of the same users?", share(s.late))
	default:
		d.add("order", OK, "%s are late", share(s.late))
	}
}
