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
// letter, or, where the options of release say so, nothing (skipped, suppressed,
// dropped), which the counters show. A late fix is a dead letter, and so is one of a day
// whose noise key was destroyed: it spends nothing and leaves the user's state as it was.
type Processor struct {
	engine    *Engine
	raw, out  *schemas.Codec
	topic     string
	partition int32
	maxAhead  time.Duration

	latestMS int64           // of the fixes that were processed
	state    mechanism.State // scratch
	value    []byte          // scratch: the encoded sanitized record or dead letter
	stored   []byte          // scratch: the encoded state
	name     []byte          // scratch: the sanitized record's key, where it is not the raw one's
	tally    tally           // of the open transaction
}

// NewProcessor makes the processor of one partition of the raw topic.
func NewProcessor(o Options, partition int32) (*Processor, error) {
	o = o.withDefaults()
	engine, err := newEngine(&Material{o.Model, o.Personals}, o.Key, o.Release, o.Publish)
	if err != nil {
		return nil, err
	}
	raw, err := schemas.NewCodec(o.RawEncoding)
	if err != nil {
		return nil, err
	}
	out, err := schemas.NewCodec(o.SanitizedEncoding)
	if err != nil {
		return nil, err
	}
	return &Processor{
		engine: engine, raw: raw, out: out,
		topic: o.Topics.Raw, partition: partition,
		maxAhead: o.MaxAhead,
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

// Process implements task.Processor. Its error is fatal: a state that cannot be
// read, or a record that cannot be written.
func (p *Processor) Process(rec task.Record, state []byte, fx *task.Effects) error {
	p.tally.in++
	p.tally.next = rec.Offset + 1
	fix, err := p.accept(rec)
	if err != nil {
		return p.reject(rec, err, fx)
	}
	if err := p.state.DecodeBinary(state); err != nil {
		return p.failure(rec, err)
	}
	record, outcome, migration, err := p.engine.sanitize(rec.Offset, fix, &p.state)
	if errors.Is(err, noise.ErrDestroyed) {
		p.tally.destroyed++
		return p.reject(rec, &schemas.Rejection{Reason: schemas.ReasonKeyDestroyed}, fx)
	}
	if err != nil {
		return p.failure(rec, err)
	}
	p.latestMS = max(p.latestMS, fix.Timestamp)
	p.tally.count(outcome, migration)
	if outcome.Changed {
		p.stored = p.state.AppendBinary(p.stored[:0])
		fx.State = p.stored
	}
	switch {
	case outcome.Kind == mechanism.Late:
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
		hint = "; delete the state folder and start again: it is restored from the changelog. If that ends here too, " +
			"the changelog itself is bad: start anew with another group, changelog and sanitized topic, which draws and " +
			"charges the releases of all fixes that the raw topic still holds once more"
	}
	return fmt.Errorf("partition %d, offset %d: %w%s", p.partition, rec.Offset, err, hint)
}

func (p *Processor) accept(rec task.Record) (schemas.Raw, error) {
	return Accept(p.raw, p.maxAhead, rec.Key, rec.Value, rec.Timestamp)
}

func (p *Processor) reject(rec task.Record, cause error, fx *task.Effects) error {
	var rejection *schemas.Rejection
	if !errors.As(cause, &rejection) {
		return cause
	}
	var err error
	p.value, err = p.out.AppendDeadLetter(p.value[:0], schemas.DeadLetter{
		Topic: p.topic, Partition: p.partition, Offset: rec.Offset,
		Reason: rejection.Reason, Timestamp: rec.Timestamp,
	})
	if err != nil {
		return p.failure(rec, fmt.Errorf("encoding the dead letter: %w", err))
	}
	p.tally.dead++
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
