package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas/mapping"
)

// ErrPartitioner says that the raw topic's first records mostly lie in other partitions
// than the configured partitioner puts them.
var ErrPartitioner = errors.New("the producers of the raw topic use another partitioner")

// probationRecords is how many of a partition's first records under the settings in force
// are looked at before the partition is trusted.
const probationRecords = 100

// probationLooks is how many records are looked at for that, in each partition: most may be
// unfit to say anything, and each start looks at them again.
const probationLooks = 10_000

// probation looks at the first records of the raw topic, so that a service whose
// partitioner is not the producers' stops instead of refusing most of what it reads.
//
// The first records are those from the offset on at which the settings came into force,
// which the changelog's mark has. So a restart looks at the same records again. Those
// that are there when the service starts are looked at before it joins its group:
// nothing is released or refused then. Where there are fewer, each partition's next
// records are looked at when they are fetched, before any of them is processed. The
// evidence of all partitions is one, since it is about the producers.
//
// A partition's later records are judged one by one and never stop the service: a
// single producer that is set up wrongly must not stop everybody.
type probation struct {
	by    engine.Partitioner
	topic string
	begun bool                       // users may have states by now
	sound func(consumer.Record) bool // it would be accepted, apart from its place

	mu    sync.Mutex
	seen  *account.Placement
	parts []probationer // by partition
}

// probationer is what is left to do for one partition.
type probationer struct {
	left int   // sound records to look at
	most int   // records to look at, sound or not
	next int64 // offset of the first that was not looked at
}

// newProbation makes one for a raw topic. It is nil where no record can be misplaced.
func newProbation(o Options, partitions int) (*probation, error) {
	if o.Partitioner == engine.AnyPartitioner || partitions == 1 {
		return nil, nil //nolint:nilnil // there is nothing to look at
	}
	reader, err := engine.NewReader(o.Source())
	if err != nil {
		return nil, err
	}
	p := &probation{
		by: o.Partitioner, topic: o.Topics.Raw,
		seen: account.NewPlacement(partitions), parts: make([]probationer, partitions),
	}
	p.sound = func(r consumer.Record) (sound bool) {
		err := reader.Each(topics.Record(r), func(fix engine.Fix) error {
			sound = sound || fix.Refused == nil && fix.Skipped == mapping.NoRule
			return nil
		})
		return sound && err == nil
	}
	return p, nil
}

// begin says from which offset on a partition's first records lie.
func (p *probation) begin(partition int32, at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts[partition] = probationer{left: probationRecords, most: probationLooks, next: at}
}

// look takes the records of a partition from an offset on and up to next, in order.
func (p *probation) look(partition int32, at, next int64, records []consumer.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	part := &p.parts[partition]
	if at > part.next {
		part.left = 0 // another instance had the partition meanwhile, and has looked
	}
	for _, r := range records {
		if part.left == 0 {
			break
		}
		if r.Offset < part.next {
			continue
		}
		if p.sound(r) {
			part.left--
			p.seen.Add(r.Key, partition)
		}
		if part.most--; part.most == 0 {
			part.left = 0
		}
	}
	part.next = max(part.next, next)
}

// verdict is an ErrPartitioner if what was looked at is mostly misplaced.
func (p *probation) verdict() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.seen.Mostly(p.by) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrPartitioner, p.seen.Advice(p.by, p.topic, p.begun))
}

// over reports whether nothing is left to look at in a partition.
func (p *probation) over(partition int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parts[partition].left == 0
}

// checkPlacement looks at the first records that the raw topic has by now, and keeps
// what is left to look at for the partitions' tasks. It comes before the group is
// joined, so nothing is released or refused when it fails.
//
// Before that it makes sure that no user would have a second account.
func (s *Service) checkPlacement(ctx context.Context) error {
	if err := s.options.OneAccount(int(s.partitions)); err != nil {
		return err
	}
	begun := false
	err := s.patiently(ctx, func() (err error) {
		begun, err = account.CheckPartitioner(ctx, s.client, s.options.Settings,
			s.options.Topics.Changelog, s.partitions)
		return err
	})
	if errors.Is(err, task.ErrPartitioner) && s.options.AcceptLost {
		s.log.Warn("--accept-lost-account is set and topics.partitioner has changed: the accounts "+
			"of ε of users who move to another partition start at 0 and add to what was "+
			"spent before", "cause", task.Facts(err))
		err = nil
	}
	if err != nil {
		return err
	}
	return s.lookAtRaw(ctx, begun)
}

