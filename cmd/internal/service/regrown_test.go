package service_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/task"
)

// regrown has a cluster answer as if every log had lost its end from an offset on while its leaders
// were those of an epoch, and had grown again since under others.
func regrown(cluster *kfake.Cluster, epoch int32, lost int64) {
	cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(r kmsg.Request) (
		kmsg.Response, error, bool,
	) {
		cluster.KeepControl()
		asked := r.(*kmsg.OffsetForLeaderEpochRequest)
		if asked.Topics[0].Partitions[0].LeaderEpoch > epoch {
			return nil, nil, false
		}
		res := asked.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = asked.Topics[0].Topic
		part := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		part.Partition = asked.Topics[0].Partitions[0].Partition
		part.LeaderEpoch, part.EndOffset = asked.Topics[0].Partitions[0].LeaderEpoch, lost
		topic.Partitions = append(topic.Partitions, part)
		res.Topics = append(res.Topics, topic)
		return res, nil, true
	})
}

// TestRegrownRawTopic: a raw log that lost its end and has grown beyond the committed offset again
// stops the service, at its start and at work, and doctor says it. Otherwise the records between
// would never be processed.
func TestRegrownRawTopic(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1),
		kfake.BrokerConfigs(map[string]string{"log.retention.ms": "-1"}))
	servicetest.OK(t, err)
	t.Cleanup(cluster.Close)
	w := servicetest.NewWorldAt(t, cluster.ListenAddrs()[0], 12)
	o := atwork.Options(w, "regrown")
	elect := func() {
		for p := range int32(servicetest.Partitions) {
			servicetest.OK(t, cluster.MoveTopicPartition("raw", p, 0))
		}
		w.Feed(t)
	}
	a := w.Answers(t, o.Group)
	r := atwork.Start(t, o)
	w.Feed(t)
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed }, r)
	elect() // a clean one
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed }, r)
	regrown(cluster, 1, 1)
	elect()
	for _, err := range []error{r.Wait(t), fails(t, o, "has grown "+
		"again", "(input-lost)")} {
		if !errors.Is(err, task.ErrInputLost) {
			t.Errorf("the service ended with %v", err)
		}
	}
	if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Failure); !strings.Contains(
		bad,
		task.ErrInputLost.Error(),
	) {
		t.Errorf("doctor finds %q", bad)
	}
	o.SkipLost = true
	r = atwork.Start(t, o)
	servicetest.Await(t, "it has accepted the loss", func() bool {
		for _, m := range w.LastMarks(t, o.Topics.Changelog) {
			if !m.Lost {
				return false
			}
		}
		return true
	}, r)
	r.Stop(t)
	o.SkipLost = false
	atwork.Process(t, w, o, 1)
}

// TestCommittedOffsetIsOutside: doctor fails where the raw topic does not hold the group's offset.
func TestCommittedOffsetIsOutside(t *testing.T) {
	t.Parallel()
	w := atwork.Served(t, 6, 5)
	o := atwork.Options(w, "first")
	for p := range int32(servicetest.Partitions) {
		w.Feed(t)
		w.DeleteRecords(t, "raw", p, -1)
	}
	if bad := atwork.Details(service.Examine(t.Context(), o, nil, nil),
		checks.Failure); !strings.Contains(
		bad,
		"the input begins at",
	) {
		t.Errorf("doctor finds %q", bad)
	}
}
