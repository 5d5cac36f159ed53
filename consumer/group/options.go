package group

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/consumer/wire"
)

// Options are the settings of a Member. ID and Topic have no default.
type Options struct {
	wire.Options
	ID    string // of the consumer group
	Topic string // whose partitions the members share
	// InstanceID makes the member static (group.instance.id, KIP-345): a process that comes back
	// under the same id within SessionTimeout gets the same partitions, and the other members do
	// not notice. Each instance needs an id of its own. If it is empty, the member is dynamic.
	InstanceID string
	// Settings identify what this member works under. The bytes are opaque here, at most 256, and
	// equal for members that may work side by side. Where members of a group differ, those that
	// have the partitions go on, and the others leave with a SettingsError. Empty settings fit all.
	Settings []byte
	// Copies returns what the member has of partitions' states, those to name first in front: the
	// coordinator has no room for very many. A partition whose owner is gone goes to the member
	// with the copy that lacks least, as far as the members' numbers of partitions allow. Nil: the
	// member has none.
	Copies func() []Copy
	// SessionTimeout is how long the coordinator waits for a heartbeat before it gives a member's
	// partitions to others. Default 30 s.
	SessionTimeout time.Duration
	// HeartbeatInterval is the time between heartbeats, and so the delay with which a member
	// learns of a new generation. Default a tenth of SessionTimeout, and 1 s at most.
	// It cannot be more than a third of SessionTimeout.
	HeartbeatInterval time.Duration
	// RebalanceTimeout is how long the others wait for a member to join the new generation, and how
	// long Close waits for work. Default 30 s.
	RebalanceTimeout time.Duration
	// WatchInterval is how often the leader looks for new partitions of the topic. Default 5 s.
	WatchInterval time.Duration
	// Retrying, if set, is called with errors after which the member tries again: with the first
	// one, and while they last at growing intervals, up to every 5 s. It is called from the
	// member's own goroutine.
	Retrying func(error)
}

// Copy says how far a member's copy of a partition's state is. Only copies of one partition are
// compared: the one with the greater offset lacks less.
type Copy struct {
	Partition int32
	Offset    int64
}

// maxSettingsBytes bounds Options.Settings: each member's subscription and each assignment carry
// them.
const maxSettingsBytes = 256

// checked returns the options with their defaults filled in, or an error about settings that
// cannot work.
func (o Options) checked() (Options, error) {
	requests, err := o.Checked()
	if err != nil {
		return o, err
	}
	o.Options = requests
	if o.ID == "" || o.Topic == "" {
		return o, errors.New("consumer: a group needs an ID and Topic")
	}
	if len(o.Settings) > maxSettingsBytes {
		return o, fmt.Errorf("consumer: Settings have %d bytes, more than %d", len(o.Settings),
			maxSettingsBytes)
	}
	if min(o.SessionTimeout, o.HeartbeatInterval, o.RebalanceTimeout, o.WatchInterval) < 0 {
		return o, errors.New("consumer: a negative timeout or interval")
	}
	o.SessionTimeout = cmp.Or(o.SessionTimeout, 30*time.Second)
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, min(time.Second, o.SessionTimeout/10))
	o.RebalanceTimeout = cmp.Or(o.RebalanceTimeout, 30*time.Second)
	o.WatchInterval = cmp.Or(o.WatchInterval, 5*time.Second)
	if 3*o.HeartbeatInterval > o.SessionTimeout {
		return o, fmt.Errorf("consumer: HeartbeatInterval %v is more than a third of "+
			"SessionTimeout %v", o.HeartbeatInterval, o.SessionTimeout)
	}
	return o, nil
}
