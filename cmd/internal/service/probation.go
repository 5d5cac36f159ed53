package service

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// ErrRefused says that nearly all of the raw records that come first would be refused. Nothing of
// them was processed.
var ErrRefused = errors.New("nearly all of the first raw records would be refused")

// leastJudged is how many fixes it takes to judge a topic by them. A fleet of which four fifths are
// refused for good reasons shows 95 refused ones among its first hundred once in 20,000 times, if
// they come in no order.
const leastJudged = 100

// ErrPartitioner says that the raw topic's first records mostly lie in other partitions
// than the configured partitioner puts them.
var ErrPartitioner = errors.New("the producers of the raw topic use another partitioner")

// probationRecords is how many of a partition's first records under the settings in force are
// looked at that nothing refuses, before the partition is trusted.
const probationRecords = 100

// probationLooks is how many records are looked at for that, in each partition.
const probationLooks = 1000

// holdQuiet is how long records are held for others to come, which say whether the topic can be
// used. Devices report every few seconds, or not at all.
const holdQuiet = 10 * time.Second

// probation looks at the first records of the raw topic, so that a service whose settings are not
// the producers' stops instead of refusing most of what it reads: for the partitioner
// (account.Placement.Mostly), or for whatever reason (Sample.Hopeless).
//
// The first records are those from the offset on at which the settings came into force, which the
// changelog's mark has. So a restart looks at the same records again. Of those that are processed
// by now, only the sound ones say whether the settings are right. Those that are there when the
// service starts are looked at before it joins its group: nothing is released or refused then.
// Where there are fewer, each partition's next records are looked at when they are fetched, before
// any of them is processed. The evidence of all partitions is one, since it is about the producers.
//
// Where fewer than leastJudged fixes are there, and most would be refused, the records are held and
// not processed until there are as many, or none has come for holdQuiet. Once judged, the topic's
// later records are judged one by one and never stop the service: a single producer that is set up
// wrongly must not stop everybody.
type probation struct {
	by    engine.Partitioner
	topic string
	begun bool // users may have states by now
	dated bool // only records that have their broker's time say anything
	quiet time.Duration
	log   *slog.Logger
	board *monitor.Board

	mu     sync.Mutex
	sample *checks.Sample
	free   bool // nothing is refused too often, or it was accepted
	held   bool
	grown  time.Time     // when the sample has grown last
	parts  []probationer // by partition
}

// probationer is what is left to do for one partition.
type probationer struct {
	judge checks.Judge
	left  int   // records that nothing refuses, to look at
	most  int   // records to look at, refused or not
	next  int64 // offset of the first that was not looked at

	processed int64 // offset of the first that was not processed before the start
}

// newProbation makes one for a raw topic.
func newProbation(o Options, partitions int) *probation {
	return &probation{
		by: o.Partitioner, topic: o.Topics.Raw, log: o.Logger, board: o.Board,
		sample: checks.NewSample(o.Settings, partitions), free: o.AcceptRefused,
		parts: make([]probationer, partitions),
	}
}

// begin says from which offset on a partition's first records lie, and up to where they are
// processed.
func (p *probation) begin(partition int32, since, next int64, by checks.Judge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts[partition] = probationer{by, probationRecords, probationLooks, since, next}
}

// goOn goes over to the records that are not processed.
func (p *probation) goOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sample.Forgive()
	for n := range p.parts {
		part := &p.parts[n]
		part.most, part.next = probationLooks, max(part.next, part.processed)
	}
}

// judgeRecords takes the records of a partition from an offset on and up to next, in order. An
// error says that a record cannot be read now: the service meets it again, and waits.
func (p *probation) judgeRecords(partition int32, at, next int64, records []consumer.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	part := &p.parts[partition]
	if at > part.next {
		part.left = 0 // another instance had the partition meanwhile, and has looked
	}
	for _, r := range records {
		if part.left == 0 || part.most == 0 {
			break
		}
		if r.Offset < part.next {
			continue
		}
		before, _ := p.sample.Judged()
		if p.good(part.judge, partition, r) {
			part.left--
		}
		part.most--
		if after, _ := p.sample.Judged(); after > before {
			p.grown = time.Now() // what a rule skips says nothing
		}
	}
	part.next = max(part.next, next)
}

