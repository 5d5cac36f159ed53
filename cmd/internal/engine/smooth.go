package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// SmoothProcessor is what one partition's task runs on each record of a sanitized topic: a function
// of the record and the user's state, so that a retry gives the same bytes. It has no key.
//
// Each record that is read leads to a smoothed record or to a dead letter. A smoothed record is
// written when its block closes: with the user's first release a lag after it. Which records a
// release closes follows from the records alone. The last block of a user who falls silent waits
// for the user's next record. The same records through "geodither smooth" give the same estimates,
// as far as their blocks have closed.
//
// A record that cannot be followed passes with its own estimate and the note "unsmoothed", behind
// the records that wait for it. So do records under a model that the settings do not have, and
// those that wait when their model is taken out of the settings. One of a step before its user's
// last one is a dead letter: no service writes it.
type SmoothProcessor struct {
	settings SmoothSettings
	options  mechanism.Options // of the settings, the defaults filled in
	at       Partition
	ends     map[int64]bool // End.Last of the partition
	stepMS   int64
	out      *schemas.Codec
	later    []*Version
	names    map[smoothLane]string // of filters that were used
	replayer *aggregate.Replayer
	seen     sanitizedRecord // what Key has read last: Process gets it next
	blocks   openBlocks

	state     *openBlock            // of the record at hand
	epsilon   float64               // scratch: of the filter of the user's last record
	published []aggregate.Published // scratch
	value     []byte                // scratch: encoded records
	stored    []byte                // scratch: the encoded state
	tally     Tally                 // since the last Take
	next      int64                 // offset behind the last record
}

// sanitizedRecord is a record that was decoded.
type sanitizedRecord struct {
	read    bool
	offset  int64
	record  schemas.Sanitized
	refused schemas.Reason // empty: it can be used
}

// smoothLane is what a filter is made for: records name all of it.
type smoothLane struct {
	model, mechanism string
	epsilon, delta   float64
}

// maxFilters bounds the filters of a processor. What is needed beyond that is built again: that
// costs time and changes nothing.
const maxFilters = 8

// maxOpenBytes bounds the encoded records of an open block, so that a state stays below Kafka's
// limit of 1 MiB a record: a block of more closes with what it has. mechanism.MaxWait records do
// not reach it, unless nearly all of them are releases of changing settings.
const maxOpenBytes = 768 << 10

// NewSmoothProcessor makes the processor of one partition.
func NewSmoothProcessor(s SmoothSettings, at Partition) (*SmoothProcessor, error) {
	s = s.WithDefaults()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if at.Number < 0 || int(at.Number) >= at.Of {
		return nil, errors.New("engine: a processor needs one of the sanitized topic's partitions")
	}
	sanitizer, err := s.sanitizer(s.Model)
	if err != nil {
		return nil, err
	}
	out, err := schemas.NewCodec(s.Encoding)
	if err != nil {
		return nil, err
	}
	out.UseIDs(s.SchemaIDs)
	p := &SmoothProcessor{
		settings: s, options: sanitizer.Options(), at: at, out: out, later: s.Later,
		stepMS: s.Model.Step.Milliseconds(), blocks: openBlocks{most: maxBlockBytes},
	}
	if int(at.Number) < len(s.Ends) {
		p.ends = s.Ends[at.Number].Last
	}
	p.restart()
	return p, nil
}

// Take returns the tally and the offset behind the last record that is in it, and starts again from
// nothing.
func (p *SmoothProcessor) Take() (taken Tally, next int64) {
	taken, p.tally = p.tally, Tally{}
	return taken, p.next
}

// Key is the key of the state that a record is processed on: its user as published; empty if the
// record cannot be used. See task.Dependencies.Key.
func (p *SmoothProcessor) Key(rec task.Record) ([]byte, error) {
	if p.seen = p.read(rec); p.seen.refused != "" {
		return nil, nil
	}
	return rec.Key, nil
}

// read decodes a record and says whether it can be used.
func (p *SmoothProcessor) read(rec task.Record) sanitizedRecord {
	r := sanitizedRecord{read: true, offset: rec.Offset}
	var err error
	r.record, err = p.out.DecodeSanitized(rec.Value)
	if rejection, ok := errors.AsType[*schemas.Rejection](err); ok {
		r.refused = rejection.Reason
		return r
	}
	switch s := &r.record; {
	case s.UserID != string(rec.Key):
		r.refused = schemas.ReasonKeyMismatch
	case !slices.Contains(smoothKinds[:], s.Kind), s.Release < 0, schemas.IsSmoothed(s.Mechanism),
		!slices.Contains(law.Names(), schemas.MechanismName(s.Mechanism)):
		r.refused = schemas.ReasonMalformed
	default:
		// A model that is not known may have another step.
		_, known := p.model(s.ModelID)
		if known && s.Step != mobility.StepOf(s.Timestamp, p.stepMS) {
			r.refused = schemas.ReasonMalformed
		}
	}
	return r
}

