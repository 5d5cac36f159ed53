package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// Processor is what one partition's task runs on each record: a function of the
// record and the user's state, so that a retry gives the same bytes. A record
// that cannot be used becomes a dead letter that names its place and the reason
// and nothing of its content.
//
// Each fix that is read leads to one of three: a sanitized record, a dead
// letter, or, where the options demand it, nothing (skipped, suppressed), which the
// counters show. A record has one fix, or as many as Input.Mapping finds. A late fix is a dead
// letter, and so is one outside the map unless Input says otherwise. A fix of a day
// whose noise key was destroyed is one too: it spends nothing and leaves the user's state as it
// was.
type Processor struct {
	engine    *Engine
	publisher *publisher // the engine's
	reader    *Reader
	out       *schemas.Codec
	at        Partition
	by        Partitioner
	refused   *Offsets // in a recomputation: what the first release refused for its day
	strays    strays   // in a recomputation: what it refused for its partition

	state  mechanism.State // scratch
	value  []byte          // scratch: the encoded sanitized records and dead letters
	stored []byte          // scratch: the encoded state
	name   []byte          // scratch: the sanitized records' keys, if they are not the raw one's
	tally  Tally           // since the last Take
	next   int64           // offset behind the last record
}

// NewProcessor makes the processor of one partition.
func NewProcessor(s Settings, at Partition) (*Processor, error) {
	s = s.WithDefaults()
	if err := s.Partitioner.Validate(); err != nil {
		return nil, fmt.Errorf("topics.partitioner: %w", err)
	}
	if at.Number < 0 || int(at.Number) >= at.Of {
		return nil, errors.New("engine: a processor needs one of the raw partitions")
	}
	engine, err := New(s)
	if err != nil {
		return nil, err
	}
	reader, err := NewReader(s.Source())
	if err != nil {
		return nil, err
	}
	out, err := schemas.NewCodec(s.SanitizedEncoding)
	if err != nil {
		return nil, err
	}
	out.UseIDs(s.SchemaIDs)
	return &Processor{
		engine: engine, publisher: engine.publisher, reader: reader, out: out,
		at: at, by: s.Partitioner,
	}, nil
}

// Refuse makes the processor refuse fixes for their day as a first release has refused them,
// by their offsets, whatever its own key has.
func (p *Processor) Refuse(offsets *Offsets) { p.refused = offsets }

// Misplace makes the processor refuse exactly the records at these offsets for their partition,
// among those before a raw offset, whatever its partitioner says.
func (p *Processor) Misplace(offsets *Offsets, until int64) {
	p.strays = strays{offsets: offsets, until: until}
}

// strays are the raw records before until that were refused for their partition.
type strays struct {
	offsets *Offsets
	until   int64
	other   [len(hashes) + 1]bool // whether each of hashes, and AnyPartitioner, refuses others
}

// OnePartitioner says whether one partitioner refuses exactly the records that Misplace has named,
// among those processed so far. Otherwise several partitioners did, or their dead letters are
// forged.
func (p *Processor) OnePartitioner() bool { return slices.Contains(p.strays.other[:], false) }

// compare compares the strays with what each partitioner does with a record.
func (s *strays) compare(key []byte, at Partition, misplaced bool) {
	for i, h := range hashes {
		s.other[i] = s.other[i] || h.name.misplaces(key, at) != misplaced
	}
	s.other[len(hashes)] = s.other[len(hashes)] || misplaced
}

// Note adds a note about the releases to the mechanism that records name: schemas.Noted.
func (p *Processor) Note(text string) { p.engine.Note(text) }

// Look is Engine.Look.
func (p *Processor) Look(fix schemas.Raw) (step int64, place Placement, err error) {
	return p.engine.Look(fix)
}

// Options returns the options of releases with their defaults filled in.
func (p *Processor) Options() mechanism.Options { return p.engine.Options() }

// Tally counts what was processed since the last Take, such as the open transaction. It is
// the processor's own.
func (p *Processor) Tally() *Tally { return &p.tally }

