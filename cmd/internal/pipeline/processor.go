package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// Processor is what one partition's task runs on each record: a function of the
// record and the user's state, so that a retry gives the same bytes. A record
// that cannot be used becomes a dead letter that names its place and the reason
// and nothing of its content.
//
// Each record that is read leads to one of three: a sanitized record, a dead
// letter, or, where the options say so, nothing (skipped, suppressed, dropped, late),
// which the counters show. A late fix, and one outside the map, is a dead letter unless
// Options.Input says otherwise. A fix of a day whose noise key was destroyed is one too: it
// spends nothing and leaves the user's state as it was.
type Processor struct {
	engine   *Engine
	raw, out *schemas.Codec
	at       Partition
	by       Partitioner
	maxAhead time.Duration
	refused  *refusedDays // in a recomputation: what the first release refused for its day

	latestMS int64           // of the fixes that were processed
	state    mechanism.State // scratch
	value    []byte          // scratch: the encoded sanitized record or dead letter
	stored   []byte          // scratch: the encoded state
	name     []byte          // scratch: the sanitized record's key, where it is not the raw one's
	tally    Tally           // since the last Take
	next     int64           // offset behind the last record
}

// Partition is one partition of the raw topic.
type Partition struct {
	Topic  string
	Number int32
	Of     int // partitions in all
}

// NewProcessor makes the processor of one partition.
func NewProcessor(s Settings, at Partition) (*Processor, error) {
	s = s.WithDefaults()
	if err := s.Partitioner.Validate(); err != nil {
		return nil, fmt.Errorf("topics.partitioner: %w", err)
	}
	if at.Number < 0 || int(at.Number) >= at.Of {
		return nil, errors.New("pipeline: a processor needs one of the raw topic's partitions")
	}
	engine, err := NewEngine(s)
	if err != nil {
		return nil, err
	}
	raw, err := schemas.NewCodec(s.RawEncoding)
	if err != nil {
		return nil, err
	}
	out, err := schemas.NewCodec(s.SanitizedEncoding)
	if err != nil {
		return nil, err
	}
	return &Processor{
		engine: engine, raw: raw, out: out,
		at: at, by: s.Partitioner, maxAhead: s.MaxAhead,
	}, nil
}

// Amend makes the processor work with the versions of the model that a mark's
// amendments name, each from its offset on. ErrVersion says that known lacks one. A service's
// processor is told by its task.
func (p *Processor) Amend(list []task.Amendment, known []*Version) error {
	found, err := resolve(list, known)
	if err == nil {
		p.engine.models.amend(found)
	}
	return err
}

// Tally counts what was processed since the last Take, such as the open transaction. It is
// the processor's own.
func (p *Processor) Tally() *Tally { return &p.tally }

// Take returns the tally and the offset behind the last record that is in it, and starts
// again from nothing.
func (p *Processor) Take() (taken Tally, next int64) {
	taken, p.tally = p.tally, Tally{}
	return taken, p.next
}

// Process implements task.Processor. Its error is fatal: a state that cannot be
// read, or a record that cannot be written.
func (p *Processor) Process(rec task.Record, state []byte, fx *task.Effects) error {
	p.tally.RecordsIn++
	p.next = rec.Offset + 1
	fix, err := p.accept(rec)
	if err != nil {
		return p.reject(rec, err, fx)
	}
	if p.refused.has(rec.Offset) {
		p.tally.Destroyed++
		return p.reject(rec, &schemas.Rejection{Reason: schemas.ReasonKeyDestroyed}, fx)
	}
	if err := p.state.DecodeBinary(state); err != nil {
		return p.failure(rec, err)
	}
	record, outcome, migration, err := p.engine.sanitize(rec.Offset, fix, &p.state)
	if errors.Is(err, noise.ErrDestroyed) {
		p.tally.Destroyed++
		return p.reject(rec, &schemas.Rejection{Reason: schemas.ReasonKeyDestroyed}, fx)
	}
	if err != nil {
		if _, refused := errors.AsType[*schemas.Rejection](err); refused {
			p.tally.place(p.engine.placement, refused)
			return p.reject(rec, err, fx)
		}
		return p.failure(rec, err)
	}
	p.latestMS = max(p.latestMS, fix.Timestamp)
	p.tally.outcome(outcome, migration)
	p.tally.place(p.engine.placement, false)
	if outcome.Changed {
		p.stored = p.state.AppendBinary(p.stored[:0])
		fx.State = p.stored
	}
	switch {
	case outcome.Kind == mechanism.Late:
		p.tally.Lateness.add(p.engine.latenessMS(fix, &p.state))
		if p.engine.input.Late == LateDrop {
			p.tally.LateDropped++
			return nil
		}
		return p.reject(rec, &schemas.Rejection{Reason: schemas.ReasonLate}, fx)
	case !outcome.Kind.Published():
		return nil // as the options have it: the record is at no fault, so it is no dead letter
	}
	p.value, err = p.out.AppendSanitized(p.value[:0], record)
	if err != nil {
		return p.failure(rec, fmt.Errorf("encoding the sanitized record: %w", err))
	}
	fx.Output = append(fx.Output, task.Message{
		Key: p.key(rec, record), Value: p.value, Timestamp: p.engine.publisher.timestamp(rec.Timestamp),
	})
	return nil
}

