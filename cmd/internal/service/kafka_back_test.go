package service_test

import (
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
)

// TestKafkaIsBack: an outage under a working service has one line at its begin and one at
// its end, however many partitions it has, and work goes on.
func TestKafkaIsBack(t *testing.T) {
	w := servicetest.NewWorld(t, 5)
	o := atwork.Options(w, "outage")
	published := w.Answers(t, o.Group)
	w.Feed(t)
	var network servicetest.Network
	r := atwork.Start(t, o, func(s *service.Service) { s.SetClient(network.Client(w.Addr)) })
	servicetest.Await(t, "it works", func() bool { return published.Read(t) >= w.Fed }, r)
	if said := r.Log.String(); strings.Contains(said, "calls to Kafka") {
		t.Errorf("an outage is seen where none is:\n%s", said)
	}
	for n := 1; n <= 2; n++ {
		network.Cut()
		servicetest.Await(t, "a line that Kafka is away", func() bool {
			return strings.Count(r.Log.String(), `level=WARN msg="calls to Kafka fail:`) == n
		}, r)
		w.Feed(t)
		network.Mend()
		servicetest.Await(t, "a line that Kafka is back", func() bool {
			return strings.Count(r.Log.String(),
				`level=INFO msg="contact restored: Kafka is back" away=`) == n
		}, r)
		servicetest.Await(t, "it works again", func() bool { return published.Read(t) >= w.Fed }, r)
	}
	r.Stop(t)
	if said := r.Log.String(); strings.Count(said, "calls to Kafka fail:") != 2 ||
		strings.Count(said, "Kafka is back") != 2 {
		t.Errorf("two outages have other lines than two and two:\n%s", said)
	}
}