// Process implements task.Processor. Its error is fatal: a state that cannot be read, or a record
// that cannot be written; unless it carries the remedy Rebuild: the record's model is not there.
func (p *SmoothProcessor) Process(rec task.Record, state []byte, fx *task.Effects) error {
	if !p.seen.read || p.seen.offset != rec.Offset {
		p.seen = p.read(rec)
	}
	seen := p.seen
	p.seen = sanitizedRecord{}
	p.value = p.value[:0]
	err := p.take(rec, &seen, state, fx)
	if err != nil {
		return fmt.Errorf("partition %d, offset %d: %w", p.at.Number, rec.Offset, err)
	}
	p.tally.RecordsIn++
	p.next = rec.Offset + 1
	return nil
}

// take processes a record that was read.
func (p *SmoothProcessor) take(
	rec task.Record, seen *sanitizedRecord, state []byte, fx *task.Effects,
) error {
	if seen.refused != "" {
		return p.reject(rec, seen.refused, fx)
	}
	s, err := p.blocks.of(rec.Key, state, p.stepMS)
	if err != nil {
		return err
	}
	r := &seen.record
	p.state = s
	w := waiting{record: *r, kafkaMS: rec.Timestamp}
	w.record.UserID = "" // write has it from the key
	if _, known := p.model(r.ModelID); !known {
		return p.pass(rec, w, fx)
	}
	record, err := p.prepare(rec, r, fx)
	if err != nil {
		return err
	}
	known, linked, err := p.replayer.Follow(&s.track, record)
	switch {
	case errors.Is(err, aggregate.ErrOrder):
		return p.reject(rec, schemas.ReasonLate, fx)
	case errors.Is(err, mechanism.ErrUnseen): // a release that is nowhere
		if len(fx.Output) > 0 { // the user was forgotten
			p.store(fx)
		}
		return p.reject(rec, schemas.ReasonMalformed, fx)
	case err != nil:
		return err
	}
	if err := p.advance(rec, w, record, known, linked, fx); err != nil {
		return err
	}
	p.store(fx)
	p.blocks.keep(rec.Key, s, p.stored)
	return nil
}

// store makes the state that of the user.
func (p *SmoothProcessor) store(fx *task.Effects) {
	p.stored = p.state.AppendBinary(p.stored[:0])
	fx.State = p.stored
}

// pass passes a record on whose model is not known, behind its user's open block. The user is a new
// one then. A schedule may still get the model, so a record waits for it there.
func (p *SmoothProcessor) pass(rec task.Record, w waiting, fx *task.Effects) error {
	if p.settings.Scheduled {
		err := fmt.Errorf("a record is of the model %.16s, which \"models\" does not name: list "+
			"its file there; nothing is lost meanwhile", w.record.ModelID)
		return task.WithRemedy(err, task.Rebuild)
	}
	if _, err := p.prepare(rec, &w.record, fx); err != nil {
		return err
	}
	if len(p.state.open) > 0 {
		if err := p.close(rec, true, fx); err != nil {
			return err
		}
	}
	p.state.track.Reset()
	p.store(fx)
	return p.write(rec.Key, w, nil, aggregate.NoModel, fx)
}

// advance takes a record into its user's block, and writes what it closes.
func (p *SmoothProcessor) advance(
	rec task.Record, w waiting, record aggregate.Published, known, linked bool, fx *task.Effects,
) error {
	s, again := p.state, false
	if len(s.open) > 0 && !linked {
		again = !s.known
		if err := p.end(rec, fx); err != nil {
			return err
		}
	}
	if !known {
		reason := aggregate.NotFollowed
		if w.record.Kind == schemas.KindReleased && !record.HasRelease {
			reason = aggregate.NoRelease
		}
		return p.write(rec.Key, w, nil, reason, fx)
	}
	if len(s.open) == 0 {
		s.before = p.replayer.AppendBefore(s.before[:0])
		s.block.Reset()
		s.known = !again // else the filter has run since the record was followed
	}
	lastStep := w.record.Step
	if n := len(s.open); n > 0 {
		lastStep = s.open[n-1].record.Step
	}
	// What the block has no need of is left out before it is used, so that a block that is run
	// at once has what one has that was stored.
	s.add(w, p.stepMS)
	full := len(s.stored) > maxOpenBytes || p.ends[rec.Offset]
	if s.known {
		n, before, err := p.replayer.Next(&s.block, full, p.writer(rec, fx))
		if err == nil && n > 0 {
			s.drop(n, before, p.stepMS)
		}
		return err
	}
	if full || p.replayer.Closes(record, lastStep, s.open[0].record.Step, len(s.open)) {
		return p.close(rec, full, fx)
	}
	return nil
}

