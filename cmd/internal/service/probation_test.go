package service

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
)

// TestProbationWaits: brokers that do not answer while the first records are looked at are
// waited for, as everywhere before the start.
func TestProbationWaits(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 40)
	w.FeedBy(t, servicetest.CRC32Place, 0, servicetest.Users(40)...)
	o, log, network := testOptions(t, w.Model), new(servicetest.Log), new(servicetest.Network)
	o.Brokers, o.Logger = []string{w.Addr}, log.Logger()
	s, err := New(o)
	servicetest.OK(t, err)
	s.client = network.Client(w.Addr)
	s.partitions, s.patience = servicetest.Partitions, time.Second
	s.probation = newProbation(s.options, servicetest.Partitions)
	network.Cut()
	done := make(chan error, 1)
	go func() {
		_, err := s.lookBegin(t.Context(), 0)
		done <- err
	}()
	for deadline := time.Now().Add(servicetest.Patience); ; time.Sleep(time.Millisecond) {
		if strings.Contains(log.String(), "waiting to look at the first raw records") {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("it does not wait: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is said")
		}
	}
	network.Mend()
	servicetest.OK(t, <-done)
	if err := s.LookFirst(t.Context(), servicetest.Partitions, false); !errors.Is(err,
		ErrPartitioner) {
		t.Errorf("with brokers the look ends with %v", err)
	}
}

// TestProbationOfOthers: records that another instance has had in the meantime end the
// probation of a partition here, and fetching again counts nothing twice.
func TestProbationOfOthers(t *testing.T) {
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)).WithDefaults()
	p := newProbation(o, servicetest.Partitions)
	p.begin(0, 10, 10, nil)
	p.judgeRecords(0, 10, 20, nil)
	p.judgeRecords(0, 15, 25, nil) // again, after a rebuild
	if p.over(0) || p.parts[0].next != 25 {
		t.Errorf("the probation of a partition is %+v", p.parts[0])
	}
	p.judgeRecords(0, 30, 40, nil)
	if !p.over(0) {
		t.Error("a gap that another instance has filled does not end it")
	}
}

// TestHeld: held records leave the bounds of the log as they are, and no leader epoch.
func TestHeld(t *testing.T) {
	t.Parallel()
	got := held(task.Batch{
		Records: []task.Record{{Offset: 7}}, Next: 8, StableEnd: 9, End: 10, Epoch: 4,
	}, 7)
	if len(got.Records) > 0 || got.Next != 7 || got.StableEnd != 9 || got.End != 10 ||
		got.Epoch != -1 {
		t.Errorf("%+v", got)
	}
}
