package service_test

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas"
)

// twoProducers feeds every user by murmur2, and six of them by librdkafka's default too.
// It returns how many records of the latter lie elsewhere.
func twoProducers(tb testing.TB, w *servicetest.World, steps int) (misplaced int) {
	tb.Helper()
	all := servicetest.Users(len(w.Cells))
	for range steps {
		w.FeedBy(tb, servicetest.Murmur2Place, 0, all...)
		w.FeedBy(tb, servicetest.CRC32Place, 30_000, all[:6]...)
		for _, user := range all[:6] {
			if servicetest.CRC32Place(user) != servicetest.Murmur2Place(user) {
				misplaced++
			}
		}
		w.Step++
	}
	return misplaced
}

// TestTwoProducersOneBudget: of users whose records come by two partitioners no more
// than the budget is published, and a rerun and a verification give the same. With the
// check turned off the service does not start.
func TestTwoProducersOneBudget(t *testing.T) {
	t.Parallel()
	const steps, budget = 8, 5
	w := servicetest.NewWorld(t, 24)
	misplaced := twoProducers(t, w, steps)
	o := atwork.Options(w, "first")
	o.Release.Budget = mechanism.Budget{
		Epsilon: budget, WindowSteps: 60, Spent: mechanism.SpentPredict,
	}
	a := w.Answers(t, o.Group)
	running := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered",
		func() bool { return a.Read(t) >= w.Fed }, running)
	running.Stop(t)
	spent := w.Spent(t, "first.out")
	if len(spent) != 24 {
		t.Errorf("%d users are published, want 24", len(spent))
	}
	for user, sum := range spent {
		if sum != budget {
			t.Errorf("ε %v are published of %s, want the budget, %v", sum, user, budget)
		}
	}
	if got := w.Reasons(t, a.Dead); !maps.Equal(got, map[schemas.Reason]int{
		schemas.ReasonWrongPartition: misplaced,
	}) {
		t.Errorf("the dead letters are %v, want %d of wrong_partition", got, misplaced)
	}
	if got := o.Counters.Snapshot(); got.Misplaced != int64(misplaced) ||
		got.DeadLetters != int64(misplaced) {
		t.Errorf("counted %+v", got)
	}
	said := running.Log.String()
	if !strings.Contains(said, "wrong_partition") || strings.Contains(said, "vehicle-0") {
		t.Errorf("the log says\n%s", said)
	}
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("it is not verified: %+v", report)
	}

	again := o
	again.Group, again.Topics, again.StateDir = "again", servicetest.Topics("again"), w.Dir+"/again"
	again.Counters, again.MaxRecords = new(engine.Counters), 1000
	b := w.Answers(t, again.Group)
	rerun := atwork.Start(t, again)
	servicetest.Await(t, "the rerun has answered everything",
		func() bool { return b.Read(t) >= w.Fed }, rerun)
	rerun.Stop(t)
	servicetest.RequireSame(t, a.Out, b.Out)
	for p := range a.Dead.Lines {
		if len(a.Dead.Lines[p]) != len(b.Dead.Lines[p]) {
			t.Errorf("partition %d: a rerun has %d dead letters, want %d",
				p, len(b.Dead.Lines[p]), len(a.Dead.Lines[p]))
		}
	}

	// Without the check a budget would be exceeded, so that is refused. Without a budget it works.
	blind := again
	blind.Group, blind.Topics, blind.StateDir = "blind", servicetest.Topics("blind"), w.Dir+"/blind"
	blind.Counters, blind.Partitioner = new(engine.Counters), engine.AnyPartitioner
	if err := fails(t, blind, "topics.partitioner: any"); !errors.Is(err, engine.ErrTwoAccounts) {
		t.Errorf("without the check the service ends with %v", err)
	}
	blind.Release.Budget = mechanism.Budget{}
	c := w.Answers(t, blind.Group)
	unchecked := atwork.Start(t, blind)
	servicetest.Await(t, "the unchecked run has answered everything",
		func() bool { return c.Read(t) >= w.Fed }, unchecked)
	unchecked.Stop(t)

	// Inspect finds both states of such a user, and doctor both partitions.
	for _, user := range servicetest.Users(6) {
		if servicetest.CRC32Place(user) == servicetest.Murmur2Place(user) {
			continue
		}
		got, err := account.User(t.Context(), atwork.AccountOptions(blind), string(user))
		servicetest.OK(t, err)
		if len(got.Elsewhere) != 1 || got.EpsilonSpentAll != 2*steps ||
			got.EpsilonSpent != steps || got.Elsewhere[0].EpsilonSpent != steps ||
			got.Partition == got.Elsewhere[0].Partition {
			t.Errorf("a user in two partitions is inspected as %+v", got)
		}
		got, err = account.User(t.Context(), atwork.AccountOptions(o), string(user))
		servicetest.OK(t, err)
		if len(got.Elsewhere) != 0 || got.EpsilonSpentAll != budget ||
			got.Partition != servicetest.Murmur2Place(user) {
			t.Errorf("a user in one partition is inspected as %+v", got)
		}
	}
	if said := atwork.Details(service.Examine(t.Context(), blind, nil, nil),
		checks.Warning); !strings.Contains(said, "were found in more than one partition") {
		t.Errorf("doctor says of any: %s", said)
	}
	if said := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Warning); !strings.Contains(said, "partitioner: ") ||
		!strings.Contains(said, "crc32 (the default of librdkafka) puts them there") {
		t.Errorf("doctor says of murmur2: %s", said)
	}
}

