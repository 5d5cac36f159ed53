package counting

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// Encode appends the record of one zone of a published window.
type Encode func(dst []byte, record schemas.Counts) ([]byte, error)

// Totals adds the partials of a window, and publishes it when those of all raw partitions are
// there. It is a task's Processor on the partials' topic; the key of a state is that of the window.
type Totals struct {
	settings  Settings
	digest    string
	publisher *counts.Publisher
	encode    Encode
	state     []byte // scratch
}

// NewTotals makes the processor.
func NewTotals(s Settings, key noise.Key, encode Encode) (*Totals, error) {
	p, err := counts.NewPublisher(noise.NewKeyed(key), s.Zones, s.Settings)
	if err != nil {
		return nil, err
	}
	return &Totals{settings: s, digest: s.digest(), publisher: p, encode: encode}, nil
}

// windowState is what is known of a window. Partials are kept as hashes, so that an equal one is
// recognized afterwards; their sum is kept until it is published.
type windowState struct {
	Settings string        `json:"settings"`
	Seen     []seenPartial `json:"seen"` // by partition
	Sum      []int64       `json:"sum,omitempty"`
	Digest   string        `json:"digest,omitempty"` // of what was published
}

type seenPartial struct {
	Partition int32  `json:"partition"`
	Hash      string `json:"hash"`
}

// ErrOther says that a partial differs from what is counted: the raw partition was processed again
// with other results, or the partial is of other settings.
var ErrOther = errors.New("the partial differs from what this group has counted: name a group " +
	"and topics of their own, and raise counts.edition by 1, at a further ε")

// Process implements task.Processor.
func (t *Totals) Process(rec task.Record, state []byte, fx *task.Effects) error {
	var p partial
	if err := json.Unmarshal(rec.Value, &p); err != nil || p.Partition < 0 ||
		p.Partition >= t.settings.Partitions || string(rec.Key) != string(windowKey(p.StartMS)) {
		return fmt.Errorf("offset %d of the partials is none of %d raw partitions: give the topic "+
			"to counts alone", rec.Offset, t.settings.Partitions)
	}
	if p.Settings != t.digest {
		return fmt.Errorf("offset %d of the partials is of other counts settings: %w", rec.Offset,
			ErrOther)
	}
	known := windowState{Settings: t.digest, Sum: make([]int64, t.settings.Zones.Count())}
	if len(state) > 0 {
		known = windowState{}
		if err := json.Unmarshal(state, &known); err != nil {
			return fmt.Errorf("the state of a window cannot be read: %w", err)
		}
		if known.Settings != t.digest {
			return errSettings
		}
	}
	sum := sha256.Sum256(rec.Value)
	hash := fmt.Sprintf("%x", sum[:])
	at, found := slices.BinarySearchFunc(known.Seen, p.Partition, seenPartial.compare)
	if found {
		if known.Seen[at].Hash != hash {
			return fmt.Errorf("raw partition %d: %w", p.Partition, ErrOther)
		}
		return nil
	}
	if known.Digest != "" {
		return fmt.Errorf("raw partition %d was added after a window was published: a user who "+
			"moved there would count twice; name a group and topics of their own", p.Partition)
	}
	known.Seen = slices.Insert(known.Seen, at, seenPartial{p.Partition, hash})
	for _, c := range p.Counts {
		if c.Zone < 0 || int(c.Zone) >= len(known.Sum) || c.Count <= 0 {
			return fmt.Errorf("offset %d of the partials counts in no zone of the settings: %w",
				rec.Offset, ErrOther)
		}
		known.Sum[c.Zone] += c.Count
	}
	if len(known.Seen) == int(t.settings.Partitions) {
		if err := t.publish(p.StartMS, &known, fx); err != nil {
			return err
		}
	}
	var err error
	t.state, err = json.Marshal(known)
	fx.State = t.state
	return err
}

func (s seenPartial) compare(partition int32) int { return int(s.Partition - partition) }

// publish adds noise and writes every zone of a window. The sum is not needed afterwards.
func (t *Totals) publish(startMS int64, known *windowState, fx *task.Effects) error {
	window := t.settings.Plan.At(startMS)
	if window.StartMS != startMS {
		return fmt.Errorf("no window starts at %d: %w", startMS, ErrOther)
	}
	published, err := t.publisher.Publish(window, known.Sum, nil)
	if err != nil {
		return err
	}
	for zone := range published.Vehicles {
		value, err := t.encode(nil, Record(t.publisher, t.settings.Zones, t.settings.Settings,
			published, int32(zone)))
		if err != nil {
			return fmt.Errorf("encode the counts of a zone: %w", err)
		}
		fx.Output = append(fx.Output, task.Message{
			Key:   []byte(t.settings.Zones.Name(int32(zone))),
			Value: value, Timestamp: t.settings.deadline(window),
		})
	}
	known.Sum, known.Digest = nil, published.Digest.String()
	return nil
}