// key is the Kafka key of a sanitized record: the name it carries.
func (p *Processor) key(rec task.Record, record schemas.Sanitized) []byte {
	if p.engine.publisher.names == nil {
		return rec.Key
	}
	p.name = append(p.name[:0], record.UserID...)
	return p.name
}

// failure names the record's place, and for a state that cannot be read what to
// do: one from the changelog has gone bad in the store, or it was written there.
func (p *Processor) failure(rec task.Record, err error) error {
	hint := ""
	if errors.Is(err, mechanism.ErrState) {
		hint = "; run doctor, and if the changelog is intact remove the state folder with \"geodither state reset\" and " +
			"start again: it is restored from the changelog. If that ends here too, " +
			"the changelog itself is bad: start anew with another group, changelog and sanitized topic, which draws and " +
			"charges the releases of all fixes that the raw topic still holds once more"
	}
	return fmt.Errorf("partition %d, offset %d: %w%s", p.at.Number, rec.Offset, err, hint)
}

// accept checks a record in this order: what it says, its key, its times, and last
// where it lies. A record's place follows from its key, so it means something only
// where the key is the user's. No check looks at the user's state, so none of a
// misplaced record's effects reaches it.
func (p *Processor) accept(rec task.Record) (schemas.Raw, error) {
	fix, err := Accept(p.raw, p.maxAhead, rec.Key, rec.Value, rec.Timestamp)
	if err != nil {
		return fix, err
	}
	if p.by.misplaces(rec.Key, p.at) {
		return fix, &schemas.Rejection{Reason: schemas.ReasonWrongPartition}
	}
	return fix, nil
}

func (p *Processor) reject(rec task.Record, cause error, fx *task.Effects) error {
	var rejection *schemas.Rejection
	if !errors.As(cause, &rejection) {
		return cause
	}
	var err error
	p.value, err = p.out.AppendDeadLetter(p.value[:0], schemas.DeadLetter{
		Topic: p.at.Topic, Partition: p.at.Number, Offset: rec.Offset,
		Reason: rejection.Reason, Timestamp: rec.Timestamp,
	})
	if err != nil {
		return p.failure(rec, fmt.Errorf("encoding the dead letter: %w", err))
	}
	p.tally.DeadLetters++
	if rejection.Reason == schemas.ReasonWrongPartition {
		p.tally.Misplaced++
	}
	p.tally.Refusals.Add(rejection.Reason, rec.Value)
	// No key: a refused record's key may be anything, a coordinate too.
	fx.DeadLetters = append(fx.DeadLetters, task.Message{Value: p.value, Timestamp: rec.Timestamp})
	return nil
}

// transactionalID names the producer that may write for one partition of the
// raw topic: whoever takes the partition over fences its predecessor by it. The
// separator is one that no topic's name holds, so that two services never share
// an id.
func transactionalID(group, topic string, partition int32) string {
	return strings.Join([]string{group, topic, fmt.Sprint(partition)}, "/")
}
