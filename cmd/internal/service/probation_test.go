package service

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer"
)

// TestProbationOfUnfitRecords: where records say nothing of the partitioner, some are
// looked at and not all: each start would read them again.
func TestProbationOfUnfitRecords(t *testing.T) {
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)).WithDefaults()
	p, err := newProbation(o, servicetest.Partitions)
	servicetest.OK(t, err)
	p.begin(0, 0)
	unfit := make([]consumer.Record, 1000)
	for at := int64(0); !p.over(0); at += 1000 {
		if at == probationLooks {
			t.Fatalf("%d records have been looked at", at)
		}
		for i := range unfit {
			unfit[i] = consumer.Record{Offset: at + int64(i), Key: []byte("u"), Value: []byte("{")}
		}
		p.look(0, at, at+1000, unfit)
		if at+1000 < probationLooks && p.over(0) {
			t.Fatalf("%d records are enough", at+1000)
		}
	}
	if err := p.verdict(); err != nil {
		t.Error(err)
	}
}

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
	s.probation, err = newProbation(s.options, servicetest.Partitions)
	servicetest.OK(t, err)
	network.Cut()
	done := make(chan error, 1)
	go func() { done <- s.lookFirst(t.Context(), 0) }()
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
	if err := s.checkPlacement(t.Context()); !errors.Is(err, ErrPartitioner) {
		t.Errorf("with brokers the look ends with %v", err)
	}
}

// TestProbationOfOthers: records that another instance has had in the meantime end the
// probation of a partition here, and fetching again counts nothing twice.
func TestProbationOfOthers(t *testing.T) {
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)).WithDefaults()
	p, err := newProbation(o, servicetest.Partitions)
	servicetest.OK(t, err)
	p.begin(0, 10)
	p.look(0, 10, 20, nil)
	p.look(0, 15, 25, nil) // again, after a rebuild
	if p.over(0) || p.parts[0].next != 25 {
		t.Errorf("the probation of a partition is %+v", p.parts[0])
	}
	p.look(0, 30, 40, nil)
	if !p.over(0) {
		t.Error("a gap that another instance has filled does not end it")
	}
	for _, o := range []Options{anywhere(o), o} {
		if p, err := newProbation(o, 1); err != nil || p != nil {
			t.Errorf("one partition is on probation: %v", err)
		}
	}
}