// Take returns the tally and the offset behind the last record that is in it, and starts
// again from nothing.
func (p *Processor) Take() (taken Tally, next int64) {
	taken, p.tally = p.tally, Tally{}
	return taken, p.next
}

// Key is the key of the state that a record is processed on: task.Dependencies.Key.
func (p *Processor) Key(rec task.Record) (key []byte, read any, err error) {
	return p.reader.Key(rec)
}

// Process implements task.Processor. Its error is fatal: a state that cannot be
// read, or a record that cannot be written; unless it carries a Retry remedy.
//
// A record may have several fixes of its user. They are processed in their order, each on the state
// that the one before it has left. If the noise key of the day of one of them was destroyed, the
// record as a whole is refused, so that its dead letter says by its offset what to refuse again.
func (p *Processor) Process(rec task.Record, state []byte, fx *task.Effects) error {
	p.tally.RecordsIn++
	p.next = rec.Offset + 1
	p.value, p.name = p.value[:0], p.name[:0]
	fixes, err := p.Fixes(rec)
	if err != nil {
		return err
	}
	before, outputs, letters := p.tally, len(fx.Output), len(fx.DeadLetters)
	destroyed := p.refused.Has(rec.Offset) && slices.ContainsFunc(fixes, Fix.Usable)
	for i := 0; i < len(fixes) && !destroyed; i++ {
		err := p.one(rec, &fixes[i], state, fx)
		destroyed = errors.Is(err, noise.ErrDestroyed)
		if err != nil && !destroyed {
			return err
		}
		if len(fx.State) > 0 {
			state = fx.State
		}
	}
	if destroyed {
		fx.Output, fx.DeadLetters, fx.State = fx.Output[:outputs], fx.DeadLetters[:letters], nil
		p.tally = before
		p.tally.Destroyed++
		return p.reject(rec, 0, schemas.ReasonKeyDestroyed, fx)
	}
	return nil
}

// Fixes returns the fixes of a record in order. It checks each by itself: what it says, its key,
// its times, and last where the record lies. A record's place follows from its key, so it means
// something only where the key is the user's. No check looks at the user's state, so none of a
// misplaced record's effects reaches it. The result and errors are as in Reader.Fixes.
func (p *Processor) Fixes(rec task.Record) ([]Fix, error) {
	fixes, err := p.reader.Fixes(rec)
	misplaced, told := p.by.misplaces(rec.Key, p.at), rec.Offset < p.strays.until
	if told {
		misplaced = p.strays.offsets.Has(rec.Offset)
	}
	for i := range fixes {
		if fix := &fixes[i]; fix.Usable() {
			if told {
				p.strays.compare(rec.Key, p.at, misplaced)
			}
			if misplaced {
				fix.Refused = &schemas.Rejection{Reason: schemas.ReasonWrongPartition}
			}
		}
	}
	return fixes, err
}

// one processes one fix of a record.
func (p *Processor) one(rec task.Record, fix *Fix, state []byte, fx *task.Effects) error {
	switch {
	case fix.Skipped != mapping.NoRule:
		p.tally.RecordsSkipped++
		p.tally.SkippedByRule[fix.Skipped]++
		return nil
	case fix.Refused != nil:
		return p.reject(rec, fix.Number, fix.Refused.Reason, fx)
	}
	if err := p.state.DecodeBinary(state); err != nil {
		return p.failure(rec, err)
	}
	result, err := p.engine.Sanitize(fix.Raw, &p.state)
	fx.Time = max(fx.Time, result.BeginsMS) // also of a fix that its version's map refuses
	rejection, refused := errors.AsType[*schemas.Rejection](err)
	switch {
	case refused:
		p.tally.count(&result, refused)
		return p.reject(rec, fix.Number, rejection.Reason, fx)
	case errors.Is(err, noise.ErrDestroyed):
		return err
	case err != nil:
		return p.failure(rec, err)
	}
	p.tally.count(&result, refused)
	if ahead := fix.Raw.Timestamp - rec.Timestamp; rec.Timestamp >= 0 && ahead > 0 {
		p.tally.Ahead.Add(ahead)
	}
	if result.Outcome.Changed {
		p.stored = p.state.AppendBinary(p.stored[:0])
		fx.State = p.stored
	}
	switch kind := result.Outcome.Kind; {
	case kind == mechanism.Late:
		return p.reject(rec, fix.Number, schemas.ReasonLate, fx)
	case !kind.Published():
		return nil // as the options have it: the record is at no fault, so it is no dead letter
	}
	start := len(p.value)
	p.value, err = p.out.AppendSanitized(p.value, result.Record)
	if err != nil {
		return p.failure(rec, fmt.Errorf("encoding the sanitized record: %w", err))
	}
	key := rec.Key // a sanitized record has the name that it carries as its key
	if p.publisher.names != nil || !p.reader.source.UsersAreKeys() {
		at := len(p.name)
		p.name = append(p.name, result.Record.UserID...)
		key = p.name[at:len(p.name):len(p.name)]
	}
	fx.Output = append(fx.Output, task.Message{
		Key: key, Value: p.value[start:len(p.value):len(p.value)],
		Timestamp: p.publisher.timestamp(rec.Timestamp),
	})
	return nil
}