// lookAtRaw is the part of checkPlacement about the raw topic. begun says that users may have
// states.
func (s *Service) lookAtRaw(ctx context.Context, begun bool) (err error) {
	if s.probation, err = newProbation(s.options, int(s.partitions)); err != nil ||
		s.probation == nil {
		return err
	}
	s.probation.begun = begun
	for n := range s.partitions {
		if err := s.lookFirst(ctx, n); err != nil {
			return fmt.Errorf("partition %d of %s: %w", n, s.options.Topics.Raw, err)
		}
	}
	return s.probation.verdict()
}

// lookFirst looks at the first records of one partition.
func (s *Service) lookFirst(ctx context.Context, n int32) error {
	f, err := consumer.NewFetcher(s.client, s.options.Topics.Raw, n, consumer.FetcherOptions{
		Options: wire.Options{RetryTimeout: s.patience},
	})
	if err != nil {
		return err
	}
	var first, end, from int64
	err = s.patiently(ctx, func() (err error) {
		if first, end, err = f.Bounds(ctx); err != nil {
			return err
		}
		from, err = s.firstOffset(ctx, n, first)
		return err
	})
	if err != nil || from < first {
		return err // retention has removed some since they were processed, and so looked at
	}
	s.probation.begin(n, from)
	for at := from; at < end && !s.probation.over(n); {
		var got consumer.Fetched
		err := s.patiently(ctx, func() (err error) {
			got, err = f.Fetch(ctx, at)
			return err
		})
		if err != nil {
			return err
		}
		s.probation.look(n, at, got.Next, got.Records)
		at = got.Next
	}
	return nil
}

// patiently calls Kafka again, as long as that may help, and logs it.
func (s *Service) patiently(ctx context.Context, call func() error) error {
	return until(ctx, call, func(err error) bool { return errors.Is(err, wire.ErrTemporary) },
		func(cause error, wait time.Duration) {
			s.log.Warn("waiting to look at the first raw records", "cause", cause,
				"next_look_in", wait)
		})
}

// firstOffset is the raw offset from which on a partition is processed under the
// settings in force: the changelog's last mark has it, or says where other settings end.
// A partition without a mark begins at the group's offset, where somebody has chosen
// one, or at the first record.
func (s *Service) firstOffset(ctx context.Context, n int32, first int64) (int64, error) {
	t := s.options.Topics
	mark, found, err := topics.LastMark(ctx, s.client, t.Changelog, n)
	switch {
	case err != nil:
		return 0, err
	case found && bytes.Equal(mark.Settings, s.job.Fingerprint()):
		return mark.Since, nil
	case found:
		return max(mark.Input, first), nil
	}
	at, chosen, err := consumer.Committed(ctx, s.client, wire.Options{RetryTimeout: s.patience},
		s.options.Group, t.Raw, n)
	switch {
	case errors.Is(err, wire.ErrTemporary):
		return first, nil // an instance was killed in its first transaction: nothing is committed
	case err != nil:
		return 0, err
	case chosen:
		return max(at, first), nil
	}
	return first, nil
}

// guarded is an input whose records are looked at before any of them is processed, as
// long as the raw topic is on probation. When the verdict is against the topic, it has
// the service stop and delivers nothing more: the tasks end as at a signal, with what was
// delivered before, so the settings can be changed afterwards without --accept-settings.
type guarded struct {
	*partitionLog
	probation *probation
	partition int32
	fail      func(error)
	over      bool
}

// Fetch implements task.Log.
func (g *guarded) Fetch(ctx context.Context, offset int64, wait time.Duration) (
	task.Batch, error,
) {
	batch, err := g.partitionLog.Fetch(ctx, offset, wait)
	if err != nil || g.over {
		return batch, err
	}
	g.probation.look(g.partition, offset, batch.Next, g.fetched)
	if err := g.probation.verdict(); err != nil {
		g.fail(err)
		<-ctx.Done()
		return task.Batch{}, readRemedy(ctx.Err())
	}
	g.over = g.probation.over(g.partition)
	return batch, nil
}
