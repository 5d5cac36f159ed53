package service_test

import (
	"errors"
	"strings"
	"testing"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// TestRawTopicIsRemade: a raw topic that is deleted and made again under a service
// at work ends it. Going on at the old offset would leave the new records before
// it out, forever.
func TestRawTopicIsRemade(t *testing.T) {
	w := servicetest.NewWorld(t, 10)
	for range 4 {
		w.Feed(t)
	}
	o := atwork.Options(w, "service")
	a := w.Answers(t, "service")
	r := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed }, r)
	res, err := w.Client.DeleteTopics(t.Context(),
		&kafka.DeleteTopicsRequest{Topics: []string{"raw"}})
	servicetest.OK(t, errors.Join(err, res.Errors["raw"]))
	servicetest.Await(t, "the topic is gone", func() bool {
		return admin.CreateTopics(t.Context(), w.Client, wire.Options{},
			admin.Topic{Name: "raw", Partitions: servicetest.Partitions}) == nil
	})
	if err := r.Wait(t); !errors.Is(err, task.ErrSource) {
		t.Errorf("the service ended with %v", err)
	}
	if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Failure); !strings.Contains(bad, task.ErrSource.Error()) {
		t.Errorf("the doctor finds %s", bad)
	}
	if err := fails(t, o, "(raw-remade)"); !errors.Is(err, task.ErrSource) {
		t.Errorf("the next start ends with %v", err)
	}
}
