package service_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/doctor"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/mechanism"
)

// switched is a world in which a service with a budget of 5 has spent it on each of 40
// users under murmur2, and has stopped cleanly. Then the producers have switched to crc32.
func switched(t *testing.T) (*servicetest.World, service.Options, servicetest.Answers) {
	t.Helper()
	const budget = 5
	w := servicetest.NewWorld(t, 40)
	feed := func(place func([]byte) int32, steps int) {
		for range steps {
			w.FeedBy(t, place, 0, servicetest.Users(40)...)
			w.Step++
		}
	}
	feed(servicetest.Murmur2Place, 12) // 100 records and more in each partition: probation is over
	o := atwork.Options(w, "first")
	o.Release.Budget = mechanism.Budget{
		Epsilon: budget, WindowSteps: 60, Spent: mechanism.SpentPredict,
	}
	a := w.Answers(t, o.Group)
	service := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered",
		func() bool { return a.Read(t) >= w.Fed }, service)
	service.Stop(t)
	feed(servicetest.CRC32Place, 8)
	return w, o, a
}

// TestPartitionerIsChanged: a service whose partitioner is changed stops before it releases
// anything, as long as users would move away from their accounts. Nothing advises the change.
func TestPartitionerIsChanged(t *testing.T) {
	t.Parallel()
	const budget = 5
	w, o, a := switched(t)
	changed := o
	changed.Partitioner = engine.CRC32
	before := a.Read(t)
	for range 2 {
		err := fails(t, changed, "users in first.log", "topics.partitioner: crc32 puts them",
			"put back topics.partitioner: murmur2", "feed a new raw topic",
			"start once with --accept-lost-account")
		if !errors.Is(err, account.ErrMoved) || strings.Contains(err.Error(), "vehicle") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("the service ends with %v", err)
		}
	}
	if n := a.Read(t); n != before {
		t.Errorf("%d answers have become %d", before, n)
	}
	if said := atwork.Details(doctor.Examine(t.Context(), changed, nil),
		doctor.Failure); !strings.Contains(said, account.ErrMoved.Error()) {
		t.Errorf("doctor says %s", said)
	}
	// The old settings go on. Doctor names the producers' partitioner and does not advise it.
	for _, level := range []string{doctor.Failure, doctor.Warning, doctor.OK} {
		if said := atwork.Details(doctor.Examine(t.Context(), o, nil),
			level); strings.Contains(said, "set topics.partitioner: crc32") {
			t.Errorf("doctor advises the change: %s", said)
		}
	}
	if said := atwork.Details(doctor.Examine(t.Context(), o, nil),
		doctor.Failure); !strings.Contains(said, "Another partitioner would start") {
		t.Errorf("doctor says %s", said)
	}
	service := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered",
		func() bool { return a.Read(t) >= w.Fed }, service)
	service.Stop(t)
	for user, sum := range w.Spent(t, "first.out") {
		if sum > budget {
			t.Errorf("ε %v are published of %s, the budget is %v", sum, user, budget)
		}
	}
}

// TestPartitionerIsAccepted: a service that accepts it goes on, and what happens then is what the
// check is for: the independent count finds budgets exceeded. The next start needs no permission.
func TestPartitionerIsAccepted(t *testing.T) {
	const budget = 5
	w, o, a := switched(t)
	o.Partitioner, o.AcceptLost = engine.CRC32, true
	service := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered",
		func() bool { return a.Read(t) >= w.Fed }, service)
	service.Stop(t)
	if !strings.Contains(service.Log.String(), "topics.partitioner has changed") {
		t.Errorf("the log says\n%s", service.Log)
	}
	exceeded, moved := 0, 0
	for _, sum := range w.Spent(t, "first.out") {
		if sum > budget {
			exceeded++
		}
	}
	for _, user := range servicetest.Users(40) {
		if servicetest.CRC32Place(user) != servicetest.Murmur2Place(user) {
			moved++
		}
	}
	if exceeded != moved || moved == 0 {
		t.Errorf("%d budgets are exceeded, and %d users moved", exceeded, moved)
	}
	o.AcceptLost = false
	atwork.Start(t, o).Stop(t)
}

// TestPartitionerAny: any cannot be compared with anything, and says which check it turns off.
// From any to a partitioner that moves nobody is no loss.
func TestPartitionerAny(t *testing.T) {
	w := servicetest.NewWorld(t, 40)
	w.FeedBy(t, servicetest.CRC32Place, 0, servicetest.Users(40)...)
	o := atwork.Options(w, "first")
	a := w.Answers(t, o.Group)
	for i, by := range []engine.Partitioner{engine.CRC32, engine.AnyPartitioner, engine.CRC32} {
		o.Partitioner = by
		if i > 0 {
			w.Step++
			w.FeedBy(t, servicetest.CRC32Place, 0, servicetest.Users(40)...)
		}
		service := atwork.Start(t, o)
		servicetest.Await(t, "everything is answered",
			func() bool { return a.Read(t) >= w.Fed }, service)
		service.Stop(t)
		if said := strings.Contains(service.Log.String(), "turns off the check that every user's "+
			"records stay"); said != (by == engine.AnyPartitioner) {
			t.Errorf("start %d with %s: %t\n%s", i, by, said, service.Log)
		}
	}
	o.Partitioner = engine.Murmur2
	if err := fails(t, o, "put back topics.partitioner: crc32"); !errors.Is(err, account.ErrMoved) {
		t.Errorf("the service ends with %v", err)
	}
}