// writer returns a function that writes one of the open records with its past.
func (p *SmoothProcessor) writer(
	rec task.Record, fx *task.Effects,
) func(i int, past *aggregate.Past) error {
	return func(i int, past *aggregate.Past) error {
		return p.write(rec.Key, p.state.open[i], past, "", fx)
	}
}

// end closes the open block.
func (p *SmoothProcessor) end(rec task.Record, fx *task.Effects) error {
	if !p.state.known {
		return p.close(rec, true, fx)
	}
	if err := p.replayer.End(&p.state.block, p.writer(rec, fx)); err != nil {
		return err
	}
	p.state.drop(len(p.state.open), nil, p.stepMS)
	return nil
}

// close runs the open block again and writes the records that its last one closes, or all of them.
// Under other settings than the block's a record may not follow from the one before any more: then
// all pass as they are.
func (p *SmoothProcessor) close(rec task.Record, all bool, fx *task.Effects) error {
	s, known := p.state, true
	p.published = p.published[:0]
	for i := range s.open {
		one, err := p.of(rec.Offset, &s.open[i].record)
		if err != nil {
			return err
		}
		known = known && one.Model != ""
		p.published = append(p.published, one)
	}
	if !known { // an earlier model is gone; that of the last record is there
		return p.forget(rec, aggregate.NoModel, fx)
	}
	n, before, err := p.replayer.Replay(&s.block, s.before, p.published, all,
		p.writer(rec, fx))
	if errors.Is(err, mechanism.ErrUnseen) {
		return p.forget(rec, aggregate.NotFollowed, fx)
	}
	if err != nil {
		return err
	}
	if n > 0 {
		s.drop(n, before, p.stepMS)
	}
	s.known = true
	return nil
}

// forget writes the records of the open block as they are.
func (p *SmoothProcessor) forget(
	rec task.Record, reason aggregate.Unsmoothed, fx *task.Effects,
) error {
	s := p.state
	for _, w := range s.open {
		if err := p.write(rec.Key, w, nil, reason, fx); err != nil {
			return err
		}
	}
	s.drop(len(s.open), nil, p.stepMS)
	return nil
}

// write writes a record with what the records up to a later one tell; nil: with what it has, for a
// reason.
func (p *SmoothProcessor) write(
	user []byte, w waiting, past *aggregate.Past, reason aggregate.Unsmoothed, fx *task.Effects,
) error {
	w.record.UserID = string(user)
	SetPast(&w.record, past)
	start := len(p.value)
	var err error
	if p.value, err = p.out.AppendSanitized(p.value, w.record); err != nil {
		return fmt.Errorf("encoding the smoothed record: %w", err)
	}
	fx.Output = append(fx.Output, task.Message{
		Key: user, Value: p.value[start:len(p.value):len(p.value)], Timestamp: w.kafkaMS,
	})
	p.tally.smoothed(&w.record, reason)
	return nil
}

// reject makes a dead letter of a record.
func (p *SmoothProcessor) reject(rec task.Record, reason schemas.Reason, fx *task.Effects) error {
	var err error
	p.value, err = p.at.reject(p.value, p.out, rec, 0, reason, fx)
	p.tally.Refuse(reason, rec.Value)
	return err
}

// prepare makes the filters ready that a record and its user's track need, and returns the record
// for the replayer. A user whose track is of a model that is not known any more is forgotten: the
// settings have changed since.
func (p *SmoothProcessor) prepare(
	rec task.Record, r *schemas.Sanitized, fx *task.Effects,
) (record aggregate.Published, err error) {
	if p.replayer.Filters() > maxFilters || len(p.names) > 4*maxFilters {
		p.restart()
	}
	s := p.state
	p.epsilon = p.settings.Release.Epsilon
	if name := s.track.Filter(); name != "" {
		lane, err := parseLane(name)
		if err == nil {
			name, err = p.filter(rec.Offset, lane)
		}
		if err != nil {
			return record, err
		}
		if name != "" {
			p.epsilon = lane.epsilon
			return p.of(rec.Offset, r)
		}
		s.track.Reset()
		if err := p.forget(rec, aggregate.NoModel, fx); err != nil {
			return record, err
		}
	}
	return p.of(rec.Offset, r)
}

