package service_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/erase"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
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
// anything. Nothing advises the change.
func TestPartitionerIsChanged(t *testing.T) {
	t.Parallel()
	const budget = 5
	w, o, a := switched(t)
	changed := o
	changed.Partitioner = engine.CRC32
	before := a.Read(t)
	for range 2 {
		err := fails(t, changed, `"murmur2, 4 partitions"`, `"crc32, 4 partitions"`,
			"(partitioner-changed)")
		if !errors.Is(err, task.ErrPartitioner) || strings.Contains(err.Error(), "vehicle") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("the service ends with %v", err)
		}
	}
	if n := a.Read(t); n != before {
		t.Errorf("%d answers have become %d", before, n)
	}
	if said := atwork.Details(service.Examine(t.Context(), changed, nil, nil),
		checks.Failure); !strings.Contains(said, task.ErrPartitioner.Error()) {
		t.Errorf("doctor says %s", said)
	}
	// The old settings go on. Doctor names the producers' partitioner and does not advise it.
	for _, level := range []string{checks.Failure, checks.Warning, checks.OK} {
		if said := atwork.Details(service.Examine(t.Context(), o, nil, nil),
			level); strings.Contains(said, "set topics.partitioner: crc32") {
			t.Errorf("doctor advises the change: %s", said)
		}
	}
	if said := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Failure); !strings.Contains(said, "Another partitioner would start") {
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

// TestErasedAndMoved: where all users were erased there is no state, and another partitioner is
// refused all the same, since their accounts are kept. Accepted, state inspect shows the account
// that is kept beside the new state.
func TestErasedAndMoved(t *testing.T) {
	t.Parallel()
	const budget = 2
	w := servicetest.NewWorld(t, 8)
	users := servicetest.Users(8)
	o := atwork.Options(w, "first")
	o.Release.Budget = mechanism.Budget{
		Epsilon: budget, WindowSteps: 60, Spent: mechanism.SpentPredict,
	}
	feed := func(place func([]byte) int32) {
		for range 4 {
			w.FeedBy(t, place, 0, users...)
			w.Step++
		}
	}
	feed(servicetest.Murmur2Place)
	atwork.Serve(t, w, o, 0)
	names := make([]string, len(users))
	for i, user := range users {
		names[i] = string(user)
	}
	erased, err := erase.Run(t.Context(), erase.Options{
		Settings: o.Settings, Cluster: o.Cluster, StateDir: o.StateDir, Users: names,
	})
	servicetest.OK(t, err)
	if len(erased.Receipts) != len(users) {
		t.Fatalf("%d of %d users are erased", len(erased.Receipts), len(users))
	}
	feed(servicetest.CRC32Place)
	moved := o
	moved.Partitioner = engine.CRC32
	if err := fails(t, moved, "(partitioner-changed)"); !errors.Is(err, task.ErrPartitioner) {
		t.Errorf("the service ends with %v", err)
	}
	if said := atwork.Details(service.Examine(t.Context(), moved, nil, nil),
		checks.Failure); !strings.Contains(said, "accounts' places: users would move away") {
		t.Errorf("doctor says %s", said)
	}
	if sums := w.Spent(t, "first.out"); len(sums) != len(users) || sums[names[0]] != budget {
		t.Errorf("%v are published", sums)
	}
	moved.AcceptLost = true
	atwork.Serve(t, w, moved, 0)
	for i, user := range users {
		if servicetest.CRC32Place(user) == servicetest.Murmur2Place(user) {
			continue
		}
		got, err := account.User(t.Context(), atwork.AccountOptions(moved), names[i])
		servicetest.OK(t, err)
		if len(got.Kept) != 1 || got.Kept[0].Partition != servicetest.Murmur2Place(user) ||
			got.Kept[0].EpsilonSpent != budget || got.EpsilonSpent != budget ||
			got.EpsilonSpentAll != 2*budget || *got.EpsilonWindowAll != 2*budget {
			t.Errorf("a user who was erased and moved is inspected as %+v", got)
		}
	}
}

// TestGrownTopics: a service does not go on after all its topics were given more partitions, which
// moves users as another partitioner does.
func TestGrownTopics(t *testing.T) {
	w := servicetest.NewWorld(t, 4)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 2)
	var grown []kafka.TopicPartitionsConfig
	for _, topic := range o.WithDefaults().Topics.Names() {
		grown = append(grown, kafka.TopicPartitionsConfig{
			Name: topic, Count: servicetest.Partitions + 1,
		})
	}
	res, err := w.Client.CreatePartitions(t.Context(),
		&kafka.CreatePartitionsRequest{Topics: grown})
	servicetest.OK(t, err)
	for topic, err := range res.Errors {
		if err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
	}
	if err := fails(t, o, "4 partitions", "5 partitions"); !errors.Is(err, task.ErrPartitioner) {
		t.Errorf("the service ends with %v", err)
	}
}