// good adds a record to the sample, and reports whether it has a fix that nothing refuses.
func (p *probation) good(by checks.Judge, partition int32, r consumer.Record) (good bool) {
	if p.dated && !r.Appended {
		return false
	}
	fixes, err := by.Fixes(topics.Record(r))
	for i := 0; i < len(fixes) && err == nil; i++ {
		var one bool
		one, err = p.sample.Add(by, partition, r, fixes[i])
		good = good || one
	}
	return good && err == nil
}

// verdict is an ErrPartitioner if what was looked at is mostly misplaced, and an ErrRefused if
// nearly all of it would be refused.
func (p *probation) verdict() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by != engine.AnyPartitioner && p.sample.Placed.Mostly(p.by) {
		return fmt.Errorf("%w: %s", ErrPartitioner,
			p.sample.Placed.Advice(p.by, p.topic, p.begun))
	}
	if err := p.sample.TwoPartitions(); err != nil {
		return err
	}
	if p.free {
		return nil
	}
	if why := p.sample.Hopeless(leastJudged); why != "" {
		p.board.Holds(why)
		return fmt.Errorf("%w: in %s %s (records-refused)", ErrRefused, p.topic, why)
	}
	all, _ := p.sample.Judged()
	p.free = all >= leastJudged
	return nil
}

// holds reports whether records have to wait for a verdict.
func (p *probation) holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, refused := p.sample.Judged()
	hold := !p.free && 2*refused > all && time.Since(p.grown) < p.quiet
	if hold && !p.held {
		why := cmp.Or(p.sample.Hopeless(1), p.sample.All.String())
		p.log.Warn("raw records wait until it is known whether nearly all would be refused",
			"fixes", all, "refused", refused, "why", why)
		p.board.Holds(why)
	} else if !hold && p.held {
		p.board.Holds("")
	}
	p.held = hold
	return hold
}

// over reports whether nothing is left to look at in a partition.
func (p *probation) over(partition int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	part := &p.parts[partition]
	return part.left == 0 || part.most == 0
}

// LookFirst looks at the records with which a start begins, in so many partitions, and keeps what
// is left to look at for the partitions' tasks. It changes nothing, and comes before the group is
// joined, so nothing is released or refused when it fails. begun says that users may have states.
func (s *Service) LookFirst(ctx context.Context, partitions int, begun bool) error {
	s.partitions = int32(partitions)
	if err := s.job.begin(ctx); err != nil {
		return err
	}
	p := newProbation(s.options, partitions)
	p.begun, p.quiet, s.probation = begun, s.holdQuiet, p
	if j, counts := s.job.(*countingJob); counts {
		p.dated = !j.producersTimes
	}
	readers := make([]*topics.Reader, s.partitions)
	for n := range s.partitions {
		var err error
		if readers[n], err = s.lookBegin(ctx, n); err == nil {
			err = s.lookOn(ctx, n, readers[n], p.parts[n].processed)
		}
		if err != nil {
			return fmt.Errorf("partition %d of %s: %w", n, s.options.Topics.Raw, err)
		}
	}
	p.goOn()
	for n := range s.partitions {
		if err := s.lookOn(ctx, n, readers[n], math.MaxInt64); err != nil {
			return fmt.Errorf("partition %d of %s: %w", n, s.options.Topics.Raw, err)
		}
	}
	return p.verdict()
}

