package counting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// Encode appends the record of one zone of a published window.
type Encode func(dst []byte, record schemas.Counts) ([]byte, error)

// KeepDays is for how many days an equal partial of a published window is recognized, counted by
// the newest window. An older one is refused, whatever it holds.
const KeepDays = 31

// Totals adds the partials of a window, and publishes it when those of all raw partitions are
// there. It is a task's Processor on the partials' topic, and its Partitioned; the key of a state
// is that of the window.
//
// Each raw partition writes the partials of all windows in their order. So a window that is not
// after the newest one and has no state was published, and its state has expired.
type Totals struct {
	settings  Settings
	digest    digest
	publisher *counts.Publisher
	encode    Encode
	state     []byte  // scratch
	sums      []int64 // scratch
	values    []byte  // scratch

	restored    bool
	publishedMS int64 // see PublishedMS
	newestMS    int64 // start of the newest window
	changed     bool  // newestMS
	expires     bool  // states may have expired
}

// NewTotals makes the processor.
func NewTotals(s Settings, key noise.Key, encode Encode) (*Totals, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	noised := s.Settings
	noised.Source += s.Ledger
	p, err := counts.NewPublisher(noise.NewKeyed(key), s.Zones, noised)
	if err != nil {
		return nil, err
	}
	return &Totals{
		settings: s, digest: s.digest(), publisher: p, encode: encode,
		sums: make([]int64, s.Zones.Count()),
	}, nil
}

// ErrOther says that a partial differs from what is counted: the raw partition was processed again
// with other results, or the partial is of other settings.
var ErrOther = errors.New("the partial differs from what this group has counted (counts-restart)")

// Process implements task.Processor.
func (t *Totals) Process(rec task.Record, state []byte, fx *task.Effects) error {
	if !t.restored {
		return errors.New("counting: Totals is not the task's Partitioned (report-this)")
	}
	p, err := decodePartial(rec.Value)
	if err != nil || p.partition >= t.settings.Partitions ||
		string(rec.Key) != string(windowKey(p.startMS)) {
		return fmt.Errorf("offset %d of the partials is none of %d raw partitions "+
			"(counts-restart)", rec.Offset, t.settings.Partitions)
	}
	window := t.settings.Plan.At(p.startMS)
	if window.StartMS != p.startMS || p.settings != t.digest.ofWindows(window) {
		return fmt.Errorf("offset %d of the partials has other settings: %w", rec.Offset, ErrOther)
	}
	known, err := t.known(state)
	if err == nil {
		err = t.addPartial(p, window, known, fx)
	}
	if err != nil {
		return fmt.Errorf("offset %d of the partials, raw partition %d: %w", rec.Offset,
			p.partition, err)
	}
	if p.startMS > t.newestMS {
		t.newestMS, t.changed, t.expires = p.startMS, true, true
	}
	return nil
}

// addPartial adds a partial to its window.
func (t *Totals) addPartial(
	p partial, window counts.Window, known *windowState, fx *task.Effects,
) error {
	sum, err := t.sum(p, window)
	if err != nil {
		return err
	}
	switch seen := known.seen[p.partition]; {
	case seen == sum:
		return nil
	case seen != unseen:
		return ErrOther
	case known.fresh && p.startMS <= t.newestMS && t.newestMS > 0:
		return fmt.Errorf("its window was published over %d days ago, or partials are lost "+
			"(counts-restart)", KeepDays)
	}
	known.seen[p.partition], known.startMS = sum, p.startMS
	missing := false
	for _, seen := range known.seen {
		missing = missing || seen == unseen
	}
	for _, c := range p.counts {
		known.sums[c.zone] += c.count
	}
	if !missing {
		if err := t.publish(window, known, fx); err != nil {
			return err
		}
	}
	t.state = known.appendTo(t.state[:0], t.digest)
	fx.State = t.state
	return nil
}

// sum is what is kept of a partial to recognize it: a part of the keyed digest of its counts. So
// the state of a window says nothing to readers without the key once its sum is gone, although the
// partials' topic may be deleted by then.
func (t *Totals) sum(p partial, window counts.Window) (sum partialSum, err error) {
	clear(t.sums)
	for _, c := range p.counts {
		if int(c.zone) >= len(t.sums) {
			return sum, fmt.Errorf("it counts in no known zone: %w", ErrOther)
		}
		t.sums[c.zone] = c.count
	}
	digest, err := t.publisher.Digest(window, t.sums)
	if err != nil {
		return sum, err
	}
	return partialSum(digest[:]), nil
}