// restart forgets all filters.
func (p *SmoothProcessor) restart() {
	p.names = map[smoothLane]string{}
	p.blocks.clear()
	p.replayer = aggregate.NewReplayer(p.options, p.settings.LagSteps)
}

// of returns a record for the replayer. A record that is no release is of the filter of p.epsilon:
// it names none, and needs none.
func (p *SmoothProcessor) of(
	offset int64, r *schemas.Sanitized,
) (record aggregate.Published, err error) {
	record = Published(*r, "")
	lane := smoothLane{r.ModelID, record.Mechanism, p.epsilon, r.Delta}
	if record.Kind == mechanism.Released {
		lane.epsilon = r.Epsilon
	}
	record.Model, err = p.filter(offset, lane)
	return record, err
}

// filter returns the name of a filter, which it makes if there is none. It is empty for a model
// that is not known at the offset, and for settings that no service can have: such a record cannot
// be followed.
func (p *SmoothProcessor) filter(_ int64, lane smoothLane) (name string, err error) {
	version, known := p.model(lane.model)
	if !known {
		return "", nil
	}
	name, known = p.names[lane]
	if known {
		return name, nil
	}
	model := p.settings.Model
	if version != nil {
		if model, err = version.Load(); err != nil {
			return "", err
		}
	}
	o := p.settings.Release
	o.Mechanism, o.Epsilon, o.Delta = lane.mechanism, lane.epsilon, lane.delta
	if name = lane.name(); p.replayer.Add(name, model, o) != nil {
		name = ""
	}
	p.names[lane] = name
	return name, nil
}

// model returns the version of an id; nil is the first.
func (p *SmoothProcessor) model(id string) (version *Version, known bool) {
	if id == p.settings.Model.ID() {
		return nil, true
	}
	for _, v := range p.later {
		if v.ID.Model.String() == id {
			return v, true
		}
	}
	return nil, false
}

// name is the filter's name, which states hold: model, mechanism, ε and δ.
func (l smoothLane) name() string {
	return fmt.Sprintf("%s %s %g %g", l.model, l.mechanism, l.epsilon, l.delta)
}

// parseLane reads a filter's name.
func parseLane(name string) (l smoothLane, err error) {
	parts := strings.Fields(name)
	if len(parts) != 4 {
		return l, errSmoothState
	}
	l.model, l.mechanism = parts[0], parts[1]
	if l.epsilon, err = strconv.ParseFloat(parts[2], 64); err == nil {
		l.delta, err = strconv.ParseFloat(parts[3], 64)
	}
	if err != nil {
		return l, errSmoothState
	}
	return l, nil
}

// SetPast sets what a record says to what the records up to a later one tell, with the note
// "smoothed"; nil: it keeps what it says, with the note "unsmoothed".
func SetPast(record *schemas.Sanitized, past *aggregate.Past) {
	note := schemas.Unsmoothed
	if past != nil {
		note = schemas.Smoothed
		record.Latitude, record.Longitude = past.Grid.ToDegrees(past.Estimate)
		record.RadiusM = float64(past.RadiusKM * 1000)
		setEllipse(record, past.Ellipse)
	}
	record.Mechanism = schemas.Noted(record.Mechanism, note)
}

// Published is a record as mechanism/aggregate takes it. where is its place, for errors.
func Published(r schemas.Sanitized, where string) aggregate.Published {
	var kind mechanism.Kind
	switch r.Kind {
	case schemas.KindReleased:
		kind = mechanism.Released
	case schemas.KindRepeated:
		kind = mechanism.Repeated
	case schemas.KindPredicted:
		kind = mechanism.Predicted
	}
	return aggregate.Published{
		Record: aggregate.Record{
			User: r.UserID, Model: r.ModelID, Step: r.Step, Kind: kind, Number: r.Release,
			Place: aggregate.Place{Where: where},
		},
		Mechanism: schemas.MechanismName(r.Mechanism),
		Latitude:  r.Latitude, Longitude: r.Longitude,
		HasRelease:       r.ReleaseLatitude.Known,
		ReleaseLatitude:  r.ReleaseLatitude.Number,
		ReleaseLongitude: r.ReleaseLongitude.Number,
		Epsilon:          r.Epsilon, Delta: r.Delta,
	}
}