// lookBegin finds where the first records of a partition are, and returns what reads them.
func (s *Service) lookBegin(ctx context.Context, n int32) (*topics.Reader, error) {
	raw := s.options.Topics.Raw
	own, err := s.job.judge(engine.Partition{
		Topic: raw, Number: n, Of: int(s.partitions),
	})
	if err != nil {
		return nil, err
	}
	var r *topics.Reader
	var since, next int64
	err = s.patiently(ctx, func() (err error) {
		r, err = topics.Open(ctx, s.client, raw, n, consumer.FetcherOptions{
			Options: wire.Options{RetryTimeout: s.patience},
		})
		if err == nil {
			since, next, err = s.firstOffset(ctx, n, r.First)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if since < r.First {
		s.probation.free = true // retention has removed some since they were processed
		return nil, nil         //nolint:nilnil // there is nothing to look at
	}
	s.probation.begin(n, since, next, own)
	return r, nil
}

// lookOn looks at a partition's records up to an offset, as far as it takes.
func (s *Service) lookOn(ctx context.Context, n int32, r *topics.Reader, until int64) error {
	p := s.probation
	if r == nil || p.over(n) {
		return nil
	}
	return s.patiently(ctx, func() error {
		err := r.Scan(ctx, p.parts[n].next, min(r.End, until), func(rec consumer.Record) error {
			p.judgeRecords(n, p.parts[n].next, rec.Offset+1, []consumer.Record{rec})
			if p.over(n) {
				return errLooked
			}
			return nil
		})
		if errors.Is(err, errLooked) {
			return nil
		}
		return err
	})
}

// errLooked ends a look at a partition.
var errLooked = errors.New("enough records have been looked at")

// firstOffset is the raw offset from which on a partition is processed under the
// settings in force: the changelog's last mark has it, or says where other settings end.
// A partition without a mark begins at the group's offset, where somebody has chosen
// one, or at the first record. Up to next it is processed.
func (s *Service) firstOffset(
	ctx context.Context, n int32, first int64,
) (since, next int64, err error) {
	t := s.options.Topics
	mark, found, err := topics.LastMark(ctx, s.client, t.Changelog, n)
	switch {
	case err != nil:
		return 0, 0, err
	case found && bytes.Equal(mark.Settings, s.job.Fingerprint()):
		return mark.Since, mark.Input, nil
	case found:
		at := max(mark.Input, first)
		return at, at, nil
	}
	at, chosen, err := consumer.Committed(ctx, s.client, wire.Options{RetryTimeout: s.patience},
		s.options.Group, t.Raw, n)
	switch {
	case errors.Is(err, wire.ErrTemporary):
		return first, first, nil // one was killed in its first transaction: nothing is committed
	case err != nil:
		return 0, 0, err
	case chosen:
		first = max(at, first)
	}
	return first, first, nil
}

// guarded is an input whose records are looked at before any of them is processed, as
// long as the raw topic is on probation. When the verdict is against the topic, it has
// the service stop and delivers nothing more: the tasks end as at a signal, with what was
// delivered before, so the settings can be changed afterwards without --accept=settings.
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
	g.probation.judgeRecords(g.partition, offset, batch.Next, g.fetched)
	if err := g.probation.verdict(); err != nil {
		g.fail(err)
		<-ctx.Done()
		return task.Batch{}, readRemedy(ctx.Err())
	}
	if len(batch.Records) > 0 && g.probation.holds() {
		select {
		case <-ctx.Done():
		case <-time.After(holdLook):
		}
		return held(batch, offset), nil
	}
	g.over = g.probation.over(g.partition)
	return batch, nil
}

// held is a batch of which nothing is delivered yet, from an offset on. So nothing is known of its
// leader epoch: one of 0 would be taken for that of the records before it.
func held(batch task.Batch, offset int64) task.Batch {
	batch.Records, batch.Next, batch.Epoch = nil, offset, -1
	return batch
}

// holdLook is how often it is looked whether held records can go on.
const holdLook = 100 * time.Millisecond