// TestTwoAccountsRefused: a service with a budget does not start where nothing keeps a user in one
// partition, and doctor names the setting. With one partition it starts.
func TestTwoAccountsRefused(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 4)
	w.Feed(t)
	for name, change := range map[string]func(*service.Options){
		"topics.partitioner: any": func(o *service.Options) {
			o.Partitioner = engine.AnyPartitioner
		},
		"input.key_check: off": func(o *service.Options) {
			*o = mappedOptions(t, w, o.Group, mapping.Options{
				Preset: mapping.OwnTracks, KeyCheck: mapping.KeyCheckOff,
			})
		},
	} {
		o := atwork.Options(w, "first")
		change(&o)
		o.Release.Budget = mechanism.Budget{Lifetime: 9}
		if err := fails(t, o, name); !errors.Is(err, engine.ErrTwoAccounts) {
			t.Errorf("%s: the service ends with %v", name, err)
		}
		if said := atwork.Details(service.Examine(t.Context(), o, nil, nil),
			checks.Failure); !strings.Contains(said, name) {
			t.Errorf("%s: doctor says %s", name, said)
		}
	}
	servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
		admin.Topic{Name: "one", Partitions: 1}))
	o := atwork.Options(w, "one")
	o.Topics.Raw, o.Partitioner = "one", engine.AnyPartitioner
	o.Release.Budget = mechanism.Budget{Lifetime: 9}
	r := atwork.Start(t, o)
	servicetest.Await(t, "it has its partition",
		func() bool { return strings.Contains(r.Log.String(), "partitions assigned") }, r)
	r.Stop(t)
	if said := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Failure); strings.Contains(said, "two accounts") {
		t.Errorf("doctor says of one partition: %s", said)
	}
}

// TestSpelledKeys: records of a user under two spellings of the key lie in two partitions. One
// spelling is accepted, and its partition is checked by the key's bytes, so a user has one budget.
// Another spelling in the config is another partitioner.
func TestSpelledKeys(t *testing.T) {
	t.Parallel()
	const budget, vehicles, steps = 2, 12, 5
	w := servicetest.NewWorld(t, 0)
	spelled := func(key mapping.Key) service.Options {
		o := mappedOptions(t, w, "first", mapping.Options{
			Format: mapping.JSON, User: mapping.User{Path: "device"}, Latitude: "lat",
			Longitude: "lon", Timestamp: mapping.Time{Path: "at", Unit: schemas.Milliseconds},
			Key: key,
		})
		o.Release.Budget = mechanism.Budget{
			Epsilon: budget, WindowSteps: 60, Spent: mechanism.SpentPredict,
		}
		return o
	}
	apart := 0 // users whose two keys belong to two partitions
	for step := range int64(steps) {
		for v := range int64(vehicles) {
			latitude, longitude, ms := fixOf(w, v, step)
			value := fmt.Appendf(nil, `{"device":%d,"lat":%v,"lon":%v,"at":%d}`, v, latitude,
				longitude, ms)
			own, other := fmt.Sprintf(`{"id":%d}`, v), fmt.Sprintf(`{"id": %d}`, v)
			w.Send(t, producer.Record{Key: []byte(own), Value: value, Timestamp: ms},
				producer.Record{Key: []byte(other), Value: value, Timestamp: ms})
			if servicetest.Murmur2Place([]byte(own)) != servicetest.Murmur2Place([]byte(other)) {
				apart++
			}
		}
	}
	if apart == 0 {
		t.Fatal("no user's keys are in two partitions: the test shows nothing")
	}
	latitude, longitude, ms := fixOf(w, 1, steps)
	elsewhere := (servicetest.Murmur2Place([]byte(`{"id":1}`)) + 1) % servicetest.Partitions
	w.Write(t, true, "raw", elsewhere, servicetest.Line{
		Key: `{"id":1}`, Timestamp: ms,
		Value: fmt.Sprintf(`{"device":1,"lat":%v,"lon":%v,"at":%d}`, latitude, longitude, ms),
	})
	w.Fed++
	o := spelled(`json:{"id":*}`)
	a := w.Answers(t, o.Group)
	atwork.Serve(t, w, o, 0)
	a.Read(t)
	if got := w.Reasons(t, a.Dead); got[schemas.ReasonKeyMismatch] != vehicles*steps ||
		got[schemas.ReasonWrongPartition] != 1 || len(got) != 2 {
		t.Errorf("the dead letters are %v", got)
	}
	sums := w.Spent(t, "first.out")
	for user, sum := range sums {
		if sum != budget {
			t.Errorf("ε %v are published of %s, want the budget, %v", sum, user, budget)
		}
	}
	if len(sums) != vehicles {
		t.Errorf("%d users are published", len(sums))
	}
	got, err := account.User(t.Context(), atwork.AccountOptions(o), "1")
	servicetest.OK(t, err)
	if got.Partition != servicetest.Murmur2Place([]byte(`{"id":1}`)) || len(got.Elsewhere) > 0 {
		t.Errorf("a user is inspected as %+v", got)
	}
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("it is not verified: %+v", report)
	}
	if err := fails(t, spelled(`json:{"id": *}`),
		`json:{"id": *}`); !errors.Is(err, task.ErrPartitioner) {
		t.Errorf("under another spelling the service ends with %v", err)
	}
}
