package service_test

import (
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/producer"
)

// fails runs a service that must end by itself, and holds its error against what
// it must say.
func fails(t *testing.T, o service.Options, want ...string) error {
	t.Helper()
	r := atwork.Start(t, o, func(s *service.Service) { s.SetPatience(200 * time.Millisecond) })
	err := r.Wait(t)
	if err == nil {
		t.Fatal("the service ends as if all were well")
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q and does not say %q", err, part)
		}
	}
	return err
}

// TestWaitsForBroker: nobody listens at the address; the service logs it, and
// works when somebody does. Asked to stop before, it stops.
func TestWaitsForBroker(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	servicetest.OK(t, err)
	addr, port := listener.Addr().String(), listener.Addr().(*net.TCPAddr).Port
	servicetest.OK(t, listener.Close())
	for _, comes := range []bool{false, true} {
		w := servicetest.World{
			Addr: addr, Dir: t.TempDir(),
			Model: servicetest.NeighbourModel(t, servicetest.Town, 5000, 4),
		}
		o := atwork.Options(&w, "g")
		o.Topics.Create, o.Topics.Partitions = comes, servicetest.Partitions
		r := atwork.Start(t, o, func(s *service.Service) { s.SetPatience(200 * time.Millisecond) })
		servicetest.Await(t, "a line about waiting", func() bool {
			return strings.Contains(r.Log.String(),
				`level=WARN msg="waiting for Kafka and its topics"`) &&
				strings.Contains(r.Log.String(), addr)
		}, r)
		if comes {
			broker, err := devbroker.Start(devbroker.Options{Port: port})
			servicetest.OK(t, err)
			defer broker.Close()
			servicetest.Await(t, "it has its partitions",
				func() bool { return strings.Contains(r.Log.String(), "partitions assigned") }, r)
		}
		r.Stop(t)
	}
}

// TestRefusedAtTheStart: brokers that refuse this client are not waited for before the start is
// over.
func TestRefusedAtTheStart(t *testing.T) {
	broker := httptest.NewTLSServer(nil)
	defer broker.Close()
	connection, err := kafkaconn.New(kafkaconn.Options{TLS: &kafkaconn.TLS{}})
	servicetest.OK(t, err)
	w := servicetest.World{
		Addr: broker.Listener.Addr().String(), Dir: t.TempDir(),
		Model: servicetest.NeighbourModel(t, servicetest.Town, 5000, 4),
	}
	o := atwork.Options(&w, "g")
	o.Connection = connection
	if err := fails(t, o, "authority that this machine does not know"); !wire.IsRefusal(err) {
		t.Errorf("the error is %v", err)
	}
}

// TestFatalErrorEndsTheService: a state in the changelog that cannot be read ends
// the service with an error that names the place and nobody. Another partition's
// records are answered or not; the bad record's is not.
func TestFatalErrorEndsTheService(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	published := w.Answers(t, "bad")
	fix := servicetest.Sentinel()
	rec := servicetest.Record(t, 0, fix)
	p := servicetest.Murmur2Place(rec.Key)
	_, err := w.Feeder.Produce(t.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{Topic: "bad.log", Partition: p},
		Records: []producer.Record{
			{Key: rec.Key, Value: []byte("\x01\x03 no state"), Timestamp: servicetest.StartMS},
			{
				Key: []byte(task.MarkKey), Value: task.AppendMark(nil, task.Mark{
					Partitioner: atwork.Options(w, "bad").PartitionerName(servicetest.Partitions),
				}),
				Timestamp: servicetest.StartMS,
			},
		},
	})
	servicetest.OK(t, err)
	w.Send(t, producer.Record{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp})
	r := atwork.Start(t, atwork.Options(w, "bad"))
	err = r.Wait(t)
	if !errors.Is(err, mechanism.ErrState) || task.RemedyOf(err) != task.Fatal {
		t.Fatalf("the error is %v", err)
	}
	if !strings.Contains(err.Error(), "raw/") || !strings.Contains(err.Error(), "offset 0") {
		t.Errorf("the error %q does not name the place", err)
	}
	secrets := append(servicetest.CoordinateSecrets(fix, w.Model.Grid),
		servicetest.UserSecrets(fix.UserID)...)
	secrets = append(secrets, servicetest.PayloadSecrets(rec.Value, nil)...)
	servicetest.RequireNoLeak(t, "the error", []byte(err.Error()), secrets)
	servicetest.RequireNoLeak(t, "the log", r.Log.Bytes(), secrets)
	if n := published.Read(t); n != 0 {
		t.Errorf("%d records are published", n)
	}
}

// TestSettingsChangedAfterAKill: the last owner of a partition ran with another
// ε and did not stop cleanly. Going on would show readers of uncommitted records
// two releases of a fix, so the service stops, unless it was told to accept that.
func TestSettingsChangedAfterAKill(t *testing.T) {
	w := servicetest.NewWorld(t, 3)
	published := w.Answers(t, "changed")
	o := atwork.Options(w, "changed")
	before := o
	before.Release.Epsilon *= 2
	for p := range int32(servicetest.Partitions) {
		_, err := w.Feeder.Produce(t.Context(), producer.Batch{
			TopicPartition: producer.TopicPartition{Topic: "changed.log", Partition: p},
			Records: []producer.Record{{
				Key: []byte(task.MarkKey),
				Value: task.AppendMark(nil, task.Mark{
					Open: true, Settings: before.Fingerprint(),
					Partitioner: o.PartitionerName(servicetest.Partitions),
				}),
				Timestamp: servicetest.StartMS,
			}},
		})
		servicetest.OK(t, err)
	}
	w.Feed(t)
	err := fails(t, o, "(settings-changed)", "What differs: release.epsilon")
	if !errors.Is(err, task.ErrSettings) {
		t.Errorf("the error is %v", err)
	}
	if n := published.Read(t); n != 0 {
		t.Errorf("%d records are published", n)
	}
	o.AcceptSettings = true
	r := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, r)
	r.Stop(t)
	r = atwork.Start(t, before) // after a clean stop any settings will do
	w.Feed(t)
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, r)
	r.Stop(t)
}

// TestOldMessageFormats: records of brokers before Kafka 0.11 are not damaged. The service ends
// with the name of their format, and with what to do.
func TestOldMessageFormats(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1),
		kfake.GroupMinSessionTimeout(time.Second))
	servicetest.OK(t, err)
	t.Cleanup(cluster.Close)
	w := servicetest.NewWorldAt(t, cluster.ListenAddrs()[0], 3)
	w.Feed(t)
	// A message of format 0 without key and value: offset, size, CRC, format, compression, lengths.
	old := append(make([]byte, 11), 14, 0x1a, 0xd4, 0xb5, 0x2a, 0, 0)
	old = append(old, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked := r.(*kmsg.FetchRequest).Topics[0]
		if asked.Topic != "raw" {
			return nil, nil, false
		}
		res := r.ResponseKind().(*kmsg.FetchResponse)
		part := kmsg.NewFetchResponseTopicPartition()
		part.Partition, part.RecordBatches = asked.Partitions[0].Partition, old
		part.HighWatermark, part.LastStableOffset = 1, 1
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.Partitions = "raw", append(topic.Partitions, part)
		res.Topics = append(res.Topics, topic)
		return res, nil, true
	})
	err = fails(
		t,
		atwork.Options(w, "old"),
		"fetch raw/",
		"message format 0, older than Kafka 0.11",
		"copy its records to another topic",
	)
	if strings.Contains(err.Error(), "corrupt") {
		t.Errorf("the error is %v", err)
	}
}