// TestAnotherPartitionerLater: a service that waits at an empty topic stops when records
// come that another partitioner has placed, as cleanly as at a signal: with the right
// setting it goes on at once, and nobody's state is lost.
func TestAnotherPartitionerLater(t *testing.T) {
	w := servicetest.NewWorld(t, 40)
	o := atwork.Options(w, "first")
	a := w.Answers(t, o.Group)
	r := atwork.Start(t, o)
	servicetest.Await(t, "it has its partitions",
		func() bool { return strings.Contains(r.Log.String(), "partitions assigned") }, r)
	w.FeedBy(t, servicetest.CRC32Place, 0, servicetest.Users(40)...)
	if err := r.Wait(t); !errors.Is(err, service.ErrPartitioner) {
		t.Fatalf("the service ends with %v", err)
	}
	// What was answered before it was known is right under both partitioners, or refused.
	if before := a.Read(t); before >= w.Fed {
		t.Errorf("all %d records were answered", before)
	}
	o.Partitioner = engine.CRC32
	r = atwork.Start(t, o)
	w.FeedBy(t, servicetest.CRC32Place, 60_000, servicetest.Users(40)...)
	servicetest.Await(t, "the second fixes are answered", func() bool {
		a.Read(t)
		counts := map[int64]int{}
		for _, lines := range a.Out.Lines {
			for _, l := range lines {
				s, err := w.Codec.DecodeSanitized([]byte(l.Value))
				servicetest.OK(t, err)
				counts[s.Timestamp]++
			}
		}
		return counts[servicetest.StartMS+60_000] == 40
	}, r)
	r.Stop(t)
	if strings.Contains(r.Log.String(), "(settings-changed)") {
		t.Errorf("the stop was not clean:\n%s", r.Log)
	}
}

// TestProbationEnds: after a partition's first records a wrong producer stops nobody,
// the partition's owner then.
func TestProbationEnds(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 40)
	o := atwork.Options(w, "first")
	for range 12 { // 480 records, 100 and more in each partition
		w.FeedBy(t, servicetest.Murmur2Place, 0, servicetest.Users(40)...)
		w.Step++
	}
	a := w.Answers(t, o.Group)
	service := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered",
		func() bool { return a.Read(t) >= w.Fed }, service)
	for i := range 3 {
		w.FeedBy(t, servicetest.CRC32Place, int64(i), servicetest.Users(40)...)
		servicetest.Await(t, "the others are answered",
			func() bool { return a.Read(t) >= w.Fed }, service)
		service.Stop(t)
		if i == 1 {
			servicetest.OK(t, os.RemoveAll(o.StateDir))
		}
		service = atwork.Start(t, o)
	}
	service.Stop(t)
	if got := w.Reasons(t, a.Dead)[schemas.ReasonWrongPartition]; got < 60 {
		t.Errorf("%d records were refused for their partition", got)
	}
}