// publish adds noise and writes every zone of a window. The sum is not needed afterwards.
func (t *Totals) publish(window counts.Window, known *windowState, fx *task.Effects) error {
	published, err := t.publisher.Publish(window, known.sums, nil)
	if err != nil {
		return err
	}
	t.values = t.values[:0]
	for zone := range published.Vehicles {
		start := len(t.values)
		t.values, err = t.encode(t.values, Record(t.publisher, t.settings.Zones,
			t.settings.Settings, published, int32(zone)))
		if err != nil {
			return fmt.Errorf("encode the counts of a zone: %w", err)
		}
		fx.Output = append(fx.Output, task.Message{
			Key:       []byte(t.settings.Zones.Name(int32(zone))),
			Value:     t.values[start:len(t.values):len(t.values)],
			Timestamp: t.settings.deadline(window),
		})
	}
	known.published, known.digest = true, published.Digest
	t.publishedMS = max(t.publishedMS, window.EndMS)
	return nil
}

// PublishedMS is the end of the newest window that was published since Restored. All windows of the
// partition before it were published too. Before the first one it is the end of the newest window
// of which there were counts, because states of windows are not read then; 0: of none.
func (t *Totals) PublishedMS() int64 { return t.publishedMS }

// Restored implements task.Partitioned. The partition has one state without a name: version 1 and
// the start of the newest window in ms.
func (t *Totals) Restored(states []task.Change) error {
	t.restored, t.newestMS, t.changed, t.expires = true, 0, false, true
	t.publishedMS = 0
	for _, s := range states {
		r := readerOf(s.Value)
		r.version()
		t.newestMS = r.Varint()
		if r.Short || len(s.Key) > 0 || len(r.Rest) > 0 {
			return errors.New("the partition's states are not those of counts (counts-restart)")
		}
		t.publishedMS = t.settings.Plan.At(t.newestMS).EndMS
	}
	return nil
}

// Changes implements task.Partitioned.
func (t *Totals) Changes() []task.Change {
	if !t.changed {
		return nil
	}
	t.changed = false
	return []task.Change{{Value: binary.AppendVarint([]byte{version}, t.newestMS)}}
}

// Deadline implements task.Partitioned: a window waits for partials alone.
func (t *Totals) Deadline() (ms int64, ok bool) { return 0, false }

// Passed implements task.Partitioned.
func (t *Totals) Passed(int64, *task.Effects) error { return nil }

// Expires implements task.Partitioned.
func (t *Totals) Expires() func(state []byte) bool {
	if !t.expires {
		return nil
	}
	t.expires = false
	before := t.newestMS - (KeepDays * 24 * time.Hour).Milliseconds()
	return func(state []byte) bool {
		known, err := t.known(state)
		return err == nil && known.published && known.startMS < before
	}
}

// windowState is what is known of a window. Bytes, with numbers as varints:
//
//	version 1 | settings 8 | start in ms | published 0 or 1 |
//	for each raw partition the sum of its partial 8, zeros: it is missing |
//	digest 32, if published; else the count of each zone
type windowState struct {
	startMS   int64
	published bool
	fresh     bool // there is no state yet
	seen      []partialSum
	sums      []int64       // until it is published
	digest    counts.Digest // of what was published
}

// partialSum stands for the counts of a partial; 0 is none.
type partialSum [8]byte

var unseen partialSum

// known reads a state; no bytes are a window of which nothing is known.
func (t *Totals) known(state []byte) (*windowState, error) {
	zones, partitions := t.settings.Zones.Count(), int(t.settings.Partitions)
	if len(state) == 0 {
		return &windowState{
			fresh: true, seen: make([]partialSum, partitions), sums: make([]int64, zones),
		}, nil
	}
	r := readerOf(state)
	r.version()
	if by := digest(r.take(len(t.digest))); !r.Short && by != t.digest {
		return nil, errSettings
	}
	w := &windowState{startMS: r.Varint(), published: r.take(1)[0] != 0}
	for range partitions {
		w.seen = append(w.seen, partialSum(r.take(len(unseen))))
	}
	if w.published {
		w.digest = counts.Digest(r.take(len(w.digest)))
	} else {
		for range zones {
			w.sums = append(w.sums, int64(r.Uvarint()))
		}
	}
	if r.Short || len(r.Rest) > 0 {
		return nil, errWindow
	}
	return w, nil
}

var errWindow = errors.New("the state of a window cannot be read (counts-restart)")

func (w *windowState) appendTo(b []byte, by digest) []byte {
	b = append(append(b, version), by[:]...)
	b = binary.AppendVarint(b, w.startMS)
	published := byte(0)
	if w.published {
		published = 1
	}
	b = append(b, published)
	for _, sum := range w.seen {
		b = append(b, sum[:]...)
	}
	if w.published {
		return append(b, w.digest[:]...)
	}
	for _, count := range w.sums {
		b = binary.AppendUvarint(b, uint64(count))
	}
	return b
}