// failure names the record's place, and for a state that cannot be read what to
// do: one from the changelog has gone bad in the store, or it was written there.
func (p *Processor) failure(rec task.Record, err error) error {
	hint := ""
	if errors.Is(err, mechanism.ErrState) {
		hint = "; run doctor, and if the changelog is intact remove the state folder with " +
			"\"geodither state reset\" and start again: it is restored from the changelog. If " +
			"that ends here too, the changelog itself is bad: use a new group, changelog and " +
			"sanitized topic. Every fix that is still in the raw topic is then released and " +
			"charged a second time"
	}
	return fmt.Errorf("partition %d, offset %d: %w%s", p.at.Number, rec.Offset, err, hint)
}

// reject adds the dead letter of a fix, by its number in the record; 0: of the record as a whole.
func (p *Processor) reject(
	rec task.Record, number int, reason schemas.Reason, fx *task.Effects,
) error {
	start := len(p.value)
	value, err := p.out.AppendDeadLetter(p.value, schemas.DeadLetter{
		Topic: p.at.Topic, Partition: p.at.Number, Offset: rec.Offset,
		Reason: reason, Timestamp: rec.Timestamp,
	})
	if err != nil {
		return p.failure(rec, fmt.Errorf("encoding the dead letter: %w", err))
	}
	p.value = value
	// No key: a refused record's key may be anything, a coordinate too.
	fx.DeadLetters = append(fx.DeadLetters, task.Message{
		Value: value[start:len(value):len(value)], Timestamp: rec.Timestamp,
		Headers: errorHeaders(p.at, rec.Offset, number, reason),
	})
	p.tally.Refuse(reason, rec.Value)
	return nil
}

// errorHeaders are those that Kafka Streams gives its dead letters (KIP-1034), so that tools for
// them show what is wrong. They say what the value says, and nothing of the refused record: its own
// headers may name a vehicle.
//
// Of one of several fixes they say by its number which one it is, under a name of our own.
func errorHeaders(at Partition, offset int64, number int, reason schemas.Reason) []task.Header {
	const prefix = "__streams.errors."
	headers := []task.Header{
		{Name: prefix + "exception", Value: string(reason)},
		{Name: prefix + "message", Value: reason.Words()},
		{Name: prefix + "topic", Value: at.Topic},
		{Name: prefix + "partition", Value: strconv.Itoa(int(at.Number))},
		{Name: prefix + "offset", Value: strconv.FormatInt(offset, 10)},
	}
	if number > 0 {
		headers = append(headers,
			task.Header{Name: "geodither.errors.fix", Value: strconv.Itoa(number)})
	}
	return headers
}

// misplaces reports whether a key belongs to another partition than the one it lies in.
func (p Partitioner) misplaces(key []byte, at Partition) bool {
	right, ok := p.Partition(key, at.Of)
	return ok && right != at.Number
}
