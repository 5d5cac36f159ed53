package checks

import (
	"fmt"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// nearlyAll reports whether n of all is nearly all: what is left is within the share that is usual
// outside a map that fits (engine.OutsideShare), and so no sign that the settings are right.
func nearlyAll(n, all int) bool {
	return n > 0 && float64(n) >= (1-engine.OutsideShare)*float64(all)
}

// Judge says what would become of raw records, by each fix alone.
type Judge interface {
	// Fixes returns a record's fixes, with why each is refused or skipped by itself.
	Fixes(rec task.Record) ([]engine.Fix, error)
	// Look says of a sound fix in which step it is, and how it lies to the map.
	Look(fix schemas.Raw) (step int64, place engine.Placement, err error)
}

// Sample is what raw records show before anything comes of them: the one look at a topic, of doctor
// and of the services before they begin. It holds numbers, and of users no more than the last step
// and the partitions of each.
type Sample struct {
	Refused  engine.Refusals // fixes, for what they and their records say
	All      engine.Refusals // as Refused, and for place, order and partition
	Seen     int             // fixes of whatever sort
	Skipped  int             // of them, by a rule
	Ancient  int             // of them, in records whose Kafka timestamp lies before GPS
	Fixes    int             // that could be used, apart from their place and order
	Outside  int             // of these, outside the map of their version
	Far      int             // and beyond its margin
	Swapped  int             // of those outside, on the map with latitude and longitude swapped
	Late     int             // of a step before their user's last one in the sample
	Placed   *account.Placement
	Users    *account.Placement // where users lie, if keys need not be theirs; else nobody
	options  engine.Settings
	good     int // fixes that nothing refuses
	lastStep map[string]int64
}

// NewSample returns an empty one of a raw topic, for a service with these settings.
func NewSample(o engine.Settings, partitions int) *Sample {
	return &Sample{
		options: o, lastStep: map[string]int64{}, Placed: account.NewPlacement(partitions),
		Users: account.NewPlacement(partitions),
	}
}

// Add takes one fix of a record of partition n. It reports whether nothing refuses the fix, or only
// that its day's key is destroyed by now.
func (s *Sample) Add(j Judge, n int32, r consumer.Record, fix engine.Fix) (good bool, err error) {
	s.Seen++
	if r.Timestamp >= 0 && r.Timestamp <= schemas.FirstGPSMS {
		s.Ancient++
	}
	if fix.Skipped != mapping.NoRule {
		s.Skipped++
		return false, nil
	}
	o := &s.options
	if fix.Refused == nil {
		s.place(n, r, fix)
		if o.Key.IsZero() || o.Day(fix.Raw.Timestamp) >= o.Key.FirstDay() {
			return s.usable(j, fix.Raw, r.Value)
		}
		s.Refused.Add(schemas.ReasonKeyDestroyed, r.Value)
		s.All.Add(schemas.ReasonKeyDestroyed, r.Value)
		return true, nil
	}
	switch reason := fix.Refused.Reason; reason {
	case schemas.ReasonWrongPartition:
		s.Placed.Add(r.Key, n) // where it lies is a finding of its own
		s.All.Add(reason, r.Value)
	case schemas.ReasonAfterGrace, schemas.ReasonProducerTime:
		s.Skipped++ // history in a topic says nothing of what follows
	default:
		s.Refused.Add(reason, r.Value)
		s.All.Add(reason, r.Value)
	}
	return false, nil
}

// place notes where a user lies.
func (s *Sample) place(n int32, r consumer.Record, fix engine.Fix) {
	s.Placed.Add(r.Key, n)
	if !s.options.Source().OneKey() {
		s.Users.Add([]byte(fix.Raw.UserID), n)
	}
}

// usable looks at a fix in the order of its partition, which is its user's order.
func (s *Sample) usable(j Judge, fix schemas.Raw, value []byte) (good bool, err error) {
	step, place, err := j.Look(fix)
	if err != nil {
		return false, err
	}
	s.Fixes++
	if last, known := s.lastStep[fix.UserID]; known && step < last {
		s.Late++
		s.All.Add(schemas.ReasonLate, value)
		return false, nil
	}
	if place.Outside {
		s.Outside++
	}
	if place.Swapped {
		s.Swapped++
	}
	if place.Far {
		s.Far++
		if s.options.Input.Outside != engine.OutsideClamp {
			s.All.Add(schemas.ReasonOutsideMap, value)
			return false, nil // it does not make later ones late
		}
	}
	s.good++
	s.lastStep[fix.UserID] = step
	return !place.Swapped, nil
}

// Forgive forgets what would be refused. Of records that are processed by now only the sound ones
// say something of what follows.
func (s *Sample) Forgive() {
	s.Refused, s.All, s.Swapped = engine.Refusals{}, engine.Refusals{}, 0
}

// Judged is how many fixes say whether the topic can be used, and refused how many of them would
// be.
func (s *Sample) Judged() (all, refused int) {
	refused = int(s.All.Total())
	return s.good + refused, refused
}

// Hopeless returns why nearly all fixes would be refused, or lie on the map only if latitude and
// longitude change places, with the numbers; or nothing. At least so many fixes have to be there.
func (s *Sample) Hopeless(least int) string {
	all, refused := s.Judged()
	switch {
	case all < least:
		return ""
	case nearlyAll(s.Swapped, all):
		return fmt.Sprintf(
			"%d of %d would lie on the map if latitude and longitude changed places: "+
				"exchange them in the producers or the section input",
			s.Swapped,
			all,
		)
	case nearlyAll(refused, all):
		why := fmt.Sprintf("%d of %d, %s", refused, all, s.All.String())
		if advice := s.options.Source().Advice(s.All, int64(s.Swapped)); advice != "" {
			why += ": " + advice
		}
		return why
	}
	return ""
}

// TwoPartitions returns an error if users were found in two partitions, where no key check keeps
// them out.
func (s *Sample) TwoPartitions() error {
	if s.Users.Twice() == 0 {
		return nil
	}
	return fmt.Errorf("input.key_check is off, and %d of %d users are in two partitions: key the "+
		"records by user", s.Users.Twice(), s.Users.Users())
}
