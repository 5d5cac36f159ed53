package service_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// TestMissingRawTopicIsAwaited: under topics.create too, a raw topic whose size nobody
// has said is not made but waited for, with the name that was perhaps meant. Nothing else
// is made meanwhile.
func TestMissingRawTopicIsAwaited(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
		admin.Topic{Name: "fleet.raw", Partitions: 2}))
	before := w.TopicNames(t)
	o := atwork.Options(w, "typo")
	o.Topics.Raw = "fleet-rwa"
	r := atwork.Start(t, o, func(s *service.Service) { s.SetPatience(200 * time.Millisecond) })
	servicetest.Await(t, "a line about waiting",
		func() bool { return strings.Contains(r.Log.String(), "waiting for Kafka and its topics") },
		r)
	for _, part := range []string{
		"no such topic: fleet-rwa", "there is fleet.raw: a misspelling?", "(topics-missing)",
	} {
		if !strings.Contains(r.Log.String(), part) {
			t.Errorf("the log does not say %q:\n%s", part, r.Log)
		}
	}
	if after := w.TopicNames(t); !slices.Equal(before, after) {
		t.Errorf("topics were made: %v, then %v", before, after)
	}
	if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Failure); !strings.Contains(bad, "topic: no such topic: fleet-rwa") ||
		!strings.Contains(bad, "there is fleet.raw") {
		t.Errorf("the doctor says: %s", bad)
	}
	servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
		admin.Topic{Name: "fleet-rwa", Partitions: 2}))
	servicetest.Await(t, "it has its partitions",
		func() bool { return strings.Contains(r.Log.String(), "partitions assigned") }, r)
	r.Stop(t)
}

// TestRawTopicIsMadeLoudly: one whose size is said is made, and so are the others, with a
// warning for each.
func TestRawTopicIsMadeLoudly(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	o := atwork.Options(w, "loud")
	o.Topics.Raw, o.Topics.Partitions = "loud.raw", 3
	r := atwork.Start(t, o)
	servicetest.Await(t, "it has its partitions",
		func() bool { return strings.Contains(r.Log.String(), "partitions assigned") }, r)
	r.Stop(t)
	n, err := admin.CoPartitioned(t.Context(), w.Client, wire.Options{}, "loud.raw",
		"loud.out", "loud.log", "loud.dead")
	if err != nil || n != 3 {
		t.Errorf("%d partitions, %v", n, err)
	}
	for _, part := range []string{
		`level=WARN msg="the raw topic was missing and has been made, empty: ` +
			`is topics.raw spelt as the producers have it?" topic=loud.raw partitions=3`,
		`level=INFO msg="a topic was missing and has been made" topic=loud.out`,
		`level=INFO msg="a topic was missing and has been made" topic=loud.log`,
		`level=INFO msg="a topic was missing and has been made" topic=loud.dead`,
	} {
		if strings.Count(r.Log.String(), part) != 1 {
			t.Errorf("the log does not say once %q:\n%s", part, r.Log)
		}
	}
	again := atwork.Start(t, o)
	servicetest.Await(t, "it has its partitions",
		func() bool { return strings.Contains(again.Log.String(), "partitions assigned") }, again)
	again.Stop(t)
	if strings.Contains(again.Log.String(), "has been made") {
		t.Errorf("what is there is said to be made:\n%s", again.Log)
	}
}

// TestOtherRawPartitions: a number that the raw topic does not have is an error that
// names both, with and without the permission to make topics.
func TestOtherRawPartitions(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	for _, create := range []bool{true, false} {
		o := atwork.Options(w, "other")
		o.Topics.Create, o.Topics.Partitions = create, servicetest.Partitions+2
		if err := fails(t, o, "raw has 4, not 6",
			"or topics.partitions: 4"); !errors.Is(err, topics.ErrRawPartitions) {
			t.Errorf("the error is %v", err)
		}
		if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil),
			checks.Failure); !strings.Contains(bad, "raw has 4, not 6") {
			t.Errorf("the doctor says: %s", bad)
		}
		o.Topics.Partitions = servicetest.Partitions
		if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil),
			checks.Failure); strings.Contains(bad, "leave it out, or topics.partitions") {
			t.Errorf("the doctor refuses the raw topic's own number: %s", bad)
		}
	}
}
